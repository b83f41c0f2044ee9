"""Pixels and rows of pixels in one colour, and lines of single pixels: what all drawing ends in."""

from __future__ import annotations

from MNN.backends.cpu.image.lines import move
from MNN.backends.cpu.lang.module import F64, I1, I8, I64, PTR, Builder, Kernel, Module, Value
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.lang.variables import Function, Record, Variable

SHIFT = 16
ONE, HALF = 1 << SHIFT, 1 << (SHIFT - 1)
CANVAS = ("img", "row", "width", "height", "ink")
"""Slots of what draws: a picture, bytes from one row to the next, its size, and a colour (:func:`repeated`)."""
MOST = 64
"""Bytes of a pixel that kernels are made for."""
FOUR = 4


def repeated(size: int) -> int:
    """How often ``ink`` holds a pixel of ``size`` bytes: rows are filled by so many at once."""
    return 32 if size <= 4 else 8 if size <= 16 else 1


class Pen:
    """Draws into the picture of a kernel whose slots begin with :data:`CANVAS`; pixels have ``size`` bytes."""

    def __init__(self, kernel: Kernel, size: int) -> None:
        self.size = size
        self.clip = _clip(kernel.module)
        self.span = self._span(kernel)
        self.thin = self._thin(kernel)

    def put(self, k: Kernel, place: Value) -> None:
        """Colours the pixel at an address."""
        move(k.b, self.size, k.pointer("ink"), place)

    def at(self, k: Kernel, x: Value, y: Value) -> Value:
        """The address of a pixel."""
        return k.b.gep(k.pointer("img"), I8, y * k.slot("row") + x * self.size)

    def dot(self, k: Kernel, x: Value, y: Value) -> None:
        """Colours a pixel, if it is there."""
        b = k.b
        there = b.and_(b.icmp("ult", x, k.slot("width")), b.icmp("ult", y, k.slot("height")))
        b.if_(there, lambda: self.put(k, self.at(k, x, y)))

    def _span(self, kernel: Kernel) -> Function:
        """Colours the pixels of row ``y`` from ``first`` to ``last``, as far as they are there."""
        f = Function(kernel, "span", [(I64, "y"), (I64, "first"), (I64, "last")])
        b, width, size = f.b, f.slot("width"), self.size
        y, first, last = f.params
        first = b.select(b.icmp("slt", first, 0), b.const(I64, 0), first)
        count = minimum(f, last, width - 1) - first + 1
        place, ink = self.at(f, first, y), f.pointer("ink")

        def chunks(pixels: int) -> None:  # the last one may lie over the one before
            rest, piece = count - pixels, next(n for n in (32, 16, 8, 1) if pixels * size % n == 0)
            places = range(0, pixels * size, piece)
            colours = [b.load(I8.vec(piece), b.gep(ink, I8, at), 1) for at in places]

            def put(x: Value) -> None:
                for at, colour in zip(places, colours, strict=True):
                    b.store(colour, b.gep(place, I8, x * size + at), 1)

            with b.loop(0, rest, pixels) as each:
                put(each.index)
            put(rest)

        def single() -> None:
            with b.loop(0, count, guard=False) as each:
                self.put(f, b.gep(place, I8, each.index * size))

        def fill() -> None:
            most = repeated(size)
            least = min(most, 8)

            def few() -> None:
                b.choose(b.icmp("slt", count, least), single, lambda: chunks(least))

            b.choose(b.icmp("slt", count, most), few, lambda: chunks(most))

        b.if_(b.and_(b.icmp("ult", y, f.slot("height")), b.icmp("sgt", count, 0)), fill)
        b.ret()
        return f

    def _thin(self, kernel: Kernel) -> Function:
        """A line of whole pixels (Bresenham, 1965), whose neighbours touch at sides (``kind`` 4) or corners too."""
        f = Function(kernel, "thin", [(I64, "x"), (I64, "y"), (I64, "u"), (I64, "v"), (I64, "kind")])
        b, size = f.b, self.size
        ends = Record(b, *f.params[:4])

        def draw() -> None:
            x, y, u, v = (ends.get(i) for i in range(4))
            back = b.icmp("slt", u, x)
            x, u = b.select(back, u, x), b.select(back, x, u)
            y, v = b.select(back, v, y), b.select(back, y, v)
            b.choose(b.icmp("eq", y, v), lambda: self.span.call(f, y, x, u), lambda: slanted(x, y, u, v))

        def slanted(x: Value, y: Value, u: Value, v: Value) -> None:
            wide, up = u - x, b.icmp("slt", v, y)
            high = b.select(up, y - v, v - y)
            row, column = b.select(up, 0 - f.slot("row"), f.slot("row")), b.const(I64, size)
            steep = b.icmp("sgt", high, wide)
            major, minor = b.select(steep, high, wide), b.select(steep, wide, high)
            along, across = b.select(steep, row, column), b.select(steep, column, row)
            place, first = self.at(f, x, y), major - minor * 2

            def sides() -> None:
                with b.loop(0, major + minor + 1, carry=(place, b.const(I64, 0)), guard=False) as each:
                    here, error = each.carried
                    self.put(f, here)
                    turn = b.icmp("slt", error, 0)
                    each.next(b.gep(here, I8, b.select(turn, across, along)),
                              error + b.select(turn, major * 2, minor * -2))  # fmt: skip

            def corners() -> None:
                with b.loop(0, major + 1, carry=(place, first), guard=False) as each:
                    here, error = each.carried
                    self.put(f, here)
                    turn = b.icmp("slt", error, 0)
                    each.next(b.gep(here, I8, along + b.select(turn, across, b.const(I64, 0))),
                              error - minor * 2 + b.select(turn, major * 2, b.const(I64, 0)))  # fmt: skip

            b.choose(b.icmp("eq", f.params[4], FOUR), sides, corners)

        b.if_(self.clip(b, ends.place, f.slot("width"), f.slot("height")), draw)
        b.ret()
        return f


class Clip:
    """Cuts a line to a rectangle (Cohen and Sutherland)."""

    name = "clip"

    def __call__(self, b: Builder, ends: Value, width: Value, height: Value) -> Value:
        """Whether anything of a line is in there. ``ends`` (x, y, x, y) become those of the part that is; where none
        is, as far as cutting went."""
        return b.call(I1, self.name, ends, width, height)


def _clip(module: Module) -> Clip:
    b = module.function(Clip.name, [(PTR, "ends"), (I64, "width"), (I64, "height")], I1)
    ends, width, height = b.params
    right, bottom = width - 1, height - 1

    def get(index: int) -> Value:
        return b.load(I64, b.gep(ends, I64, index), check=False)

    def put(index: int, value: Value) -> None:
        b.store(value, b.gep(ends, I64, index), check=False)

    def beyond(low: Value, high: Value, edge: Value) -> Value:
        """Whether both are on the same side of 0 to ``edge``."""
        before = b.and_(b.icmp("slt", low, 0), b.icmp("slt", high, 0))
        return b.or_(before, b.and_(b.icmp("sgt", low, edge), b.icmp("sgt", high, edge)))

    def cut(end: int, axis: int, edge: Value) -> None:
        """Moves an end along the line until it is within 0 to ``edge`` on an axis."""
        at = get(2 * end + axis)

        def move_end() -> None:
            to = b.select(b.icmp("slt", at, 0), b.const(I64, 0), edge)
            away, other = get(2 - 2 * end + axis), get(2 * end + 1 - axis)
            across = get(2 - 2 * end + 1 - axis) - other
            steps, rise, run = (b.convert("sitofp", n, F64) for n in (to - at, across, away - at))
            put(2 * end + 1 - axis, other + b.convert("fptosi", b.fdiv(b.mul(steps, rise), run), I64))
            put(2 * end + axis, to)

        b.if_(b.or_(b.icmp("slt", at, 0), b.icmp("sgt", at, edge)), move_end)

    def columns() -> None:
        cut(0, 0, right)
        cut(1, 0, right)

    def rows() -> None:
        cut(0, 1, bottom)
        cut(1, 1, bottom)
        out = beyond(get(0), get(2), right)
        seen.set(b.not_(out))
        b.if_(b.not_(out), columns)

    seen = Variable(b, b.const(I1, 0), I1)
    out = b.or_(beyond(get(0), get(2), right), beyond(get(1), get(3), bottom))
    b.if_(b.not_(out), rows)
    b.ret(seen.get())
    return Clip()


__all__ = ["CANVAS", "FOUR", "HALF", "MOST", "ONE", "SHIFT", "Pen", "repeated"]
