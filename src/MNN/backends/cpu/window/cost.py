"""Choices for windows sliding over lines, from a cost model of the target: lines, pixels and vectors of a tile."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from MNN.backends.cpu.products.register_tiles import KEPT
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType

UNROLLED_WIDTH = 11
"""Columns of a window up to which they are written out one by one."""
_WIDEST_IN_TWOS = 3
"""Measured: 3x3 windows gain 10 to 18 %, 5x5 lose 8 %, for want of registers for sums and weights."""
_WEIGHTS_HELD = 2
"""Vectors of channels up to which weights of a row stay in registers; with more they are operands in memory."""
_MAX_PIXELS = 8
_MAX_LINES = 2
_ROW_CYCLES = 2.0
_TILE_CYCLES = 20.0
_PAIR_REGISTERS = 4
"""Vectors for an input, its product, and the weights and masks of a pair of taps."""
_PAIR_RESULT = 16
"""Instructions that make a half group's totals the results of a pixel."""
_OTHER_REGISTERS = 12
"""General registers for strides, counters and addresses of weights. Short vectors weigh no more than an address that is
reloaded: then pointers to the columns must fit, but for one or two."""


def choose_window(
    target: Target,
    op: str,
    kernel: tuple[int, int],
    sx: int,
    dx: int,
    lines: int,
    ow: int,
    vectors: int = 1,
    made: Collection[tuple[int, int]] = (),
    spare: float = 0.0,
) -> tuple[int, int]:
    """Lines and pixels of a tile for ``lines`` lines of ``ow`` pixels under windows of ``kernel`` (height, width).

    Large tiles load least per window and pay least for their start and end, but sums and weights must fit the vector
    registers and addresses the general ones, and the last tile of a line reaches back over pixels that it does twice.
    ``vectors`` of sums per pixel are kept at a time (see :func:`vectors_at_once`). The best tile for which a kernel was
    ``made`` is taken while it is close to the best of all: no more than ``spare`` cycles per vector of channels slower,
    or a small share.
    """
    kh, kw = kernel
    weights = (kw if op == "dot" and kw <= UNROLLED_WIDTH and vectors <= _WEIGHTS_HELD else 1) * vectors
    most = max(1, min((target.vector_registers - weights - 3) // vectors, target.general_registers - 1))
    best, best_cost = (1, 1), float("inf")
    close, close_cost = (1, 1), float("inf")
    for pixels in range(1, min(_MAX_PIXELS, max(ow, 1)) + 1):
        columns = len(columns_of(pixels, kw, sx, dx)) if kw <= UNROLLED_WIDTH else pixels
        for deep in range(1, _MAX_LINES + 1):
            if deep * pixels > 1 and (deep * pixels > most or deep > lines):
                continue
            if pixels > 1 and target.lane_operand and columns + deep + _OTHER_REGISTERS > target.general_registers:
                continue
            groups, rest = divmod(lines, deep)
            tiles = -(-ow // pixels)
            cost = tiles * (groups * _tile_cycles(target, kh, kw, columns, weights, deep, pixels, vectors))
            cost += tiles * rest * _tile_cycles(target, kh, kw, columns, weights, 1, pixels, vectors)
            if cost < best_cost * 0.999:
                best, best_cost = (deep, pixels), cost
            if cost < close_cost and (deep, pixels) in made:
                close, close_cost = (deep, pixels), cost
    for deep, pixels in made:
        if pixels > ow and deep <= lines:  # such a kernel takes the pixels of a line one by one
            groups, rest = divmod(lines, deep)
            columns = kw if kw <= UNROLLED_WIDTH else 1
            single = [_tile_cycles(target, kh, kw, columns, weights, n, 1, vectors) for n in (deep, 1)]
            cost = ow * (groups * single[0] + rest * single[1])
            if cost < close_cost:
                close, close_cost = (deep, pixels), cost
    return close if close_cost <= max(KEPT * best_cost, best_cost + spare) else best


def vectors_at_once(
    target: Target, dtype: DType, acc: DType, others: Sequence[DType], kw: int, row_pairs: bool = False
) -> int:
    """Vectors of channels that a tile takes together: two where one of bf16 is (see
    :mod:`MNN.backends.cpu.lang.halves`).

    ``others`` are the types of the result and of the operands; ``row_pairs``: of windows by :mod:`.window_pairs`.
    """
    pairs = dtype is DType.BF16 and acc is DType.F32 and target.can(can.TWO_TO_BF16, 32 * target.lanes(acc))
    known = all(d in (DType.F32, DType.BF16) for d in others)
    return 2 if pairs and known and (row_pairs or kw <= _WIDEST_IN_TWOS) else 1


def choose_tap_pixels(target: Target, sx: int, dx: int, kw: int, pairs: int, ow: int, sums: int) -> int:
    """Pixels of a tile whose taps are taken in pairs, ``sums`` vectors for each (:mod:`.tap_pairs`): as
    :func:`choose_window` has it, by the instructions of a half group."""
    most = max(1, (target.vector_registers - _PAIR_REGISTERS) // (sums + 1))  # one more: results of the other half

    def cost(pixels: int) -> float:
        columns = len(columns_of(pixels, kw, sx, dx))
        steps = pairs * ((1 + 2 * sums) * pixels + 2 + 2 * columns / kw)
        return -(-ow // pixels) * (steps + _PAIR_RESULT * pixels + _TILE_CYCLES)

    return min(range(1, min(most, max(ow, 1)) + 1), key=cost)


def _tile_cycles(
    target: Target, kh: int, kw: int, columns: int, weights: int, lines: int, pixels: int, vectors: int
) -> float:
    """The vectors of channels taken together in one tile: arithmetic or loads, whichever is more, its start and end."""
    spilled = max(0, columns + lines + 4 - target.general_registers)
    row = max(
        (lines * columns + weights + spilled) / target.loads_per_cycle,
        vectors * lines * pixels * kw / target.fma_per_cycle,
        target.fma_latency,
    )
    return kh * (row + _ROW_CYCLES) + 2.0 * vectors * lines * pixels + _TILE_CYCLES


def columns_of(pixels: int, kw: int, sx: int, dx: int) -> list[int]:
    """Input columns that a tile reads, relative to its first."""
    return sorted({p * sx + kx * dx for p in range(pixels) for kx in range(kw)})
