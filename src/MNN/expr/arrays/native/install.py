"""Entries for functions: the inner loops of numpy that they need, and whether these give what numpy gives."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.expr.arrays import functions
from MNN.expr.arrays.few import (
    ALONE,
    CLIP,
    COMPARING,
    COPIED,
    LIGHT,
    OF_FLOATS,
    OF_NUMBERS,
    POOLED,
    ROUND,
    UNARY,
    limit,
    rounded,
    silently,
)
from MNN.expr.arrays.native import facts
from MNN.expr.arrays.native.entries import Later, Loops, prepared
from MNN.expr.arrays.native.place import Place
from MNN.expr.arrays.native.rounding import rounding_loop
from MNN.expr.fused import programs
from MNN.expr.fused.functions import Function
from MNN.ir.dtype import DType

_SAMPLE = (1.5, -2.25, 0.0, -0.0, 3e38, 1e-42, np.inf, -np.inf, np.nan, 0.75, 7.0, -3.0, 12.5, 0.1, 1e-3, 100.0, -1.0)
"""Numbers on which an inner loop is compared with its function, more of them than vectors have."""
_OTHER = (2.0, 0.5, -1.0, 0.0, 3.0, -0.0, 1.0, np.inf, 1.0, np.nan, -7.0, 3.0, 0.25, 10.0, 2.0, -1e-3, 4.0)
_FUNCTIONS: dict[str, dict[str, Any]] = {
    "each": {**UNARY, "RECIPROCAL": np.reciprocal},
    "pairwise": {**OF_NUMBERS, **OF_FLOATS},
    "comparing": dict(COMPARING),
}
_SINGLE = {"clipped": CLIP, "product": np.matmul}
MULTIPLICATIONS = 1 << 20
"""Of a product up to which other threads wait for it."""
_LIGHT, _COSTLY = 1 << 13, 1 << 9
"""Numbers from which on functions are computed later, in one loop with what is made of them, which costs more than
computing few: those that memory is slower than, and others."""
_MOST = {"product": MULTIPLICATIONS, "moved": COPIED}
_INTO_POOLED = ("each", "pairwise")
"""Whose larger results lie in memory that is used again."""
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def loops_of(function: Any, part: str, floats: bool) -> Loops:
    """The inner loops of a universal function by the number of the element type, of ``floats`` only or of all; those
    alone that give what the function gives."""
    found = {}
    count = {"each": 1, "clipped": 3}.get(part, 2)
    kinds: tuple[Any, ...] = facts.KINDS
    for number, kind in enumerate(kinds):
        if floats and kind.kind != "f":
            continue
        loop = facts.inner_loop(function, f"{kind.char * count}->{'?' if part == 'comparing' else kind.char}")
        if loop is not None and (_multiplies if function is np.matmul else _same)(function, loop, kind, count):
            found[number] = loop
    return found


def _multiplies(function: Any, loop: tuple[int, int], kind: np.dtype, count: int) -> bool:
    """Whether a loop gives the product of matrices; sizes and strides are those of ``(n,k),(k,m)->(n,m)``."""
    del count
    a, b = (np.arange(1, 2 * n + 1, dtype=kind).reshape(2, n) for n in (3, 6))
    b = b.reshape(3, 4)
    result, size = np.empty((2, 4), kind), kind.itemsize
    places = (ctypes.c_void_p * 3)(*(m.ctypes.data for m in (a, b, result)))
    counts = (ctypes.c_ssize_t * 4)(1, 2, 3, 4)
    steps = (ctypes.c_ssize_t * 9)(0, 0, 0, 3 * size, size, 4 * size, size, 4 * size, size)
    _RUN(loop[0])(ctypes.addressof(places), ctypes.addressof(counts), ctypes.addressof(steps), loop[1])
    return bool(function(a, b).tobytes() == result.tobytes())


def _same(function: Any, loop: tuple[int, int], kind: np.dtype, count: int) -> bool:
    given = [np.asarray(values) for values in (_SAMPLE, _OTHER, _OTHER[::-1])[:count]]
    if kind.kind == "i":
        given = [np.nan_to_num(g, nan=5, posinf=9, neginf=-9).clip(-1e6, 1e6) for g in given]
    with np.errstate(all="ignore"):
        operands = [g.astype(kind) for g in given]
    wanted = silently(function, *operands)
    result = np.empty_like(wanted)
    arrays = [*operands, result]
    places = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    steps = (ctypes.c_ssize_t * len(arrays))(*(a.itemsize for a in arrays))
    counts = ctypes.c_ssize_t(result.size)
    _RUN(loop[0])(ctypes.addressof(places), ctypes.addressof(counts), ctypes.addressof(steps), loop[1])
    return bool(wanted.tobytes() == result.tobytes())


def _loops(place: Place) -> Loops:
    if place.op == ROUND:
        loop = rounding_loop()
        return {0: loop} if _same(rounded, loop, facts.KINDS[0], 1) else {}
    function = _SINGLE.get(place.part) or _FUNCTIONS[place.part].get(place.op)
    floats = place.part in ("each", "clipped") or place.op in OF_FLOATS
    return loops_of(function, place.part, floats)


def _later(place: Place) -> Later | None:
    """What an entry's results are computed with later."""
    f32 = DType.F32
    if place.op == ROUND:
        return Later(functools.partial(functions.rounding, f32), _LIGHT)
    if place.part == "chosen":
        return Later(functools.partial(functions.choice, f32), _LIGHT)
    if place.part not in _FUNCTIONS:
        return None
    kinds = (f32,) * (1 if place.part == "each" else 2)
    light = place.op in LIGHT or place.op in COMPARING
    return Later(functools.partial(_made, place.op, kinds), _LIGHT if light else _COSTLY)


def _made(op: str, kinds: tuple[DType, ...]) -> Function | None:
    """A function, and its kernel where it has but one: results that are read at once are by it."""
    found = functions.function(op, kinds)
    if found is not None and len(kinds) == 1:
        programs.prepare(found)
    return found


def install(places: Sequence[Place]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Entries by the functions that they stand in for; none where Python or numpy are not as they are known."""
    native = prepared(ALONE)
    if native is None:
        return {}
    found: dict[Callable[..., Any], Callable[..., Any]] = {}
    for place in places:
        loops: Loops = {}
        most = _MOST.get(place.part, limit(place.op) if place.op else ALONE)
        if place.part in _INTO_POOLED:
            most = min(most, POOLED - 1)
        if place.part in _FUNCTIONS or place.part in _SINGLE:
            loops = _loops(place)
            if not loops:
                continue
        if place.part != "shared" or native.knows_names:
            found[place.usual] = native.entry(place.part, place.usual, loops, place.reverse, most, _later(place))
    return found


__all__ = ["install", "loops_of"]
