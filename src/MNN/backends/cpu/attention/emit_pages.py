"""Commands for a cache in pages: writing to it where it lies, and attending to what it holds."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.attention.spec import (
    CODES,
    FLOATS,
    PagedAttentionSpec,
    PageWriteSpec,
    PartsMergeSpec,
    Pools,
    parts_of,
    row_tiles,
)
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.traced import OpenSize

_NO_WINDOW = 1 << 40
_GRAIN = 4
"""Tokens that a worker writes at once."""


@emits(p.CacheWrite)
def emit_cache_write(e: Emitter, group: Group) -> bool:
    """Pools that are states are written in place; others are copied first."""
    prim = group.root
    assert isinstance(prim, p.CacheWrite)
    *pools, k, v, places = prim.inputs
    if not _known(e, pools, prim) or 0 in k.shape or places.dtype is not DType.I64:
        return False
    for before, after in zip(pools, prim.outputs, strict=True):
        if e.place(before) != e.output(after):
            e.copy(e.place(before), e.output(after), before.shape, before.dtype)
    spec = PageWriteSpec(*_fields(pools, prim, k.shape[2], v.shape[2]))
    args: dict[str, int | Ref] = _addresses(e, spec, prim.outputs)
    args |= {"pages": pools[0].shape[0], "tokens": k.shape[0]}
    for name, tensor in (("k", k), ("v", v)):
        place = _rows(e, tensor)
        args |= {name: e.ref(place, DType.F32), f"{name}_t": place.strides[0], f"{name}_g": place.strides[1]}
    args["places"] = e.ref(e.in_order(places, (0,), lambda at: at.strides[0] == 1), DType.I64)
    e.command(spec, args, k.shape[0], _GRAIN)
    return True


@emits(p.PagedAttention)
def emit_paged_attention(e: Emitter, group: Group) -> bool:
    """One command for all tokens of all sequences."""
    prim = group.root
    assert isinstance(prim, p.PagedAttention)
    q, *pools, table, tiles = prim.inputs
    out = prim.outputs[0]
    if not _known(e, pools, prim) or 0 in q.shape or 0 in tiles.shape or 0 in table.shape:
        return False
    if table.dtype is not DType.I64 or tiles.dtype is not DType.I64:
        return False
    heads, groups = q.shape[1], pools[0].shape[1]
    spec = PagedAttentionSpec(
        *_fields(pools, prim, q.shape[2], prim.size), heads, prim.tile, bool(prim.softcap),
        *row_tiles(heads // groups), parts_of(groups, e.threads) if _single(tiles) else 1,
        bool(prim.slopes), bool(prim.sinks),
    )  # fmt: skip
    args: dict[str, int | Ref] = _addresses(e, spec, pools)
    args |= {"pages": pools[0].shape[0], "tokens": q.shape[0], "entries": table.shape[0]}
    args |= {"scale": _bits(prim.scale), "cap": _bits(prim.softcap), "window": prim.window or _NO_WINDOW}
    for name, numbers in (("slopes", prim.slopes), ("sinks", prim.sinks)):
        if numbers:
            args[name] = e.table(np.array(numbers, np.float32))
    place = e.output(out)
    to = place if place.strides[-1] == 1 else e.allocate(DType.F32, out.shape, natural(3))
    result: dict[str, int | Ref] = {"out": e.ref(to, DType.F32), "out_t": to.strides[0], "out_h": to.strides[1]}
    at = _rows(e, q)
    args |= {"q": e.ref(at, DType.F32), "q_t": at.strides[0], "q_h": at.strides[1]}
    args["table"] = e.ref(e.in_order(table, (0,), lambda at: at.strides[0] == 1), DType.I64)
    args["tiles"] = e.ref(e.in_order(tiles, (0, 1), lambda at: at.strides == (4, 1)), DType.I64)
    if spec.parts > 1:
        partial = e.allocate(DType.F32, (groups * spec.parts, spec.most, spec.partial_row), natural(3))
        args["partial"] = result["partial"] = e.ref(partial, DType.F32)
        e.command(spec, args, groups * spec.parts, 1)
        merge = PartsMergeSpec(groups, prim.size, spec.padded, heads, prim.tile, spec.parts)
        e.command(merge, result | {"tiles": args["tiles"], "tokens": args["tokens"]}, groups, groups)
    else:
        e.command(spec, args | result, tiles.shape[0] * groups, 1)
    if to is not place:
        e.copy(to, place, out.shape, DType.F32)
    return True


def _single(tiles: Tensor) -> bool:
    """Whether there is one tile, as where one text goes on by a token."""
    count = tiles.shape[0]
    return not isinstance(count, OpenSize) and count == 1


def _known(e: Emitter, pools: Sequence[Tensor], prim: p.CacheWrite | p.PagedAttention) -> bool:
    """Whether kernels take pools of these sizes and types."""
    page, lanes = pools[0].shape[3], e.target.lanes(DType.F32)
    types = [(t.dtype, bits) for t, bits in zip(pools, (prim.key_bits, prim.value_bits), strict=False)]
    return (
        page % (2 * lanes) == 0
        and pools[1].shape[3] % lanes == 0
        and all(dtype is CODES[bits] if bits in CODES else dtype in FLOATS for dtype, bits in types)
    )


def _fields(
    pools: Sequence[Tensor], prim: p.CacheWrite | p.PagedAttention, size: int, value_size: int
) -> tuple[int, int, int, int, int, int, DType, DType, int, int]:
    _, groups, rows, page = pools[0].shape
    held = rows * (2 if prim.key_bits == 4 else 1)
    padded = pools[1].shape[3] * (2 if prim.value_bits == 4 else 1)
    types = (pools[0].dtype, pools[1].dtype)
    return groups, size, value_size, held, padded, page, *types, prim.key_bits, prim.value_bits


def _addresses(e: Emitter, spec: Pools, pools: Sequence[Tensor]) -> dict[str, int | Ref]:
    found: dict[str, int | Ref] = {}
    for name, tensor in zip(spec.pools(), pools, strict=True):
        dense = st.dense(tensor.shape, natural(4))

        def fits(at: Place, dense: st.Ints = dense) -> bool:
            return at.strides == dense

        found[name] = e.ref(e.in_order(tensor, natural(4), fits), tensor.dtype)
    return found


def _rows(e: Emitter, tensor: Tensor) -> Place:
    """A tensor whose last dimension is contiguous."""
    last = tensor.shape[-1]
    return e.in_order(tensor, natural(tensor.rank), lambda place: place.strides[-1] == 1 or last == 1)


def _bits(x: float) -> int:
    """An f32 number as an argument."""
    return int(struct.unpack("<i", struct.pack("<f", x))[0])


__all__ = ["emit_cache_write", "emit_paged_attention"]
