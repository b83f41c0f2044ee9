"""Products with weights that stay in 2, 4 or 8 bits (:class:`MNN.ir.prims.CompressedMatMul`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.backends.base.candidates import Candidate
from MNN.backends.base.program import Ref
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.low_precision import FEW_ROWS
from MNN.backends.cpu.lowbit import codebook, emit_int8, emit_strips, planes
from MNN.backends.cpu.lowbit.layout import VECTORS, Layout, kinds_of, layout_of, pack, zero_points
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.products.blocks import choose_grain
from MNN.backends.cpu.products.dot import group_of, step_ratio
from MNN.backends.cpu.products.emit_epilogue import Epilogue, epilogue_of
from MNN.backends.cpu.products.load_balance import split_evenly
from MNN.backends.cpu.products.operand_access import OperandAccess, store_back
from MNN.backends.cpu.products.product import Product
from MNN.backends.cpu.products.register_tiles import choose_tile, contract_cycles, known_tile
from MNN.backends.cpu.targets.base import Target
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.compiler.open.errors import NotOpenError
from MNN.compiler.open.plan import SMALL
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.quant import COARSE_ROW_BITS, FEWEST_ROW_BITS
from MNN.ir.scalar import Body, body_of
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of

_END_OF_FEW = SMALL.most
"""Where the range of few rows ends. A wider one would be of many: four rows take three times as long there. Matrix
units, which read expanded weights, are no way up to it: two rows would take as long as 31."""
_FEW, _FEW_OF_AVX512 = 12, SMALL.room
"""Rows up to which taking the weights apart for every tile of rows is faster than expanding a panel for all; on AVX512
the room of that range, whose upper end is as fast both ways and whose lower one is not."""
_BEGIN_OF_MANY = 16
"""Other ranges begin at so many rows or more, from where on both ways are as fast."""
_TILE_COSTS, _TILE_COSTS_OF_16 = (1.9, 2.8, 3.8, 4.8, 5.9), (1.8, 2.0, 3.2)
"""Relative times (measured) of tiles of 1, 2, ... rows, with 32 registers and with 16."""
_ROWS_OF_A = 512 << 10
"""Bytes of A that few rows may take in a worker's scratch memory."""
_MOST_BITS, _SMALL_BLOCK = 4, 128
"""Bits of codes, and numbers that share a scale, up to which scales are several per cent of all bytes."""
_PARTS = 4
"""Blocks for each of several threads."""


@emits(p.CompressedMatMul)
def emit_compressed(e: Emitter, fused: Group) -> bool:
    """The product with all rows of the left side, and what is fused with it."""
    prim = fused.anchor or fused.root
    assert isinstance(prim, p.CompressedMatMul)
    x, out = prim.inputs[0], fused.root.outputs[0]
    n, k = out.shape[-1], x.shape[-1]
    product = _product(e, prim, out)

    def row_table(strides: st.Ints) -> np.ndarray:
        return e.grid(out.shape[:-1], strides[:-1])

    def no_batch(strides: st.Ints) -> np.ndarray:
        return np.zeros(1, np.int64)

    epilogue = epilogue_of(e, fused, prim.outputs[0], out, out.rank - 1, row_table, no_batch)
    if epilogue.body is None and out.dtype is not DType.F32:
        epilogue = Epilogue(body_of([DType.F32], lambda b, v: b.cast(v, out.dtype)))
    product = replace(product, epilogue=epilogue)
    m, group = room_of(product.m), group_of(e.target, x.dtype) if x.dtype is DType.BF16 else 1
    row_bits = FEWEST_ROW_BITS if e.precision == "low" else prim.row_bits
    layout, weights = packed(e, prim.inputs[1:], prim.width, k, prim.row_bits)
    bytes_ = emit_int8.possible(e.target, layout)
    many, tiles = m > (SMALL.room if row_bits and bytes_ else most_few(e.target)), amx.available(e.target)
    few = m <= FEW_ROWS if group > 1 else not many
    if many and (group == 1 or tiles):
        _check_rows(e, product, row_bits > 0 and bytes_)
    cycles = contract_cycles(e.target, m, n, -(-k // group), DType.F32) * (1.0 if group == 1 else step_ratio(e.target))
    name = f"{prim.width}-bit weights, {'few rows' if few else 'expanded by panels'}"
    ways = [Candidate(name, cycles, lambda: _emit(e, prim, product, few, 1 if few else group))]
    if _takes_strips(e.target, product.m, layout, k):
        ways.append(emit_strips.candidate(e, product, layout, weights, row_bits > 0))
    if row_bits or (prim.finite_rows and e.precision == "normal"):
        parts = emit_int8.parts_of(e.target, layout, product.m, row_bits)
        if parts is not None and bytes_:
            ways.append(emit_int8.candidate(e, product, layout, weights, parts))
    e.choose(f"compressed {x.dtype.value} {prim.width} {m} x {n} x {k} {e.options.precision}", ways)
    return store_back(e, out, product.c.place)


def emit_halves(e: Emitter, prim: p.CompressedMatMul, out: Tensor, body: Body) -> bool:
    """``out`` ``[..., N]``, of ``body(product[..., :N], product[..., N:])`` alone, where matrix units take the rows;
    False where this way is not for them."""
    m, n, k = elements(out.shape[:-1]), out.shape[-1], prim.inputs[0].shape[-1]
    if n % emit_strips.LANES or not amx.available(e.target):
        return False
    layout, weights = packed(e, prim.inputs[1:], prim.width, k, prim.row_bits)
    if not _takes_strips(e.target, m, layout, k):
        return False
    product = _product(e, prim, out)
    if room_of(m) > most_few(e.target):
        _check_rows(e, product, prim.row_bits > 0)
    way = emit_strips.candidate(e, product, layout, weights, prim.row_bits > 0, body)
    e.choose(f"compressed halves {prim.width} {room_of(m)} x {n} x {k} {e.options.precision}", [way])
    return store_back(e, out, product.c.place)


def _product(e: Emitter, prim: p.CompressedMatMul, out: Tensor) -> Product:
    """The product with all rows of the left side, whose results become ``out``."""
    x, rank = prim.inputs[0], out.rank
    n, k = out.shape[-1], x.shape[-1]
    source = e.in_order(x, natural(x.rank), lambda pl: pl.strides[-1] == 1 or k == 1)
    result = e.output(out)
    if result.strides[-1] != 1 and n != 1:
        result = e.allocate(out.dtype, out.shape, natural(rank), roomy=True)
    here = np.zeros(1, np.int64)
    rows = [e.grid(out.shape[:-1], place.strides[:-1]) for place in (source, result)]
    left, into = OperandAccess(source, x.dtype, rows[0], here), OperandAccess(result, out.dtype, rows[1], here)
    return Product(left, into, Epilogue(), e.grid((), ()), k, n, elements(out.shape[:-1]), 1)


def rounds_to_bf16(target: Target, prim: p.CompressedMatMul) -> bool:
    """Whether the product is one for matrix units, and takes its left side in bf16."""
    x, scale = prim.inputs[0], prim.inputs[2].const
    assert scale is not None
    layout = layout_of(target, x.shape[-1], prim.width, scale.shape[1])
    return prim.row_bits > 0 and _takes_strips(target, elements(x.shape[:-1]), layout, x.shape[-1])


def _takes_strips(target: Target, m: int, layout: Layout, k: int) -> bool:
    """Whether so many rows are for matrix units."""
    return (room_of(m) > most_few(target) or m > _END_OF_FEW) and emit_strips.possible(target, layout, k)


def _check_rows(e: Emitter, product: Product, rounded: bool) -> None:
    """Raises :class:`NotOpenError` where a range has few rows and many: where they are ``rounded``, few have more
    bits."""
    if (e.target.broadcast_operand or rounded) and product.m < _BEGIN_OF_MANY:
        raise NotOpenError("few rows of low-bit weights beside many")


def _emit(e: Emitter, prim: p.CompressedMatMul, product: Product, few: bool, group: int) -> None:
    a, c, epilogue = product.a, product.c, product.epilogue
    m, n, k = product.m, product.n, product.k
    rows = room_of(m)
    layout, weights = packed(e, prim.inputs[1:], prim.width, k, prim.row_bits)
    mr, nv = few_tile(e.target, m) if few else _tile(e, rows, n, -(-k // group))
    sides = (a.dtype, DType.BF16 if group > 1 else DType.F32, DType.F32, c.dtype)
    spec = CompressedSpec(
        *sides, mr, nv, True, epilogue.body, epilogue.kinds, group,
        width=layout.width, zeros=layout.zeros, factors=layout.factors, few=few,
        codebook=layout.codebook, high=layout.high,
    )  # fmt: skip
    nr = spec.nr(e.target)
    mb = rows if not few else max(min(rows, _ROWS_OF_A // (4 * layout.blocks * layout.groups * layout.steps)), 1)
    parts = 1 if e.threads == 1 else e.threads * _PARTS
    nb = split_evenly(n, parts, layout.columns if few else nr, e.threads)
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype), "b": weights, "c": e.ref(c.place, c.dtype),
        "rows_a": e.offsets(a.table), "rows_c": e.offsets(c.table), "taps": e.offsets(product.taps),
        "n_taps": 1, "k": k, "ldb": nr, "panel": layout.panel, "m": m, "n": n,
        "batch": e.table(np.zeros((1, len(product.sides) + 1), np.int64)), "n_batch": 1, "mb": mb, "nb": nb, "ub": mb,
        "blocks": layout.blocks, "groups": layout.groups,
    }  # fmt: skip
    args |= epilogue.args(e) | codebook.arguments(e, layout.entries)
    blocks = spec.blocks(m, n, 1, mb, nb)
    grain = choose_grain(e.target, rows, n, k, (mr, nv), 1, room_of(blocks))
    e.command(spec, args, blocks, grain, 2 * m * n * k)


def packed(
    e: Emitter, constants: Sequence[Tensor], width: int, k: int, row_bits: int, count: int = 1
) -> tuple[Layout, Ref]:
    """Codes, scales and, where there are any, offsets as kernels take them, packed once: ``count`` matrices that lie
    one above the other, each in panels of its own. Where rows may be rounded to 10 bits (``row_bits``), scales of small
    blocks of 4 bits or fewer are, to the 11 of f16; with 12, or of 8, that would be most of what is lost."""
    codes, scale, *rest = (t.const for t in constants)
    assert codes is not None
    assert scale is not None
    offset = rest[0] if rest else None
    arrays = (codes, scale) if offset is None else (codes, scale, offset)
    ids = tuple(map(id, arrays))
    coarse = 0 < row_bits <= COARSE_ROW_BITS or e.precision == "low"
    rounded = coarse and width <= _MOST_BITS and k // scale.shape[1] <= _SMALL_BLOCK
    known = ("factors", *ids, rounded)
    kinds = e.pool.kept_choices.get(known)
    if kinds is None:
        entries = codebook.entries_of(e.target, codes, k, scale.shape[1], width)
        high = 0 if entries else planes.high_of(codes, k, scale.shape[1], width)
        kinds = e.pool.kept_choices[known] = (*kinds_of(e.target, scale, offset, width, rounded), entries, high)
    layout = layout_of(e.target, k, width, scale.shape[1], *kinds)
    n = codes.shape[0] // count
    each = layout.nbytes(n)
    key, source = ("compressed", *ids, layout.width, layout.high, count, rounded), (*arrays, constants[0].keep)
    buffer, fresh = e.pool.reserve(key, each * count, DType.U8, source)
    if fresh:
        assert buffer.const is not None
        points = zero_points(scale, offset, width)[1]
        for i in range(count):
            rows, out = slice(i * n, (i + 1) * n), buffer.const[i * each : (i + 1) * each]
            pack(layout, codes[rows], scale[rows], None if points is None else points[rows], out)
        e.pool.filled(buffer)
    return layout, Ref(buffer, 0)


def _tile(e: Emitter, m: int, n: int, steps: int) -> tuple[int, int]:
    """Rows and vectors of expanded panels."""
    choice_key = (e.origin, n, steps, DType.F32)
    earlier = e.pool.kept_choices.get(choice_key)
    tile = known_tile(e.target, m, n, steps, DType.F32, earlier, (), 0.0) if earlier is not None else None
    tile = tile or choose_tile(e.target, m, n, steps, DType.F32)
    if earlier is None:
        e.pool.kept_choices.note(choice_key, tile)
    return tile


def most_few(target: Target) -> int:
    """Rows up to which weights are taken apart for every tile of them."""
    return _FEW_OF_AVX512 if target.broadcast_operand else _FEW


def few_tile(target: Target, m: int) -> tuple[int, int]:
    """Rows and vectors: whole panels, since reading every other part of one would be slow. For an open size, what is
    best in the mean of those in its range (1 and 2 have plans of their own)."""
    costs = _TILE_COSTS if target.vector_registers >= 32 else _TILE_COSTS_OF_16
    room = room_of(m)
    sizes = range(3, room + 1) if isinstance(m, OpenSize) else (room,)

    def cost(rows: int) -> float:
        return sum(-(-size // rows) * costs[rows - 1] / size for size in sizes)

    return min(range(1, min(room, len(costs)) + 1), key=lambda rows: (cost(rows), -rows)), VECTORS


__all__ = ["emit_halves", "few_tile", "most_few", "packed", "rounds_to_bf16"]
