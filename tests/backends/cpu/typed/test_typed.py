"""Typed functions compute what Python itself computes from the same text; what is not part of the language is named."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.typed.language import (
    NULL,
    Bytes,
    Doubles,
    Int32,
    Ints,
    Pointer,
    Pointers,
    Record,
    Singles,
    Words,
    address,
    at,
    doubles,
    numbered,
    pointers,
    shifted,
    typed,
    words,
    written,
)
from MNN.backends.cpu.typed.spec import TypedSpec
from MNN.backends.cpu.typed.unit import is_readable, translated
from MNN.backends.cpu.typed.values import TranslationError

_TYPES: dict[type, Any] = {int: ctypes.c_int64, bool: ctypes.c_bool, float: ctypes.c_double, Pointer: ctypes.c_void_p}
LIMIT, SHARE = 40, -0.375
PLACES = numbered(["first", "second"])


def compiled(function: Callable[..., Any], result: type, *parameters: type, inline: bool = False) -> Callable[..., Any]:
    (place,) = shared_library(True).load([TypedSpec("a test", function, inline)])
    return ctypes.CFUNCTYPE(_TYPES[result], *(_TYPES[p] for p in parameters))(place)


@typed
def squeezed(x: int) -> int:
    return (x << 3) - (x >> 2) ^ x & 0xFF | 5


@typed
def walk(n: int, start: int, wanted: int) -> int:
    """Loops in loops, left early, and branches that give and that do not."""
    total, turn = start, 0
    for i in range(start, n):
        if i == wanted:
            continue
        for k in range(i):
            if k > 5 and k != 7:
                break
            total += squeezed(k) if k != i - 1 or i < 3 else -k
        if total > LIMIT * 1000:
            return total
    while turn < 10:
        turn += 1
        if 2 < turn <= 4 or (turn == 8 and total > 3):
            total -= turn
        elif turn == 5:
            pass
        else:
            total = max(total, min(turn, wanted))
    while True:
        total = total + 3
        if total & 7 == 1 or total > 99:
            return total


@typed
def measured(x: float, n: int, fine: bool) -> float:
    found = SHARE * float(n) + x / 3
    if fine or not 0.0 <= x < 10:
        found = -found - 1
    same = fine == (n > 3)
    return found if same and x != 2.5 else found * 2.0 - float(int(found))


def test_numbers_are_those_of_python() -> None:
    rng = np.random.default_rng(5)
    walked, own = compiled(walk, int, int, int, int), compiled(measured, float, float, int, bool)
    for _ in range(200):
        n, start, wanted = (int(v) for v in rng.integers(-4, 25, 3))
        assert walked(n, start, wanted) == walk(n, start, wanted)
        x, fine = float(rng.choice([rng.normal() * 20, 2.5, 0.0, np.nan])), bool(rng.integers(2))
        if np.isnan(x):
            assert np.isnan(own(x, n, True)) or own(x, n, True) == measured(x, n, True)
        else:
            assert own(x, n, fine) == measured(x, n, fine)


@typed
def moved(numbers: Words, small: Ints, bytes_: Bytes, wide: Doubles, narrow: Singles, count: int) -> int:
    """Every view read and written; what is narrow is cut or rounded."""
    for i in range(count):
        numbers[i], small[i] = small[i], numbers[i]
        bytes_[i] = bytes_[i] + numbers[i] & 255
        narrow[i] = wide[i]
        wide[i] = narrow[i] + float(bytes_[i])
    return numbers[count - 1]


def test_memory_is_what_python_would_write() -> None:
    rng = np.random.default_rng(6)
    kinds = (np.int64, np.int32, np.uint8, np.float64, np.float32)
    own = compiled(moved, int, *[Pointer] * 5, int)
    for n in (1, 2, 17):
        given: list[Any] = [rng.integers(0, 256, n).astype(k) for k in kinds]
        for a, scale in zip(given, (-1, -3, 1, 0.1, 0.3), strict=True):
            a[:] = a * scale
        pairs = list(zip(given[0].copy(), given[1].copy(), strict=True))
        bytes_ = [(int(b) + int(s)) & 255 for b, (_, s) in zip(given[2], pairs, strict=True)]
        narrow = given[3].astype(np.float32)
        assert own(*(a.ctypes.data for a in given), n) == pairs[-1][1]
        assert given[0].tolist() == [s for _, s in pairs]
        assert given[1].tolist() == [w for w, _ in pairs]
        assert given[2].tolist() == bytes_
        assert given[4].tolist() == narrow.tolist()
        assert given[3].tolist() == [float(x) + b for x, b in zip(narrow, bytes_, strict=True)]


class Head(Record):
    count: int
    small: Int32 = at(8)
    twice: Callable[[int], Int32] = at(16)


class Longer(Head):
    factor: float
    inner: Head
    others: Pointers


@typed
def told(record: Longer) -> float:
    """Fields of a record, of one that it points to, and a function whose address it holds."""
    if record.inner is NULL or not record.others:
        return -1.0
    room, more = words(2), doubles(3)
    room[PLACES.first], room[PLACES.second] = record.small, record.inner.count
    record.inner.count = room.after(1)[0] + record.twice(record.small)
    more.after(2)[0] = record.factor
    record.small = record.small - 1
    same = address(Words(record.others[1]).after(1)) == address(Pointer(record.inner).after(8))
    return more[2] + float(room[PLACES.first]) + float(int(same))


def test_records() -> None:
    twice = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(lambda n: -2 * n)
    at_twice = ctypes.cast(twice, ctypes.c_void_p).value or 0
    inner = np.array([40, 0, 0], np.int64)
    others = np.array([0, inner.ctypes.data], np.int64)
    record = np.zeros(6, np.int64)
    own = compiled(told, float, Pointer)
    record[:3] = [7, 0xDEAD << 32 | 0xFFFFFFFB, at_twice]  # a small number of -5, and what is behind it
    record.view(np.float64)[3] = 0.5
    assert own(record.ctypes.data) == -1.0
    record[4:] = inner.ctypes.data, others.ctypes.data
    assert own(record.ctypes.data) == 0.5 - 5 + 1
    assert inner[0] == 50
    assert record[1] == 0xDEAD << 32 | 0xFFFFFFFA


class Halving(Record):
    half: Callable[[Int32], int]


@written("""
  %three = mul i64 %x, 3
  %found = add i64 %three, %y
  ret i64 %found
""")
def tripled(x: int, y: int) -> int:
    return 3 * x + y


@typed
def ways(n: int) -> int:
    """In how many ways one climbs stairs: it calls itself, twice."""
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)


@typed
def climbed(record: Halving, n: int, mark: int) -> int:
    room, places = words(n + 1), pointers(2)
    for i in range(n):
        room[i] = tripled(ways(i), record.half(i - 3))
    places[0], places[1] = room.after(n - 1), room
    return Words(places[0])[0] + Words(places[1])[0] * 1000 + shifted(mark, 60)


@pytest.mark.parametrize("inline", [False, True])
def test_calls(inline: bool) -> None:
    half = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32)(lambda n: n // 2)
    record = np.array([ctypes.cast(half, ctypes.c_void_p).value or 0], np.int64)
    own = compiled(climbed, int, Pointer, int, int, inline=inline)
    for n in (1, 2, 11):
        first, last = tripled(1, -3 // 2), tripled(ways(n - 1), (n - 4) // 2)
        assert own(record.ctypes.data, n, -1) == last + 1000 * first + 15


@typed
def no_kind(x: int) -> float:
    return x


@typed
def no_end(x: int) -> int:  # type: ignore[return]
    if x > 3:
        return 1


@typed
def no_part(x: int) -> int:
    return [x][0]


@typed
def no_name(x: int) -> int:
    return x + unknown  # type: ignore[name-defined,no-any-return]  # noqa: F821


@typed
def no_function(x: int) -> int:
    return len(str(x))


@typed
def no_field(x: Head) -> int:
    return x.nothing  # type: ignore[attr-defined,no-any-return]


@typed
def no_same(x: int) -> int:
    if x > 3:
        y = 1.5
    y = x
    return int(y)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_kind, "this is int, not float: x"), (no_end, "may end without a result"),
        (no_part, "not part of the language: [x]"),
        (no_name, "no variable, number or address: unknown"), (no_function, "no typed function: len(str(x))"),
        (no_field, "Head has no such field: x.nothing"), (no_same, "this is int, not float"),
    ],
)  # fmt: skip
def test_what_is_no_typed_python_is_named(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(TranslationError) as error:
        translated(function)
    assert said in str(error.value)
    assert function.__name__ in str(error.value)


def test_functions_without_a_source_are_told() -> None:
    names: dict[str, Any] = {"typed": typed}
    exec(compile("@typed\ndef gone(x: int) -> int:\n    return x\n", "gone.py", "exec"), names)
    assert is_readable(walk)
    assert not is_readable(names["gone"])
    with pytest.raises(TranslationError, match="gone: its source is not there"):
        translated(names["gone"])
