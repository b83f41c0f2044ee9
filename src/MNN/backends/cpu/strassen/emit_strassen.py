"""Matrix products by Strassen's algorithm, as a candidate beside the plain way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.load_balance import BLOCKS_PER_THREAD, longest, piece_sizes, split_evenly
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.strassen.cost import Choice, applies, choose_strassen, chunk_of, most_rows, passed, unhidden
from MNN.backends.cpu.strassen.spec import StrassenSpec, tables
from MNN.backends.cpu.strassen.sums import COUNT, LargeSpec, StrassenSumsSpec
from MNN.ir.dtype import DType

_LEAST = 4_000_000
"""Multiply-adds below which the second kernel's start costs too much of the gain."""
_GAP = 16
"""Elements between factors of B in scratch, so that they do not collide in the cache."""
_CHUNK = 1 << 18
"""Numbers of the weights that one block looks at."""
_SHARE = 1 << 13
"""Numbers of A that a worker sums at a time."""
_A_PARTS = 3
"""Second-level caches that a part of A may fill: its factors, up to three times as much, are read from the third level
then, once per group of panels."""
_TWINS = 64
"""Pairs of columns that begin alike, of which it is looked whether they are equal."""
_UNEVEN = 0.005
"""Share of time that is lost per block that is missing from a run's ``BLOCKS_PER_THREAD``."""
_FIRST = 0.04
"""Share of the time of a group's rows that a block loses where it begins: factors of B are formed before there are sums
to hide it."""
_BOTH_READ = 0.005
"""Share of time that is lost where all threads read all of B."""
NAME = "Strassen"


@contraction_algorithm(NAME, rank=3)
def strassen_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product by Strassen's algorithm; nothing where it does not apply.

    It needs constant f32 weights none of which drowns the others, no two columns of which are equal, one batch, evenly
    spaced rows of A and a depth whose half is whole vectors. Where it is ``settled``, nothing is estimated.
    """
    product, weights = work.product, work.weights
    m, n, k = product.m, product.n, product.k
    possible = (
        m >= 2
        and not (e.options.open_sizes or e.target.lane_operand)
        and applies(e.target, n, k, 1)
        and m * n * k >= _LEAST
    )
    if not possible or not weights.taken_once(e, product):
        return []
    rows = product.a.table
    steps = np.diff(rows)
    if rows[0] != 0 or (steps != steps[0]).any() or steps[0] < k:
        return []
    if not weights.mixable(e):
        return []
    if _has_twins(e, weights):
        return []
    choice_key = (e.origin, NAME, n, k)
    earlier = e.pool.kept_choices.get(choice_key)
    if settled == NAME and earlier is not None and 2 ** earlier[2] * earlier[0] <= m:
        tile, cycles = earlier, 0.0
    else:
        tile, cycles = choose_strassen(e.target, m, n, k, earlier, e.threads)
    if earlier is None:
        e.pool.kept_choices.note(choice_key, tile)
    lda = int(steps[0])
    return [Candidate(NAME, cycles, lambda: _emit(e, product, weights, tile, lda))]


def _has_twins(e: Emitter, weights: Weights) -> bool:
    """Whether some columns are equal: their results must be too, so that ties stay ties whatever comes behind them.

    Columns of different quarters are rounded in different ways. (Models with made-up weights are judged by such ties:
    SqueezeNet among onnx's light models ends in 1000 equal scores of 1e10.)
    """
    numbers = weights.tensor.const
    assert numbers is not None
    key = (e.origin, "twins", id(numbers))
    found = e.pool.kept_choices.get(key)
    if found is None:
        conv = weights.conv is not None
        columns = numbers.reshape(numbers.shape[0], -1) if conv else numbers.reshape(-1, numbers.shape[-1]).T
        order = np.argsort(columns[:, 0], kind="stable")
        alike = np.flatnonzero(np.diff(columns[order, 0]) == 0)[:_TWINS]
        found = any(np.array_equal(columns[order[i]], columns[order[i + 1]]) for i in alike)
        e.pool.kept_choices[key] = found
    return bool(found)


def _emit(e: Emitter, product: Product, weights: Weights, tile: Choice, lda: int) -> None:
    """Rows in parts, one after the other, so that A's factors are near when they are read once per group of panels."""
    m, k, epilogue = product.m, product.k, product.epilogue
    mr, nv, levels = tile
    rows = split_evenly(m, -(-m * k * 4 // (_A_PARTS * e.target.l2_bytes)), 2**levels * mr)
    each = math.ceil(min(m, rows) / 2**levels)
    tiles = -(-each // mr)
    depth = k // 2**levels
    factors = e.allocate(DType.F32, (7**levels, tiles * mr, depth), (0, 1, 2))
    flags = e.allocate(DType.I32, (tiles,), (0,))
    nr = nv * e.target.lanes(DType.F32)
    chunk = chunk_of(e.target, depth, nr)
    spec = StrassenSpec(mr, nv, levels, chunk * nr + _GAP, product.c.dtype, epilogue.body, epilogue.kinds)
    for first in range(0, m, rows):
        _emit_rows(e, _part(product, first, min(first + rows, m), lda), weights, spec, lda, chunk, factors, flags)


def _part(product: Product, first: int, past: int, lda: int) -> Product:
    """The rows ``[first, past)``; those of A are ``lda`` elements apart."""

    def cut(side: OperandAccess) -> OperandAccess:
        return side if side.rows is None else replace(side, rows=side.rows[first:past])

    a = product.a
    left = replace(a, place=a.place._replace(offset=a.place.offset + first * lda), rows=None)
    return replace(product, a=left, c=cut(product.c), epilogue=product.epilogue.moved(cut), m=past - first)


def _emit_rows(
    e: Emitter,
    product: Product,
    weights: Weights,
    spec: StrassenSpec,
    lda: int,
    chunk: int,
    factors: Place,
    flags: Place,
) -> None:
    c, m, n, k = product.c, product.m, product.n, product.k
    parts = 2**spec.levels
    rows, depth = -(-m // parts), k // parts
    tiles = -(-rows // spec.mr)
    nr = spec.nr(e.target)
    panels = -(-n // nr)
    groups = -(-panels // parts)
    b_ref, _, panel, _ = weights.packed(e, nr, 1)
    source = e.ref(product.a.place, DType.F32)
    first: dict[str, int | Ref] = {
        "a": source,
        "s": e.ref(factors, DType.F32),
        "flags": e.ref(flags, DType.I32),
        "lda": lda,
        "m": m,
        "rows": rows,
        "k": depth,
        "chunk": chunk,
        "tiles": tiles,
    }
    e.command(StrassenSumsSpec(spec.levels, spec.mr), first, tiles, max(1, _SHARE // (parts * spec.mr * k)))
    stages, uses = tables(spec.levels, depth, chunk, nr)
    b_flags, n_b_flags = _weight_flags(e, b_ref, panels * panel, (id(weights.tensor.const), nr, weights.conv))
    most = most_rows(e.target, spec.levels, nr, spec.mr)
    rows_each, groups_each = _blocks(e, rows, groups, spec, (m, depth), most)
    args: dict[str, int | Ref] = first | {
        "b": b_ref,
        "c": e.ref(c.place, c.dtype),
        "rows_c": e.offsets(c.table),
        "stages": e.table(stages),
        "n_stages": len(stages),
        "uses": e.table(uses),
        "n_flags": tiles,
        "b_flags": b_flags,
        "n_b_flags": n_b_flags,
        "panel": panel,
        "panels": panels,
        "groups": groups,
        "n": n,
        "mb": rows_each,
        "nb": groups_each,
    }
    args |= product.epilogue.args(e)
    blocks = -(-rows // rows_each) * -(-groups // groups_each)
    e.command(spec, args, blocks, 1, 2 * m * n * k, part=True)


def _blocks(
    e: Emitter, rows: int, groups: int, spec: StrassenSpec, sizes: tuple[int, int], most: int
) -> tuple[int, int]:
    """Rows (of a part; at most ``most``) and groups of panels in one block: what makes the runs of threads even, or
    lets each thread read the factors that it wrote. ``sizes``: all rows, the depth of a part."""
    tile = mr, nv = spec.mr, spec.nv
    high, (m, depth) = -(-rows // mr), sizes
    if e.threads == 1:
        return split_evenly(rows, -(-rows // most), mr), groups

    work = float(COUNT) ** spec.levels * depth * mr * nv / e.target.fma_per_cycle
    extents = m, depth << spec.levels, spec.levels, e.threads
    passing = [passed(e.target, *extents, by_rows) / work for by_rows in (False, True)]

    def cost(each: int, wide: int) -> float:
        down, across = -(-high // each), -(-groups // wide)
        few = max(0, BLOCKS_PER_THREAD - down * across // e.threads)  # who has time does what is left of a run
        formed = 1 + unhidden(tile, each) / each + _FIRST * down**2 * across / (e.threads * groups)
        apart = (min(down, e.threads) - 1) / (e.threads - 1)
        both = _BOTH_READ * apart  # B, by all that have different rows
        other = (passing[True] * apart + passing[False] * (1 - apart)) / e.threads
        return longest(high, each, groups, wide, e.threads) * (formed + _UNEVEN * few + both) + other

    fit = max(1, most // mr)
    options = [(h, w) for h in piece_sizes(high, e.threads, fit) for w in piece_sizes(groups, e.threads)]
    each, wide = min(options, key=lambda size: cost(*size))
    return each * mr, wide


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
