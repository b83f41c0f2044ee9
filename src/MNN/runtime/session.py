"""A model ready to answer: checked inputs in, named outputs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.shape import Shape
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor, Plan

UNNAMED = "?"
"""A size that is open and has no name: two of them need not agree."""


@dataclass(frozen=True)
class TensorInfo:
    """What a model says of an input or output; symbolic sizes are names, ``shape`` is None when unknown."""

    name: str
    dtype: DType | None
    shape: Shape | None

    def __str__(self) -> str:
        dims = "unknown shape" if self.shape is None else "x".join(map(str, self.shape)) or "scalar"
        return f"{self.name}: {self.dtype.value if self.dtype else 'any'} {dims}"


class Session:
    """Runs a graph with given settings; plans are made per input shape on first use.

    >>> session.run({"x": np.zeros((1, 3, 224, 224), np.float32)})["prob"]  # doctest: +SKIP
    """

    def __init__(self, graph: Graph, config: Config | None = None) -> None:
        self.graph = graph
        self.config = config or Config()
        self.inputs = {v.name: TensorInfo(v.name, v.dtype, v.shape) for v in graph.inputs if not v.is_const}
        self.outputs = {v.name: TensorInfo(v.name, v.dtype, v.shape) for v in graph.outputs}
        self._executor = Executor(graph, self.config)
        self._named: dict[str, Value] | None = None

    def run(self, feeds: Mapping[str, np.ndarray], fetch: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """One inference. ``fetch`` names any tensors of the model; by default its outputs.

        Raises :class:`ShapeError` when inputs are missing, unknown or do not fit, and :class:`RunError` when the
        computation fails.
        """
        values = self._checked(feeds)
        wanted = [self._value(n) for n in fetch] if fetch is not None else self.graph.outputs
        arrays = self._executor.run(values, wanted)
        return dict(zip(fetch if fetch is not None else [v.name for v in wanted], arrays, strict=True))

    def plan(self, feeds: Mapping[str, np.ndarray]) -> Plan:
        """The (first) plan for inputs like these, for reports on memory, arithmetic and kernels."""
        return self._executor.plan(self._checked(feeds), self.graph.outputs)

    def plans_used(self) -> list[Plan]:
        """The plans of the last run, one per stage."""
        return list(self._executor.last_plans)

    def _checked(self, feeds: Mapping[str, np.ndarray]) -> dict[Value, np.ndarray]:
        wanted = {v.name: v for v in self.graph.inputs if not v.is_const}
        missing = [name for name in wanted if name not in feeds]
        unknown = [name for name in feeds if name not in wanted]
        if missing or unknown:
            parts = [f"missing input(s) {', '.join(missing)}"] if missing else []
            parts += [f"unknown input(s) {', '.join(unknown)}"] if unknown else []
            listed = "\n".join(f"  {info}" for info in self.inputs.values())
            raise ShapeError(f"{'; '.join(parts)}. The model's inputs are:\n{listed}")
        values: dict[Value, np.ndarray] = {}
        symbols: dict[str, tuple[int, str]] = {}
        for name, value in wanted.items():
            array = np.asarray(feeds[name])
            self._check_one(self.inputs[name], array, symbols)
            values[value] = array
        return values

    def _check_one(self, info: TensorInfo, array: np.ndarray, symbols: dict[str, tuple[int, str]]) -> None:
        try:
            dtype = DType.of(array)
        except KeyError as error:
            raise ShapeError(f"input '{info.name}': arrays of {array.dtype} are not supported") from error
        if info.dtype is not None and dtype is not info.dtype:
            raise ShapeError(
                f"input '{info.name}' is {dtype.value} but the model takes {info.dtype.value}; convert it first"
            )
        if info.shape is None:
            return
        fits = len(info.shape) == array.ndim
        for want, have in zip(info.shape, array.shape, strict=False):
            if isinstance(want, str) and want != UNNAMED:
                size, other = symbols.setdefault(want, (have, info.name))
                if size != have:
                    raise ShapeError(
                        f"input '{info.name}' has {have} where '{other}' has {size}: both are '{want}' and must agree"
                    )
            fits = fits and (isinstance(want, str) or want == have)
        if not fits:
            raise ShapeError(
                f"input '{info.name}' has shape {list(array.shape)} but the model takes {list(info.shape)}"
            )

    def _value(self, name: str) -> Value:
        if self._named is None:
            self._named = {v.name: v for v in self.graph.values()}
        if name not in self._named:
            close = [n for n in self._named if name and name in n][:5]
            hint = f"; did you mean one of {close}?" if close else ""
            raise ShapeError(f"the model has no tensor named '{name}'{hint}")
        return self._named[name]
