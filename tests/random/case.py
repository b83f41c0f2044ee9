"""One random case: an operator with attributes and operands, and how to judge what it gives."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Arrays = list[Any]
Oracle = Callable[[Arrays], Arrays]
"""Operands (None for those left out) to outputs."""


@dataclass
class Operand:
    """An input's numbers; ``fed`` at run time, or a constant of the model."""

    array: np.ndarray
    fed: bool = True


@dataclass
class Case:
    """``scale`` says what errors are relative to:

    - ``products``: to the outputs of the same operator on absolute values, the sum of |a| |b| of a product, or |a| of a
      mean (operands that ``keep`` names, such as variances, stay as they are);
      A function ``sums`` of the operands gives these where that is not so;
    - ``largest``: to the largest number of the output;
    - ``exact``: nothing may differ;
    - ``step``: integers may differ by one, of few numbers: a sum that lies between two steps.

    ``slack`` multiplies what is allowed: how many times rounding errors of one sum an operator may make.
    ``excuse`` is the reason why ONNX Runtime is not asked; then ``oracle`` is needed.
    ``low``: whether the precision ``low`` is compared too. Where small errors of the operands are not small ones of
    the result (positions that are rounded), it is not.
    ``free`` tells of every output which numbers may be anything (a function of nothing, to boolean arrays).
    ``unnamed`` are outputs that are not asked for; the oracle gives the others alone.
    """

    op: str
    inputs: Sequence[Operand | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 22
    domain: str = ""
    scale: str = "largest"
    keep: tuple[int, ...] = ()
    slack: float = 1.0
    oracle: Oracle | None = None
    excuse: str = ""
    low: bool = True
    unnamed: tuple[int, ...] = ()
    sums: Oracle | None = None
    free: Callable[[], Arrays] | None = None

    @property
    def arrays(self) -> Arrays:
        return [None if i is None else i.array for i in self.inputs]

    def settled(self, number: int, got: np.ndarray, want: np.ndarray) -> np.ndarray:
        """An output of the expected shape, what may be anything in it being as expected."""
        return got if self.free is None else np.where(self.free()[number], want.astype(got.dtype), got)

    @property
    def output_names(self) -> list[str]:
        return [f"y{k}" for k in range(self.outputs) if k not in self.unnamed]

    def feeds(self, arrays: Arrays | None = None) -> dict[str, np.ndarray]:
        """What is fed, by name."""
        arrays = self.arrays if arrays is None else arrays
        return {f"x{k}": arrays[k] for k, i in enumerate(self.inputs) if i is not None and i.fed}

    def model(self, arrays: Arrays | None = None) -> bytes:
        """The ONNX model, with other numbers when ``arrays`` are given."""
        arrays = self.arrays if arrays is None else arrays
        names = ["" if i is None else f"x{k}" for k, i in enumerate(self.inputs)]
        results = ["" if k in self.unnamed else f"y{k}" for k in range(self.outputs)]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            [node],
            "random",
            [helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in self.feeds(arrays).items()],
            [onnx.ValueInfoProto(name=n) for n in self.output_names],
            [
                numpy_helper.from_array(np.asarray(arrays[k], order="C"), f"x{k}")
                for k, i in enumerate(self.inputs)
                if i is not None and not i.fed
            ],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 1))
        made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return made

    def __str__(self) -> str:
        shapes = [
            "-"
            if i is None
            else f"{i.array.dtype}{list(i.array.shape)}{'' if i.fed else ' const'}"
            if i.array.size > 8 or i.array.dtype.kind == "f"
            else f"{i.array.dtype} {i.array.tolist()}{'' if i.fed else ' const'}"
            for i in self.inputs
        ]
        return f"{self.op}-{self.opset}({', '.join(shapes)}) {self.attributes}"


class Draw:
    """A seeded generator with the draws that families share."""

    def __init__(self, family: str, seed: int) -> None:
        self.rng = np.random.default_rng([zlib.crc32(family.encode()), seed])

    def int(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def ints(self, count: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(count)]

    def flag(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def choice(self, items: Sequence[Any]) -> Any:
        return items[self.int(0, len(items) - 1)]

    def often(self, usual: Any, others: Sequence[Any], chance: float = 0.5) -> Any:
        """``usual`` with a chance, else one of the others."""
        return usual if self.flag(chance) else self.choice(others)

    def normal(self, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        return self.rng.normal(size=shape).astype(dtype)

    def uniform(self, low: float, high: float, *shape: int, dtype: Any = np.float32) -> np.ndarray:
        return self.rng.uniform(low, high, shape).astype(dtype)

    def shape(self, rank: int, low: int = 1, high: int = 7) -> tuple[int, ...]:
        return tuple(self.int(low, high) for _ in range(rank))

    def subset(self, items: Sequence[Any], least: int = 0) -> list[Any]:
        """Some of the items, in their order."""
        count = self.int(min(least, len(items)), len(items))
        chosen = set(self.rng.permutation(len(items))[:count].tolist())
        return [item for i, item in enumerate(items) if i in chosen]

    def dims(self, count: int, low: int, high: int) -> list[int]:
        """Sizes that are mostly multiples of nothing."""
        return [self.int(low, high) for _ in range(count)]

    def channels(self, most: int = 20) -> int:
        """Channels: one, few, a full vector, or odd; seldom many."""
        if most > 16 and self.flag(0.05):
            return int(self.choice([31, 32, 48, 65]))
        return int(self.choice([1, 2, 3, 4, 5, 7, 8, 13, 16, 17, self.int(1, most)]))
