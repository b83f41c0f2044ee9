"""The graph that a Keras model becomes, as handlers of layers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from MNN.errors import FormatError
from MNN.frontends.keras.node import KerasNode, tensors
from MNN.frontends.keras.part import Part
from MNN.frontends.keras.refused import advice
from MNN.frontends.keras.registry import LayerKind, table
from MNN.frontends.tensorflow.context import Context, ModelInfo
from MNN.frontends.tensorflow.node import made_node
from MNN.frontends.tensorflow.registry import table as tensorflow
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ops.core.datatypes import data_type

_PRECISIONS = {"float16": DType.F16, "bfloat16": DType.BF16, "float64": DType.F64, "float32": DType.F32}
MAX_CALLS = 50_000
"""Calls of layers that a model may take: models within models grow without bound else."""


class KerasContext(Context):
    """Layers are written as TensorFlow's operators where Keras does so (:meth:`tf`), else as the engine's own."""

    def __init__(self, graph: Graph, of_old: bool = False) -> None:
        """``of_old``: the file is one of Keras 2 or 1, which has other meanings for a few names."""
        super().__init__(ModelInfo(), graph)
        self.of_old = of_old
        self.masks: dict[Value, Value] = {}
        """Which steps of a tensor count (bool ``[batch, steps]``), of those that have a mask."""
        self._calls = 0
        self._running: list[KerasNode] = []
        self._converting = False
        self._missing: set[Value] = set()

    # -- making -----------------------------------------------------------------------------------------------------

    def tf(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """The first result of an operator of TensorFlow."""
        return self.tf_all(op, *inputs, **attrs)[0]

    def tf_like(self, op: str, x: Value, *others: Value, **attrs: Any) -> Value:
        """The same, of the element type of its first operand."""
        made = self.tf(op, x, *others, **attrs)
        made.dtype = x.dtype
        return made

    def tf_all(self, op: str, *inputs: Value, **attrs: Any) -> list[Value]:
        """All results of an operator of TensorFlow, by its handler."""
        handler = tensorflow.find(op)
        assert handler is not None, op
        made = handler(self, made_node(op, self._running[-1].name, inputs, attrs))
        return [made] if isinstance(made, Value) else list(made)

    def weight(self, node: KerasNode, name: str) -> Value | None:
        """A variable as a constant of the type that the layer computes in; None for one that the layer lacks."""
        array = node.array(name)
        if array is None:
            return None
        wanted = precision(node)
        if wanted is not None and array.dtype.kind == "f" and array.dtype != wanted.numpy:
            return self.const(array.astype(wanted.numpy))
        return self.const(array)

    def needed(self, node: KerasNode, name: str) -> Value:
        """A variable that the layer cannot be without."""
        value = self.weight(node, name)
        if value is None:
            raise FormatError(f"{node.where}: it is without its variable '{name}'")
        return value

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in another element type."""
        return x if x.dtype is dtype else self.op("Cast", x, dstT=data_type(dtype))

    def sizes(self, x: Value, where: str) -> int:
        """The rank, which Keras always tells."""
        rank = self.rank(x)
        if rank is None:
            raise FormatError(f"{where}: an input of unknown rank")
        return rank

    # -- calling ----------------------------------------------------------------------------------------------------

    def run(
        self, part: Part, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None,
        masks: Sequence[Value | None] | None = None,
    ) -> list[Value]:  # fmt: skip
        """The results of calling a layer; ``masks`` are those of its tensors, where these do not carry them."""
        kind = table.find(part.kind)
        if kind is None:
            raise FormatError(f"{part.where}: no such layer")
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise FormatError(f"{part.where}: the model calls more than {MAX_CALLS} layers; is the file damaged?")
        given = tensors(args)
        known = [self.masks.get(v) for v in given] if masks is None else list(masks)
        node = KerasNode(part, args, kwargs or {}, known)
        self._autocast(node, kind)
        self._running.append(node)
        try:
            made = kind.handler(self, node)
        finally:
            self._running.pop()
        values = [made] if isinstance(made, Value) else list(made)
        if kind.masks and values and values[0] not in self.masks:
            mask = next((m for m in node.masks if m is not None), None)
            if mask is not None:
                self.masks[values[0]] = mask
        return values

    def result(self, part: Part, *args: Any, masks: Sequence[Value | None] | None = None) -> Value:
        """The one result of calling a layer."""
        return self.run(part, args, None, masks)[0]

    def _autocast(self, node: KerasNode, kind: LayerKind) -> None:
        """Floating inputs in the type that the layer computes in."""
        wanted = precision(node)
        if wanted is None or node.op.startswith("ops."):
            return

        def cast(tree: Any) -> Any:
            if isinstance(tree, Value):
                floating = tree.dtype is not None and tree.dtype.is_float
                return self.cast(tree, wanted) if floating else tree
            return [cast(item) for item in tree] if isinstance(tree, list | tuple) else tree

        node.args = cast(node.args)

    def layer(self, part: Part, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Value]:
        """As :meth:`run`, of a layer of a model: what it gives is called after it, and what cannot be done is noted.
        Values without a maker stand in for results then, and for all that follows from them."""
        if any(v in self._missing for v in tensors([args, list(kwargs.values())])):
            return [self._stand_in(part)]
        kind = table.find(part.kind)
        if kind is None:
            self.model.report.unknown_operator(part.name, part.kind.removeprefix("ops."), "", advice(part.kind))
            return [self._stand_in(part)]
        if self._converting or kind.is_model:
            return self.run(part, args, kwargs)
        made: list[Value] = []

        def convert() -> Sequence[Value]:
            made.extend(self.run(part, args, kwargs))
            self.bind([part.name] * len(made), made, part.where)
            return []

        self._converting = True
        try:
            error = self.convert(part.name, part.where, [], convert)
        finally:
            self._converting = False
        if error is not None:
            self.model.report.form(part.name, part.kind.removeprefix("ops."), error)
            return [self._stand_in(part)]
        return made

    def _stand_in(self, part: Part) -> Value:
        value = Value(self.unique(part.name), DType.F32)
        self._missing.add(value)
        return value


def precision(node: KerasNode) -> DType | None:
    """The type that a layer computes in, as its policy says; None where it says none."""
    policy = node.config.get("dtype")
    if isinstance(policy, Mapping):
        told = policy.get("config", {})
        policy = told.get("name") or told.get("source_name")
    return _PRECISIONS.get(policy.rpartition("_from_")[2].removeprefix("mixed_")) if isinstance(policy, str) else None
