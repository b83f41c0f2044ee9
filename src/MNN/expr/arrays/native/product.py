"""The entry of products of matrices and vectors, as a typed function."""

from __future__ import annotations

from MNN.backends.cpu.typed.language import NULL, pointers, typed, words
from MNN.expr.arrays.native.elementwise import loop_of, unusual
from MNN.expr.arrays.native.objects import Arguments, Common, Entry, Object, VarObject
from MNN.expr.arrays.native.operands import numbers_now
from MNN.expr.arrays.native.parts import fresh, kind, numbers, width, wrapped


@typed
def product(c: Common, e: Entry, given: Arguments) -> Object:
    x, y = given[0], given[1]
    a = numbers(c, x)
    if not a:
        return unusual(c)
    number = kind(c, a.element)
    if number < 0 or not loop_of(e, number).is_there:
        return unusual(c)
    b = numbers_now(c, y)
    if not b or a.element is not b.element or VarObject(x).layout is not VarObject(y).layout:
        return unusual(c)
    if not 1 <= a.rank <= 2 or not 1 <= b.rank <= 2 or a.rank + b.rank == 2:
        return unusual(c)
    rows, depth = a.extents[0] if a.rank == 2 else 1, a.extents[a.rank - 1]
    columns = b.extents[1] if b.rank == 2 else 1
    if depth != b.extents[0] or not 1 <= rows * columns * depth <= e.most or rows * columns > c.few:
        return unusual(c)
    sizes = words(2)
    sizes[0], sizes[1] = rows if a.rank == 2 else columns, columns
    found = fresh(c, a.element, a.rank + b.rank - 2, sizes)
    if not found:
        return NULL
    places, counts, steps, size = pointers(3), words(4), words(9), width(number)
    places[0], places[1], places[2] = a.data, b.data, found.data
    counts[0], counts[1], counts[2], counts[3] = 1, rows, depth, columns
    steps[0], steps[1], steps[2] = 0, 0, 0
    steps[3], steps[4] = depth * size, size
    steps[5], steps[6] = columns * size, size
    steps[7], steps[8] = columns * size, size
    loop = loop_of(e, number)
    loop.run(places, counts, steps, loop.given)
    return wrapped(c, found, x)


__all__ = ["product"]
