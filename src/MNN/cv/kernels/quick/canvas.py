"""What is drawn into, and with which colour, read by typed functions: the slots that all kernels which draw begin with
(:data:`MNN.backends.cpu.image.pixels.CANVAS`)."""

from __future__ import annotations

from MNN.backends.cpu.image.pixels import repeated
from MNN.backends.cpu.image.strokes import StrokeSpec
from MNN.backends.cpu.typed.language import NULL, Bytes, Doubles, Singles, Words, address, doubles, numbered, typed
from MNN.cv.kernels.quick.known import Common, Kernel
from MNN.cv.kernels.quick.reading import real_of
from MNN.expr.arrays.native.objects import ALIGNED, DENSE, WRITEABLE, Array, Object

S = numbered(StrokeSpec.of(1).slots())
"""Slots of kernels that draw lines; those of a canvas are the first of any kernel that draws."""
CHANNELS = 4
INKS = 512
"""Bytes of a colour that is repeated."""
_FEW, _FEWER = repeated(1), repeated(16)
_WHOLE = 6755399441055744.0
"""1.5 * 2^52: a number added to it is rounded to the nearest whole one, ties to even."""


@typed
def colour_of(c: Common, x: Object, to: Doubles) -> bool:
    """A colour of at most four numbers, the rest of them 0; whether it is one."""
    for i in range(CHANNELS):
        to[i] = 0.0
    if x.type is not c.tuple_:
        return real_of(c, x, to)
    count = c.tuple_size(x)
    if not 1 <= count <= CHANNELS:
        return False
    for i in range(count):  # noqa: SIM110  there are no generators here
        if not real_of(c, c.tuple_item(x, i), to.after(i)):
            return False
    return True


@typed
def ink(colour: Doubles, channels: int, count: int, as_bytes: bool, to: Bytes) -> None:
    """The colour of ``count`` elements, over and over: as bytes, rounded to even and within 0 to 255, or as f32."""
    channel = 0
    for i in range(count):
        level = colour[channel]
        if as_bytes:
            level = 0.0 if level < 0.0 else level
            level = 255.0 if level > 255.0 else level
            to[i] = int(level + _WHOLE - _WHOLE)
        else:
            Singles(to)[i] = level
        channel = 0 if channel + 1 == channels else channel + 1


@typed
def canvas(c: Common, x: Object, x_colour: Object, inks: Bytes, slots: Words) -> int:
    """Fills the slots of a canvas: a dense picture of bytes or f32 of few channels, and a colour, which is written to
    ``inks``. Gives the number of its kind, by element type and channels; -1 where it is another one."""
    if x.type is not c.array:
        return -1
    picture = Array(x)
    as_bytes = picture.element is c.bytes_
    usual = DENSE | ALIGNED | WRITEABLE
    if (not as_bytes and picture.element is not c.singles) or picture.flags & usual != usual:
        return -1
    if not 2 <= picture.rank <= 3:
        return -1
    height, width = picture.extents[0], picture.extents[1]
    channels = picture.extents[2] if picture.rank == 3 else 1
    if not 1 <= channels <= CHANNELS or height * width <= 0:
        return -1
    colour = doubles(CHANNELS)
    if not colour_of(c, x_colour, colour):
        return -1
    pixel = channels if as_bytes else 4 * channels
    ink(colour, channels, channels * (_FEW if pixel <= 4 else _FEWER), as_bytes, inks)
    slots[S.img], slots[S.row] = address(picture.data), width * pixel
    slots[S.width], slots[S.height] = width, height
    slots[S.ink] = address(inks)
    return channels - 1 if as_bytes else CHANNELS + channels - 1


@typed
def paint(c: Common, kernel: Kernel, slots: Words) -> None:
    """Runs a kernel that draws, while other threads of Python may run."""
    state = c.save()
    kernel.run(slots, 0, 1, NULL)
    c.restore(state)


__all__ = ["CHANNELS", "INKS", "S", "canvas", "paint"]
