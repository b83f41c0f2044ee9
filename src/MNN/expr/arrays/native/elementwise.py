"""Entries of functions of numbers one by one: typed functions that call numpy's inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from MNN.backends.cpu.typed.language import (
    NULL,
    Bytes,
    Ints,
    Pointers,
    Singles,
    Words,
    bytes_,
    pointers,
    singles,
    typed,
    words,
    written,
)
from MNN.expr.arrays.native.making import later_each, later_pair
from MNN.expr.arrays.native.objects import F32, I32, LOOPS, Arguments, Array, Common, Entry, Loop, Object, VarObject
from MNN.expr.arrays.native.parts import alike, count, fresh, kind, numbers, plain, type_of, width, wrapped

Work = Callable[[Common, Entry, Arguments], Object]
"""What an entry does: its result, NULL with an exception, or :func:`unusual`."""
_PIECE = 2048
"""Comparisons at a time, whose results numpy gives as bytes."""


@typed
def unusual(c: Common) -> Object:
    """Stands for what is left to Python."""
    return Object(c)


@typed
def at_once(c: Common) -> bool:
    """Whether Vars of constants are computed at once."""
    return c.lazy[0] == 0


def entry(work: Work, operands: int) -> Callable[..., Any]:
    """An entry of so many operands as CPython calls it (``METH_FASTCALL``); Python does what is unusual."""

    @typed
    def kernel(self: Array, given: Arguments, number: int) -> Object:
        e = Entry(self.data)
        c = e.common
        if number == operands and at_once(c):
            found = work(c, e, given)
            if found is not unusual(c):
                return found
        return c.call(e.usual, given, number, NULL)

    return kernel


@typed
def loop_of(e: Entry, number: int) -> Loop:
    """The inner loop for an element type."""
    return Loop(Words(e).after(LOOPS + 2 * number))


@typed
def each(c: Common, e: Entry, given: Arguments) -> Object:
    """A function of one array."""
    x = given[0]
    later = later_each(c, e, x)
    if later:
        return later
    a = numbers(c, x)
    if not a:
        return unusual(c)
    number, total = kind(c, a.element), count(a)
    if number < 0 or not loop_of(e, number).is_there or not 1 <= total <= e.most:
        return unusual(c)
    found = fresh(c, a.element, a.rank, a.extents)
    if not found:
        return NULL
    places, steps, counts = pointers(2), words(2), words(1)
    places[0], places[1] = a.data, found.data
    steps[0], steps[1] = width(number), width(number)
    counts[0] = total
    loop = loop_of(e, number)
    loop.run(places, counts, steps, loop.given)
    return wrapped(c, found, x)


UNLIKE, DENSE_PAIR, SPREAD = range(3)
"""What two operands are: left to Python; of the same sizes, or the second a plain number; of other sizes."""


@typed
def paired(c: Common, e: Entry, x: Object, y: Object, room: Singles, places: Pointers, steps: Words) -> int:
    """What two operands are, and where the loop for them finds their numbers and how far these are apart, if they have
    the same sizes. A plain number lies in ``room``."""
    a = numbers(c, x)
    if not a:
        return UNLIKE
    number, total = kind(c, a.element), count(a)
    if number < 0 or not loop_of(e, number).is_there or not 1 <= total <= e.most:
        return UNLIKE
    b = numbers(c, y)
    if not b:
        if number != F32 or not plain(c, y, room):
            return UNLIKE
        first = 1 if e.turned != 0 else 0
        places[first], places[1 - first] = a.data, room
        steps[first], steps[1 - first] = width(number), 0
        return DENSE_PAIR
    if a.element is not b.element or VarObject(x).layout is not VarObject(y).layout or e.turned != 0:
        return UNLIKE
    if not alike(a, b, 0):
        return SPREAD
    places[0], places[1] = a.data, b.data
    steps[0], steps[1] = width(number), width(number)
    return DENSE_PAIR


@written("""
  %wide = and i64 %count, -16
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %i1, %body ]
  %go = icmp slt i64 %i, %wide
  br i1 %go, label %body, label %rest
body:
  %p = getelementptr i8, ptr %truths, i64 %i
  %t = load <16 x i8>, ptr %p, align 1
  %t32 = zext <16 x i8> %t to <16 x i32>
  %q = getelementptr i32, ptr %to, i64 %i
  store <16 x i32> %t32, ptr %q, align 4
  %i1 = add i64 %i, 16
  br label %head
rest:
  %j = phi i64 [ %wide, %head ], [ %j1, %one ]
  %left = icmp slt i64 %j, %count
  br i1 %left, label %one, label %out
one:
  %pj = getelementptr i8, ptr %truths, i64 %j
  %tj = load i8, ptr %pj, align 1
  %tj32 = zext i8 %tj to i32
  %qj = getelementptr i32, ptr %to, i64 %j
  store i32 %tj32, ptr %qj, align 4
  %j1 = add i64 %j, 1
  br label %rest
out:
  ret void
""")
def widened(truths: Bytes, count: int, to: Ints) -> None:
    """Bytes as numbers of 32 bits."""


@typed
def comparing(c: Common, e: Entry, given: Arguments) -> Object:
    """A comparison of two arrays, or of one with a plain number."""
    x, y = given[0], given[1]
    later = later_pair(c, e, x, y)
    if later:
        return later
    ends, room, steps = pointers(2), singles(1), words(3)
    if paired(c, e, x, y, room, ends, steps) != DENSE_PAIR:
        return unusual(c)
    a = numbers(c, x)
    found = fresh(c, type_of(c, I32), a.rank, a.extents)
    if not found:
        return NULL
    loop, total, begun = loop_of(e, kind(c, a.element)), count(a), 0
    truths, places, counts = bytes_(_PIECE), pointers(3), words(1)
    steps[2] = 1
    while begun < total:
        counts[0] = min(total - begun, _PIECE)
        places[0] = ends[0].after(begun * steps[0])
        places[1] = ends[1].after(begun * steps[1])
        places[2] = truths
        loop.run(places, counts, steps, loop.given)
        widened(truths, counts[0], Ints(found.data).after(begun))
        begun += counts[0]
    return wrapped(c, found, x)


@typed
def clipped(c: Common, e: Entry, given: Arguments) -> Object:
    """The numbers of an array of f32 between two plain ones."""
    x, room = given[0], singles(2)
    a = numbers(c, x)
    if not a or kind(c, a.element) != F32 or not loop_of(e, F32).is_there:
        return unusual(c)
    if not plain(c, given[1], room) or not plain(c, given[2], room.after(1)) or not 1 <= count(a) <= e.most:
        return unusual(c)
    found = fresh(c, a.element, a.rank, a.extents)
    if not found:
        return NULL
    places, steps, counts = pointers(4), words(4), words(1)
    places[0], places[1], places[2], places[3] = a.data, room, room.after(1), found.data
    steps[0], steps[1], steps[2], steps[3] = width(F32), 0, 0, width(F32)
    counts[0] = count(a)
    loop = loop_of(e, F32)
    loop.run(places, counts, steps, loop.given)
    return wrapped(c, found, x)


__all__ = [
    "DENSE_PAIR", "SPREAD", "Work", "clipped", "comparing", "each", "entry", "loop_of", "paired", "unusual",
]  # fmt: skip
