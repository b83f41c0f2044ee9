"""Attention in one command: a product, a softmax over its rows, a product with the result, block of rows by block.

Scores never leave the second-level cache: blocks of rows are so small that theirs fill half of it. This is the outer
half of FlashAttention (Dao et al. 2022, arXiv:2205.14135); rows are held whole, so the softmax needs no correction.
Any row program takes the softmax's place, with whatever masks and scales were fused into it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Buffer, Command, Place, StageCall
from MNN.backends.cpu.chains.stages import Intermediate, by_rows, local_bytes, rows_and_batches, split, stage, virtual
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.emit_packing import stand_in, with_packed
from MNN.backends.cpu.loops.emit_reduce import emit_rows
from MNN.backends.cpu.products.emit_contractions import emit_matmul
from MNN.backends.cpu.products.load_balance import BLOCKS_PER_THREAD, longest
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements

ROWS, LEAST_ROWS = 24, 8
"""Large and small block sizes are multiples of these, so that few tiles of usual heights are cut."""
_BLOCK_ROWS = 2
"""Rows that could be done while a block begins."""
_CUT = 1.02
"""What tiles cost more that do not divide a block evenly."""
_UNEVEN = 0.005
"""Share of time that is lost per block that is missing from a run's ``BLOCKS_PER_THREAD``."""
BYTES_PER_CYCLE = 8.0
"""What another pass over scores beyond the second-level cache costs."""


@dataclass(frozen=True)
class Attention:
    """Groups that make one chain; ``scores`` and ``weights`` are what passes between them."""

    scoring: Group
    rows: Group
    mixing: Group
    scores: Tensor
    weights: Tensor


def find_attention(
    groups: Sequence[Group], uses: Mapping[Tensor, list[Prim]], outputs: Sequence[Tensor]
) -> list[Attention]:
    """Every row program between two matrix products that nothing else looks into."""
    home = {id(q): g for g in groups for q in (*g.prims, *((g.anchor,) if g.anchor else ()))}
    kept = {id(t) for t in outputs}
    found: list[Attention] = []
    taken: set[int] = set()
    for group in groups:
        attention = _around(group, home, uses, kept) if group.kind == "rows" and group.anchor is None else None
        if attention is not None and not {id(attention.scoring), id(attention.mixing)} & taken:
            found.append(attention)
            taken |= {id(attention.scoring), id(attention.mixing)}
    return found


def _around(
    rows: Group, home: Mapping[int, Group], uses: Mapping[Tensor, list[Prim]], kept: set[int]
) -> Attention | None:
    weights, shape = rows.root.outputs[0], rows.shape
    if len(rows.root.outputs) != 1 or weights.shape != shape or rows.axes != (len(shape) - 1,) or id(weights) in kept:
        return None
    users, seen = _users(weights, uses, kept)
    if users is None or len(users) != 1 or not isinstance(users[0], p.MatMul):
        return None
    product = users[0]
    mixing = home.get(id(product))
    if mixing is None or product.inputs[0] is not seen or product.inputs[1] is seen:
        return None
    members = {id(q) for q in rows.prims}
    for tensor in rows.inputs():
        source = tensor
        while source.producer is not None and isinstance(source.producer, p.Reshape):
            source = source.producer.inputs[0]
        scoring = home.get(id(source.producer)) if source.producer is not None else None
        if (
            scoring is None
            or not isinstance(scoring.anchor or scoring.root, p.MatMul)
            or scoring.root.outputs[0] is not source
            or elements(source.shape) != elements(shape)
            or (source.shape[-1], tensor.shape) != (shape[-1], shape)
            or id(source) in kept
        ):
            continue
        readers, _ = _users(source, uses, kept)
        if readers is not None and all(id(q) in members for q in readers):
            return Attention(scoring, rows, mixing, source, weights)
    return None


def _users(tensor: Tensor, uses: Mapping[Tensor, list[Prim]], kept: set[int]) -> tuple[list[Prim] | None, Tensor]:
    """Who reads a tensor, seen through reshapes that keep its rows; None when a result of the program does."""
    while True:
        users = uses.get(tensor, [])
        if len(users) != 1 or not isinstance(users[0], p.Reshape):
            return users, tensor
        after = users[0].outputs[0]
        if id(after) in kept or after.rank < 2 or after.shape[-1] != tensor.shape[-1]:
            return None, tensor
        tensor = after


@dataclass(frozen=True)
class Built:
    """A chain ready to append: its stages, blocks in all and per outer step, local bytes; what it needs packed before
    and what follows it."""

    packing: list[Command]
    stages: list[StageCall]
    blocks: int
    inner: int
    local: int
    after: list[Command]


def emit_attention(e: Emitter, found: Attention, emit_group: Callable[[Group], None]) -> None:
    """One chain; or every group with ``emit_group`` where they do not come out as three plain kernels."""
    built = _build(e, found)

    def separately() -> None:
        for group in (found.scoring, found.rows, found.mixing):
            emit_group(group)

    if built is None:
        separately()
        return
    scores = found.scores
    size = elements(scores.shape) * scores.dtype.size
    flops = sum(s.command.flops for s in built.stages)
    cycles = flops / (2 * e.target.lanes(scores.dtype) * e.target.fma_per_cycle)
    apart = cycles + 1 + (4 * size / BYTES_PER_CYCLE if size > e.target.l2_bytes // 2 else 0)

    def chained() -> None:
        e.commands += built.packing
        e.chain(built.stages, built.blocks, built.inner, built.local)
        e.commands += built.after

    depth = (found.scoring.anchor or found.scoring.root).inputs[0].shape[-1]
    signature = f"attention {scores.dtype.value} {'x'.join(map(str, scores.shape))} by {depth} on {e.threads} threads"
    e.choose(signature, [Candidate("one chain", cycles, chained), Candidate("three kernels", apart, separately)])


def _build(e: Emitter, found: Attention) -> Built | None:
    """The chain; None when it cannot be one."""
    products = [g.anchor or g.root for g in (found.scoring, found.mixing)]
    tensors = [found.scores, found.weights, *(t for q in products for t in (*q.inputs, *q.outputs))]
    if any(t.dtype is not DType.F32 or 0 in t.shape for t in tensors):
        return None
    m, z = _rows_and_batches(products[0])
    place = virtual(found.scores)
    row_bytes = place.strides[-2] * found.scores.dtype.size
    mb = block_rows(e, m, z, row_bytes)
    inner = -(-m // mb)
    e.assign(found.scores, place)
    e.assign(found.weights, Place(place.buffer, 0, virtual(found.weights).strides))
    packing: list[Command] = []
    after: list[Command] = []
    commands: list[Command] = []
    origin = e.origin
    for group in (found.scoring, found.rows, found.mixing):
        e.origin = group.root.origin
        made = _command(e, group, place.buffer, inner > 1, packing, after)
        commands += [made] if made is not None else []
    e.origin = origin
    e.forget(place.buffer)
    if len(commands) != 3:
        return None
    first, rows, last = commands
    if {rows_and_batches(first), rows_and_batches(last)} != {(m, z)} or rows.blocks != m * z:
        return None
    held = [Intermediate(place.buffer, mb * row_bytes, m * row_bytes, mb * row_bytes)]
    first, last = (by_rows(e, c, mb) for c in (first, last))
    stages = [stage(first, held), stage(rows, held, mb), stage(last, held)]
    return Built(packing, stages, z * inner, inner, local_bytes(held), after)


def _rows_and_batches(product: Prim) -> tuple[int, int]:
    """Those of the contraction that a product becomes; see ``emit_matmul``."""
    shape = product.outputs[0].shape
    if elements(product.inputs[1].shape[:-2]) == 1:
        return elements(shape[:-1]), 1
    return shape[-2], elements(shape[:-2])


def _command(
    e: Emitter, group: Group, held: Buffer, again: bool, packing: list[Command], after: list[Command]
) -> Command | None:
    """The one command of a group that touches the intermediate; None when it is not one.

    The right side of a product is packed first (commands for ``packing``) where it would be copied anyway, and where it
    is used ``again`` by other blocks of rows. Commands for after the chain are added to ``after``.
    """
    product = group.anchor or group.root
    y, imagined = product.inputs[-1], None
    old = e.place(y) if isinstance(product, p.MatMul) and y.const is None and y is not product.inputs[0] else None
    if old is not None and (again or old.strides[-1] != 1):
        for tensor in group.inputs():  # which may be views of y: where they lie must not change with it
            if tensor is not product.outputs[0]:  # what an epilogue goes on with lies nowhere yet
                e.place(tensor)
        imagined = stand_in(y)
        e.assign(y, imagined)
    with e.collect() as commands:
        if isinstance(product, p.MatMul):
            done = emit_matmul(e, group)
        else:
            done = emit_rows(e, group, natural(len(group.shape)))
    if imagined is not None and old is not None:
        e.assign(y, old)
        e.forget(imagined.buffer)
    before, inside, later = split(commands, held)
    e.commands += before
    after += later
    if not done or len(inside) != 1:
        return None
    if imagined is None or old is None:
        if old is not None and isinstance(inside[0].kernel, ContractSpec):
            e.companions[dataclasses.replace(inside[0].kernel, b_packed=True)] = None  # for more blocks of rows
        return inside[0]
    with e.collect() as copies:
        found = with_packed(e, inside[0], y, imagined, old)
    packing += copies
    return found


def block_rows(e: Emitter, m: int, z: int, row_bytes: int) -> int:
    """Rows of a block: what fits half of the second-level cache, and for several threads what makes their runs even."""
    fit = max(e.target.l2_bytes // 2 // row_bytes, LEAST_ROWS)
    even = -(-m // -(-m // fit))
    unit = ROWS if even >= 2 * ROWS else LEAST_ROWS
    alone = min(-(-even // unit) * unit, max(fit // unit, 1) * unit)
    if e.threads == 1:
        return alone

    def cost(rows: int) -> float:
        blocks = z * -(-m // rows)
        few = max(0, BLOCKS_PER_THREAD - blocks // e.threads)  # what is left of a run is done by whoever has time
        whole = 1.0 if rows % ROWS == 0 or rows >= m else _CUT
        run = longest(m, rows, 1, 1, e.threads, z)
        return run * (whole + _UNEVEN * few) + -(-blocks // e.threads) * _BLOCK_ROWS

    return min(range(LEAST_ROWS, alone + 1, LEAST_ROWS), key=cost)
