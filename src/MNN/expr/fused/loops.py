"""Loops over the elements of arrays: interpreted by numpy, or compiled for all sizes where that pays."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from MNN.expr.fused import copies
from MNN.expr.fused.functions import Function
from MNN.expr.fused.results import empty
from MNN.expr.fused.settings import SETTINGS
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder

if TYPE_CHECKING:
    from MNN.expr.fused.kernels import Layout, MapKernel

Wiring = tuple[Function | int, ...]
"""A function and its operands: numbers of steps (from 0 up) and of arrays (from -1 down)."""

_CALL, _ELEMENT = 5_000.0, 1.0
"""About how many nanoseconds numpy takes to be called, and for an element."""
COMPILE_AFTER = 5e6
"""Nanoseconds that numpy has spent on a loop when it is compiled, which takes a few times as long."""
_COPIED = 1 << 20
"""Bytes of operands that are copied at a time, where they lie in another order than the result."""
_BAND = 64
"""Rows that such copies are of, or a multiple: columns there are read by cache lines."""
_DENSE = 0x101
"""The bits of ``flags.num`` that say: contiguous in C's order, and aligned."""


class ElementLoop:
    """A body over the elements of arrays that broadcast."""

    __slots__ = ("_kernels", "_kinds", "_spent", "body")

    def __init__(self, body: Body) -> None:
        self.body = body
        self._kinds = [kind.numpy for kind in body.result_dtypes]
        self._spent = 0.0
        self._kernels: dict[object, MapKernel] = {}

    def run(self, shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Its results, new arrays of this ``shape``, to which the ``operands`` broadcast."""
        count = math.prod(shape)
        if self.interpreted(self.cost(count)) or not count:
            from MNN.reference.scalar import evaluate  # not needed where Vars are only given to a model

            found = evaluate(self.body, operands)
            return [a if a.shape == shape else np.broadcast_to(a, shape).copy() for a in found]
        classes = dense(shape, operands)
        if classes is not None:
            results = [empty(shape, kind) for kind in self._kinds]
            self._kernel(classes, 1).fill_dense(count, operands, results, SETTINGS.loop_threads)
            return results
        order = _order(shape, operands)
        if order is None:
            return self._nested(shape, operands)
        moved = [_spread(a, len(shape)).transpose(order) for a in operands]
        back = sorted(range(len(order)), key=order.__getitem__)
        return [a.transpose(back) for a in self._nested(tuple([shape[a] for a in order]), moved)]

    def cost(self, count: int) -> float:
        """About how many nanoseconds numpy takes for so many elements."""
        return len(self.body.code) * (_CALL + _ELEMENT * count)

    def interpreted(self, spent: float) -> bool:
        """Whether numpy is to compute it and spend so many nanoseconds: it has not been worth compiling yet."""
        if self._spent < COMPILE_AFTER:
            self._spent += spent
        return self._spent < COMPILE_AFTER

    def compile(self, classes: tuple[str, ...]) -> None:
        """Compiles it for dense operands of these classes."""
        self._spent = COMPILE_AFTER
        self._kernel(classes, 1)

    def compiled(self, classes: tuple[str, ...]) -> MapKernel | None:
        """The kernel for dense operands of these classes, where it has been worth one."""
        return self._kernels.get((classes, 1))

    def _nested(self, shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Results in row-major order."""
        results = [empty(shape, kind) for kind in self._kinds]
        band = _band(shape, operands)
        for first in range(0, shape[0], band):
            part = slice(first, first + band)
            within = [a[part] if a.ndim == len(shape) and a.shape[0] > 1 else a for a in operands]
            self._fill(within, [a[part] for a in results])
        return results

    def _fill(self, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        layout, operands = _layout(results[0].shape, operands)
        kernel = self._kernel(layout.classes, len(layout.extents))
        kernel.fill(layout, operands, results, SETTINGS.loop_threads)

    def _kernel(self, classes: tuple[str, ...], rank: int) -> MapKernel:
        found = self._kernels.get((classes, rank))
        if found is None:
            from MNN.expr.fused.kernels import MapKernel  # brings the compiler

            found = self._kernels[classes, rank] = MapKernel(self.body, rank, classes)
        return found


def dense(shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> tuple[str, ...] | None:
    """The classes of operands that are walked as they lie, or are one number; None where others are among them."""
    classes = []
    for operand in operands:
        if operand.shape == shape and operand.flags.num & _DENSE == _DENSE:
            classes.append("1")
        elif operand.size == 1:
            classes.append("0")
        else:
            return None
    return tuple(classes)


def _band(shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> int:
    """How much of the first axis is computed at a time: operands that are copied first stay in the caches then."""
    copied = sum([a.itemsize for a in operands if not _runs(a)])
    row = math.prod(shape[1:]) * copied
    return shape[0] if not copied else max(1, _COPIED // row // _BAND * _BAND or min(_BAND, 2 * _COPIED // row))


def _order(shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The order of axes in which operands lie that are no slower walked so, and the results with them, as numpy has it;
    None where that is row-major order."""
    from MNN.compiler import strides as st

    found = None
    for operand in operands:
        if operand.shape == shape:
            if operand.flags.c_contiguous:
                return None
            if found is None:
                found = st.order_of(shape, operand.strides)
    return None if found is None or found == tuple(range(len(shape))) else found


def _spread(array: np.ndarray, rank: int) -> np.ndarray:
    """An array that broadcasts, with axes in front up to a rank."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim < rank else array


def _layout(shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> tuple[Layout, Sequence[np.ndarray]]:
    """Loops over a dense result and operands, of which some may have to be copied first."""
    usable = [a if _runs(a) else copies.contiguous(a) for a in operands]
    strides = tuple([(a.shape, tuple([s // a.itemsize for s in a.strides])) for a in usable])
    return _merged(shape, strides), usable


def _runs(array: np.ndarray) -> bool:
    """Whether an array is aligned, and repeated or contiguous along its last axis."""
    return array.flags.aligned and (
        array.size == 1 or array.shape[-1] == 1 or array.strides[-1] in (0, array.itemsize)
    ) and not any(s % array.itemsize for s in array.strides)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _merged(shape: tuple[int, ...], given: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> Layout:
    """Loops over a ``shape`` and operands of these shapes and strides, as few as there can be."""
    from MNN.compiler import strides as st
    from MNN.expr.fused.kernels import Layout

    order = tuple(range(len(shape)))
    columns = [st.broadcast_strides(own, strides, shape) for own, strides in given]
    extents, merged = st.merge_loops(shape, [*columns, st.dense(shape, order)], order)
    classes = tuple([str(c[-1]) if c[-1] in (0, 1) else "s" for c in merged[:-1]])
    outer = [c if k == "s" else c[:-1] for c, k in zip(merged, (*classes, "1"), strict=True)]
    return Layout(extents, classes, tuple(outer))


_MOST = 2048
"""Loops that are kept."""


@functools.lru_cache(maxsize=_MOST)
def loop_over(body: Body) -> ElementLoop:
    """The loop of a body."""
    return ElementLoop(body)


@functools.lru_cache(maxsize=_MOST)
def loop_of(steps: tuple[Wiring, ...], results: tuple[int, ...]) -> ElementLoop:
    """The loop that computes ``steps``, each behind its operands, and stores some of them."""
    from MNN.compiler.simplify import simplified

    kinds: dict[int, DType] = {}
    functions: list[tuple[Function, list[int]]] = []
    for step in steps:
        function, operands = step[0], [n for n in step if isinstance(n, int)]
        assert isinstance(function, Function)
        functions.append((function, operands))
        kinds.update({n: kind for n, kind in zip(operands, function.body.args, strict=True) if n < 0})
    b = BodyBuilder()
    values = {number: b.arg(kinds[number]) for number in sorted(kinds, reverse=True)}
    for place, (function, operands) in enumerate(functions):
        (values[place],) = b.inline(function.body, [values[n] for n in operands])
    return ElementLoop(simplified(b.build(*[values[n] for n in results])))


__all__ = ["ElementLoop", "Wiring", "dense", "loop_of", "loop_over"]
