"""Sums, products and extremes over axes: by numpy, or by kernels for all sizes where that pays."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from MNN.expr.fused.deferred import Deferred, Operand
from MNN.expr.fused.loops import COMPILE_AFTER, dense
from MNN.expr.fused.settings import SETTINGS
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr, body_of

if TYPE_CHECKING:
    from MNN.expr.fused.kernels import LoopKernel

Array = np.ndarray

_CALL, _ELEMENT = 5_000.0, 0.3
"""About how many nanoseconds numpy takes to be called, and for an element."""
_PART = 1 << 14
"""Elements that are reduced at a time: of longer rows the results of parts are reduced, so that errors stay small."""
_COLUMNS = 256
"""Columns that a thread takes at a time."""
_NARROW = 16
"""Columns from which on vectors along them are filled."""
_KINDS = (DType.F32, DType.F64, DType.I32, DType.I64)


class Fold:
    """``operation`` (sum, prod, max, min) over rows or columns of ``body``'s results, for arrays of any sizes."""

    __slots__ = ("_body", "_columns", "_operation", "_rows", "_spent")

    def __init__(self, operation: str, body: Body) -> None:
        self._operation, self._body = operation, body
        self._spent = 0.0
        self._rows: dict[tuple[str, ...], LoopKernel] = {}
        self._columns: dict[tuple[str, ...], LoopKernel] = {}

    def pays(self, count: int) -> bool:
        """Whether it has been asked for so often, on so many elements, that kernels pay."""
        if self._spent < COMPILE_AFTER:
            self._spent += len(self._body.code) * (_CALL + _ELEMENT * count)
        return self._spent >= COMPILE_AFTER

    def rows(self, operands: Sequence[Array], classes: tuple[str, ...], rows: int, length: int, result: Array) -> None:
        """Reduces ``rows`` of ``length`` elements, which lie dense ("1"; "0": one number), to a number each."""
        native = _native()
        address = native.address
        kernel = self._rows.get(classes)
        if kernel is None:
            from MNN.backends.cpu.loops.rows import RowSpec

            spec = RowSpec(body=self._reducing(), rank=3, inputs=classes, outputs=("0",))
            kernel = self._rows[classes] = native.LoopKernel(spec)
        cost = len(self._body.code)
        if length <= 2 * _PART:
            values = [rows, 1, length]
            for operand, kind in zip(operands, classes, strict=True):
                values += (address(operand), length if kind == "1" else 0, 0)
            values += (address(result), 1, 0)
            _run(kernel, values, rows, length, cost)
            return
        whole, rest = divmod(length, _PART)
        parts = np.empty((rows, whole + bool(rest)), result.dtype)
        for first, count, size in ((0, whole, _PART), (whole, 1, rest))[: parts.shape[1] - whole + 1]:
            values = [rows, count, size]
            for operand, kind in zip(operands, classes, strict=True):
                offset = first * _PART * operand.itemsize
                values += (address(operand) + offset, length, _PART) if kind == "1" else (address(operand), 0, 0)
            values += (address(parts) + first * parts.itemsize, parts.shape[1], 1)
            _run(kernel, values, rows * count, size, cost)
        fold_of(self._operation, itself(DType.of(parts))).rows([parts], ("1",), rows, parts.shape[1], result)

    def columns(
        self, operands: Sequence[Array], classes: tuple[str, ...], outer: int, length: int, inner: int, result: Array
    ) -> None:
        """Reduces the middle one of three axes of dense arrays."""
        native = _native()
        address = native.address
        kernel = self._columns.get(classes)
        if kernel is None:
            from MNN.backends.cpu.loops.fold import FoldSpec

            kernel = self._columns[classes] = native.LoopKernel(
                FoldSpec(self._operation, self._body, None, 1, 1, classes, (), ("1",))
            )
        chunk = min(inner, _COLUMNS)
        values = [outer, length, inner, chunk]
        for operand, kind in zip(operands, classes, strict=True):
            values += (address(operand), *((0, 0) if kind == "0" else (length * inner, inner)))
        values += (address(result), inner)
        _run(kernel, values, outer * -(-inner // chunk), length * chunk, len(self._body.code))

    def _reducing(self) -> Body:
        code, (place,) = self._body.code, self._body.outputs
        return Body(
            self._body.args, (*code, Instr(f"reduce.{self._operation}", (place,), code[place].dtype)), (len(code),)
        )


@functools.cache
def _native() -> ModuleType:
    """The module of kernels, which brings the compiler."""
    from MNN.expr.fused import kernels

    return kernels


def _run(kernel: LoopKernel, values: list[int], blocks: int, size: int, cost: int) -> None:
    """A kernel over ``blocks`` of ``size`` elements, shared where that is much."""
    native = _native()
    if blocks == 1 or blocks * size * cost < native.SHARED or SETTINGS.loop_threads == 1:
        kernel.run(values, blocks)
    else:
        kernel.share(values, blocks, max(1, native.CHUNK // size), SETTINGS.loop_threads)


@functools.lru_cache(maxsize=1024)
def fold_of(operation: str, body: Body) -> Fold:
    """The reduction of a body's results."""
    return Fold(operation, body)


@functools.cache
def itself(kind: DType) -> Body:
    """The body of what is reduced as it is."""
    return body_of([kind], lambda b, x: x)


def _extents(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, int, int] | None:
    """A shape as three axes of which the middle one is reduced; None where it takes more."""
    reduced = [a for a in axes if shape[a] != 1]
    if not reduced:
        return None
    first, last = min(reduced), max(reduced)
    if any(shape[a] != 1 and a not in reduced for a in range(first, last)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


class Reduction:
    """A primitive for operands of its sizes, with a result of its own or another ``shape``."""

    __slots__ = ("_extents", "_given", "_kind", "_prim", "_shape", "_types")

    def __init__(self, prim: p.Reduce, shape: tuple[int, ...]) -> None:
        given, out = prim.inputs[0], prim.outputs[0]
        self._prim, self._given, self._shape = prim, given.shape, shape
        self._types = [(out.dtype, out.shape)]
        self._kind = out.dtype.numpy
        sizes = _extents(given.shape, prim.axes)
        usual = given.dtype in _KINDS and out.dtype is given.dtype and math.prod(given.shape) > 0
        self._extents = sizes if usual and sizes is not None and not 1 < sizes[2] < _NARROW else None
        """Where kernels can be used: the axes as three, of which the middle one is reduced."""

    def run(self, x: Sequence[Operand]) -> list[Array]:
        """The result in a list."""
        operand = x[0]
        if isinstance(operand, Deferred):
            found = self._in_passing(operand)
            if found is not None:
                return [found]
            operand = operand.numbers()
        fold = fold_of(self._prim.op, itself(self._types[0][0]))
        if self._extents is None or not fold.pays(operand.size) or not operand.flags.c_contiguous:
            return [self._by_numpy(operand)]
        return [self._folded(fold, [operand], ("1",))]

    def _in_passing(self, operand: Deferred) -> Array | None:
        """The result of functions that are not computed yet, whose numbers never reach memory; None where they do."""
        found = None if self._extents is None or operand.array is not None else operand.in_passing()
        if found is None:
            return None
        body, arrays = found
        classes = dense(self._given, arrays)
        fold = fold_of(self._prim.op, body)
        return self._folded(fold, arrays, classes) if classes and fold.pays(math.prod(self._given)) else None

    def _folded(self, fold: Fold, arrays: Sequence[Array], classes: tuple[str, ...]) -> Array:
        assert self._extents is not None
        outer, length, inner = self._extents
        result = np.empty(self._shape, self._kind)
        if inner == 1:
            fold.rows(arrays, classes, outer, length, result)
        else:
            fold.columns(arrays, classes, outer, length, inner, result)
        return result

    def _by_numpy(self, array: Array) -> Array:
        from MNN.reference.primitives import MEANING  # not needed where Vars are only given to a model

        with np.errstate(all="ignore"):
            (found,) = MEANING[p.Reduce](self._prim, [array], self._types)
        return np.asarray(found).reshape(self._shape)


__all__ = ["Fold", "Reduction", "fold_of"]
