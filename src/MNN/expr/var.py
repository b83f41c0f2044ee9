"""The tensor of the API: a node of an expression graph that behaves like an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import compute, indexing, methods
from MNN.expr.node import Expr
from MNN.expr.types import ElementType, Index, Ints, VarOrNumber, data_format, dtype, dtype_of, format_of, public
from MNN.expr.types import data_format as _layout
from MNN.ir.dtype import DType


class Var(methods.Methods):
    """A tensor. Numbers are computed when they are asked for; those of constants are computed at once.

    Sizes are listed in the order of ``data_format``. NC4HW4 lists them as NCHW does, and :meth:`read` gives the
    numbers in that order (PyMNN gives the packed memory, padding included).
    """

    __slots__ = ("_expr", "_index", "_layout", "_picture")
    __array_priority__ = 1000  # numpy arrays on the left leave operators to us
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr, index: int, layout: data_format, picture: Var | None = None) -> None:
        self._expr, self._index, self._layout = expr, index, layout
        self._picture = picture
        """What a three-dimensional tensor was before its layout was converted."""

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def _kind(self) -> DType:
        return self._expr.types()[self._index][0]

    @property
    def shape(self) -> list[int]:
        """Sizes, in the order of :attr:`data_format`."""
        return list(self._expr.types()[self._index][1])

    @property
    def ndim(self) -> int:
        return len(self._expr.types()[self._index][1])

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self._expr.types()[self._index][1], dtype=np.int64))

    @property
    def dtype(self) -> dtype:
        return public(self._kind)

    @property
    def data_format(self) -> data_format:
        return self._layout

    @property
    def name(self) -> str:
        return self._expr.name

    @name.setter
    def name(self, value: str) -> None:
        self._expr.name = str(value)

    @property
    def op_type(self) -> str:
        """The operator that makes it: Const, Input, Trainable, or an operator's name."""
        return str(self._expr.attrs.get("opType", self._expr.op))

    @property
    def inputs(self) -> list[Var]:
        """The operands of its operator; constants have none."""
        return [Var(r[0], r[1], self._layout) for r in self._expr.inputs if r is not None]

    @property
    def valid(self) -> bool:
        """Whether its element type and shape are known (and fit)."""
        try:
            self._expr.types()
        except MNNError:
            return False
        return True

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _array(self) -> np.ndarray:
        return self._expr.results()[self._index]

    def read(self) -> np.ndarray:
        """A copy of the numbers."""
        copy: np.ndarray = self._array().copy()
        return copy

    def read_as_tuple(self) -> tuple[Any, ...]:
        """The numbers in order, as Python's."""
        return tuple(self._array().reshape(-1).tolist())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        array = self._array()
        wanted: np.dtype = array.dtype if dtype is None else np.dtype(dtype)
        if wanted == array.dtype:
            return array if copy is False else array.copy()
        if copy is False:
            raise ValueError("another element type needs a copy")
        found: np.ndarray = array.astype(wanted)
        return found

    def write(self, value: ArrayLike) -> None:
        """New numbers for a placeholder, trainable or constant of its shape, in row-major order.

        Raises :class:`ShapeError` when there are not as many as the shape says.
        """
        self._set(self._fitting(value))

    def _fitting(self, value: object) -> np.ndarray:
        kind, shape = self._expr.types()[self._index]
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise MNNError(f"write(): {type(value).__name__} of {array.dtype} is not numbers")
        if array.size != self.size:
            raise ShapeError(f"write(): {array.size} numbers for a tensor of shape {list(shape)}")
        return array.astype(kind.numpy).reshape(shape)

    def _set(self, array: np.ndarray) -> None:
        if self._expr.is_leaf:
            self._expr.set_array(array)
        else:
            raise MNNError(f"this Var is computed by {self.op_type}: write to its inputs, or fix_as_const() it first")

    def fill(self, value: float) -> None:
        """Every element becomes ``value``."""
        self.write(np.full(self.size, value))

    def copy_from(self, source: Var) -> bool:
        """Takes the numbers of another Var with as many elements."""
        self.write(source._array())
        return True

    def resize(self, shape: Ints) -> None:
        """Gives a placeholder another shape; whatever depends on it follows."""
        if self._expr.op != "Input":
            raise MNNError(f"only placeholders can be resized, this is {self.op_type}; use reshape()")
        self._expr.resize(compute.shape_of(shape))

    def replace(self, source: Var) -> None:
        """Becomes ``source``: whoever uses this Var's numbers uses those of ``source`` from now on."""
        if self._expr.is_leaf and self._expr.op != "Const":
            self._expr.become(self._expr.op, source._array())
        else:
            self._expr, self._index, self._layout = source._expr, source._index, source._layout

    def close(self) -> None:
        """Taken for PyMNN's sake: memory goes when the last reference does."""

    # -- kinds of leaves ----------------------------------------------------------------------------------------------

    def _fix(self, op: str) -> None:
        if self._expr.op == "Input" and self._expr.array is None:
            array = None if op == "Input" else np.zeros(self._expr.leaf_type[1], self._expr.leaf_type[0].numpy)
        else:
            array = self._array()
        if self._expr.is_leaf or self._expr.outputs == 1:
            self._expr.become(op, array)
        else:
            assert array is not None
            name = self._expr.name
            self._expr, self._index = Expr.leaf(op, DType.of(array), array.shape, array), 0
            self._expr.name = name

    def fix_as_const(self) -> None:
        """Keeps its present numbers as a constant."""
        self._fix("Const")

    def fix_as_placeholder(self) -> None:
        """Becomes an input that can be written and resized."""
        self._fix("Input")

    def fix_as_trainable(self) -> None:
        """Becomes a parameter that training may change."""
        self._fix("Trainable")

    # -- layout -------------------------------------------------------------------------------------------------------

    def set_order(self, layout: _layout) -> None:
        """Says that the sizes are listed in another order; nothing moves."""
        self._layout, self._picture = format_of(layout), None

    def reorder(self, layout: _layout) -> None:
        """Converts to another layout in place."""
        new = methods.shaping.convert(self, layout)
        self._expr, self._index, self._layout, self._picture = new._expr, new._index, new._layout, new._picture

    # -- behaving like an array ---------------------------------------------------------------------------------------

    def astype(self, kind: ElementType) -> Var:
        """The same numbers in another element type."""
        return methods.build.cast(self, dtype_of(kind))

    def copy(self) -> Var:
        """A constant with the same numbers."""
        return methods.build.leaf(self._array().copy(), self._layout)

    def item(self, *index: int) -> Any:
        """One element as a Python number: by position in row-major order, or by indices."""
        return self._array().item(*index)

    def __getitem__(self, key: Index) -> VarOrNumber:
        return indexing.get(self, key)

    def __setitem__(self, key: Index, value: ArrayLike) -> None:
        array = indexing.assigned(self._array(), key, value)
        if self._expr.is_leaf:
            self._expr.set_array(array)
        else:
            self._expr, self._index = Expr.leaf("Const", DType.of(array), array.shape, array), 0

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[VarOrNumber]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise MNNError(f"the truth of {self.size} elements is not defined; use any() or all()")
        return bool(self._array().item())

    def __float__(self) -> float:
        return float(self._single())

    def __int__(self) -> int:
        return int(self._single())

    def __index__(self) -> int:
        if self._kind.is_float:
            raise TypeError(f"a Var of {self.dtype} cannot be an index")
        return int(self._single())

    def _single(self) -> Any:
        if self.size != 1:
            raise MNNError(f"{self.size} elements cannot be one number")
        return self._array().item()

    def __repr__(self) -> str:
        try:
            return repr(self._array())
        except MNNError:
            what = f"{self.dtype} {self.shape}" if self.valid else "shape unknown"
            return f"<Var {self.op_type} '{self.name}' {what}, no numbers yet>"
