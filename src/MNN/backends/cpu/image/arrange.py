"""Pixels moved as they are: mirrored, turned, and from and to planes of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.image.color import put_pixels
from MNN.backends.cpu.image.lines import move
from MNN.backends.cpu.lang.module import I8, Builder, Kernel, Value, int_type
from MNN.backends.cpu.lang.nest import minimum
from MNN.backends.cpu.targets.base import Target

_LANES = 16
"""Pixels at a time."""
_REGISTERS = 2
"""Registers of small pixels that are mirrored at a time."""
_ROWS = 64
"""Rows that are turned at a time, so that what their cache lines hold is taken before they leave the cache."""
_TILE, _NARROW = 4, 6
"""Rows and columns of pixels that registers transpose, and up to how many bytes each may have."""
_NAMES = ("p0", "p1", "p2", "p3")
MOST = len(_NAMES)
"""Planes that kernels are for."""


def _element(size: int) -> int:
    """Bytes of the largest numbers that pixels of ``size`` bytes are made of."""
    return next(n for n in (8, 4, 2, 1) if size % n == 0)


@dataclass(frozen=True)
class MirrorSpec(KernelSpec):
    """``out[y, x] = src[y, width - 1 - x]`` for pixels of ``size`` bytes.

    Slots: ``src``, ``src_row`` (bytes from one row to the next, below 0 from the last row on), ``out``, ``width``,
    ``height``, ``band`` (rows of a block).
    """

    shaped: ClassVar[bool] = True

    size: int

    def slots(self) -> tuple[str, ...]:
        return ("src", "src_row", "out", "width", "height", "band")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        width, each = slot("width"), _element(self.size)
        parts = self.size // each
        lanes = max(_LANES, _REGISTERS * target.vector_bytes // self.size // _LANES * _LANES)
        places = [pixel * parts + i for pixel in reversed(range(lanes)) for i in range(parts)]
        whole = b.and_(width, -lanes)
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            with b.loop(start, minimum(k, slot("height"), start + slot("band"))) as row:
                behind = b.gep(b.gep(k.pointer("src"), I8, row.index * slot("src_row")), I8, width * self.size)
                out = b.gep(k.pointer("out"), I8, row.index * (width * self.size))

                def several(first: Value, behind: Value = behind, out: Value = out) -> None:
                    at = b.gep(behind, I8, b.index_sub(0, first + lanes) * self.size)
                    x = b.load(int_type(8 * each, lanes * parts), at, 1)
                    b.store(b.shuffle(x, None, places), b.gep(out, I8, first * self.size), 1)

                def one_by_one(behind: Value = behind, out: Value = out) -> None:
                    with b.loop(whole, width) as one:
                        at = b.gep(behind, I8, b.index_sub(0, one.index + 1) * self.size)
                        move(b, self.size, at, b.gep(out, I8, one.index * self.size))

                with b.loop(0, whole, lanes) as many:
                    several(many.index)
                # the last ones with some that are done
                last: Callable[[], None] = functools.partial(several, width - lanes)
                b.choose(b.icmp("slt", width, lanes), one_by_one, last)
        return k.finish()


@dataclass(frozen=True)
class TurnSpec(KernelSpec):
    """``out[x, y] = src[y, x]`` for pixels of ``size`` bytes.

    Slots: ``src``, ``src_row``, ``out``, ``out_row`` (bytes from one row to the next, below 0 from the last row on),
    ``width`` and ``height`` (of the source), ``band`` (columns of a block).
    """

    shaped: ClassVar[bool] = True

    size: int

    def slots(self) -> tuple[str, ...]:
        return ("src", "src_row", "out", "out_row", "width", "height", "band")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            end = minimum(k, slot("width"), start + slot("band"))
            with b.loop(0, slot("height"), _ROWS) as rows:
                last = minimum(k, slot("height"), rows.index + _ROWS)
                across = start  # columns before it are done
                if self.size <= _NARROW:
                    across = start + b.and_(end - start, -_TILE)
                    down = rows.index + b.and_(last - rows.index, -_TILE)
                    with b.loop(start, across, _TILE) as column, b.loop(rows.index, down, _TILE) as row:
                        self._tile(k, column.index, row.index)
                    self._one_by_one(k, (start, across), (down, last))
                self._one_by_one(k, (across, end), (rows.index, last))
        return k.finish()

    def _one_by_one(self, k: Kernel, columns: tuple[Value, Value], rows: tuple[Value, Value]) -> None:
        b, slot, size = k.b, k.slot, self.size
        with b.loop(*columns) as column:
            source = b.gep(k.pointer("src"), I8, column.index * size)
            out = b.gep(k.pointer("out"), I8, column.index * slot("out_row"))
            with b.loop(*rows) as row:
                move(b, size, b.gep(source, I8, row.index * slot("src_row")), b.gep(out, I8, row.index * size))

    def _tile(self, k: Kernel, column: Value, row: Value) -> None:
        """Pixels that lie as bytes one behind the other become numbers of a power of two bytes, which registers
        transpose, and bytes again."""
        b, slot, size = k.b, k.slot, self.size
        wide = 4 if size <= 4 else 8
        apart = [min(i * size + j, _TILE * size - 1) for i in range(_TILE) for j in range(wide)]
        close = [i * wide + j for i in range(_TILE) for j in range(size)]
        source = b.gep(b.gep(k.pointer("src"), I8, row * slot("src_row")), I8, column * size)
        rows = []
        for i in range(_TILE):
            x = b.load(I8.vec(_TILE * size), b.gep(source, I8, slot("src_row") * i), 1)
            rows.append(b.bitcast(b.shuffle(x, None, apart), int_type(8 * wide).vec(_TILE)))
        pairs = [b.shuffle(rows[i], rows[i + 2], (0, 4, 1, 5)) for i in range(2)]
        more = [b.shuffle(rows[i], rows[i + 2], (2, 6, 3, 7)) for i in range(2)]
        turned = [b.shuffle(x, y, order) for x, y in (pairs, more) for order in ((0, 4, 1, 5), (2, 6, 3, 7))]
        out = b.gep(b.gep(k.pointer("out"), I8, column * slot("out_row")), I8, row * size)
        for i, x in enumerate(turned):
            packed = b.shuffle(b.bitcast(x, I8.vec(_TILE * wide)), None, close)
            b.store(packed, b.gep(out, I8, slot("out_row") * i), 1)


@dataclass(frozen=True)
class PlanesSpec(KernelSpec):
    """``pixels[i, c] = plane c[i]`` for 2 to 4 ``planes`` of numbers of ``size`` 1, 2, 4 or 8 bytes, or with ``split``
    the other way.

    Slots: ``pixels``, the planes ``p0``, ``p1`` ..., ``count``, ``band`` (pixels of a block).
    """

    shaped: ClassVar[bool] = True

    size: int
    planes: int
    split: bool

    def slots(self) -> tuple[str, ...]:
        return ("pixels", *_NAMES[: self.planes], "count", "band")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, slot = k.b, k.slot
        with b.loop(k.begin, k.end) as block:
            start = block.index * slot("band")
            end = minimum(k, slot("count"), start + slot("band"))
            whole = start + b.and_(end - start, -_LANES)
            for first, last, lanes in ((start, whole, _LANES), (whole, end, 1)):
                with b.loop(first, last, lanes) as each:
                    self._several(b, k, each.index, lanes)
        return k.finish()

    def _several(self, b: Builder, k: Kernel, at: Value, lanes: int) -> None:
        element, count = int_type(8 * self.size), self.planes
        pixels = b.gep(k.pointer("pixels"), element, at * count)
        planes = [b.gep(k.pointer(name), element, at) for name in _NAMES[:count]]
        t = element.vec(lanes)
        if not self.split:
            put_pixels(b, [b.load(t, plane) for plane in planes], pixels)
            return
        x = b.load(element.vec(lanes * count), pixels)
        for c, plane in enumerate(planes):
            own = b.shuffle(x, None, range(c, lanes * count, count)) if lanes > 1 else b.extract(x, c)
            b.store(own, plane)


__all__ = ["MOST", "MirrorSpec", "PlanesSpec", "TurnSpec"]
