"""Matrix products by one level of Strassen's algorithm, as a candidate beside the plain way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.compiler.algorithms import Candidate
from MNN.compiler.emit.side import Side, operand_args
from MNN.compiler.emit.weights import Weights
from MNN.compiler.emitter import Emitter
from MNN.compiler.program import Place, Ref
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder
from MNN.kernels.shares import BLOCKS_PER_THREAD, longest, piece_sizes, split_evenly
from MNN.kernels.strassen import (
    SUM_ROWS,
    LargeSpec,
    StrassenSpec,
    StrassenSumsSpec,
    choose_strassen,
    product_table,
)

_LEAST = 4_000_000
"""Multiply-adds below which the second kernel's start costs too much of the gain."""
_GAP = 16
"""Elements between rows of sums, so that rows do not collide in the cache."""
_CHUNK = 1 << 18
"""Numbers of the weights that one block looks at."""
_SHARE = 1 << 13
"""Numbers of A that a worker sums at a time."""
_A_PARTS = 2
"""Second-level caches that a part of A may fill: it and its sums are read from the third level then."""
_TWINS = 64
"""Pairs of columns that begin alike, of which it is looked whether they are equal."""
_PAIR = 0.6
"""Of the second-level cache, for a pair of panels."""
_UNEVEN = 0.005
"""Share of time that is lost per block that is missing from a run's ``BLOCKS_PER_THREAD``."""
_PAIR_READ = 0.06
"""Tiles that could be computed while a block begins to read a pair of panels."""
_BOTH_READ = 0.005
"""Share of time that is lost where all threads read all of B."""
NAME = "Strassen"


def strassen_candidates(
    e: Emitter,
    a: Side,
    c: Side,
    weights: Weights,
    operands: Sequence[tuple[str, Side]],
    body: Body | None,
    taps: np.ndarray,
    k: int,
    n: int,
    settled: str = "",
) -> list[Candidate]:
    """The product by Strassen's algorithm; nothing where it does not apply.

    It needs constant f32 weights none of which drowns the others, no two columns of which are equal, one batch, evenly
    spaced rows of A and a depth whose half is whole vectors. Where it is ``settled``, nothing is estimated.
    """
    assert a.rows is not None
    m, lanes = a.rows.size, e.target.lanes(DType.F32)
    sides = [a, c, *(side for _, side in operands)]
    if (
        m < 2
        or e.collecting
        or e.target.lane_operand
        or weights.tensor.const is None
        or weights.group != 1
        or any(d is not DType.F32 for d in (a.dtype, c.dtype, weights.dtype))
        or any(side.batch.size != 1 or side.batch.any() for side in sides)
        or taps.size != 1
        or k % (2 * lanes)
        or n < 2 * lanes
        or m * n * k < _LEAST
    ):
        return []
    steps = np.diff(a.rows)
    if taps[0] != 0 or a.rows[0] != 0 or (steps != steps[0]).any() or steps[0] < k:
        return []
    if not e.pool.even((e.origin, "even", id(weights.tensor.const)), weights.tensor.const):
        return []
    if _has_twins(e, weights):
        return []
    habit = (e.origin, NAME, n, k)
    earlier = e.pool.habits.get(habit)
    if settled == NAME and earlier is not None and 2 * earlier[0] <= m:
        tile, cycles = earlier, 0.0
    else:
        tile, cycles = choose_strassen(e.target, m, n, k, earlier, e.threads)
    if earlier is None:
        e.pool.habits.note(habit, tile)
    lda = int(steps[0])
    return [Candidate(NAME, cycles, lambda: _emit(e, a, c, weights, operands, body, tile, (m, n, k), lda))]


def _has_twins(e: Emitter, weights: Weights) -> bool:
    """Whether some columns are equal: their results must be too, so that ties stay ties whatever comes behind them.

    Columns of different quarters are rounded in different ways. (Models with made-up weights are judged by such ties:
    SqueezeNet among onnx's light models ends in 1000 equal scores of 1e10.)
    """
    numbers = weights.tensor.const
    assert numbers is not None
    key = (e.origin, "twins", id(numbers))
    found = e.pool.habits.get(key)
    if found is None:
        conv = weights.conv is not None
        columns = numbers.reshape(numbers.shape[0], -1) if conv else numbers.reshape(-1, numbers.shape[-1]).T
        order = np.argsort(columns[:, 0], kind="stable")
        alike = np.flatnonzero(np.diff(columns[order, 0]) == 0)[:_TWINS]
        found = any(np.array_equal(columns[order[i]], columns[order[i + 1]]) for i in alike)
        e.pool.habits[key] = found
    return bool(found)


def _emit(
    e: Emitter,
    a: Side,
    c: Side,
    weights: Weights,
    operands: Sequence[tuple[str, Side]],
    body: Body | None,
    tile: tuple[int, int],
    extents: tuple[int, int, int],
    lda: int,
) -> None:
    """Rows in parts, one after the other, so that A and its sums are near when they are read once per panel of B, and
    the depth in parts of which a pair of panels is near for all rows: each adds to what the one before it left in C."""
    m, n, k = extents
    lanes = e.target.lanes(DType.F32)
    parts = _depth_parts(e.target.l2_bytes, k, tile[1] * lanes, 2 * lanes)
    k //= parts
    rows = split_evenly(m, -(-m * k * 4 // (_A_PARTS * e.target.l2_bytes)), 2 * tile[0])
    half = -(-min(m, rows) // 2)
    sums = e.allocate(DType.F32, (5, half, k // 2 + _GAP), (0, 1, 2))
    flags = e.allocate(DType.I32, (-(-half // SUM_ROWS),), (0,))
    for first in range(0, m, rows):
        past = min(first + rows, m)
        result = _part(c, first, past)
        own = [(kind, _part(side, first, past)) for kind, side in operands]
        for part in range(parts):
            offset = a.place.offset + first * lda + part * k
            left = Side(Place(a.place.buffer, offset, a.place.strides), a.dtype, None, a.batch)
            last = part + 1 == parts
            sides, then = own if last else [], body if last else None
            if part:
                sides, then = [*sides, ("mn", result)], _added_to(then)
            spec = StrassenSpec(*tile, c.dtype, then, tuple(kind for kind, _ in sides))
            at = part * k
            _emit_rows(e, left, result, weights, sides, spec, (past - first, n, k), lda, at, sums, flags, parts == 1)


def _depth_parts(l2_bytes: int, k: int, nr: int, unit: int) -> int:
    """In how many parts a depth of ``k`` is taken, each a multiple of ``unit``, for panels ``nr`` wide."""
    pair = 2 * 4 * k * nr
    if pair <= _PAIR * l2_bytes:
        return 1
    fewest = -(-pair // int(_PAIR * l2_bytes))
    return next((p for p in range(fewest, 2 * fewest + 1) if k % (p * unit) == 0), 1)


def _added_to(body: Body | None) -> Body:
    """The body for a sum that is the last operand and the argument together."""
    b = BodyBuilder()
    own, *operands = [b.arg(d) for d in (body.args if body is not None else (DType.F32,))]
    total = b("add", own, b.arg(DType.F32))
    return b.build(*(b.inline(body, [total, *operands]) if body is not None else [total]))


def _part(side: Side, first: int, past: int) -> Side:
    """The rows ``[first, past)`` of an operand that has rows."""
    return side if side.rows is None else replace(side, rows=side.rows[first:past])


def _emit_rows(
    e: Emitter,
    a: Side,
    c: Side,
    weights: Weights,
    operands: Sequence[tuple[str, Side]],
    spec: StrassenSpec,
    extents: tuple[int, int, int],
    lda: int,
    at: int,
    sums: Place,
    flags: Place,
    once: bool,
) -> None:
    """The products from step ``at`` of the sum on; ``once``: nothing else is stored to these rows of C."""
    assert c.rows is not None
    m, n, k = extents
    half, depth = -(-m // 2), k // 2
    lds = depth + _GAP
    nr = spec.nr(e.target)
    panels = -(-n // nr)
    pairs = -(-panels // 2)
    b_ref, _, panel, _ = weights.packed(e, nr, 1)
    source = e.ref(a.place, DType.F32)
    first: dict[str, int | Ref] = {
        "a": source,
        "s": e.ref(sums, DType.F32),
        "flags": e.ref(flags, DType.I32),
        "lda": lda,
        "lds": lds,
        "k": depth,
        "m": m,
        "half": half,
    }
    n_flags = -(-half // SUM_ROWS)
    e.command(StrassenSumsSpec(), first, n_flags, max(1, _SHARE // (SUM_ROWS * k)))
    table, own, plain = product_table(m, half, lda, lds, depth, nr, panels, panel)
    b_flags, n_b_flags = _weight_flags(e, b_ref, panels * panel, (id(weights.tensor.const), nr, weights.conv))
    rows_each, pairs_each = _blocks(e, half, pairs, spec.mr)
    args: dict[str, int | Ref] = {
        "a": source,
        "s": e.ref(sums, DType.F32),
        "b": Ref(b_ref.buffer, b_ref.offset + at * nr * DType.F32.size),
        "c": e.ref(c.place, c.dtype),
        "rows_c": e.offsets(c.rows),
        "products": e.table(table),
        "n_products": own,
        "n_plain": plain,
        "flags": e.ref(flags, DType.I32),
        "n_flags": n_flags,
        "b_flags": b_flags,
        "n_b_flags": n_b_flags,
        "lda": lda,
        "lds": lds,
        "panel": panel,
        "panels": panels,
        "pairs": pairs,
        "k": depth,
        "m": m,
        "half": half,
        "n": n,
        "mb": rows_each,
        "nb": pairs_each,
    }
    args |= operand_args(e, operands)
    blocks = -(-half // rows_each) * -(-pairs // pairs_each)
    e.command(spec, args, blocks, 1, 2 * m * n * k, part=once)


def _blocks(e: Emitter, half: int, pairs: int, mr: int) -> tuple[int, int]:
    """Rows (of a half) and pairs of panels in one block: what makes the runs of threads even."""
    rows = -(-half // mr)
    if e.threads == 1:
        return rows * mr, pairs

    def cost(high: int, wide: int) -> float:
        down, across = -(-rows // high), -(-pairs // wide)
        few = max(0, BLOCKS_PER_THREAD - down * across // e.threads)  # who has time does what is left of a run
        again = _PAIR_READ * -(-down * across // e.threads) * wide
        both = _BOTH_READ * (min(down, e.threads) - 1) / (e.threads - 1)  # B, by all that have different rows
        return longest(rows, high, pairs, wide, e.threads) * (1 + _UNEVEN * few + both) + again

    sizes = [(h, w) for h in piece_sizes(rows, e.threads) for w in piece_sizes(pairs, e.threads)]
    high, wide = min(sizes, key=lambda size: cost(*size))
    return high * mr, wide


def _weight_flags(e: Emitter, packed: Ref, count: int, key: tuple[object, ...]) -> tuple[Ref, int]:
    """Flags that say whether packed weights hold numbers too large for sums; found before the first run."""
    chunks = -(-count // _CHUNK)
    buffer, fresh = e.pool.reserve(("large", *key), chunks, DType.I32, packed.buffer)
    if fresh:
        place = Place(buffer, 0, (1,))
        args: dict[str, int | Ref] = {
            "x": packed, "flags": e.ref(place, DType.I32), "count": count, "chunk": _CHUNK,
        }  # fmt: skip
        with e.collect() as commands:
            e.command(LargeSpec(), args, chunks, 1)
        buffer.setup += commands
    return Ref(buffer, 0), chunks
