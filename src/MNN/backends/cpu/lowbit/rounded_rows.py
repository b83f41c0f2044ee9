"""Rows rounded to 8 bits, or to digits of 8 bits, block by block, for products with weights in few bits.

A block of a row becomes signed bytes ``round(a * 127 / most)`` of its largest size ``most``, as ONNX Runtime has them
for ``accuracy_level`` 4 of MatMulNBits. What lies where::

    i8 [depth], in the order in which codes come out of words | per block: scale, scale * sum, sum * -half

A word of weights holds ``steps`` codes, of which those whose bits are taken out together belong to every ``per``-th
number: with 4 bits the numbers 0, 2, 4, 6 of every eight come first, then 1, 3, 5, 7. Scales are times ``2^-SHIFT``, as
those of weights are times ``2^SHIFT``. A block with an infinite number or one that is none has NaN for a scale.

In several ``parts``, what is left of a number is rounded again, in steps :data:`STEP` times as fine, to another row
behind the first: of three of them, no more is lost than the 24 bits of f32 hold for the largest number of a block.

Parts that are ``merged`` are the digits of a whole number, so that their sums become one integer: ``sum * -half``
stands with the last part, and the rest with the first. With codes of 4 bits the last part has one byte for two
numbers: two of these codes fill a byte ``c + 16 * c'``, which times a digit ``e`` is ``e * c + 16 * e * c'``. With
``A`` and ``A'`` of 16 bits (two parts), what is multiplied by ``c`` is ``256 * A + e``, and what is by ``c'`` is
``256 * A' + 16 * e``. That is within 8 of any ``x'`` if the low four bits of ``e`` are those of ``x' / 16``, as
``A'`` takes up what is above them; and within 8 of any ``x``, too, as the upper four bits of ``e`` are still to be
chosen: 20 bits in two and a half parts, or 12 in one and a half.

Where instructions have no room for sums of whole bytes, the last digit is for one number, too (``paired`` says which
way it is), and rows of one part may have numbers of 16 bits (``wide``): what two digits are together, so that sums are
the same, or for codes of 8 bits a little more.

The last of two digits can be left out where it does little (``coarse``): in blocks whose largest size is at most
:data:`COARSE` times the mean of all blocks of the row, numbers are rounded to the first digit alone and the last one is
0. The third number of such a block in the first part is 0 (elsewhere 1): where it is 0 for all rows of a tile, the last
digits are not multiplied. A row's result depends on no other row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import number, table
from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import F32, I8, I16, I32, Builder, Kernel, Value
from MNN.backends.cpu.lowbit.layout import SHIFT
from MNN.backends.cpu.lowbit.words import WORD
from MNN.backends.cpu.math.rounding import to_nearest
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

NUMBERS = 3
"""Numbers of 32 bits that belong to a block of a row."""
_LINE = 64
_MOST, _MOST_OF_WIDE = 127.0, 32767.0
STEP = 254.0
"""How much finer the steps of a part are than those of the part before: what is left is at most half a step."""
_BYTE, _LESS = 8, 6
"""Bits of a digit, where digits become one number: of three whole ones, sums would not stay in 32 bits."""
_MOST_OF_PAIRS = 119.0
"""The largest first digit of a pair's first number of two digits: that of the second one may be larger by 8."""
WIDTH_OF_PAIRS = 4
"""Bits of a code of which two fill a byte."""
_SHIFT_OF_NIBBLE = 4
_NIBBLE = 1 << _SHIFT_OF_NIBBLE
COARSE = 1.3
"""How large numbers of a block may be, beside the mean of the largest ones of a row's blocks, to be rounded to 8 bits.
In prompts of SmolLM2-135M a row of three has a larger one in a third of the blocks, and the error of logits is 0.4 of
that with 8 bits alone."""
_SLACK = 2.0**14
"""How far the sum of a block's numbers stays below what 32 bits hold of it times codes."""


def digit_bits(width: int, parts: int) -> int:
    """Bits of all ``parts`` digits but the first, for codes of so many bits."""
    return _BYTE if width == WIDTH_OF_PAIRS or parts == 2 else _LESS


def bytes_of_codes(depth: int, wide: bool = False) -> int:
    """Bytes in front of the numbers of a row's blocks."""
    return -(-depth * (1 + wide) // _LINE) * _LINE


def bytes_of_row(depth: int, blocks: int, wide: bool = False) -> int:
    """From one row to the next: an odd number of lines, so that those of a tile lie in different sets of a cache."""
    lines = -(-(bytes_of_codes(depth, wide) + 4 * NUMBERS * blocks) // _LINE)
    return (lines + 1 - lines % 2) * _LINE


@dataclass(frozen=True)
class RoundedRowsSpec(KernelSpec):
    """Rounds rows of ``a``; block ``i`` of the index space is row ``i``.

    Slots: ``x`` and ``rows_x`` (where each row begins, i32), ``y`` and ``row`` (bytes from row to row, of all parts
    together), ``m`` rows of ``k`` numbers, in ``blocks`` blocks of ``run`` numbers each: together at least ``k``, those
    past it count as zero; ``meta``: where the numbers of the blocks begin in a part. Several blocks are of whole
    :func:`chunk` numbers.
    """

    shaped: ClassVar[bool] = True

    x: DType
    width: int
    half: int
    """What stands for zero among the codes of the weights."""
    parts: int = 1
    merged: bool = False
    coarse: bool = False
    """Whether the last of two digits is left out where it does little."""
    paired: bool = False
    """Whether the last of ``merged`` parts has a byte for each pair of numbers."""
    wide: bool = False
    """Whether the numbers of the only part have 16 bits."""
    of_bytes: bool = False
    """Whether the weights' codes become numbers of 8 bits, whatever they take in memory."""

    def __post_init__(self) -> None:
        if self.coarse and not (self.merged and self.parts == 2):
            raise ValueError(f"no second digit to leave out in {self.key()}")
        if self.wide and (self.merged or self.parts > 1):
            raise ValueError(f"no numbers of 16 bits in {self.key()}")

    def slots(self) -> tuple[str, ...]:
        return "x", "rows_x", "y", "row", "m", "k", "blocks", "run", "meta"

    def scratch(self, target: Target, args: Arguments) -> int:
        """A row of f32, the largest sizes of its blocks, their inverses, and whether they have all digits."""
        blocks, lanes = number(args, "blocks"), target.lanes(DType.F32)
        return 4 * (blocks * number(args, "run") + chunk(target, self.width) + 3 * -(-blocks // lanes) * lanes)

    def traffic(self, args: Arguments) -> dict[str, int]:
        rows = np.unique(table(args, "rows_x", number(args, "m"))).size
        return {"x": rows * number(args, "k") * self.x.size, "y": rows * number(args, "row")}

    def emit(self, target: Target) -> str:
        return _Rounding(self, target).emit()


def chunk(target: Target, width: int) -> int:
    """Numbers that are rounded at a time: whole vectors, and whole words of weights."""
    return max(target.lanes(DType.F32), WORD // width)


class _Rounding:
    """The state of one emission."""

    def __init__(self, spec: RoundedRowsSpec, target: Target) -> None:
        self.spec, self.bits = spec, _BYTE if spec.of_bytes else spec.width
        self.lanes, self.chunk = target.lanes(DType.F32), chunk(target, spec.width)
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        blocks, run = k.slot("blocks"), k.slot("run")
        self.type = I16 if spec.wide else I8
        self.steps = self._steps(_MOST_OF_PAIRS if spec.paired and spec.parts == 2 else _MOST)
        self.steps_of_coarse = self._steps(_MOST)
        room = b.and_(blocks + (self.lanes - 1), -self.lanes)
        self.mosts = b.gep(k.scratch, F32, blocks * run + self.chunk)
        self.inverses, self.fine = b.gep(self.mosts, F32, room), b.gep(self.mosts, I32, room * 2)
        with b.loop(k.begin, k.end) as row:
            source = b.gep(k.pointer("x"), storage_type(spec.x), b.entry(k.pointer("rows_x"), row.index))
            to = b.gep(k.pointer("y"), I8, row.index * k.slot("row"))
            self._widen(source)
            with b.loop(0, blocks) as block:
                self._look(b.gep(k.scratch, F32, block.index * run), b.gep(self.mosts, I32, block.index))
            border = self._border() if spec.coarse else None
            with b.loop(0, blocks, self.lanes) as some:
                self._invert(some.index, border)
            size = b.udiv(k.slot("row"), spec.parts)
            parts = [b.gep(to, I8, size * part) for part in range(spec.parts)]
            with b.loop(0, blocks) as block:
                first = block.index * run
                places = [b.gep(b.gep(part, I8, k.slot("meta")), I32, block.index * NUMBERS) for part in parts]
                begins = [b.gep(part, self.type, first) for part in parts]
                if spec.paired:
                    begins[-1] = b.gep(parts[-1], I8, b.udiv(first, 2))
                self._block(b.gep(k.scratch, F32, first), block.index, begins, places)
        return k.finish()

    def _widen(self, source: Value) -> None:
        """The row in scratch memory, zeros behind it."""
        k, b, spec = self.k, self.b, self.spec
        depth, whole = k.slot("blocks") * k.slot("run"), b.and_(k.slot("k"), -self.lanes)

        def copy(at: Value, lanes: int) -> None:
            value = element.load(b, spec.x, b.gep(source, storage_type(spec.x), at), lanes)
            b.store(value, b.gep(k.scratch, F32, at))

        with b.loop(0, whole, self.lanes) as main:
            copy(main.index, self.lanes)
        with b.loop(whole, k.slot("k")) as rest:
            copy(rest.index, 1)
        with b.loop(k.slot("k"), depth + self.chunk) as none:
            b.store(b.const(F32, 0), b.gep(k.scratch, F32, none.index))

    def _look(self, source: Value, to: Value) -> None:
        """The largest size of a block. Bits are compared: what is infinite or no number is largest."""
        b, wide = self.b, I32.vec(self.lanes)
        with b.loop(0, self.k.slot("run"), self.lanes, carry=[b.const(wide, 0)]) as look:
            size = b.and_(b.load(wide, b.gep(source, I32, look.index)), 0x7FFFFFFF)
            look.next(b.intrinsic("smax", size, look.carried[0]))
        b.store(self._all(look.results[0], lambda p, q: b.intrinsic("smax", p, q)), to)

    def _border(self) -> Value:
        """Up to which largest size the blocks of a row are coarse."""
        b, blocks = self.b, self.k.slot("blocks")
        with b.loop(0, blocks, carry=[b.const(F32, 0)]) as block:
            block.next(b.add(block.carried[0], b.load(F32, b.gep(self.mosts, F32, block.index))))
        return b.mul(b.fdiv(block.results[0], b.convert("sitofp", blocks, F32)), COARSE)

    def _invert(self, first: Value, border: Value | None) -> None:
        """What numbers are multiplied by, and what their steps are, of a vector of blocks: for all of them before any
        is rounded, so that nothing waits for quotients."""
        b, wide = self.b, F32.vec(self.lanes)
        place = b.gep(self.mosts, F32, first)
        most, nothing, steps = b.load(wide, place), b.const(wide, 0), b.splat(self.steps, self.lanes)
        if border is not None:
            fine = b.fcmp("ogt", most, b.splat(border, self.lanes))
            steps = b.select(fine, steps, b.splat(self.steps_of_coarse, self.lanes))
            b.store(b.convert("zext", fine, I32.vec(self.lanes)), b.gep(self.fine, I32, first))
        inverse = b.fdiv(steps, most)
        inverse = b.select(b.fcmp("ogt", most, nothing), inverse, nothing)
        inverse = b.select(b.fcmp("olt", inverse, b.splat(b.const(F32, float("inf")), self.lanes)), inverse, nothing)
        b.store(inverse, b.gep(self.inverses, F32, first))
        step = b.mul(b.fdiv(most, steps), 2.0**-SHIFT)
        b.store(b.fma(most, nothing, step), place)  # none where a number is infinite

    def _block(self, source: Value, number: Value, to: list[Value], places: list[Value]) -> None:
        """A block: its bytes, then what belongs to it; the latter for each part."""
        k, b, wide = self.k, self.b, F32.vec(self.lanes)
        factor = b.splat(b.load(F32, b.gep(self.inverses, F32, number)), self.lanes)
        fine = b.load(I32, b.gep(self.fine, I32, number)) if self.spec.coarse else None
        zero, digits = b.const(I32.vec(self.lanes), 0), self._digits(fine)
        with b.loop(0, k.slot("run"), self.chunk, carry=[zero] * digits.sums) as some:
            totals = list(some.carried)
            small: list[list[Value]] = [[] for _ in to]
            for at in range(0, self.chunk, self.lanes):
                x = b.mul(b.load(wide, b.gep(source, F32, some.index + at)), factor)
                found, added = digits.of(x)
                totals = [b.add(total, more) for total, more in zip(totals, added, strict=True)]
                for numbers, digit in zip(small, found, strict=True):
                    numbers.append(b.convert("trunc", digit, self.type.vec(self.lanes)))
            for part, numbers in enumerate(small):
                if self.spec.paired and part == len(small) - 1:
                    b.store(self._of_pairs(numbers), b.gep(to[part], I8, b.udiv(some.index, 2)), align=1)
                else:
                    b.store(self._turned(numbers), b.gep(to[part], self.type, some.index), align=1)
            some.next(*totals)
        step = b.load(F32, b.gep(self.mosts, F32, number))
        for part, sums in enumerate(some.results):
            total = self._all(sums, b.add)
            scale = b.mul(step, 1.0 / STEP**part) if part else step
            b.store(scale, places[part])
            b.store(b.mul(scale, b.convert("sitofp", total, F32)), b.gep(places[part], F32, 1))
            last = places[-1] if self.spec.merged else places[part]
            b.store(b.mul(total, -self.spec.half), b.gep(last, I32, 2))
        if fine is not None:
            b.store(fine, b.gep(places[0], I32, 2))

    def _steps(self, first: float) -> Value:
        """The whole number that a block's largest size becomes, of which the ``first`` digit is at most that."""
        b, spec = self.b, self.spec
        if spec.wide:
            most = _MOST_OF_WIDE if self.bits == _BYTE else first * 2.0**_BYTE
        elif spec.merged:
            most = first * 2.0 ** ((spec.parts - 1) * digit_bits(self.bits, spec.parts))
        else:
            return b.const(F32, _MOST)
        room = b.fdiv(b.const(F32, 2.0 ** (WORD - self.bits) - _SLACK), b.convert("sitofp", self.k.slot("run"), F32))
        return b.select(b.fcmp("olt", room, most), room, most)

    def _digits(self, fine: Value | None) -> _Rounded | _Digits:
        spec, bits = self.spec, digit_bits(self.bits, self.spec.parts)
        kept = None
        if fine is not None:
            all_bits, first = self.b.const(I32, -1), self.b.const(I32, -1 << bits)
            kept = self.b.splat(self.b.select(self.b.icmp("ne", fine, 0), all_bits, first), self.lanes)
        if spec.paired:
            return _PairedDigits(self.b, spec.parts, self.lanes, kept)
        if spec.merged:
            return _Digits(self.b, spec.parts, bits, kept)
        return _Rounded(self.b, spec.parts)

    def _all(self, x: Value, join: Callable[[Value, Value], Value]) -> Value:
        """All lanes of a vector joined to one number."""
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            low, high = (self.b.shuffle(x, None, range(i * lanes, (i + 1) * lanes)) for i in (0, 1))
            x = join(low, high)
        return x

    def _turned(self, parts: list[Value]) -> Value:
        """The bytes of a chunk in the order of codes."""
        steps, lane = WORD // self.spec.width, WORD // self.type.bits
        per = steps // lane
        order = [w + per * j + i for w in range(0, self.chunk, steps) for i in range(per) for j in range(lane)]
        return self.b.shuffle(self._joined(parts), None, order)

    def _of_pairs(self, parts: list[Value]) -> Value:
        """One byte of two of a chunk."""
        return self.b.shuffle(self._joined(parts), None, range(0, self.chunk, 2))

    def _joined(self, parts: list[Value]) -> Value:
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.b.shuffle(low, high, range(2 * low.type.lanes)) for low, high in pairs]
        return parts[0]


class _Rounded:
    """Whole numbers, and what is left of each again in finer steps."""

    def __init__(self, b: Builder, parts: int) -> None:
        self.b, self.sums = b, parts

    def of(self, x: Value) -> tuple[list[Value], list[Value]]:
        """The digits of a vector, and what is to be summed of it."""
        found = []
        for _ in range(self.sums):
            found.append(whole := to_nearest(self.b, x))
            x = self.b.mul(self.b.sub(x, self.b.convert("sitofp", whole, x.type)), STEP)
        return found, found


class _Digits:
    """The digits of a whole number, two or three."""

    sums = 1

    def __init__(self, b: Builder, parts: int, bits: int, kept: Value | None = None) -> None:
        """``kept``: a mask of the bits that numbers keep, all of them or all but those of the last digit."""
        self.b, self.parts, self.bits, self.kept = b, parts, bits, kept

    def of(self, x: Value) -> tuple[list[Value], list[Value]]:
        """The digits of a vector, and what the numbers have become."""
        whole = self.whole(x)
        upper, finest = self.parted(whole)
        return [*self.firsts(upper), finest], [whole]

    def whole(self, x: Value) -> Value:
        """Rounded to whole numbers, or to those that need no last digit."""
        b, whole = self.b, to_nearest(self.b, x)
        if self.kept is None:
            return whole
        half = b.and_(b.xor(self.kept, -1), 1 << (self.bits - 1))
        return b.and_(b.add(whole, half), self.kept)

    def firsts(self, upper: Value) -> tuple[Value, ...]:
        """All digits but the last, of what is left without that."""
        return self.parted(upper) if self.parts > 2 else (upper,)

    def parted(self, x: Value) -> tuple[Value, Value]:
        """All but the last digit, and that."""
        b = self.b
        upper = b.ashr(b.add(x, 1 << (self.bits - 1)), self.bits)
        return upper, b.sub(x, b.shl(upper, self.bits))


class _PairedDigits(_Digits):
    """Digits of a number of 16 bits or 8, and one for both numbers of a pair (see the module)."""

    def __init__(self, b: Builder, parts: int, lanes: int, kept: Value | None = None) -> None:
        super().__init__(b, parts, _BYTE, kept)
        self.lanes = lanes

    def of(self, x: Value) -> tuple[list[Value], list[Value]]:
        """The digits of a vector, the last for the first number of each pair, and what the numbers have become."""
        b, half, low = self.b, _NIBBLE // 2, _NIBBLE - 1
        whole = self.whole(x)
        second = b.ashr(b.add(whole, half), _SHIFT_OF_NIBBLE)  # in sixteens
        shared = self._swapped(b.and_(second, low))
        first = b.ashr(b.add(b.sub(whole, shared), half), _SHIFT_OF_NIBBLE)
        first = b.add(b.shl(first, _SHIFT_OF_NIBBLE), shared)
        upper, finest = self.parted(first)
        upper_of_second = b.ashr(b.sub(second, self._swapped(finest)), _SHIFT_OF_NIBBLE)
        upper = self._paired(upper, upper_of_second)
        return [*self.firsts(upper), finest], [self._paired(first, b.shl(second, _SHIFT_OF_NIBBLE))]

    def _swapped(self, x: Value) -> Value:
        """Each number in the place of its neighbour."""
        return self.b.shuffle(x, None, [i ^ 1 for i in range(self.lanes)])

    def _paired(self, first: Value, second: Value) -> Value:
        """The first numbers of pairs and the second ones."""
        return self.b.shuffle(first, second, [i + (i % 2) * self.lanes for i in range(self.lanes)])


__all__ = [
    "COARSE",
    "NUMBERS",
    "WIDTH_OF_PAIRS",
    "RoundedRowsSpec",
    "bytes_of_codes",
    "bytes_of_row",
    "chunk",
    "digit_bits",
]
