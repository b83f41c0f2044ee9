"""Pooling and depthwise convolution on the window kernel: channels innermost, one line of the output at a time."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.program import Buffer, Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.emit_elementwise import emit_nest
from MNN.backends.cpu.products.emit_tiles import sums_of
from MNN.backends.cpu.products.load_balance import longest, split_evenly
from MNN.backends.cpu.products.operand_access import channel_result, store_back
from MNN.backends.cpu.products.packed_bytes import saturated_end
from MNN.backends.cpu.window.bf16_rows import pack_rows, row_pairs
from MNN.backends.cpu.window.byte_rows import CHANNELS, VECTORS, has_byte_rows, in_groups, pack_byte_rows
from MNN.backends.cpu.window.cost import choose_tap_pixels, choose_window, vectors_at_once
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.backends.cpu.window.tap_pairs import (
    SMALLEST,
    WIDEST,
    bytes_of_channel,
    has_tap_pairs,
    pack_tap_pairs,
    shift_of,
    tap_pairs,
)
from MNN.compiler import strides as st
from MNN.compiler.bodies import WIDE, fused_body, is_literal
from MNN.compiler.fuse import Group
from MNN.compiler.layout import channels_last
from MNN.compiler.usage import is_depthwise
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of

__all__ = ["emit_depthwise", "emit_pool", "is_depthwise", "line_order"]

_BYTES = (DType.I8, DType.U8)
_TRAINED = (DType.F32, DType.BF16)
"""Element types of filters that are computed at run time."""
_WIDEST_PAIRS = 7
LINE_WORK = 40_000
"""Multiply-adds (or comparisons) a worker takes at a time."""


@emits(p.Conv)
def emit_depthwise(e: Emitter, group: Group) -> bool:
    """A convolution with one filter per channel."""
    prim = group.anchor or group.root
    assert isinstance(prim, p.Conv)
    if not is_depthwise(prim):
        return False
    x, w = prim.inputs
    narrow = x.dtype in _BYTES and w.dtype in (*_BYTES, DType.I16)
    data = w.const
    if (
        data is None
        and x.dtype in _TRAINED
        and w.dtype in _TRAINED
        and not any(isinstance(n, OpenSize) for n in w.shape)
    ):
        return _emit(e, group, prim, "dot", w.shape[2:], _taps_first(e, w))
    if data is None or not (narrow or x.dtype in (DType.F32, *WIDE)):
        return False
    taps = elements(w.shape[2:])
    kind = np.int16 if narrow else np.float32
    buffer = e.pool.get(
        ("depthwise", id(data), narrow),
        lambda: np.ascontiguousarray(data.reshape(w.shape[0], taps).T.astype(kind)),
        (data, w.keep),
    )
    pairs = None
    if _in_pairs(e, prim):
        shape, lanes = (-1, w.shape[-1], w.shape[0]), e.target.lanes(DType.F32)
        pairs = e.pool.get(
            ("depthwise pairs", id(data)),
            lambda: pack_rows(data.reshape(w.shape[0], taps).T.reshape(shape), lanes),
            (data, w.keep),
        )
    fours = None
    if _in_fours(e, prim, data):
        fours = e.pool.get(
            ("depthwise fours", id(data)),
            lambda: pack_byte_rows(_in_planes(data)),
            (data, w.keep),
        )
    return _emit(e, group, prim, "dot", w.shape[2:], Ref(buffer, 0), pairs, fours, _tap_pairs(e, prim, data))


def _taps_first(e: Emitter, w: Tensor) -> Ref:
    """Filters ``[C, 1, kernel...]`` that are computed at run time, copied to f32 ``[taps, C]`` in each run."""
    place, kernel, channels = e.place(w), w.shape[2:], w.shape[0]
    to = e.allocate(DType.F32, (*kernel, channels), (*range(len(kernel)), len(kernel)))
    *steps, column = to.strides
    to_filters = Place(to.buffer, to.offset, (column, column, *steps))
    if w.dtype is DType.F32:
        e.copy(place, to_filters, w.shape, DType.F32)
    else:
        widened = body_of([w.dtype], lambda b, v: b.cast(v, DType.F32))
        emit_nest(e, widened, w.shape, [(w, place)], to_filters, DType.F32)
    return e.ref(to, DType.F32)


def _in_pairs(e: Emitter, prim: p.Conv) -> bool:
    """Whether two rows of the window are taken at a time.

    Columns must take part in several products, or combining them costs more than it saves (measured: 3x3 windows at
    every second pixel lose a fifth, others gain a fifth to a half).
    """
    x, w = prim.inputs
    if x.dtype is not DType.BF16 or x.rank < 4 or not row_pairs(e.target):
        return False
    kernel, step = w.shape[2:], prim.strides[-1]
    row = _row_axis(kernel)
    height, width = kernel[row], kernel[-1]
    if elements(kernel) != height * width:
        return False
    return w.shape[0] >= 2 * e.target.lanes(DType.F32) and height > 1 and 2 * step < width <= _WIDEST_PAIRS


def _in_fours(e: Emitter, prim: p.Conv, weights: np.ndarray) -> bool:
    """Whether four rows of bytes are taken at a time."""
    x, w = prim.inputs
    if x.dtype is not DType.U8 or x.rank < 4 or not in_groups(w.shape[0]) or not has_byte_rows(e.target):
        return False
    kernel = w.shape[2:]
    height, width = kernel[_row_axis(kernel)], kernel[-1]
    if height == 1 or width > _WIDEST_PAIRS:
        return False
    return bool(weights.min() >= -128 and weights.max() <= 127)


def _tap_pairs(e: Emitter, prim: p.Conv, weights: np.ndarray) -> tuple[Buffer, int] | None:
    """Weights packed in pairs of taps, and the shift of their sums; None where they are not taken so."""
    x, w = prim.inputs
    if x.dtype not in _BYTES or x.rank < 4 or w.shape[0] < SMALLEST or not has_tap_pairs(e.target):
        return None
    if w.shape[-1] > WIDEST or elements(w.shape[2:]) == 1 or not (weights.min() >= -128 and weights.max() <= 127):
        return None
    whole = _in_planes(weights)
    shift = shift_of(whole, x.dtype)
    if shift is None:
        return None
    packed = e.pool.get(
        ("depthwise taps", id(weights), x.dtype),
        lambda: pack_tap_pairs(whole, x.dtype, 4 * e.target.lanes(DType.I32), shift),
        (weights, w.keep),
    )
    return packed, shift


def _in_planes(weights: np.ndarray) -> np.ndarray:
    """Weights ``[C, 1, kernel...]`` as ``[planes, kh, kw, C]``."""
    kernel, c = weights.shape[2:], weights.shape[0]
    height, width = kernel[_row_axis(kernel)], kernel[-1]
    planes: np.ndarray = weights.reshape(c, -1, height, width).transpose(1, 2, 3, 0)
    return planes


@emits(p.Window)
def emit_pool(e: Emitter, group: Group) -> bool:
    """Maximum or sum of windows."""
    prim = group.anchor or group.root
    assert isinstance(prim, p.Window)
    integers = prim.op == "max" and prim.inputs[0].dtype in (*_BYTES, DType.I16)
    if not integers and prim.inputs[0].dtype not in (DType.F32, *WIDE):
        return False
    return _emit(e, group, prim, prim.op, prim.kernel, 0)


def _row_axis(kernel: st.Ints) -> int:
    """Which spatial axis, the last one aside, the rows of a window lie along: the last that it has several along."""
    outer = range(len(kernel) - 1)
    return max((a for a in outer if kernel[a] > 1), default=len(kernel) - 2)


def line_order(outer: st.Ints, kernel: st.Ints) -> list[int]:
    """The order of the ``outer`` spatial axes (all but the last) in which lines are made, the outermost first."""
    walk = list(range(len(outer)))
    if any(kernel[a] > 1 for a in walk[:-1]):
        # what lies between two uses of a line of the input is least along the axis with fewest windows
        walk.sort(key=lambda a: -room_of(outer[a]) / kernel[a])
    return walk


def _emit(
    e: Emitter,
    group: Group,
    prim: p.Conv | p.Window,
    op: str,
    kernel: st.Ints,
    weights: Ref | int,
    packed: Buffer | None = None,
    fours: Buffer | None = None,
    taps: tuple[Buffer, int] | None = None,
) -> bool:
    out, x = group.root.outputs[0], prim.inputs[0]
    acc = sums_of(x.dtype) if op == "dot" else WIDE.get(x.dtype, x.dtype)
    spatial = x.rank - 2
    if 0 in out.shape:
        return False
    source = e.in_order(x, channels_last(x.rank), lambda pl: pl.strides[1] == 1 or x.shape[1] == 1)
    result = channel_result(e, out)
    full, steps, spread, outer = tuple(kernel), tuple(prim.strides), tuple(prim.dilations), out.shape[2:-1]
    if spatial == 1:
        full, steps, spread, outer = (1, *full), (1, *steps), (1, *spread), (1,)
    row = _row_axis(full)
    n, c, ow = out.shape[0], out.shape[1], out.shape[-1]

    def along(strides: st.Ints) -> st.Ints:
        """The strides of the spatial axes but the last."""
        return strides[2:-1] if spatial > 1 else (0,)

    ones = (1,) * len(outer)
    planes = [a for a in range(len(outer)) if a != row and full[a] > 1]
    walk = line_order(outer, full)

    def lines(strides: st.Ints, steps: st.Ints) -> np.ndarray:
        moves = [s * t for s, t in zip(along(strides), steps, strict=True)]
        return e.grid((n, *(outer[a] for a in walk)), (strides[0], *(moves[a] for a in walk)))

    operands = [t for t in group.inputs() if t is not prim.outputs[0] and not is_literal(t)] if group.anchor else []
    body = (
        fused_body(group.prims, [prim.outputs[0], *operands], [out], {prim.outputs[0]: acc}) if group.anchor else None
    )
    if body is None and out.dtype is not acc:
        body = body_of([acc], lambda b, v: b.cast(v, out.dtype))
    kinds: list[str] = []
    extra: dict[str, int | Ref] = {}
    for i, tensor in enumerate(operands):
        place, strides = _operand(e, tensor, out)
        varies = strides[1] != 0 and c > 1
        others = any(s and m > 1 for a, (s, m) in enumerate(zip(strides, out.shape, strict=True)) if a != 1)
        kinds.append("pc" if others else "c" if varies else "1")
        extra[f"op{i}"] = e.ref(place, tensor.dtype)
        if others:
            extra[f"lines{i}"] = e.offsets(lines(strides, ones))
            extra[f"step{i}"] = strides[-1]
    total = n * elements(outer)
    types = [out.dtype, *(t.dtype for t in operands)]
    lanes = e.target.lanes(acc)
    vectors = vectors_at_once(e.target, x.dtype, acc, types, full[-1], packed is not None) if c >= 2 * lanes else 1
    pairs = packed is not None and vectors > 1
    if fours is not None and ("pc" in kinds or saturated_end(body) is None):
        fours = None
    if fours is not None:
        vectors = VECTORS
    if "pc" in kinds or fours is not None:
        taps = None
    kw, sx, dx = full[-1], steps[-1], spread[-1]
    family: tuple[object, ...] = (x.dtype, acc, out.dtype, op, kw, sx, dx, body, tuple(kinds), pairs)
    family += ("planes",) if planes else ()
    cut = fours is not None and c < CHANNELS
    family += ("fours", cut) if fours is not None else ()
    made, spare = e.pool.kept_choices.made(family), e.spare * lanes * vectors / c
    window = (elements(full[:-1]), kw)
    most, wide = 1 if pairs or fours is not None else room_of(total), room_of(ow)
    deep, pixels = choose_window(e.target, op, window, sx, dx, most, wide, vectors, made, spare)
    if taps is not None:
        count = elements([full[a] for a in planes]) * len(tap_pairs(full[row], kw))
        deep, pixels = 1, choose_tap_pixels(e.target, sx, dx, kw, count, wide, 2 if taps[1] else 1)
    else:
        e.pool.kept_choices.make(family, (deep, pixels))
    tile = pixels, body, tuple(kinds), deep
    types_of = x.dtype, acc, out.dtype
    special: dict[str, int] = {"pairs": pairs, "fours": fours is not None, "cut": cut, "planes": bool(planes)}
    if taps is not None:
        special |= {"taps": True, "shift": taps[1], "odd": full[row] % 2 == 1, "cut": c % (4 * lanes) != 0}
    spec = WindowSpec.of(*types_of, op, kw, sx, dx, *tile, **special)
    work = ow * c * elements(full)
    per_block = _lines(room_of(total), max(1, LINE_WORK // max(room_of(work) * deep, 1)) * deep, deep, e.threads)
    args: dict[str, int | Ref] = {
        "x": e.ref(source, x.dtype),
        "w": weights,
        "y": e.ref(result, out.dtype),
        "lines_x": e.offsets(lines(source.strides, steps[:-1])),
        "lines_y": e.offsets(lines(result.strides, ones)),
        "n_lines": total,
        "kh": full[row],
        "row_x": along(source.strides)[row] * spread[row],
        "step_x": source.strides[-1],
        "step_y": result.strides[-1],
        "ow": ow,
        "c": c,
        "lines_per_block": per_block,
        **extra,
    }
    if planes:
        apart = [along(source.strides)[a] * spread[a] for a in planes]
        args["planes"] = e.offsets(e.grid([full[a] for a in planes], apart))
        args["n_planes"] = elements([full[a] for a in planes])
    if pairs and packed is not None:
        args["pairs"] = Ref(packed, 0)
    if fours is not None:
        args["fours"] = Ref(fours, 0)
    if taps is not None:
        args["taps"] = Ref(taps[0], 0)
        args["tap_bytes"] = bytes_of_channel(elements([full[a] for a in planes]), full[row], kw, taps[1])
    e.command(spec, args, -(-total // per_block), 1, 2 * total * work if op == "dot" else 0)
    return store_back(e, out, result)


def _lines(total: int, about: int, deep: int, threads: int) -> int:
    """Lines of a block: whole tiles of ``deep`` lines, unless cut ones make the runs of threads more even."""
    if threads == 1:
        return about
    tiled = split_evenly(total, -(-total // about), deep, threads)
    even = -(-total // threads)
    return even if even < longest(total, tiled, 1, 1, threads) else tiled


def _operand(e: Emitter, tensor: Tensor, out: Tensor) -> tuple[Place, st.Ints]:
    """An epilogue operand whose channels are contiguous (or which does not vary along them)."""
    place = e.place(tensor)
    strides = st.broadcast_strides(tensor.shape, place.strides, out.shape)
    varies = any(s and m > 1 for a, (s, m) in enumerate(zip(strides, out.shape, strict=True)) if a != 1)
    if (strides[1] == 1 or out.shape[1] == 1) or (strides[1] == 0 and not varies):
        return place, strides
    if strides[1] == 0:  # varies along lines but not along channels: spread it out
        whole = Place(place.buffer, place.offset, strides)
        copy = e.allocate(tensor.dtype, out.shape, channels_last(out.rank))
        e.copy(whole, copy, out.shape, tensor.dtype)
        return copy, copy.strides
    lead = out.rank - tensor.rank
    axis = 1 - lead
    order = (*(a for a in range(tensor.rank) if a != axis), axis)
    place = e.in_order(tensor, order, lambda pl: False)
    return place, st.broadcast_strides(tensor.shape, place.strides, out.shape)
