"""Contractions on the contraction kernel (:class:`MNN.backends.cpu.gemm.contraction.ContractSpec`), which computes all
of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.code import FEW_TILES, many_rows
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.deep_sums import parts, whole
from MNN.backends.cpu.gemm.emit_packing import pack_each_run
from MNN.backends.cpu.gemm.tap_spans import spans_of, taken
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.packing.weights24 import weights24_tile
from MNN.backends.cpu.products.algorithms import Contraction, contraction_algorithm
from MNN.backends.cpu.products.blocks import choose_blocks, choose_grain
from MNN.backends.cpu.products.dot import DOT2, step_ratio
from MNN.backends.cpu.products.dot8 import DOT4
from MNN.backends.cpu.products.emit_tiles import Tile, sums_of, with_tiles
from MNN.backends.cpu.products.epilogue import is_short
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.operand_access import batch_starts
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.products.register_steps import with_all_registers
from MNN.backends.cpu.products.register_tiles import choose_tile, contract_cycles, known_tile, narrower
from MNN.backends.cpu.targets.base import Target
from MNN.compiler import usage
from MNN.compiler.bodies import WIDE
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.ir.traced import OpenSize, room_of

_LAST_STEPS = {True: 8, False: 12}
"""Steps at the end that some rows take after others while results are finished, where these are a few instructions and
where they are more (a residual connection). With half of them 1 % less is gained."""
_APART = 4.0
"""Cycles that it takes to find a run of f32 in a row whose other channels belong to other groups: of every line there
is a part, and rows of many channels fall into few sets of the first-level cache. (3x3 windows of 256 channels in 32
groups: 9 in a network, 2.5 alone; of 128 channels 6.)"""


@contraction_algorithm("", rank=0)
def gemm_candidates(e: Emitter, work: Contraction, settled: str = "") -> list[Candidate]:
    """The product as it is; with other register tiles too where its signature is tuned."""
    product, weights = work.product, work.weights
    acc, steps = _tiled(product.a.dtype), product.taps.size * -(-room_of(product.k) // weights.group)
    target = _target(e, product, weights, steps, acc)
    m, n = room_of(product.m), room_of(product.n)

    looks_up = not (e.collecting or e.options.open_sizes)
    share = taken(work.window, product, choose_tile(target, m, n, steps, acc)[0], weights) if looks_up else 1.0

    def cycles() -> float:
        apart = _APART * m * product.taps.size if work.window is not None and _parts_of_lines(product) else 0.0
        return share * room_of(product.batches) * (_cycles(target, m, n, steps, weights.group, acc) + apart)

    def emit(tile: Tile | None) -> None:
        _emit(e, product, weights, tile, work.window)

    return with_tiles(e, work.signature, work.plain, (m, n, steps, acc), cycles, emit, target, settled)


def _parts_of_lines(product: Product) -> bool:
    """Whether rows of A are those of several groups of channels."""
    return product.a.dtype is DType.F32 and room_of(product.batches) > 1


def _sums(dtype: DType) -> DType:
    """What the kernel is told to sum products of ``dtype`` in."""
    return dtype if dtype is DType.F16 else sums_of(dtype)


def _tiled(dtype: DType) -> DType:
    """The type of sums that tiles are chosen for: those of 16-bit integers take no more registers than those of f32."""
    return DType.F32 if dtype is DType.I16 else _sums(dtype)


def _target(e: Emitter, product: Product, weights: Weights, steps: int, acc: DType) -> Target:
    """The target, with vectors of half the width where a product takes these, and with all registers where operands
    of f32 leave them to tiles.

    Half the width only with constant weights: columns of others may change with the input's size, for which no kernel
    shall be new.
    """
    constant = weights.tensor.const is not None
    if constant and weights.group in (1, DOT2) and narrower(e.target, room_of(product.n), steps, acc):
        return e.target.narrowed()
    return with_all_registers(e.target) if product.a.dtype is weights.dtype is DType.F32 else e.target


def _cycles(target: Target, m: int, n: int, steps: int, group: int, acc: DType) -> float:
    """Estimate for a product on vectors, with ``steps`` of ``group`` products per sum."""
    wide = acc if acc is DType.F16 else DType.F32
    return contract_cycles(target, m, n, steps, wide) * (1.0 if group == 1 else step_ratio(target, group))


def _emit(e: Emitter, product: Product, weights: Weights, tile: Tile | None, window: Window | None) -> None:
    a, epilogue, taps = product.a, product.epilogue, product.taps
    m, n, k, n_batch = product.m, product.n, product.k, product.batches
    if m == 0 or n == 0 or n_batch == 0:
        return
    acc = _sums(a.dtype)
    if weights.parts > 1:
        taps = np.tile(taps, weights.parts)
        product = replace(product, taps=taps)
    steps = taps.size * -(-room_of(k) // weights.group)
    constant = weights.tensor.const is not None
    w24 = m == n_batch == taps.size == 1 and a.dtype is DType.F32 and weights.w24(e)
    target = e.target if w24 else _target(e, product, weights, steps, acc)
    narrow = target.vector_bytes < e.target.vector_bytes
    packed = constant or _packs_each_run(e, product, weights, target, steps, acc)
    family = None
    if w24:
        tile = weights24_tile(n, e.target.lanes(DType.F32))
    elif tile is None:
        family, tile = _kept_choice(e, product, weights, target, steps, packed)
    mr, nv = tile
    many = packed and a.dtype is DType.F32 and many_rows(target, tile, room_of(m), steps)
    if family is not None:
        variants = e.pool.kept_choices.made((family, tile))
        many = many and (not variants or True in variants)  # other sizes compile no kernel for it
        e.pool.kept_choices.make((family, tile), many)
    spans = None if e.collecting or e.options.open_sizes else spans_of(window, product, mr, weights)
    kept = a.dtype, DType.I8 if w24 else weights.dtype, acc
    nr = nv * target.lanes(acc)
    if w24:
        (b_ref, panel), ldb, b_batch = weights.packed_weights24(e, nr), 0, np.zeros(1, np.int64)
    elif packed and not constant:
        b_ref, ldb, panel, b_batch = pack_each_run(e, weights, nr, n_batch)
    else:
        b_ref, ldb, panel, b_batch = (weights.packed if constant else weights.plain)(e, nr, n_batch, a.dtype)
    cut = packed and not constant and acc is DType.F32
    for part in parts(e, product, nr, weights.group) if cut else [whole(product)]:
        c, epilogue, steps = part.c, part.epilogue, part.taps.size * -(-room_of(part.k) // weights.group)
        body, finished = epilogue.body, WIDE.get(acc, acc)
        if body is None and finished is not c.dtype:
            body = body_of([finished], lambda b, v: b.cast(v, c.dtype))  # noqa: B023 - called at once
        beside = _beside(target, product, weights, tile, body)
        spec = ContractSpec.of(
            *kept, c.dtype, mr, nv, packed, body, epilogue.kinds, weights.group, many_rows=many, narrow=narrow, w24=w24,
            beside=beside, fits=epilogue.fits, spans=spans is not None,
        )  # fmt: skip
        written = c.dtype.size % acc.size if acc is DType.I32 and weights.group == DOT2 else 0
        mb, nb, ub = choose_blocks(
            target, room_of(m), room_of(n), steps, e.threads, (mr, nv), acc, packed, written, window=window
        )
        args: dict[str, int | Ref] = {
            "a": e.ref(a.place, a.dtype),
            "b": Ref(b_ref.buffer, b_ref.offset + part.lines * ldb * weights.dtype.size),
            "c": e.ref(c.place, c.dtype),
            "rows_a": e.offsets(a.table),
            "rows_c": e.offsets(c.table),
            "taps": e.offsets(part.taps),
            "n_taps": part.taps.size,
            "k": part.k,
            "ldb": ldb,
            "panel": panel,
            "m": m,
            "n": n,
            "batch": batch_starts(e, [a.batch, b_batch, c.batch, *[s.batch for s in epilogue.sides]], n_batch),
            "n_batch": n_batch,
            "mb": mb,
            "nb": nb,
            "ub": ub,
        }
        if spans is not None:
            args["spans"] = e.table(spans)
        args |= epilogue.args(e)
        blocks = spec.blocks(m, n, n_batch, ub, nb)
        grain = choose_grain(
            target, room_of(m), room_of(n), steps, (mr, nv), room_of(n_batch), room_of(blocks), acc, e.threads
        )
        e.command(spec, args, blocks, grain, 2 * m * n * part.taps.size * part.k * n_batch // weights.parts)


def _beside(target: Target, product: Product, weights: Weights, tile: Tile, body: Body | None) -> int:
    """How many of the last steps some rows take after others (:mod:`MNN.backends.cpu.gemm.code_beside`); 0 where a tile
    ends as a whole."""
    mr, nv = tile
    whole = room_of(product.m) >= mr and room_of(product.n) >= nv * target.lanes(DType.I32)
    return last_steps(target, product, weights, body) if whole and mr > 1 and nv > 1 else 0


def last_steps(target: Target, product: Product, weights: Weights, body: Body | None) -> int:
    """The same for a tile that is whole and has several rows and vectors."""
    k = product.k
    if not target.separate_adders or weights.group != DOT4 or weights.tensor.const is None or body is None:
        return 0
    steps = _LAST_STEPS[is_short(body)]
    return 0 if isinstance(k, OpenSize) or k % DOT4 or k < steps * DOT4 or product.c.dtype.size > 1 else steps


def _packs_each_run(e: Emitter, product: Product, weights: Weights, target: Target, steps: int, acc: DType) -> bool:
    """Whether a right side that is computed at run time is copied into panels by commands of their own.

    Where it lies in another order, it has to be moved anyway; where several blocks of rows use a panel, or several
    products (the steps of a sequence), each would pack it for itself. With open sizes it is not: one kernel is for all
    of them.
    """
    sizes = product.m, product.n, product.k, product.batches
    if e.collecting or e.options.open_sizes or weights.group > DOT2 or any(isinstance(s, OpenSize) for s in sizes):
        return False
    place = e.place(weights.tensor)
    if place.buffer.nbytes == 0:  # a stand-in, see emit.packing
        return False
    if weights.conv is not None or (place.strides[-1] != 1 and product.n > 1):
        return True
    mr, nv = choose_tile(target, product.m, product.n, steps, acc, e.threads)
    if product.m > FEW_TILES * mr and usage.is_right_side_again(weights.tensor, e.uses):
        return True
    mb, _, _ = choose_blocks(target, product.m, product.n, steps, e.threads, (mr, nv), acc, True)
    return mb < product.m


def _kept_choice(
    e: Emitter, product: Product, weights: Weights, target: Target, steps: int, run_packed: bool
) -> tuple[tuple[object, ...], Tile]:
    """The tile to take, one that this node or others like it had at another size where that costs little; and what
    kernels have in common that differ in their tiles."""
    kept_choices, constant, acc = e.pool.kept_choices, weights.tensor.const is not None, _tiled(product.a.dtype)
    narrow = target.vector_bytes < e.target.vector_bytes
    types = product.a.dtype, weights.dtype, product.c.dtype

    def family(packed: bool) -> tuple[object, ...]:
        return product.epilogue.kinds, *types, weights.group, packed, product.epilogue.body, narrow

    packed = constant or run_packed or e.place(weights.tensor).buffer.nbytes == 0  # the latter: see emit.packing
    choice_key, own = (e.origin, room_of(product.n), steps, acc), family(packed)
    had, made, spare = kept_choices.get(choice_key), kept_choices.made(own), e.spare / room_of(product.batches)
    extents = room_of(product.m), room_of(product.n), steps, acc
    joined = weights.group == DOT4 and "mn" in product.epilogue.kinds
    tile = known_tile(target, *extents, had, made, spare, e.threads, constant, joined)
    tile = tile or choose_tile(target, *extents, e.threads, joined)
    kept_choices.make(own, tile)
    if not packed and e.collecting:  # see emit.attention
        kept_choices.make(family(True), tile)
    if had is None:
        kept_choices.note(choice_key, tile)
    return own, tile
