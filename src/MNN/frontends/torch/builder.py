"""What handlers of ATen operators work with: PyTorch's rules for types, axes and sizes upon a graph's builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from MNN.errors import UnsupportedError
from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.frontends.torch.element_types import common_type, kind_of, script_type
from MNN.frontends.torch.numbers import Int, Ints, Number, Scalar
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ops.core.datatypes import data_type

Operand = Value | bool | int | float | Number
"""A tensor or a number."""
SHAPES = (
    "give the shapes of the inputs: --input-shape NAME=1x3x224x224, or MNN.from_torch(path, {NAME: (1, 3, 224, 224)})"
)


class Written(Protocol):
    """A tensor that can be written in place."""

    def restore(self, value: Value) -> None: ...


@dataclass(frozen=True)
class Chosen:
    """A tensor in bytes of its own range: the tensor, the scale and zero point that the program sees, their limits and
    type, and what one operator made of it: u8, scale, zero point."""

    x: Value
    scale: Value
    zero: Value
    dtype: DType
    held: tuple[Value, Value, Value]


class TorchBuilder(GraphBuilder):
    """``where`` names the node that is being converted, for errors, ``name`` its operator."""

    def __init__(self, model: ModelState, graph: Graph, parent: GraphBuilder | None = None) -> None:
        super().__init__(model, graph, parent)
        self.where = ""
        self.name = ""
        self.journal: object = None
        """What a branch of TorchScript changes, while one is walked."""
        self.chosen: dict[Value, Chosen] = {}
        """What was quantised to its own range, by the scale, and by what holds its integers."""
        self.lengths: dict[Value, Value] = {}
        """Of nested tensors, which are padded here: booleans ``[B, T]``, true where there is something."""
        self.wrapped: set[Value] = parent.wrapped if isinstance(parent, TorchBuilder) else set()
        """Tensors that stand for numbers as Python has them, and count as those where types are promoted."""
        self.made: set[Value] = parent.made if isinstance(parent, TorchBuilder) else set()
        """Constants that no file has: numbers of the program."""
        self.written: dict[Written, Value] | None = None
        """Variables that were written since the branch began, with the values that they had."""

    def within(self, other: GraphBuilder | None) -> bool:
        """Whether what ``other`` computed is seen here: this builds its graph, or one inside that."""
        at: GraphBuilder | None = self
        while other is not None and at is not None and at is not other:
            at = at.parent
        return at is not None

    def note_written(self, variable: Written, before: Value) -> None:
        """Tells the branch being walked that a tensor is about to be written in place."""
        if self.written is not None:
            self.written.setdefault(variable, before)

    def unsupported(self, what: str, advice: str = "") -> UnsupportedError:
        """The error for a form of the current operator that cannot be honoured; raise it."""
        return UnsupportedError(f"{self.where}: {what} is not supported" + (f"; {advice}" if advice else ""))

    def at(self, path: str) -> None:
        """Helpers are named after this part of the program from now on."""
        self._base = path

    # -- types ------------------------------------------------------------------------------------------------------

    def element_type(self, given: DType | int | None, default: DType = DType.F32) -> DType:
        """An argument ``dtype``: TorchScript has numbers for them."""
        if given is None:
            return default
        return given if isinstance(given, DType) else script_type(given, self.where)

    def type_of(self, x: Value) -> DType:
        """The element type, f32 where nothing tells it."""
        return x.dtype or DType.F32

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in another element type; ``x`` itself where it is of that type."""
        if x.dtype is dtype:
            return x
        if isinstance(x.data, np.ndarray) and x.data.size == 1:
            with np.errstate(over="ignore", invalid="ignore"):
                return self.const(x.data.astype(dtype.numpy))
        if dtype is DType.BOOL:
            return self.not_zero(x)
        made = self.op("Cast", x, dstT=data_type(dtype))
        made.dtype = dtype
        return made

    def cast_known(self, x: Value, dtype: DType) -> Value:
        """Like :meth:`cast`; of a constant, at once."""
        known = self.constant(x)
        return self.cast(x, dtype) if known is None else self.const(known.astype(dtype.numpy))

    def not_zero(self, x: Value) -> Value:
        """``x != 0``, of booleans ``x``."""
        return x if x.dtype is DType.BOOL else self.op("BinaryOp", x, self.const_like(0, x), opType="NOTEQUAL")

    def as_float(self, x: Value) -> Value:
        """Integers and booleans as f32."""
        return x if self.type_of(x).is_float else self.cast(x, DType.F32)

    def scalar(self, number: Scalar, dtype: DType) -> Value:
        """A number as a tensor of rank 0."""
        if isinstance(number, Number):
            return self.cast(number.value, dtype)
        if dtype.is_unsigned and number < 0:
            number = int(number) & ((1 << 8 * dtype.size) - 1)
        with np.errstate(over="ignore"):
            return self.const(np.asarray(number).astype(dtype.numpy))

    def common(self, *operands: Operand | None) -> DType:
        """The type that operands are brought to: tensors count before tensors of rank 0, those before numbers, unless
        what comes later is of a higher kind."""
        kinds: list[DType | None] = [None, None, None]
        for operand in operands:
            if operand is None:
                continue
            if isinstance(operand, Value):
                level = 2 if operand in self.wrapped else 1 if operand.shape == () else 0
                dtype = self.type_of(operand)
            else:
                level, dtype = 2, number_type(operand)
            before = kinds[level]
            kinds[level] = dtype if before is None else common_type(before, dtype)
        found = kinds[0]
        for level in (1, 2):
            later = kinds[level]
            if later is None:
                continue
            if level == 2 and later is DType.F64 and (found is None or not found.is_float):
                later = DType.F32
            if found is None or kind_of(later) > kind_of(found):
                found = later
        return found or DType.F32

    def operand(self, x: Operand, dtype: DType) -> Value:
        """A tensor or number in this type."""
        return self.cast(x, dtype) if isinstance(x, Value) else self.scalar(x, dtype)

    def together(self, *operands: Operand) -> list[Value]:
        """Operands in their common type."""
        dtype = self.common(*operands)
        return [self.operand(x, dtype) for x in operands]

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def unary(self, kind: str, x: Value) -> Value:
        """``kind`` is a name of UnaryOpOperation."""
        known = self._single(x)
        if known is not None and kind in _OF_ONE:
            return self.const(_OF_ONE[kind](known))
        return self.op("UnaryOp", x, opType=kind)

    def const(
        self, array: np.ndarray | float | int | Sequence[int] | Sequence[float], dtype: DType | None = None
    ) -> Value:
        value = super().const(array, dtype)
        self.made.add(value)
        return value

    def _single(self, x: Value) -> np.ndarray | None:
        """A known number of rank 0: sizes are computed from such ones in tensors too. Floats of the file stay what they
        are, as they may be weights, which have names and are trained."""
        plain = x in self.made or self.type_of(x) is DType.I64
        return x.data if plain and isinstance(x.data, np.ndarray) and x.data.shape == () else None

    def binary(self, kind: str, x: Operand, y: Operand) -> Value:
        """``kind`` is a name of BinaryOpOperation; operands are brought to their common type."""
        left, right = self.together(x, y)
        if kind in _OF_TWO and self.type_of(left) in (DType.I64, DType.F64, DType.F32):
            a, b = self._single(left), self._single(right)
            if a is not None and b is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    return self.const(np.asarray(_OF_TWO[kind](a, b)))
        return self.op("BinaryOp", left, right, opType=kind)

    # -- sizes ------------------------------------------------------------------------------------------------------

    def rank_of(self, x: Value) -> int:
        """The number of dimensions. Raises :class:`UnsupportedError` where it is not known."""
        if x.shape is None:
            raise self.unsupported(f"an operand ('{x.name}') of unknown rank", SHAPES)
        return len(x.shape)

    def axis(self, x: Value, dim: int, more: int = 0) -> int:
        """An axis counted from the front; ``more`` axes will be put in. Tensors of rank 0 have an axis 0 and -1."""
        if more == 0 and x.shape is None and dim >= 0:
            return dim
        rank = max(self.rank_of(x) + more, 1)
        if not -rank <= dim < rank:
            raise self.unsupported(f"dimension {dim} of a tensor of rank {rank}", "is the file damaged?")
        return dim % rank

    def axes(self, x: Value, dims: int | Sequence[int] | None) -> list[int]:
        """Axes counted from the front; all of them where None or an empty list is given."""
        if isinstance(dims, int):
            return [self.axis(x, dims)]
        return [self.axis(x, d) for d in dims] if dims else list(range(self.rank_of(x)))

    def size(self, x: Value, dim: int) -> Int:
        """The size of an axis, a number of the graph where it is open."""
        axis = self.axis(x, dim)
        found = None if x.shape is None else x.shape[axis]
        if isinstance(found, int):
            return found
        sizes = self.op("Shape", x, outputDataType="DT_INT64")
        picked = self.op("GatherV2", sizes, self.const(np.asarray(axis, np.int32)), self.const(np.asarray(0, np.int32)))
        picked.dtype, picked.shape = DType.I64, ()
        return Number(picked, found or "")

    def sizes(self, x: Value) -> list[Int]:
        """All sizes."""
        return [self.size(x, i) for i in range(self.rank_of(x))]

    def shape_like(self, x: Value) -> Value:
        """The sizes of a tensor, as a tensor (i64)."""
        static = self.static_shape(x)
        if static is not None:
            return self.const(np.asarray(static, np.int64))
        return self.op("Shape", x, outputDataType="DT_INT64")

    def ints(self, numbers: Ints) -> Value:
        """Integers as a tensor of rank 1 (i64)."""
        known = [n for n in numbers if not isinstance(n, Number)]
        if len(known) == len(numbers):
            return self.const(np.asarray(known, np.int64))
        made = self.op("Pack", *[self.scalar(n, DType.I64) for n in numbers], axis=0)
        made.dtype, made.shape = DType.I64, (len(numbers),)
        return made

    def known(self, number: object, what: str) -> int:
        """An integer that must be known while converting. Raises :class:`UnsupportedError` naming ``what``."""
        if isinstance(number, (int, np.integer)):
            return int(number)
        if isinstance(number, Value):
            found = self.constant(number)
            if found is not None and found.size == 1:
                return int(found.reshape(-1)[0])
        raise self.unsupported(f"{what} that is known only when the model runs", "make it a number")

    def known_ints(self, numbers: int | Ints, count: int, what: str) -> list[int]:
        """One integer for each of ``count`` axes; a single one is that of all."""
        if isinstance(numbers, (int, Number)):
            numbers = [numbers]
        found = [self.known(n, what) for n in numbers]
        if len(found) == 1:
            return found * count
        if len(found) != count:
            raise self.unsupported(f"{what} {found} for {count} dimensions", "is the file damaged?")
        return found

    def reshape(self, x: Value, sizes: Ints) -> Value:
        """``x`` in other sizes. Open sizes that stay where they were, and one more, need not be computed."""
        plan: list[Int] = list(sizes)
        for i, n in enumerate(plan):
            if isinstance(n, Number) and n.size and x.shape is not None and i < len(x.shape) and x.shape[i] == n.size:
                plan[i] = 0
        unknown = [i for i, n in enumerate(plan) if isinstance(n, Number)]
        if len(unknown) == 1 and -1 not in plan and not any(n == 0 for n in sizes if isinstance(n, int)):
            plan[unknown[0]] = -1
        if any(isinstance(n, int) and n == 0 for n in sizes):
            return self.op("ReshapeExact", x, self.ints(sizes))
        if all(isinstance(n, int) for n in plan) and list(x.shape or ()) == plan and x.shape is not None:
            return x
        return self.op("Reshape", x, self.ints(plan))

    def expand(self, x: Value, sizes: Value) -> Value:
        """``x`` broadcast to a shape given as a tensor."""
        return self.op("BroadcastTo", x, sizes)

    def rows(self, x: Value, dims: Sequence[int]) -> Value:
        """Axes in another order."""
        return x if list(dims) == sorted(dims) else self.op("Permute", x, dims=list(dims))

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        """Axes of size 1 put in, at these places of the result."""
        if not axes:
            return x
        if isinstance(x.data, np.ndarray) and x.data.ndim + len(axes) < 16:
            return self.const(np.expand_dims(x.data, axes))
        return self.op("Unsqueeze", x, squeezeDims=list(axes))

    def squeeze(self, x: Value, *axes: int) -> Value:
        """Axes of size 1 taken out."""
        return self.op("Squeeze", x, squeezeDims=list(axes)) if axes else x


_OF_ONE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "FLOOR": lambda x: np.asarray(np.floor(x)).astype(x.dtype),
    "CEIL": lambda x: np.asarray(np.ceil(x)).astype(x.dtype),
}
_OF_TWO: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply,
}  # fmt: skip
"""What is computed at once of single numbers."""


def number_type(number: Scalar) -> DType:
    """The element type of a number as Python has it."""
    if isinstance(number, Number):
        return number.dtype
    return DType.BOOL if isinstance(number, bool) else DType.I64 if isinstance(number, int) else DType.F64
