"""Convolutions and matrix products: what is multiplied, and the ways to do so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.packing.int8 import taken_in_pairs
from MNN.backends.cpu.packing.weights import Weights
from MNN.backends.cpu.products.algorithms import Contraction, candidates
from MNN.backends.cpu.products.emit_epilogue import epilogue_of
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.products.lane_groups import Lanes, groups_in_lanes
from MNN.backends.cpu.products.merged_groups import merged, merged_columns, merged_lines
from MNN.backends.cpu.products.operand_access import OperandAccess, channel_result, store_back
from MNN.backends.cpu.products.operand_types import MULTIPLIED, multiplied
from MNN.backends.cpu.products.product import Product
from MNN.compiler import strides as st
from MNN.compiler import usage
from MNN.compiler.fuse import Group
from MNN.compiler.layout import channels_last, natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of


@emits(p.Conv, rank=1)
def emit_conv(e: Emitter, fused: Group) -> bool:
    """Implicit GEMM: rows are output positions, taps are kernel positions, channels are innermost."""
    prim = fused.anchor or fused.root
    assert isinstance(prim, p.Conv)
    x, w = prim.inputs
    if not _possible(prim):
        return False
    out = fused.root.outputs[0]
    shape = out.shape
    many, simple = elements(shape) // shape[1], w.const is not None or _packed_in_pairs(e, x, w)
    run, columns = w.shape[1] * (w.shape[-1] if prim.groups == 1 else 1), w.shape[0] // prim.groups
    in_pairs = taken_in_pairs(e, w, room_of(many), run, columns, True)
    x, w, group = multiplied(e, x, w, simple, many, in_pairs)
    alone, kernel = w, w.shape[2:]
    w, groups = merged(e, x, w, prim.groups)
    per_in, per_out = w.shape[1], w.shape[0] // groups
    last = channels_last(x.rank)
    source = e.in_order(x, last, lambda pl: pl.strides[1] == 1 or x.shape[1] == 1)
    result = channel_result(e, out)
    steps = [d * s for d, s in zip(prim.dilations, source.strides[2:], strict=True)]
    k = per_in
    tap_dims, tap_steps = list(kernel), list(steps)
    if groups == 1 and tap_steps and tap_steps[-1] == per_in:  # a row of the window is one contiguous run
        k, tap_dims, tap_steps = per_in * tap_dims[-1], tap_dims[:-1], tap_steps[:-1]
    grid = (shape[0], *shape[2:])
    strides = [s * t for s, t in zip(prim.strides, source.strides[2:], strict=True)]

    def row_table(place_strides: st.Ints) -> np.ndarray:
        return e.grid(grid, (place_strides[0], *place_strides[2:]))

    def batch_table(place_strides: st.Ints) -> np.ndarray:
        return e.grid((groups,), (per_out * place_strides[1],))

    one = e.grid((groups,), (per_in,))
    a = OperandAccess(source, x.dtype, e.grid(grid, (source.strides[0], *strides)), one)
    c = OperandAccess(result, out.dtype, row_table(result.strides), batch_table((0, 1)), (0, 1))
    epilogue = epilogue_of(e, fused, prim.outputs[0], out, 1, row_table, batch_table)
    product = Product(a, c, epilogue, e.grid(tap_dims, tap_steps), k, per_out, elements(grid), groups)
    weights = Weights(w, (kernel, per_in, per_out, groups), group, k)
    signature = f"conv {x.dtype.value} {x.shape} * {w.shape} / {prim.strides} {prim.dilations} {groups}"
    signature = f"{signature} {e.precision}"
    window = Window(
        shape[0], shape[2:], x.shape[2:], kernel, tuple(prim.strides), tuple(prim.dilations), source.strides[0],
        source.strides[2:], per_in, _border(prim),
    )  # fmt: skip

    def joined(count: int) -> Product:
        """The product with as many groups at once as leave ``count``."""
        channels, results = x.shape[1] // count, shape[1] // count

        def side(s: OperandAccess) -> OperandAccess:
            return replace(s, batch=e.grid((count,), (results * s.strides[1],)))

        return replace(
            product, a=replace(a, batch=e.grid((count,), (channels,))), c=side(c), epilogue=epilogue.moved(side),
            taps=e.grid(kernel, steps), k=channels, n=results, batches=count,
        )  # fmt: skip

    def in_lines() -> tuple[Product, Weights, Window] | None:
        whole, count = merged_lines(e, x, alone, prim.groups)
        if count >= groups:
            return None
        channels, results = whole.shape[1], whole.shape[0] // count
        right = Weights(whole, (kernel, channels, results, count), group, channels)
        return joined(count), right, replace(window, channels=channels)

    def in_sections(columns: int) -> tuple[Product, Weights, Window] | None:
        part = merged_columns(e, alone, prim.groups, columns) if prim.groups > 1 else None
        if part is None:
            return None
        channels = part.shape[1]
        return (
            joined(1),
            Weights(part, (kernel, channels, shape[1], 1), group, channels),
            replace(window, channels=channels),
        )

    def in_lanes() -> tuple[Product, Weights, Lanes] | None:
        lanes = groups_in_lanes(e.target, x.dtype, group, alone, prim.groups)
        if lanes is None:
            return None
        count = prim.groups // lanes.at_once
        right = Weights(alone, (kernel, lanes.ins, shape[1] // count, count), group, lanes.ins)
        return joined(count), right, lanes

    def in_panels() -> tuple[Product, Tensor, int] | None:
        return (joined(1), alone, prim.groups) if prim.groups > 1 else None

    work = Contraction(
        prim, "implicit GEMM", signature, product, weights, window, in_lines, in_sections, in_lanes, in_panels
    )
    rows = room_of(product.m)
    settled = e.settled(signature, w.shape, rows)
    e.choose(signature, candidates(e, work, settled, x.dtype is DType.BF16X2), w.shape, rows)
    return store_back(e, out, result)


@emits(p.MatMul)
def emit_matmul(e: Emitter, fused: Group) -> bool:
    """Matrix products; batch dimensions become rows where the right side does not change with them."""
    prim = fused.anchor or fused.root
    assert isinstance(prim, p.MatMul)
    if not _possible(prim):
        return False
    out = fused.root.outputs[0]
    (x, y), many = prim.inputs, elements(out.shape) // out.shape[-1]
    in_pairs = taken_in_pairs(e, y, room_of(many), y.shape[-2], y.shape[-1])
    x, y, group = multiplied(e, x, y, rows=many, in_pairs=in_pairs)
    shape, rank = out.shape, out.rank
    gap = usage.row_gap(x)
    source = e.in_order(x, natural(rank), lambda pl: pl.strides[-1] == 1 or x.shape[-1] == 1, gap)
    result = e.output(out)
    if result.strides[-1] != 1 and shape[-1] != 1:
        result = e.allocate(out.dtype, shape, natural(rank), roomy=True)
    xs = st.broadcast_strides(x.shape[:-1], source.strides[:-1], shape[:-1])
    shared = elements(y.shape[:-2]) == 1
    grid, outer = (shape[:-1], ()) if shared else (shape[-2:-1], shape[:-2])
    cut = rank - 1 - len(grid)

    def row_table(strides: st.Ints) -> np.ndarray:
        return e.grid(grid, strides[cut : rank - 1])

    def batch_table(strides: st.Ints) -> np.ndarray:
        return e.grid(outer, strides[:cut])

    a = OperandAccess(source, x.dtype, row_table(xs), batch_table(xs))
    c = OperandAccess(result, out.dtype, row_table(result.strides), batch_table(result.strides))
    epilogue = epilogue_of(e, fused, prim.outputs[0], out, rank - 1, row_table, batch_table)
    product = Product(a, c, epilogue, e.grid((), ()), x.shape[-1], shape[-1], elements(grid), elements(outer))
    m, n, k, z = (room_of(size) for size in (product.m, product.n, product.k, product.batches))
    weights = Weights(y, None, group, k, tuple(outer))
    types = f"{x.dtype.value} {y.dtype.value}{' constant' if y.const is not None else ''}"
    signature = f"matmul {types} {z} x {m} x {n} x {k} {e.precision}"
    shape_of_work = (types, z, n, k)
    settled = e.settled(signature, shape_of_work, m)
    work = Contraction(prim, "GEMM", signature, product, weights)
    e.choose(signature, candidates(e, work, settled), shape_of_work, m)
    return store_back(e, out, result)


def _border(conv: p.Conv) -> tuple[tuple[int, int], ...]:
    """The border of zeros around what is convolved."""
    pad = conv.inputs[0].producer
    if not isinstance(pad, p.Pad) or pad.value != 0:
        return ()
    return tuple(zip(pad.low[2:], pad.high[2:], strict=True))


def _packed_in_pairs(e: Emitter, x: Tensor, w: Tensor) -> bool:
    """Whether filters that are computed at run time can be packed in pairs of bf16 in each run: sizes are known."""
    narrow = x.dtype is w.dtype is DType.BF16
    return narrow and not (e.collecting or e.options.open_sizes or any(isinstance(n, OpenSize) for n in w.shape))


def _possible(prim: p.Prim) -> bool:
    return all(t.dtype in MULTIPLIED and 0 not in t.shape for t in prim.inputs)
