"""What fills polygons or draws their outlines, as typed functions. They are given a picture, a list of polygons, the
number of one of them or -1, a colour, the thickness (below 0: filled) and the kind of line."""

from __future__ import annotations

from MNN.backends.cpu.image.pixels import SHIFT
from MNN.backends.cpu.image.polygons import EDGE, PolygonSpec
from MNN.backends.cpu.image.strokes import Stroke
from MNN.backends.cpu.typed.language import Ints, Words, address, bytes_, numbered, typed, words
from MNN.cv.kernels.quick.canvas import CHANNELS, INKS, S, canvas, paint
from MNN.cv.kernels.quick.drawing import FIRST_KERNEL
from MNN.cv.kernels.quick.known import Common, Entry, Kernel
from MNN.cv.kernels.quick.reading import pairs, whole_of
from MNN.expr.arrays.native.objects import Arguments, Array, Object

KERNELS = 2 * CHANNELS
"""Of lines, by element type and channels; behind them are those that fill."""
_P = numbered(PolygonSpec.of(1).slots())
_SLOTS = max(len(vars(S)), len(vars(_P)))
_SHAPES, _POINTS = 8, 256
"""Polygons at a time, and points of all of them."""
_MEMORY = EDGE * (_POINTS + 1) + 2 * _POINTS
_THICKEST = 32767


@typed
def polygon(c: Common, x: Object, to: Words, at: int) -> int:
    """Appends the points of a dense array (n, 2) or (n, 1, 2) of i32 at number ``at``, in fractions of pixels; how many
    there are, 0 where it is another one or they are too many."""
    count = pairs(c, x)
    if not 1 <= count <= _POINTS - at or Array(x).element is not c.ints:
        return 0
    points = Ints(Array(x).data)
    for i in range(2 * count):
        to[2 * at + i] = points[i] << SHIFT
    return count


@typed
def draw(c: Common, entry: Entry, given: Arguments) -> bool:
    """Whether polygons have been drawn."""
    numbers = words(3)
    if not whole_of(c, given[2], numbers) or not whole_of(c, given[4], numbers.after(1)):
        return False
    if not whole_of(c, given[5], numbers.after(2)):
        return False
    index, thickness, kind = numbers[0], numbers[1], numbers[2]
    listed = given[1]
    if (kind != 8 and kind != 4) or thickness > _THICKEST or listed.type is not c.list_:
        return False
    shapes = c.list_size(listed)
    if not 1 <= shapes <= _SHAPES or index >= shapes:
        return False
    points, counts = words(2 * _POINTS), words(_SHAPES)
    total, made = 0, 0
    for i in range(shapes):  # those that are not drawn are looked at, too
        count = polygon(c, c.list_item(listed, i), points, total)
        if count == 0:
            return False
        if index < 0 or i == index:
            counts[made] = count
            total, made = total + count, made + 1
    slots, inks, memory = words(_SLOTS), bytes_(INKS), words(_MEMORY)
    number = canvas(c, given[0], given[3], inks, slots)
    if number < 0:
        return False
    kernel = Kernel(Words(entry).after(FIRST_KERNEL + number + (KERNELS if thickness < 0 else 0)))
    if not kernel.is_there:
        return False
    if thickness < 0:
        slots[_P.kind], slots[_P.shapes] = kind, made
        slots[_P.counts], slots[_P.points] = address(counts), address(points)
        slots[_P.edges] = address(memory)
        slots[_P.live] = address(memory.after(EDGE * (total + 1)))
    else:
        slots[S.what], slots[S.kind], slots[S.thickness] = Stroke.CLOSED, kind, thickness
        slots[S.shapes], slots[S.count] = made, 0
        slots[S.counts], slots[S.points] = address(counts), address(points)
    paint(c, kernel, slots)
    return True


__all__ = ["KERNELS", "draw"]
