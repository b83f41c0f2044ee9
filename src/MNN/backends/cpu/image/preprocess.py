"""Pictures as the inputs of a model, in one pass: sampled under a matrix, converted, scaled and stored by channels."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.color import put_pixels
from MNN.backends.cpu.image.lines import move_many
from MNN.backends.cpu.image.places import LANES, PlaceCode, Places, each_row
from MNN.backends.cpu.image.sample import Interpolation
from MNN.backends.cpu.lang.element import make_tail, storage_type, store
from MNN.backends.cpu.lang.module import F32, F64, I8, I32, I64, Kernel, Value, int_type
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.math.rounding import to_nearest
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

OPAQUE, NOTHING, LUMINANCE = -1, -2, -3
"""In place of a channel of the source: 255, 0, and the luminance of red, green and blue."""
_OFFSETS, _PIXELS = 4 * LANES, 8 * LANES
"""Where, in scratch, the places in memory of some pixels lie, and pixels of the result."""
_A = -0.5
"""Of Keys' cubic convolution (1981): exact for parabolas."""
_LUMINANCE, _SHIFT = (19, 38, 7), 6
"""Of red, green and blue, in 64ths."""
_FROM_V, _FROM_U = (73, -37, 0), (0, -25, 130)
"""What adds to luminance for red, green and blue, in 64ths."""


class Chroma(enum.Enum):
    """Where the colours are of a picture with a plane of luminance and colours at half the size."""

    NONE = "none"
    """It has red, green, blue beside each other, or one channel."""
    UV = "uv"
    """In pairs u, v (NV12)."""
    VU = "vu"
    """In pairs v, u (NV21)."""
    PLANES = "planes"
    """In a plane of u and another one of v (I420)."""


class Wrap(enum.Enum):
    """What lies outside of a picture: its edge, one number, or the picture again."""

    EDGE = "edge"
    NUMBER = "number"
    REPEAT = "repeat"


@dataclass(frozen=True)
class PreprocessSpec(KernelSpec):
    """``out[y, x]`` = (the source at (m0 x + m1 y + m2, m3 x + m4 y + m5), rounded - mean) * normal, in ``dtype`` (f32;
    u8: the source as it is). Its channels are those of the source in ``order``, with what :data:`OPAQUE` and its like
    stand for. ``rgb``: which channels of the source are red, green and blue. Of a source with ``chroma``, the nearest
    pixels are taken, and these are 0, 1 and 2.

    ``planar``: each channel of the result is a plane, ``out_channel`` elements from one to the next; else they are
    beside each other.

    Slots: ``src``, ``src_row`` (bytes; less than 2^31 in all), ``src_width``, ``src_height``, ``last`` (the place of
    the last four bytes), ``chroma``, ``chroma_v``, ``chroma_row`` (0 without), ``out``, ``out_row``, ``out_channel``,
    ``width``, ``height``, ``band`` (rows of a block), ``number`` (outside, 0 to 255), ``mean``, ``normal`` (f32 for
    each channel of the result), ``m0`` to ``m5`` (bits of f64).
    """

    shaped: ClassVar[bool] = True

    pixel: int
    """Bytes of a pixel of the source: 1, 3 or 4."""
    chroma: Chroma
    how: Interpolation
    wrap: Wrap
    order: tuple[int, ...]
    rgb: tuple[int, int, int]
    dtype: DType
    planar: bool

    def slots(self) -> tuple[str, ...]:
        sizes = ("src", "src_row", "src_width", "src_height", "last", "chroma", "chroma_v", "chroma_row")
        results = ("out", "out_row", "out_channel", "width", "height", "band", "number", "mean", "normal")
        return (*sizes, *results, *PlaceCode.slots(Places.AFFINE))

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        return _PIXELS + LANES * 4 * 4

    def emit(self, target: Target) -> str:
        return _Code(self, target).text()


class _Code:
    def __init__(self, spec: PreprocessSpec, target: Target) -> None:
        self.spec = spec
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.element = storage_type(spec.dtype)
        self.where = PlaceCode(self.k, Places.AFFINE, True)

    def text(self) -> str:
        k, b, slot = self.k, self.b, self.k.slot
        with each_row(k) as (row, _, _):
            self.where.row(row)
            self.out = b.gep(k.pointer("out"), self.element, row * slot("out_row"))
            with b.loop(0, slot("width"), LANES) as each:
                self._several(each.index, row)
        return k.finish()

    def _several(self, x: Value, y: Value) -> None:
        """The next pixels of a row."""
        b, spec = self.b, self.spec
        count = minimum(self.k, self.k.slot("width") - x, b.const(I64, LANES))
        u, v = (b.convert("fptrunc", self.where.bounded(p), F32.vec(LANES)) for _, p in self.where.around(x, y, count))
        ends = [b.sub(b.convert("trunc", self.k.slot(name), I32), 1) for name in ("src_width", "src_height")]
        lasts = [b.splat(b.convert("sitofp", end, F32), LANES) for end in ends]
        outside = None
        if spec.wrap is Wrap.NUMBER:
            across, down = (
                b.or_(b.fcmp("olt", p, 0.0), b.fcmp("ogt", p, e)) for p, e in zip((u, v), lasts, strict=True)
            )
            outside = b.or_(across, down)
        if spec.wrap is Wrap.REPEAT:
            u, v = (self._repeated(p, name) for p, name in ((u, "src_width"), (v, "src_height")))
        u, v = (self._limited(p, last) for p, last in zip((u, v), lasts, strict=True))
        if spec.chroma is not Chroma.NONE:
            channels = self._with_chroma(u, v, outside)
        else:
            channels = [self._unless(outside, c) for c in self._sampled(u, v, ends)]
        self._put(x, count, [self._channel(c, channels) for c in spec.order])

    def _repeated(self, p: Value, size: str) -> Value:
        b = self.b
        count = b.splat(b.convert("sitofp", self.k.slot(size), F64), LANES)
        wide = b.convert("fpext", p, F64.vec(LANES))
        within = b.sub(wide, b.mul(b.intrinsic("floor", b.fdiv(wide, count)), count))
        return b.convert("fptrunc", within, F32.vec(LANES))

    def _limited(self, p: Value, last: Value) -> Value:
        b = self.b
        p = b.select(b.fcmp("ogt", p, 0.0), p, 0.0)
        return b.select(b.fcmp("olt", p, last), p, last)

    def _unless(self, outside: Value | None, channel: Value, number: Value | None = None) -> Value:
        if outside is None:
            return channel
        b = self.b
        number = b.convert("trunc", self.k.slot("number"), I32) if number is None else number
        return b.select(outside, b.splat(number, LANES), channel)

    # -- from the source ----------------------------------------------------------------------------------------------

    def _nearest(self, p: Value) -> Value:
        """The whole number nearest to a place, the upper one of two."""
        b = self.b
        base = b.intrinsic("floor", p)
        up = b.convert("zext", b.fcmp("oge", b.sub(p, base), 0.5), I32.vec(LANES))
        return b.add(b.convert("fptosi", base, I32.vec(LANES)), up)

    def _sampled(self, u: Value, v: Value, ends: list[Value]) -> list[Value]:
        """The channels of the source between its pixels, as i32."""
        b, spec = self.b, self.spec
        count = spec.pixel
        if spec.how is Interpolation.NEAREST:
            words = self._words(self._nearest(u), self._nearest(v))
            return [self._byte(words, c) for c in range(count)]
        places: list[list[Value]] = []
        weights: list[list[Value]] = []
        for p, end in zip((u, v), ends, strict=True):
            base = b.intrinsic("floor", p)
            rest = b.sub(p, base)
            first = b.convert("fptosi", base, I32.vec(LANES))
            reach = range(2) if spec.how is Interpolation.LINEAR else range(-1, 3)
            last = b.splat(end, LANES)
            near = [b.add(first, i) if i else first for i in reach]
            near = [
                b.intrinsic("smax", n, b.const(n.type, 0)) if i < 0 else n for i, n in zip(reach, near, strict=True)
            ]
            places.append([b.intrinsic("smin", n, last) if i > 0 else n for i, n in zip(reach, near, strict=True)])
            weights.append(self._weights(rest))
        totals: list[Value | None] = [None] * count
        for place, down in zip(places[1], weights[1], strict=True):
            rows: list[Value | None] = [None] * count
            for column, across in zip(places[0], weights[0], strict=True):
                words = self._words(column, place)
                for c in range(count):
                    level = b.convert("sitofp", self._byte(words, c), F32.vec(LANES))
                    rows[c] = self._added(rows[c], level, across)
            for c, row in enumerate(rows):
                assert row is not None
                totals[c] = self._added(totals[c], row, down)
        return [self._level(t) for t in totals if t is not None]

    def _added(self, total: Value | None, x: Value, weight: Value) -> Value:
        return self.b.mul(x, weight) if total is None else self.b.fma(x, weight, total)

    def _weights(self, rest: Value) -> list[Value]:
        b = self.b
        other = b.sub(b.const(rest.type, 1.0), rest)
        if self.spec.how is Interpolation.LINEAR:
            return [other, rest]

        def near(d: Value) -> Value:
            return b.add(b.mul(b.mul(b.sub(b.mul(d, _A + 2), _A + 3), d), d), 1.0)

        def far(d: Value) -> Value:
            d = b.add(d, 1.0)
            return b.sub(b.mul(b.add(b.mul(b.sub(b.mul(d, _A), 5 * _A), d), 8 * _A), d), 4 * _A)

        return [far(rest), near(rest), near(other), far(other)]

    def _level(self, x: Value) -> Value:
        b = self.b
        if self.spec.how is Interpolation.CUBIC:
            x = self._limited(x, b.const(x.type, 255.0))
        return to_nearest(b, x)

    def _words(self, column: Value, row: Value) -> Value:
        """Pixels of the source, in the low bytes of i32."""
        b, pixel = self.b, self.spec.pixel
        step = b.splat(b.convert("trunc", self.k.slot("src_row"), I32), LANES)
        places = b.add(b.mul(row, step), b.mul(column, pixel))
        if pixel != 3:
            return self._loaded("src", places, pixel)
        last = b.splat(b.convert("trunc", self.k.slot("last"), I32), LANES)  # of the last pixel, three bytes are there
        start = b.intrinsic("smin", places, last)
        return b.lshr(self._loaded("src", start, 4), b.mul(b.sub(places, start), 8))

    def _loaded(self, name: str, places: Value, size: int) -> Value:
        """``size`` bytes from each of the ``places`` on, as i32: one by one, which is faster than gathers."""
        b, t = self.b, int_type(8 * size)
        table = b.gep(self.k.scratch, I8, _OFFSETS)
        b.store(places, table)
        found = b.poison(t.vec(LANES))
        for lane in range(LANES):
            at = b.gep(self.k.pointer(name), I8, b.entry(table, lane))
            found = b.insert(found, b.load(t, at, 1), lane)
        return b.convert("zext", found, I32.vec(LANES))

    def _byte(self, words: Value, number: int) -> Value:
        if self.spec.pixel == 1:
            return words
        b = self.b
        return b.and_(b.lshr(words, 8 * number) if number else words, 255)

    def _with_chroma(self, u: Value, v: Value, outside: Value | None) -> list[Value]:
        """Red, green and blue, or luminance if only that is asked for."""
        b, spec = self.b, self.spec
        column, row = self._nearest(u), self._nearest(v)
        luma = self._unless(outside, self._words(column, row))
        if set(spec.order) <= {LUMINANCE, OPAQUE, NOTHING}:
            return [luma] * 3
        step = b.splat(b.convert("trunc", self.k.slot("chroma_row"), I32), LANES)
        half = b.lshr(column, 1)
        places = b.add(b.mul(b.lshr(row, 1), step), half if spec.chroma is Chroma.PLANES else b.shl(half, 1))
        if spec.chroma is Chroma.PLANES:
            pair = [self._loaded(name, places, 1) for name in ("chroma", "chroma_v")]
        else:
            words = self._loaded("chroma", places, 2)
            pair = [b.and_(words, 255), b.lshr(words, 8)]
            pair = pair[::-1] if spec.chroma is Chroma.VU else pair
        of_u, of_v = (b.sub(self._unless(outside, c, b.const(I32, 128)), 128) for c in pair)
        base = b.shl(luma, _SHIFT)
        found = []
        for by_u, by_v in zip(_FROM_U, _FROM_V, strict=True):
            total = b.add(base, b.mul(of_u, by_u)) if by_u else base
            total = b.ashr(b.add(total, b.mul(of_v, by_v)) if by_v else total, _SHIFT)
            total = b.intrinsic("smax", total, b.const(total.type, 0))
            found.append(b.intrinsic("smin", total, b.const(total.type, 255)))
        return found

    # -- to the result ------------------------------------------------------------------------------------------------

    def _channel(self, number: int, channels: list[Value]) -> Value:
        """A channel of the result as i32."""
        b = self.b
        if number >= 0:
            return channels[number]
        if number != LUMINANCE:
            return b.const(I32.vec(LANES), 255 if number == OPAQUE else 0)
        if self.spec.chroma is not Chroma.NONE:
            return channels[0]
        total = b.const(I32.vec(LANES), 0)
        for place, weight in zip(self.spec.rgb, _LUMINANCE, strict=True):
            total = b.add(total, b.mul(channels[place], weight))
        return b.lshr(total, _SHIFT)

    def _put(self, x: Value, count: Value, levels: list[Value]) -> None:
        b, spec = self.b, self.spec
        if spec.dtype is DType.F32:
            values = [self._scaled(i, level) for i, level in enumerate(levels)]
        else:
            values = [b.convert("trunc", level, I8.vec(LANES)) for level in levels]
        whole = b.icmp("eq", count, LANES)

        def planes(partly: bool) -> Callable[[], None]:
            def put() -> None:
                tail = make_tail(b, count, LANES) if partly else None
                for i, value in enumerate(values):
                    store(
                        b,
                        spec.dtype,
                        value,
                        b.gep(self.out, self.element, x + self.k.slot("out_channel") * i),
                        None,
                        tail,
                    )

            return put

        if spec.planar:
            b.choose(whole, planes(False), planes(True), likely=True)
            return
        out, some = b.gep(self.out, self.element, x * len(values)), b.gep(self.k.scratch, I8, _PIXELS)

        def rest() -> None:
            put_pixels(b, values, some)
            move_many(b, self.element, some, out, count * len(values))

        b.choose(whole, lambda: put_pixels(b, values, out), rest, likely=True)

    def _scaled(self, channel: int, level: Value) -> Value:
        b = self.b
        if self.spec.order[channel] == NOTHING:
            return b.const(F32.vec(LANES), 0.0)
        mean, normal = (b.splat(b.load(F32, b.gep(self.k.pointer(n), F32, channel)), LANES) for n in ("mean", "normal"))
        return b.mul(b.sub(b.convert("sitofp", level, F32.vec(LANES)), mean), normal)


__all__ = ["LUMINANCE", "NOTHING", "OPAQUE", "Chroma", "PreprocessSpec", "Wrap"]
