"""Loops of few elements as a table that generated code looks them up in: what is read is then computed in one call.

A program is known by its functions, each with where its operands come from, as generated code lists them: it walks the
operands as :mod:`MNN.expr.fused.deferred` does. Whatever has no program, or whose steps are to be stored on the way, is
computed in Python, which adds to the table what has been compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from MNN.expr.fused.functions import Function
from MNN.ir.dtype import DType

if TYPE_CHECKING:
    from MNN.expr.fused.loops import ElementLoop, Wiring

MOST = (1 << 16) - 1
"""Elements up to which programs are for: results of more lie in memory that is used again."""
ARRAY, SINGLE = 64, 128
"""What operands are numbered from: arrays that are walked, and arrays of one element; steps are from 0."""
FIELDS = 4
"""Words of a place in the table: the hash of a key, its address, that of the kernel, and most elements."""
_PLACES = 1 << 12
_FULL = _PLACES // 2
_MASK = (1 << 64) - 1
MIX = 0x9E3779B97F4A7C15
"""An odd number that hashes are multiplied with."""
TABLE = np.zeros(_PLACES * FIELDS, np.int64)
PLACES = _PLACES - 1
"""What of a hash is a place in the table."""
KINDS = {DType.F32: 0, DType.I32: 1}
"""Element types of results, as numbers in a key's first word."""
_known: set[object] = set()
_kept: list[object] = []
"""Keys, and functions by whose addresses they are keys: for the life of the process."""
_lock = threading.Lock()


def computed(deferred: Any) -> np.ndarray | None:
    """The numbers of what is not computed yet, if there is a program for them, which are not kept: generated code
    takes the place of this function."""
    del deferred
    return None


_run: list[Callable[[Any], np.ndarray | None]] = [computed]


def told(entries: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """Of what stands in for what."""
    _run[0] = entries.get(_run[0], _run[0])


def ready() -> bool:
    """Whether there is generated code that runs programs."""
    return _run[0] is not computed


def run(deferred: Any) -> np.ndarray | None:
    """The numbers of what is not computed yet, if there is a program for them."""
    return _run[0](deferred)


def hashed(words: Sequence[int]) -> int:
    """The hash of a key, which is never 0."""
    found = 0
    for word in words:
        found = ((found ^ (word & _MASK)) * MIX) & _MASK
        found ^= found >> 29
    return found or 1


def key_of(wiring: Sequence[Wiring], classes: Sequence[str]) -> list[int] | None:
    """Two words a step: the address of its function, and a byte for each operand. None for element types that
    generated code does not make arrays of."""
    words: list[int] = []
    for function, *places in wiring:
        assert isinstance(function, Function)
        packed = 0
        for i, place in enumerate(places):
            assert isinstance(place, int)
            array = -1 - place
            number = place if place >= 0 else array + (ARRAY if classes[array] == "1" else SINGLE)
            packed |= number << (8 * i)
        words += id(function), packed
    last = wiring[-1][0]
    assert isinstance(last, Function)
    return words if last.kind in KINDS else None


def prepare(function: Function) -> None:
    """Adds the program of a function of one operand alone."""
    from MNN.expr.fused.loops import loop_of

    wiring: tuple[Wiring, ...] = ((function, -1),)
    loop = loop_of(wiring, (0,))
    loop.compile(("1",))
    learn(wiring, loop, ("1",))


def learn(wiring: Sequence[Wiring], loop: ElementLoop, classes: tuple[str, ...] | None) -> None:
    """Adds a program, where its loop has been compiled."""
    if classes is None or (kernel := loop.compiled(classes)) is None:
        return
    known = (*wiring, classes)
    if known in _known or (words := key_of(wiring, classes)) is None:
        return
    with _lock:
        if known in _known or len(_known) >= _FULL:
            return
        _known.add(known)
        last = wiring[-1][0]
        assert isinstance(last, Function)
        key = np.array([len(words), KINDS[last.kind], *words], np.int64)
        _kept.extend((key, *(step[0] for step in wiring)))
        found = hashed(words)
        place = found & PLACES
        while TABLE[place * FIELDS]:
            place = (place + 1) & PLACES
        row = TABLE[place * FIELDS : (place + 1) * FIELDS]
        row[1:] = key.ctypes.data, kernel.address, min(MOST, kernel.shared_from - 1)
        row[0] = np.uint64(found).astype(np.int64)  # from now on it is found


def forget() -> None:
    """Empties the table."""
    with _lock:
        TABLE[:] = 0
        _known.clear()


__all__ = [
    "ARRAY",
    "FIELDS",
    "MIX",
    "MOST",
    "PLACES",
    "SINGLE",
    "TABLE",
    "computed",
    "forget",
    "learn",
    "prepare",
    "ready",
    "run",
    "told",
]
