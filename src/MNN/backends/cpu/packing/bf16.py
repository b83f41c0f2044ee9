"""Packing weights in pairs of bf16 with generated kernels (see :mod:`MNN.backends.cpu.products.dot`)."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Place
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.loops.emit_elementwise import emit_nest
from MNN.backends.cpu.products.dot import DOT2
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body, BodyBuilder
from MNN.ir.shape import elements

Axis = tuple[int, int, int]
"""Extent, step in the source and step in the result (there in pairs)."""
Part = tuple[int, int, list[Axis]]
"""A part of the columns: where it begins in the source and in the result, its axes (batches, panels, columns)."""


def pair_steps(k: int, taps: int) -> int:
    """Pairs along the sum: every tap begins with a new one."""
    return taps * -(-k // DOT2)


def pack_dot2(
    e: Emitter, source: Place, dtype: DType, to: Place, parts: Sequence[Part], channels: tuple[int, int],
    taps: Sequence[tuple[int, int]], run: int, nr: int,
) -> None:  # fmt: skip
    """Commands that fill ``to`` (an offset in pairs) with pairs of neighbouring values along the sum.

    ``dtype`` is the source's, f32 or bf16. ``parts``: whole panels and the cut one. ``channels`` and each of ``taps``,
    the outermost first, are (count, step in the source). ``run`` is how many values lie in one run of A: the channels,
    or the channels of all of the last of ``taps``, which then begin new pairs together.
    """
    per_tap, channel_step = channels
    moves: list[tuple[int, int | None, int, list[Axis]]] = []  # source of both values, result, axes
    if run != per_tap and per_tap % DOT2:
        *outer_taps, (joined, tap_step) = taps
        assert run == joined * per_tap
        rest = _behind_one_another(outer_taps, -(-run // DOT2) * nr)

        def at(i: int) -> int:
            return i // per_tap * tap_step + i % per_tap * channel_step

        moves += [(at(i), at(i + 1) if i + 1 < run else None, i // DOT2 * nr, rest) for i in range(0, run, DOT2)]
    else:
        whole = per_tap // DOT2
        every = _behind_one_another(taps, -(-per_tap // DOT2) * nr)
        if whole:
            moves.append((0, channel_step, 0, [*every, (whole, DOT2 * channel_step, nr)]))
        if per_tap % DOT2:
            moves.append(((per_tap - 1) * channel_step, None, whole * nr, every))
    raw = DType.U32 if dtype is DType.F32 else DType.U16
    for from_, into, outer in parts:
        for first, second, result, inner in moves:
            axes = [*outer, *inner]
            shape = tuple(n for n, _, _ in axes)
            if 0 in shape:
                continue
            steps_in, steps_out = tuple(s for _, s, _ in axes), tuple(d for _, _, d in axes)
            starts = [first] if second is None else [first, second]
            operands = [
                (Tensor(raw, shape), Place(source.buffer, source.offset + from_ + start, steps_in)) for start in starts
            ]
            result_place = Place(to.buffer, to.offset + into + result, steps_out)
            emit_nest(e, pair_of(raw, len(starts)), shape, operands, result_place, DType.U32)


def _behind_one_another(taps: Sequence[tuple[int, int]], size: int) -> list[Axis]:
    """Axes of taps (count, step in the source) whose results of ``size`` pairs lie one behind the other."""
    return [(n, step, size * elements([m for m, _ in taps[i + 1 :]])) for i, (n, step) in enumerate(taps)]


def pair_of(raw: DType, count: int) -> Body:
    """One or two values (their bits) as the 32 bits of a pair."""
    b = BodyBuilder()
    low, *high = [_rounded(b, b.arg(raw)) for _ in range(count)]
    return b.build(b("or", low, b("shl", high[0], b.const(16, DType.U32))) if high else low)


def _rounded(b: BodyBuilder, x: int) -> int:
    """The bits of a bf16 in a u32: those given, or an f32's rounded to nearest even (NaN stays NaN)."""
    if b.dtype(x) is DType.U16:
        return b.cast(x, DType.U32)

    def number(n: int) -> int:
        return b.const(n, DType.U32)

    odd = b("and", b("shr", x, number(16)), number(1))
    rounded = b("add", x, b("add", odd, number(0x7FFF)))
    nan = b("gt", b("and", x, number(0x7FFFFFFF)), number(0x7F800000))
    return b("shr", b("select", nan, b("or", x, number(0x400000)), rounded), number(16))
