"""The tensor of the API: a node of an expression graph that behaves like an array."""

# mypy: disable-error-code="empty-body"
# Methods that compute something are declared here. Their code, in ``operators``, makes other Vars with functions that
# know this class, and is installed when the package is imported.

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError
from MNN.expr import memory
from MNN.expr.node import Expr, in_order
from MNN.expr.output import Output
from MNN.expr.types import Axes, ElementType, Index, Ints, VarOrNumber, data_format, dtype, format_of


def _forward(expr: Expr, to: Var) -> None:
    """Turns an expression into another name for a Var that does not depend on it: what uses it follows."""
    from MNN.ops.elementwise.identity import COPY  # brings operators, which few programs need for this

    expr.become("Const", np.zeros((), np.float32))
    expr.op = COPY
    expr.rewire([(to._expr, to._index)])


class Var(Output):
    """A tensor. Numbers are computed when they are asked for; those of constants are computed at once.

    Sizes are listed in the order of ``data_format``. NC4HW4 lists them as NCHW does, and :meth:`read` gives the
    numbers in that order (PyMNN gives the packed memory, padding included). ``axis`` None means over everything and
    gives a Python number; named axes give a Var, but for ``sum``, ``prod``, ``all`` and ``any`` where one number is
    left.
    """

    __slots__ = ()
    __array_priority__ = 1000  # numpy arrays on the left leave operators to us
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr, index: int, layout: data_format, unconverted: Var | None = None) -> None:
        """``unconverted``: what a three-dimensional tensor was before its layout was converted."""
        self._node, self._index, self._layout, self._unconverted, self._few = expr, index, layout, unconverted, None

    @property
    def inputs(self) -> list[Var]:
        """The operands of its operator; constants have none."""
        return [Var(r[0], r[1], self._layout) for r in self._expr.inputs if r is not None]

    def copy_from(self, source: Var) -> bool:
        """Takes the numbers of another Var with as many elements."""
        self.write(source._array())
        return True

    def replace(self, source: Var) -> None:
        """Becomes ``source``: whoever uses this Var's numbers uses those of ``source`` from now on. Where ``source`` is
        computed from this Var, or this is one of several results of an operator, only this Var changes."""
        expr = self._expr
        if expr.is_leaf and expr.op != "Const":
            expr.become(expr.op, source._settled())
            return
        followed = expr.used and expr.outputs == 1 and type(expr) is Expr
        if followed and all(e is not expr for e in in_order([source._expr])):
            _forward(expr, source)
        self._expr, self._index, self._layout = source._expr, source._index, source._layout

    def set_inputs(self, inputs: Sequence[Var]) -> None:
        """Its operator takes other operands, as many as before; whoever uses this Var follows."""
        given = list(inputs)
        if self._expr.is_leaf or len(given) != len(self._expr.inputs):
            raise MNNError(f"{self.op_type} has {len(self._expr.inputs)} operands, found {len(given)}")
        self._expr.rewire([(v._expr, v._index) for v in given])

    @property
    def ptr(self) -> object:
        """A capsule with the address of the numbers, row after row, which stay there until they are written anew."""
        return memory.capsule(self._expr.in_row_major_order(self._index).ctypes.data if self.size else 0)

    def sync(self) -> None:
        """Computes the numbers now."""
        self._array()

    def set_device_ptr(self, pointer: int, memory_type: int) -> bool:
        """Takes its numbers from a GPU's memory in PyMNN. Raises :class:`MNNError`: Vars are computed on the CPU."""
        raise MNNError("set_device_ptr(): Vars live in the CPU's memory; write() the numbers")

    def copy_to_device_ptr(self, pointer: int, memory_type: int) -> bool:
        """Writes its numbers to a GPU's memory in PyMNN. Raises :class:`MNNError`: Vars are computed on the CPU."""
        raise MNNError("copy_to_device_ptr(): Vars live in the CPU's memory; read() the numbers")

    # -- layout -------------------------------------------------------------------------------------------------------

    def set_order(self, layout: data_format) -> None:
        """Says that the sizes are listed in another order; nothing moves."""
        self._layout, self._unconverted = format_of(layout), None

    def reorder(self, layout: data_format) -> None:
        """Converts to another layout in place."""

    # -- behaving like an array ---------------------------------------------------------------------------------------

    def astype(self, kind: ElementType) -> Var:
        """The same numbers in another element type."""

    def copy(self) -> Var:
        """A constant with the same numbers."""

    def __getitem__(self, key: Index) -> VarOrNumber: ...

    def __setitem__(self, key: Index, value: ArrayLike) -> None: ...

    def __iter__(self) -> Iterator[VarOrNumber]:
        return (self[i] for i in range(len(self)))

    def __pos__(self) -> Var: ...

    # -- operators --------------------------------------------------------------------------------------------------

    def __add__(self, other: ArrayLike) -> Var: ...

    def __radd__(self, other: ArrayLike) -> Var: ...

    def __sub__(self, other: ArrayLike) -> Var: ...

    def __rsub__(self, other: ArrayLike) -> Var: ...

    def __mul__(self, other: ArrayLike) -> Var: ...

    def __rmul__(self, other: ArrayLike) -> Var: ...

    def __truediv__(self, other: ArrayLike) -> Var: ...

    def __rtruediv__(self, other: ArrayLike) -> Var: ...

    def __floordiv__(self, other: ArrayLike) -> Var: ...

    def __rfloordiv__(self, other: ArrayLike) -> Var: ...

    def __mod__(self, other: ArrayLike) -> Var: ...

    def __rmod__(self, other: ArrayLike) -> Var: ...

    def __pow__(self, other: ArrayLike) -> Var: ...

    def __rpow__(self, other: ArrayLike) -> Var: ...

    def __matmul__(self, other: ArrayLike) -> VarOrNumber: ...

    def __rmatmul__(self, other: ArrayLike) -> VarOrNumber: ...

    def __and__(self, other: ArrayLike) -> Var: ...

    def __rand__(self, other: ArrayLike) -> Var: ...

    def __or__(self, other: ArrayLike) -> Var: ...

    def __ror__(self, other: ArrayLike) -> Var: ...

    def __xor__(self, other: ArrayLike) -> Var: ...

    def __rxor__(self, other: ArrayLike) -> Var: ...

    def __lshift__(self, other: ArrayLike) -> Var: ...

    def __rlshift__(self, other: ArrayLike) -> Var: ...

    def __rshift__(self, other: ArrayLike) -> Var: ...

    def __rrshift__(self, other: ArrayLike) -> Var: ...

    def __divmod__(self, other: ArrayLike) -> tuple[Var, Var]: ...

    def __rdivmod__(self, other: ArrayLike) -> tuple[Var, Var]: ...

    def __round__(self, decimals: int | None = None) -> Var: ...

    def __contains__(self, value: ArrayLike) -> bool: ...

    def __invert__(self) -> Var: ...

    def __neg__(self) -> Var: ...

    def __abs__(self) -> Var: ...

    def __eq__(self, other: ArrayLike) -> Var: ...  # type: ignore[override] # element by element, as numpy's

    def __ne__(self, other: ArrayLike) -> Var: ...  # type: ignore[override] # element by element, as numpy's

    def __lt__(self, other: ArrayLike) -> Var: ...

    def __le__(self, other: ArrayLike) -> Var: ...

    def __gt__(self, other: ArrayLike) -> Var: ...

    def __ge__(self, other: ArrayLike) -> Var: ...

    # -- shapes -----------------------------------------------------------------------------------------------------

    @property
    def T(self) -> Var:  # noqa: N802 - numpy's name
        """Axes in reverse order."""
        return self.transpose()

    def reshape(self, *shape: Ints, order: str = "C") -> Var:
        """Other sizes: ``reshape(2, 3)`` or ``reshape([2, 3])``; with order "F" first axes run fastest."""

    def transpose(self, axes: Axes = None, *more: int) -> Var:
        """Axes in another order; reversed when none is given."""

    def flatten(self, order: str = "C") -> Var:
        """One axis; with order "F" the first axis runs fastest."""

    def ravel(self, order: str = "C") -> Var:
        """One axis; with order "F" the first axis runs fastest."""

    def squeeze(self, axis: Axes = None) -> Var:
        """Without axes of size 1."""

    def swapaxes(self, axis1: int, axis2: int) -> Var:
        """Two axes exchanged."""

    def repeat(self, repeats: Ints, axis: int | None = None) -> Var:
        """Every element so many times, or each its own number of times, along an axis or of the flat tensor."""

    # -- reductions -------------------------------------------------------------------------------------------------

    def sum(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        """The sum."""

    def prod(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        """The product."""

    def max(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        """The largest."""

    def min(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        """The smallest."""

    def mean(
        self, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None, keepdims: bool = False
    ) -> VarOrNumber:
        """The mean; of integers as a float."""

    def var(
        self,
        axis: Axes = None,
        dtype: ElementType = dtype.float,
        out: Var | None = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> VarOrNumber:
        """The variance; the divisor is the count less ``ddof``."""

    def std(
        self,
        axis: Axes = None,
        dtype: ElementType = dtype.float,
        out: Var | None = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> VarOrNumber:
        """The standard deviation."""

    def ptp(self, axis: Axes = None, keepdims: bool = False) -> VarOrNumber:
        """The largest less the smallest."""

    def all(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        """Whether no element is 0: a bool where one is left, ints otherwise."""

    def any(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        """Whether any element is not 0: a bool where one is left, ints otherwise."""

    def argmax(self, axis: int | None = None, out: Var | None = None) -> VarOrNumber:
        """Where the largest is; in row-major order without an axis."""

    def argmin(self, axis: int | None = None, out: Var | None = None) -> VarOrNumber:
        """Where the smallest is; in row-major order without an axis."""

    # -- the rest ---------------------------------------------------------------------------------------------------

    def round(self, decimals: int = 0, out: Var | None = None) -> Var:
        """The nearest whole numbers, halves away from zero."""

    def clip(self, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: Var | None = None) -> Var:
        """Limited to an interval; None leaves a side open. Plain numbers are cut to this Var's element type."""

    def dot(self, b: ArrayLike) -> VarOrNumber:
        """Sums of products over the last axis of this and the last but one of ``b``; a plain number scales."""

    def sort(self, axis: int | None = -1, kind: object = None, order: object = None) -> Var:
        """The elements along an axis in order (a new Var, as in PyMNN)."""

    def argsort(self, axis: int | None = -1, kind: object = None, order: object = None) -> Var:
        """Positions that sort along an axis."""

    def argpartition(self, kth: Ints, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Var:
        """Positions of which the k-th is where sorting would put it; see :func:`MNN.numpy.argpartition`."""

    def searchsorted(self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> VarOrNumber:
        """Where ``v`` would have to be put into this sorted vector."""

    def nonzero(self) -> tuple[Var, ...]:
        """Coordinates of the elements that are not 0, one vector per axis."""
