"""What draws lines, rectangles and circles, as typed functions. They are given a picture, a point, another one or a
radius, a colour, the thickness, the kind of line and the shift."""

from __future__ import annotations

from MNN.backends.cpu.image.pixels import SHIFT
from MNN.backends.cpu.image.strokes import Stroke
from MNN.backends.cpu.typed.language import Words, bytes_, typed, words
from MNN.cv.kernels.quick.canvas import INKS, S, canvas, paint
from MNN.cv.kernels.quick.known import Common, Entry, Kernel
from MNN.cv.kernels.quick.reading import point_of, whole_of
from MNN.expr.arrays.native.objects import Arguments

LINE, RECTANGLE, CIRCLE = range(3)
_THICKEST = 32767
_SLOTS = len(vars(S))


class Drawer(Entry):
    """What is drawn; behind it are the addresses of kernels, by element type and channels."""

    shape: int


FIRST_KERNEL = 2
"""Words before these."""


@typed
def draw(c: Common, entry: Entry, given: Arguments) -> bool:
    """Whether a shape has been drawn."""
    shape = Drawer(entry).shape
    a, b, numbers = words(2), words(2), words(3)
    if not point_of(c, given[1], a):
        return False
    if shape == CIRCLE:
        b[1] = 0
        if not whole_of(c, given[2], b) or b[0] < 0:
            return False
    elif not point_of(c, given[2], b):
        return False
    for i in range(3):
        if not whole_of(c, given[4 + i], numbers.after(i)):
            return False
    thickness, kind, shift = numbers[0], numbers[1], numbers[2]
    if shift != 0 or (kind != 8 and (kind != 4 or shape == CIRCLE)):
        return False
    if thickness > (1 if shape == CIRCLE else _THICKEST) or (shape == LINE and thickness < 1):
        return False
    slots, inks = words(_SLOTS), bytes_(INKS)
    number = canvas(c, given[0], given[3], inks, slots)
    if number < 0:
        return False
    kernel = Kernel(Words(entry).after(FIRST_KERNEL + number))
    if not kernel.is_there:
        return False
    if shape == LINE:
        slots[S.what] = Stroke.OPEN
    elif shape == RECTANGLE:
        slots[S.what] = Stroke.WHOLE if thickness < 0 else Stroke.CLOSED
    else:
        slots[S.what] = Stroke.DISC if thickness < 0 else Stroke.CIRCLE
    slots[S.kind], slots[S.thickness] = kind, thickness
    slots[S.shapes], slots[S.counts], slots[S.points] = 1, 0, 0
    slots[S.count] = 4 if shape == RECTANGLE else 2
    by = 0 if shape == CIRCLE else SHIFT
    x, y, u, v = a[0] << by, a[1] << by, b[0] << by, b[1] << by
    slots[S.x0], slots[S.y0] = x, y
    slots[S.x1], slots[S.y1] = u, y if shape == RECTANGLE else v
    slots[S.x2], slots[S.y2] = u, v
    slots[S.x3], slots[S.y3] = x, v
    paint(c, kernel, slots)
    return True


__all__ = ["CIRCLE", "FIRST_KERNEL", "LINE", "RECTANGLE", "draw"]
