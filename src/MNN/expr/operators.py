"""What Vars are computed with, each method one line over a function; installed into :class:`~MNN.expr.var.Var`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, indexing, math, products, reducing, shaping
from MNN.expr.arrays import direct, few, places, views
from MNN.expr.arrays.mistakes import told
from MNN.expr.arrays.options import check_sorting, into
from MNN.expr.node import Expr
from MNN.expr.types import Axes, ElementType, Index, Ints, VarOrNumber, data_format, dtype, dtype_of
from MNN.expr.var import Var
from MNN.ir.dtype import DType


class _Methods(Var):
    """The code of what Var declares; a subclass, so that type checkers see that it is as declared."""

    __slots__ = ()

    def reorder(self, layout: data_format) -> None:
        new = shaping.convert(self, layout)
        self._expr, self._index, self._layout, self._unconverted = new._expr, new._index, new._layout, new._unconverted

    def astype(self, kind: ElementType) -> Var:
        found = build.cast(self, dtype_of(kind))
        return build.own(self) if found is self else found

    def copy(self) -> Var:
        return build.leaf(self._array().copy(), self._layout)

    def __getitem__(self, key: Index) -> VarOrNumber:
        found = direct.part(self, key)
        return indexing.get(self, key) if found is None else found

    def __setitem__(self, key: Index, value: ArrayLike) -> None:
        array = indexing.assigned(self._array(), key, value)
        if self._expr.is_leaf:
            self._expr.set_array(array)
        else:
            self._expr, self._index = Expr.leaf("Const", DType.of(array), array.shape, array), 0

    # -- operators --------------------------------------------------------------------------------------------------

    def __floordiv__(self, other: ArrayLike) -> Var:
        return products.floor_divide(self, other)

    def __rfloordiv__(self, other: ArrayLike) -> Var:
        return products.floor_divide(other, self)

    def __mod__(self, other: ArrayLike) -> Var:
        return math.floormod(self, other)

    def __rmod__(self, other: ArrayLike) -> Var:
        return math.floormod(other, self)

    def __pow__(self, other: ArrayLike) -> Var:
        return math.pow(self, other)

    def __rpow__(self, other: ArrayLike) -> Var:
        return math.pow(other, self)

    def __matmul__(self, other: ArrayLike) -> VarOrNumber:
        return products.matmul(self, other)

    def __rmatmul__(self, other: ArrayLike) -> VarOrNumber:
        return products.matmul(other, self)

    def __and__(self, other: ArrayLike) -> Var:
        return math.bitwise_and(self, other)

    def __rand__(self, other: ArrayLike) -> Var:
        return math.bitwise_and(other, self)

    def __or__(self, other: ArrayLike) -> Var:
        return math.bitwise_or(self, other)

    def __ror__(self, other: ArrayLike) -> Var:
        return math.bitwise_or(other, self)

    def __xor__(self, other: ArrayLike) -> Var:
        return math.bitwise_xor(self, other)

    def __rxor__(self, other: ArrayLike) -> Var:
        return math.bitwise_xor(other, self)

    def __lshift__(self, other: ArrayLike) -> Var:
        return math.left_shift(self, other)

    def __rlshift__(self, other: ArrayLike) -> Var:
        return math.left_shift(other, self)

    def __rshift__(self, other: ArrayLike) -> Var:
        return math.right_shift(self, other)

    def __rrshift__(self, other: ArrayLike) -> Var:
        return math.right_shift(other, self)

    def __divmod__(self, other: ArrayLike) -> tuple[Var, Var]:
        return self // other, self % other

    def __rdivmod__(self, other: ArrayLike) -> tuple[Var, Var]:
        return other // self, math.floormod(other, self)

    def __round__(self, decimals: int | None = None) -> Var:
        return self.round(decimals or 0)

    def __contains__(self, value: ArrayLike) -> bool:
        return bool((self == value).any())

    def __invert__(self) -> Var:
        raise MNNError("~ of a Var: truth values are whole numbers here; say what is meant: MNN.numpy.logical_not() of "
                       "truth values or MNN.numpy.invert() of bits")  # fmt: skip

    def __pos__(self) -> Var:
        return build.own(self)

    def __neg__(self) -> Var:
        return math.negative(self)

    def __abs__(self) -> Var:
        return math.abs(self)

    # -- shapes -----------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Ints, order: str = "C") -> Var:
        sizes = shape[0] if len(shape) == 1 else shaping.dims_of(shape)
        if order == "C":
            return shaping.reshape(self, sizes)
        if order not in ("F", "A"):
            raise ShapeError(f"order {order!r} is none of 'C', 'F' and 'A'")
        return shaping.reordered(self, sizes) if order == "F" else shaping.reshape(self, sizes)

    def transpose(self, axes: Axes = None, *more: int) -> Var:
        return shaping.transpose(self, shaping.dims_of((axes, *more)) if more else axes)

    def flatten(self, order: str = "C") -> Var:
        return self.ravel(order)

    def ravel(self, order: str = "C") -> Var:
        if order not in ("C", "F", "A", "K"):
            raise ShapeError(f"order {order!r} is none of 'C', 'F', 'A' and 'K'")
        return shaping.reshape(shaping.transpose(self) if order == "F" else self, [-1])

    def squeeze(self, axis: Axes = None) -> Var:
        axes = reducing.axes_of(axis)
        return shaping.squeeze(self, [] if not self.ndim and set(axes) <= {0, -1} else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Var:
        return shaping.transpose(self, _swapped(self.ndim, axis1, axis2))

    def repeat(self, repeats: Ints, axis: int | None = None) -> Var:
        v = self.ravel() if axis is None else reducing.with_axis(self, axis)
        where = 0 if axis is None else shaping.axis_of(v, axis)
        times = [repeats] if type(repeats) is int else shaping.dims_of(repeats)
        if min(times, default=0) < 0:
            raise ShapeError(f"repeat(): every element comes 0 times or more, found {repeats}")
        if len(times) not in (1, v.shape[where]):
            raise ShapeError(f"repeat(): {len(times)} numbers of times for {v.shape[where]} elements of axis {where}")
        if type(repeats) is int and (found := views.made(v, lambda a: np.repeat(a, repeats, where))) is not None:
            return found
        index = build.leaf(np.repeat(np.arange(v.shape[where], dtype=np.int32), times))
        return build.apply("GatherV2", v, index, build.number(where, DType.I32))

    # -- reductions -------------------------------------------------------------------------------------------------

    def sum(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        if out is None and (found := direct.fold("SUM", self, axis, keepdims, True)) is not None:
            return found
        return into(indexing.result(reducing.reduce_sum(self, axis, keepdims)), out)

    def prod(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        if out is None and (found := direct.fold("PROD", self, axis, keepdims, True)) is not None:
            return found
        return into(indexing.result(reducing.reduce_prod(self, axis, keepdims)), out)

    def max(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        if out is None and (found := direct.fold("MAXIMUM", self, axis, keepdims, False)) is not None:
            return found
        _something(self, axis)
        return into(_whole(reducing.reduce_max(self, axis, keepdims), axis), out)

    def min(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        if out is None and (found := direct.fold("MINIMUM", self, axis, keepdims, False)) is not None:
            return found
        _something(self, axis)
        return into(_whole(reducing.reduce_min(self, axis, keepdims), axis), out)

    def mean(
        self, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None, keepdims: bool = False
    ) -> VarOrNumber:
        if out is None and (found := direct.mean(self, axis, dtype, keepdims)) is not None:
            return found
        return into(_whole(reducing.reduce_mean(build.floats(self), axis, keepdims).astype(dtype), axis), out)

    def var(
        self,
        axis: Axes = None,
        dtype: ElementType = dtype.float,
        out: Var | None = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> VarOrNumber:
        if out is None and (found := direct.variance(self, axis, dtype, keepdims, ddof, False)) is not None:
            return found
        return into(_whole(_variance(self, axis, ddof, keepdims).astype(dtype), axis), out)

    def std(
        self,
        axis: Axes = None,
        dtype: ElementType = dtype.float,
        out: Var | None = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> VarOrNumber:
        if out is None and (few_ := direct.variance(self, axis, dtype, keepdims, ddof, True)) is not None:
            return few_
        found = math.sqrt(_variance(self, axis, ddof, keepdims).astype(dtype))
        return into(_whole(found.astype(dtype), axis), out)

    def ptp(self, axis: Axes = None, keepdims: bool = False) -> VarOrNumber:
        _something(self, axis)
        found = math.subtract(reducing.reduce_max(self, axis, keepdims), reducing.reduce_min(self, axis, keepdims))
        return _whole(found, axis)

    def all(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        return into(_truth(reducing.reduce_all(self, axis, keepdims)), out)

    def any(self, axis: Axes = None, out: Var | None = None, keepdims: bool = False) -> VarOrNumber:
        return into(_truth(reducing.reduce_any(self, axis, keepdims)), out)

    def argmax(self, axis: int | None = None, out: Var | None = None) -> VarOrNumber:
        if out is None and (found := direct.position(self, axis, True)) is not None:
            return found
        flat = axis is None and self.ndim != 1
        return into(_whole(reducing.argmax(self.ravel() if flat else self, axis or 0), axis), out)

    def argmin(self, axis: int | None = None, out: Var | None = None) -> VarOrNumber:
        if out is None and (found := direct.position(self, axis, False)) is not None:
            return found
        flat = axis is None and self.ndim != 1
        return into(_whole(reducing.argmin(self.ravel() if flat else self, axis or 0), axis), out)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def round(self, decimals: int = 0, out: Var | None = None) -> Var:
        to, back = (math.divide, math.multiply) if decimals < 0 else (math.multiply, math.divide)
        factor = 10.0 ** abs(decimals)
        found = back(math.round(to(build.floats(self), factor)), factor) if decimals else math.round(self)
        return build.to_var(into(found, out))

    def clip(self, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: Var | None = None) -> Var:
        if out is not None:
            return build.to_var(into(self.clip(a_min, a_max), out))
        if (clipped := direct.clipped(self, a_min, a_max)) is not None:
            return clipped
        v = build.to_var(self)
        if type(a_min) in _PLAIN and type(a_max) in _PLAIN and (found := few.clipped(v, a_min, a_max)) is not None:  # type: ignore[arg-type]
            return found
        v = v if a_min is None else math.maximum(v, _bound(a_min, v))
        return build.own(v) if a_max is None else math.minimum(v, _bound(a_max, v))

    def dot(self, b: ArrayLike) -> VarOrNumber:
        return products.dot(self, b)

    def sort(self, axis: int | None = -1, kind: object = None, order: object = None) -> Var:
        if kind is None and order is None and (found := direct.ordered(self, axis)) is not None:
            return found
        check_sorting(kind, order, "sort")
        return reducing.sort(self.ravel(), 0) if axis is None else reducing.sort(self, axis)

    def argsort(self, axis: int | None = -1, kind: object = None, order: object = None) -> Var:
        check_sorting(kind, order, "argsort")
        return reducing.sort(self.ravel(), 0, True) if axis is None else reducing.sort(self, axis, True)

    def argpartition(self, kth: Ints, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Var:
        if kind != "introselect" or order is not None:
            raise ShapeError(f"argpartition(): kind {kind!r} is not 'introselect', or order names fields: {order!r}")
        places = shaping.dims_of(kth)
        array = self._array()
        try:
            return build.leaf(np.argpartition(array, places, axis).astype(np.int32))
        except (ValueError, IndexError) as error:
            raise ShapeError(f"argpartition(): {error}") from error

    def searchsorted(self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> VarOrNumber:
        if side not in ("left", "right") or self.ndim != 1:
            raise ShapeError(f"searchsorted() takes a vector and 'left' or 'right', found {self.shape} and {side!r}")
        x, y = build.pair(self, v)
        order = None if sorter is None else build.to_var(sorter)._array()
        found = x._array().searchsorted(y._array(), "left" if side == "left" else "right", order)
        return indexing.result(build.leaf(np.asarray(found, np.int32)))

    def nonzero(self) -> tuple[Var, ...]:
        if (places_ := views.coordinates(self)) is not None:
            return places_
        found = shaping.where(self)
        return tuple(shaping.reshape(p, [-1]) for p in shaping.split(found, max(self.ndim, 1), 1))


_PLAIN = (float, int)


def _variance(v: Var, axis: Axes, ddof: int, keepdims: bool) -> Var:
    x = build.floats(v)
    axes = reducing.axes_of(axis)
    if (found := few.variance(x, axes, bool(keepdims), ddof)) is not None:
        return found
    spread = math.squared_difference(x, reducing.reduce_mean(x, axis, True))
    if not ddof:
        return reducing.reduce_mean(spread, axis, keepdims)
    axes = axes or list(np.arange(x.ndim))
    count = int(np.prod([x.shape[a] for a in axes]))
    if count <= ddof:
        raise ShapeError(f"ddof {ddof} leaves nothing of {count} elements")
    return reducing.reduce_sum(spread, axis, keepdims) / float(count - ddof)


def _swapped(rank: int, a: int, b: int) -> list[int]:
    if not (-rank <= a < rank and -rank <= b < rank):
        raise ShapeError(f"axes {a} and {b} do not fit a tensor of {rank} axes")
    order = list(np.arange(rank).tolist())
    order[a], order[b] = order[b], order[a]
    return order


def _bound(value: ArrayLike, like: Var) -> ArrayLike:
    if not isinstance(value, (int, float, np.number)):
        return value
    if like._kind.is_float:
        return build.to_var(float(value), like)
    if like._kind.is_int:  # beyond which there are no numbers to be limited
        ends: Any = np.iinfo(like._kind.numpy)
        value = min(max(value, ends.min), ends.max)
    return build.cast(build.to_var(value), like._kind)


def _something(x: Var, axis: object) -> None:
    """Raises :class:`ShapeError` where constants have nothing to take the extreme of."""
    expr = x._expr
    if expr.op != "Const" or 0 not in (shape := expr.leaf_type[1]):
        return
    axes = reducing.axes_of(axis) or range(len(shape))
    if any(-len(shape) <= a < len(shape) and not shape[a] for a in axes):
        raise ShapeError(f"nothing has no largest or smallest number: axes {list(axes)} of a tensor of shape {x.shape}")


def _whole(x: Var, axis: object) -> VarOrNumber:
    """What a reduction over everything gives: a Python number, unless axes were named (as in PyMNN)."""
    return indexing.result(x) if axis is None else x


def _truth(x: Var) -> VarOrNumber:
    found = indexing.result(x)
    return bool(found) if isinstance(found, int) else found


_PAIRWISE = {"add": "ADD", "sub": "SUB", "mul": "MUL", "truediv": "REALDIV"}
_COMPARING = {"eq": "EQUAL", "ne": "NOTEQUAL", "lt": "LESS", "le": "LESS_EQUAL", "gt": "GREATER", "ge": "GREATER_EQUAL"}


def _made() -> dict[str, object]:
    """Methods that are functions of :mod:`MNN.expr.arrays.direct`, by name."""
    found: dict[str, object] = {f"__{name}__": build.comparing(op) for name, op in _COMPARING.items()}
    for name, op in _PAIRWISE.items():
        found[f"__{name}__"], found[f"__r{name}__"] = build.pairwise(op), build.pairwise(op, reverse=True)
    return found


def install() -> None:
    """Gives Var its methods, under their declarations' names and docstrings."""
    for name, method in (*vars(_Methods).items(), *_made().items()):
        if callable(method):
            declared = getattr(Var, name)
            method.__qualname__, method.__doc__ = declared.__qualname__, declared.__doc__
            setattr(Var, name, method if name.startswith("_") else told(method, f"Var.{name}"))
    for name in ("copy_from", "fill", "item", "replace", "set_inputs", "write"):
        setattr(Var, name, told(getattr(Var, name), f"Var.{name}"))
    places.offer(Var.__getitem__, "part")
    places.offer(Var.__array__, "shared")
    places.follow(_told)


def _told(entries: places.Entries) -> None:
    for name in (*vars(Var), "__array__"):
        usual = getattr(Var, name)
        if callable(usual) and not isinstance(usual, type) and usual in entries:
            setattr(Var, name, places.method(entries[usual]))


__all__ = ["install"]
