"""Matrix products by Winograd's inner products, as a candidate beside the plain way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.compiler.algorithms import Candidate
from MNN.compiler.emit.side import Side, operand_args
from MNN.compiler.emit.weights import Weights
from MNN.compiler.emitter import Emitter
from MNN.compiler.program import Ref
from MNN.ir.scalar import Body
from MNN.kernels.inner import InnerSpec
from MNN.kernels.inner_cost import Tile, applies, choose_cut, choose_inner
from MNN.kernels.inner_turn import turn_of

NAME = "inner products"


def inner_candidates(
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
    """The product by inner products; nothing where these do not apply.

    They need constant f32 weights of sizes that can be evened out, one batch and one tap. Where they are ``settled``,
    nothing is estimated.
    """
    assert a.rows is not None
    m = a.rows.size
    once = weights.taken_once(e, a, c, operands, taps)
    if not once or not applies(e.target, m, n, k) or not weights.sizable(e):
        return []
    habit = (e.origin, NAME, n, k)
    earlier = e.pool.habits.get(habit)
    tile, cycles = choose_inner(e.target, m, n, k, earlier, e.threads)
    if earlier is None:
        e.pool.habits.note(habit, tile)
    elif settled == NAME:
        cycles = 0.0
    return [Candidate(NAME, cycles, lambda: _emit(e, a, c, weights, operands, body, tile, (m, n, k)))]


def _emit(
    e: Emitter,
    a: Side,
    c: Side,
    weights: Weights,
    operands: Sequence[tuple[str, Side]],
    body: Body | None,
    tile: Tile,
    extents: tuple[int, int, int],
) -> None:
    assert a.rows is not None
    assert c.rows is not None
    m, n, k = extents
    spec = InnerSpec(*tile, c.dtype, body, tuple(kind for kind, _ in operands))
    nr = spec.nr(e.target)
    b_ref, panel = weights.packed_sized(e, nr, turn_of(e.target, *tile))
    mb, nb, ub, grain = choose_cut(e.target, m, n, k, tile, e.threads)
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype),
        "b": b_ref,
        "c": e.ref(c.place, c.dtype),
        "rows_a": e.offsets(a.rows),
        "rows_c": e.offsets(c.rows),
        "k": k,
        "panel": panel,
        "m": m,
        "n": n,
        "mb": mb,
        "nb": nb,
        "ub": ub,
    }
    args |= operand_args(e, operands)
    e.command(spec, args, spec.blocks(m, n, ub, nb), grain, 2 * m * n * k)
