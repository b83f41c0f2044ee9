"""Convolutions and matrix products on the contraction kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.compiler import strides as st
from MNN.compiler.algorithms import ways
from MNN.compiler.bodies import WIDE, fused_body, is_literal
from MNN.compiler.emit.amx import amx_candidates
from MNN.compiler.emit.amx_weights import Right
from MNN.compiler.emit.inner import inner_candidates
from MNN.compiler.emit.side import Side, batch_starts, channel_result, operand_args, store_back
from MNN.compiler.emit.strassen import strassen_candidates
from MNN.compiler.emit.tiles import Tile, sums_of, with_tiles
from MNN.compiler.emit.weights import Weights
from MNN.compiler.emit.winograd import winograd_candidates
from MNN.compiler.emitter import Emitter
from MNN.compiler.fuse import Group
from MNN.compiler.order import channels_last, natural
from MNN.compiler.program import Ref
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body
from MNN.ir.shape import elements
from MNN.kernels.amx_layout import Window
from MNN.kernels.contract import ContractSpec
from MNN.kernels.contract_blocks import choose_blocks, choose_grain
from MNN.kernels.contract_cost import choose_tile, contract_cycles, known_tile, narrower
from MNN.kernels.contract_emit import many_rows
from MNN.kernels.contract_half import has_half
from MNN.kernels.dot import PAIR, group_of, step_ratio
from MNN.kernels.dot8 import QUAD, in_words
from MNN.kernels.lean import lean_tile
from MNN.kernels.tight import with_all_registers
from MNN.targets.base import Target

_FLOATS = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.BF16X2)
MULTIPLIED = (*_FLOATS, DType.I8, DType.U8, DType.I16, DType.I32, DType.I64)
"""Element types that products are made of."""
_BYTES = (DType.I8, DType.U8, DType.I16)
"""Element types of constant weights that bytes are multiplied by."""


Table = Callable[[st.Ints], np.ndarray]
"""Offsets of rows or batches of a tensor with these strides over the result's shape."""


def emit_conv(e: Emitter, fused: Group) -> bool:
    """Implicit GEMM: rows are output positions, taps are kernel positions, channels are innermost."""
    prim = fused.anchor or fused.root
    assert isinstance(prim, p.Conv)
    x, w = prim.inputs
    if not _possible(prim):
        return False
    out = fused.root.outputs[0]
    shape, groups = out.shape, prim.groups
    per_in, per_out, kernel = w.shape[1], w.shape[0] // groups, w.shape[2:]
    x, w, group = _operands(e, x, w, w.const is not None, elements(shape) // shape[1])
    last = channels_last(x.rank)
    source = e.in_order(x, last, lambda pl: pl.strides[1] == 1 or x.shape[1] == 1)
    result = channel_result(e, out)
    steps = [d * s for d, s in zip(prim.dilations, source.strides[2:], strict=True)]
    k = per_in
    tap_dims, tap_steps = list(kernel), list(steps)
    if groups == 1 and tap_steps and tap_steps[-1] == per_in:  # a row of the window is one contiguous run
        k, tap_dims, tap_steps = per_in * tap_dims[-1], tap_dims[:-1], tap_steps[:-1]
    taps = e.grid(tap_dims, tap_steps)
    grid = (shape[0], *shape[2:])
    strides = [s * t for s, t in zip(prim.strides, source.strides[2:], strict=True)]
    rows_a = e.grid(grid, (source.strides[0], *strides))

    def row_table(place_strides: st.Ints) -> np.ndarray:
        return e.grid(grid, (place_strides[0], *place_strides[2:]))

    def batch_table(place_strides: st.Ints, per_group: int = per_out) -> np.ndarray:
        return e.grid((groups,), (per_group * place_strides[1],))

    a = Side(source, x.dtype, rows_a, batch_table((0, 1), per_in))
    c = Side(result, out.dtype, row_table(result.strides), batch_table((0, 1)))

    operands, body = epilogue(e, fused, prim.outputs[0], out, 1, row_table, batch_table)
    weights = Weights(w, (kernel, per_in, per_out, groups), group, k)
    acc = _tiled(x.dtype)

    def cycles() -> float:
        return groups * _cycles(target, *size[:3], group, acc)

    signature = f"conv {x.dtype.value} {x.shape} * {w.shape} / {prim.strides} {prim.dilations} {groups}"
    signature = f"{signature} {e.precision}"
    size = rows_a.size, per_out, taps.size * -(-k // group), acc
    target = _target(e, *size[1:3], acc, group, w.const is not None, {x.dtype, w.dtype})

    def direct(tile: Tile | None) -> None:
        _emit(e, a, c, weights, operands, body, taps, k, per_out, tile)

    right, settled = Right(w, (kernel, per_in, per_out, groups)), e.settled(signature, w.shape, rows_a.size)
    window = Window(
        shape[0], shape[2:], x.shape[2:], kernel, tuple(prim.strides), tuple(prim.dilations), source.strides[0],
        source.strides[2:], per_in,
    )  # fmt: skip
    tiles = ("AMX", lambda: amx_candidates(e, a, c, right, operands, body, taps, k, per_out, window, settled))
    kinds = (
        ("implicit GEMM", lambda: with_tiles(e, signature, "implicit GEMM", size, cycles, direct, target, settled)),
        ("Winograd", lambda: winograd_candidates(e, prim, x, w, source, out, result, operands, body, settled)),
        tiles,
        ("Strassen", lambda: strassen_candidates(e, a, c, weights, operands, body, taps, k, per_out, settled)),
        ("inner products", lambda: inner_candidates(e, a, c, weights, operands, body, taps, k, per_out, settled)),
    )
    e.choose(signature, ways(settled, (tiles,) if x.dtype is DType.BF16X2 else kinds), w.shape, rows_a.size)
    return store_back(e, out, result)


def emit_matmul(e: Emitter, fused: Group) -> bool:
    """Matrix products; batch dimensions become rows where the right side does not change with them."""
    prim = fused.anchor or fused.root
    assert isinstance(prim, p.MatMul)
    if not _possible(prim):
        return False
    out = fused.root.outputs[0]
    x, y, group = _operands(e, prim.inputs[0], prim.inputs[1], rows=elements(out.shape) // out.shape[-1])
    shape, rank = out.shape, out.rank
    source = e.in_order(x, natural(rank), lambda pl: pl.strides[-1] == 1 or x.shape[-1] == 1)
    result = e.output(out)
    if result.strides[-1] != 1 and shape[-1] != 1:
        result = e.allocate(out.dtype, shape, natural(rank))
    xs = st.broadcast_strides(x.shape[:-1], source.strides[:-1], shape[:-1])
    shared = elements(y.shape[:-2]) == 1
    grid, outer = (shape[:-1], ()) if shared else (shape[-2:-1], shape[:-2])
    cut = rank - 1 - len(grid)

    def row_table(strides: st.Ints) -> np.ndarray:
        return e.grid(grid, strides[cut : rank - 1])

    def batch_table(strides: st.Ints) -> np.ndarray:
        return e.grid(outer, strides[:cut])

    a = Side(source, x.dtype, row_table(xs), batch_table(xs))
    c = Side(result, out.dtype, row_table(result.strides), batch_table(result.strides))
    operands, body = epilogue(e, fused, prim.outputs[0], out, rank - 1, row_table, batch_table)
    k, n, taps = x.shape[-1], shape[-1], e.grid((), ())
    weights = Weights(y, None, group, k, tuple(outer))
    assert a.rows is not None
    m, z = a.rows.size, c.batch.size
    acc = _tiled(x.dtype)

    def cycles() -> float:
        return z * _cycles(target, *size[:3], group, acc)

    types = f"{x.dtype.value} {y.dtype.value}{' constant' if y.const is not None else ''}"
    signature = f"matmul {types} {z} x {m} x {n} x {k} {e.precision}"

    def direct(tile: Tile | None) -> None:
        _emit(e, a, c, weights, operands, body, taps, k, n, tile)

    right, size, work = Right(y, None, tuple(outer)), (m, n, -(-k // group), acc), (types, z, n, k)
    settled = e.settled(signature, work, m)
    target = _target(e, *size[1:3], acc, group, y.const is not None, {x.dtype, y.dtype})
    kinds = (
        ("GEMM", lambda: with_tiles(e, signature, "GEMM", size, cycles, direct, target, settled)),
        ("AMX", lambda: amx_candidates(e, a, c, right, operands, body, taps, k, n, settled=settled)),
        ("Strassen", lambda: strassen_candidates(e, a, c, weights, operands, body, taps, k, n, settled)),
        ("inner products", lambda: inner_candidates(e, a, c, weights, operands, body, taps, k, n, settled)),
    )
    e.choose(signature, ways(settled, kinds), work, m)
    return store_back(e, out, result)


def _possible(prim: p.Prim) -> bool:
    return all(t.dtype in MULTIPLIED and 0 not in t.shape for t in prim.inputs)


def _operands(e: Emitter, x: Tensor, y: Tensor, simple: bool = True, rows: int = 0) -> tuple[Tensor, Tensor, int]:
    """Both sides in types that a kernel multiplies, and how many products it sums at once (1 unless ``simple``).

    ``rows`` of the left side make it worth preparing constant weights for them."""
    if x.dtype is DType.BF16X2:  # for tiles alone
        return x, _widened(e, y), 1
    if x.dtype is DType.F16 and e.precision == "low" and has_half(e.target):
        if y.const is not None:
            y = _halved(e, y)
        if y.dtype is DType.F16:
            return x, y, 1
    group = group_of(e.target, x.dtype)
    if y.const is not None and y.dtype is DType.F16:
        y = _widened(e, y)
    if group == QUAD:
        if simple and y.const is not None and y.dtype in _BYTES and in_words(e.target, rows):
            return _converted(e, x, DType.I16), y, PAIR
        if y.dtype is DType.I8 or (simple and y.const is not None and y.dtype in (DType.U8, DType.I16)):
            return x, y, group
        group = 1
    if y.const is not None and y.dtype is DType.I16:
        y = _widened(e, y)
    rounded = y.const is not None and y.dtype is DType.F32 and x.dtype is DType.BF16
    if simple and group > 1 and (rounded or y.dtype is x.dtype):
        return x, y, group
    return _widened(e, x), _widened(e, y), 1


def _sums(dtype: DType) -> DType:
    """What the kernel is told to sum operands of :func:`_operands` in."""
    return dtype if dtype is DType.F16 else sums_of(dtype)


def _tiled(dtype: DType) -> DType:
    """The type of sums that tiles are chosen for: those of 16-bit integers take no more registers than those of f32."""
    return DType.F32 if dtype is DType.I16 else _sums(dtype)


def _target(e: Emitter, n: int, steps: int, acc: DType, group: int, constant: bool, types: set[DType]) -> Target:
    """The target, with vectors of half the width where a product takes these, and with all registers where operands
    of these ``types`` leave them to tiles.

    Half the width only with constant weights: columns of others may change with the input's size, for which no kernel
    shall be new.
    """
    if constant and group in (1, PAIR) and narrower(e.target, n, steps, acc):
        return e.target.narrowed()
    return with_all_registers(e.target) if types == {DType.F32} else e.target


def _cycles(target: Target, m: int, n: int, steps: int, group: int, acc: DType) -> float:
    """Estimate for a product on vectors, with ``steps`` of ``group`` products per sum."""
    wide = acc if acc is DType.F16 else DType.F32
    return contract_cycles(target, m, n, steps, wide) * (1.0 if group == 1 else step_ratio(target, group))


def _halved(e: Emitter, tensor: Tensor) -> Tensor:
    """A constant in f16, itself where its numbers do not fit."""
    data = tensor.const
    assert data is not None
    if tensor.dtype is not DType.F32 or not np.abs(data).max(initial=0) < float(np.finfo(np.float16).max):
        return tensor
    buffer = e.pool.get(("half", id(data)), lambda: data.astype(np.float16), (data, tensor.keep))
    return Tensor(DType.F16, tensor.shape, const=buffer.const, name=tensor.name, keep=buffer)


def _widened(e: Emitter, tensor: Tensor) -> Tensor:
    """f16 and bf16 operands are multiplied in f32: constants are converted once, others by a copy."""
    wide = {**WIDE, DType.I16: DType.I32}.get(tensor.dtype)
    if wide is None:
        return tensor
    if tensor.const is not None:
        data = tensor.const
        buffer = e.pool.get(("wide", id(data)), lambda: data.astype(wide.numpy), (data, tensor.keep))
        return Tensor(wide, tensor.shape, const=buffer.const, name=tensor.name, keep=buffer)
    return _converted(e, tensor, wide)


def _converted(e: Emitter, tensor: Tensor, wide: DType) -> Tensor:
    """A copy in another type."""
    from MNN.compiler.emit.elementwise import emit_nest
    from MNN.ir.scalar import body_of

    copy = Tensor(wide, tensor.shape, name=tensor.name)
    order = e.order(tensor)
    e.assign(copy, e.allocate(wide, tensor.shape, order))
    body = body_of([tensor.dtype], lambda b, v: b.cast(v, wide))
    emit_nest(e, body, tensor.shape, [(tensor, e.place(tensor))], e.place(copy), wide)
    return copy


def epilogue(
    e: Emitter,
    group: Group,
    accumulated: Tensor,
    out: Tensor,
    axis: int,
    row_table: Table,
    batch_table: Table,
) -> tuple[list[tuple[str, Side]], Body | None]:
    """The operands of the maps behind a contraction, by kind, and their body.

    ``axis`` is the column dimension; the tables give offsets of rows and batches from strides over the result.
    """
    if group.anchor is None:
        return [], None
    operands = [t for t in group.inputs() if t is not accumulated and not is_literal(t)]
    wide = WIDE.get(accumulated.dtype, accumulated.dtype)
    body = fused_body(group.prims, [accumulated, *operands], [out], {accumulated: wide})
    sides: list[tuple[str, Side]] = []
    for tensor in operands:
        place = e.place(tensor)
        strides = st.broadcast_strides(tensor.shape, place.strides, out.shape)
        if strides[axis] not in (0, 1) and out.shape[axis] > 1:
            order = (
                *(a for a in range(tensor.rank) if a != tensor.rank - (out.rank - axis)),
                tensor.rank - (out.rank - axis),
            )
            place = e.in_order(tensor, order, lambda pl: False)
            strides = st.broadcast_strides(tensor.shape, place.strides, out.shape)
        along = strides[axis] != 0 and out.shape[axis] > 1
        others = any(s and n > 1 for a, (s, n) in enumerate(zip(strides, out.shape, strict=True)) if a != axis)
        kind = ("mn" if others else "n") if along else ("m" if others else "1")
        rows = row_table(strides) if others else None
        sides.append((kind, Side(place, tensor.dtype, rows, batch_table(strides))))
    return sides, body


def _family(
    kinds: tuple[str, ...], a: Side, weights: Weights, c: Side, packed: bool, body: Body | None, narrow: bool
) -> tuple[object, ...]:
    """What kernels have in common that differ in their tiles."""
    return kinds, a.dtype, weights.dtype, c.dtype, weights.group, packed, body, narrow


def _emit(
    e: Emitter,
    a: Side,
    c: Side,
    weights: Weights,
    operands: list[tuple[str, Side]],
    body: Body | None,
    taps: np.ndarray,
    k: int,
    n: int,
    tile: Tile | None = None,
) -> None:
    assert a.rows is not None
    assert c.rows is not None
    m, n_batch = a.rows.size, c.batch.size
    if m == 0 or n == 0 or n_batch == 0:
        return
    acc = _sums(a.dtype)
    depth = taps.size * k
    if weights.parts > 1:
        taps = np.tile(taps, weights.parts)
    steps = taps.size * -(-k // weights.group)
    constant = weights.tensor.const is not None
    kinds = tuple(kind for kind, _ in operands)
    family = None
    lean = m == n_batch == taps.size == 1 and a.dtype is DType.F32 and weights.lean(e)
    types = {a.dtype, weights.dtype}
    target = e.target if lean else _target(e, n, steps, acc, weights.group, constant, types)
    narrow = target.vector_bytes < e.target.vector_bytes
    if lean:
        tile = lean_tile(n, e.target.lanes(DType.F32))
    if tile is None:
        as_ = _tiled(a.dtype)
        packed = constant or e.place(weights.tensor).buffer.nbytes == 0  # the latter: see emit.packing
        habit = (e.origin, n, steps, as_)
        family = _family(kinds, a, weights, c, packed, body, narrow)
        had, made, spare = e.pool.habits.get(habit), e.pool.habits.made(family), e.spare / n_batch
        known = known_tile(target, m, n, steps, as_, had, made, spare, e.threads, constant)
        tile = known or choose_tile(target, m, n, steps, as_, e.threads)
        e.pool.habits.make(family, tile)
        if not packed and e.collecting:  # see emit.attention
            e.pool.habits.make(_family(kinds, a, weights, c, True, body, narrow), tile)
        if had is None:
            e.pool.habits.note(habit, tile)
    mr, nv = tile
    many = constant and a.dtype is DType.F32 and many_rows(target, tile, m, steps)
    if family is not None:
        variants = e.pool.habits.made((family, tile))
        many = many and (not variants or True in variants)  # other sizes compile no kernel for it
        e.pool.habits.make((family, tile), many)
    finished = WIDE.get(acc, acc)
    if body is None and finished is not c.dtype:
        from MNN.ir.scalar import body_of

        body = body_of([finished], lambda b, v: b.cast(v, c.dtype))
    kept = a.dtype, DType.I8 if lean else weights.dtype, acc, c.dtype
    spec = ContractSpec.of(
        *kept, mr, nv, constant, body, kinds, weights.group, many_rows=many, narrow=narrow, lean=lean
    )
    nr = spec.nr(e.target)
    if lean:
        (b_ref, panel), ldb, b_batch = weights.packed_lean(e, nr), 0, np.zeros(1, np.int64)
    else:
        b_ref, ldb, panel, b_batch = (weights.packed if constant else weights.plain)(e, nr, n_batch, a.dtype)
    mb, nb, ub = choose_blocks(target, m, n, steps, e.threads, (mr, nv), acc, constant)
    args: dict[str, int | Ref] = {
        "a": e.ref(a.place, a.dtype),
        "b": b_ref,
        "c": e.ref(c.place, c.dtype),
        "rows_a": e.offsets(a.rows),
        "rows_c": e.offsets(c.rows),
        "taps": e.offsets(taps),
        "n_taps": taps.size,
        "k": k,
        "ldb": ldb,
        "panel": panel,
        "m": m,
        "n": n,
        "batch": batch_starts(e, [a.batch, b_batch, c.batch, *[s.batch for _, s in operands]], n_batch),
        "n_batch": n_batch,
        "mb": mb,
        "nb": nb,
        "ub": ub,
    }
    args |= operand_args(e, operands)
    flops = 2 * m * n * depth * n_batch
    blocks = spec.blocks(m, n, n_batch, ub, nb)
    grain = choose_grain(target, m, n, steps, (mr, nv), n_batch, blocks, acc, e.threads)
    e.command(spec, args, blocks, grain, flops)
