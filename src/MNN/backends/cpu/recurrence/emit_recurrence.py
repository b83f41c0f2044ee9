"""Recurrent layers: one command for a whole sequence, the weights packed in the order in which a step reads them."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Buffer, Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.emit_elementwise import emit_fill, emit_nest
from MNN.backends.cpu.packing.bf16 import pair_of
from MNN.backends.cpu.products.dot import DOT2, group_of
from MNN.backends.cpu.products.dot8 import can_lend_signs, has_dot4
from MNN.backends.cpu.recurrence.emit_quantized import packed_quantized
from MNN.backends.cpu.recurrence.phases import words
from MNN.backends.cpu.recurrence.spec import RecurrenceSpec, choose_tile, group_size, steps_of
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of
from MNN.ir.traced import room_of

MEETING = 4000.0
"""Cycles of work per step below which workers do not meet after every step; meeting costs some hundreds."""
BYTES_PER_CYCLE = 24.0
"""Of weights, from the second-level cache."""
_LINE = 64
_MOST_DIRECTIONS = 62
_MOST_FLOATS = 1024
"""Products of two bytes of which floats hold all sums."""


@emits(p.Recurrence)
def emit_recurrence(e: Emitter, group: Group) -> bool:
    """One kernel for all steps; False for types and sizes that it does not take."""
    prim = group.root
    assert isinstance(prim, p.Recurrence)
    given, r = prim.inputs[:2]
    steps, batch, directions, _ = given.shape
    hidden, dtype, gates = r.shape[2], given.dtype, prim.gates
    if (
        dtype not in (DType.F32, DType.F64, *([DType.I32] if prim.quantized else []))
        or 0 in (steps, batch, hidden, directions)
        or directions > _MOST_DIRECTIONS
    ):
        return False
    if prim.quantized and (dtype is DType.F64 or r.const is None or (not prim.whole and prim.inputs[-1].const is None)):
        return False
    weights = _weights(e, prim, dtype)
    if prim.whole and weights is DType.F32 and hidden > _MOST_FLOATS:
        return False
    parts, span = _split(e, prim, room_of(batch), weights)
    sums = DType.I32 if weights is DType.I8 else weights if prim.quantized else dtype
    last = int(prim.first is not None)
    rows, vectors, columns = choose_tile(e.target, sums, span, hidden, gates, parts, last)
    tiles = -(-hidden // (vectors * e.target.lanes(dtype)))
    share = -(-tiles // parts)
    parts = -(-tiles // share)
    spec = RecurrenceSpec(
        dtype, weights, gates, prim.body, prim.first, prim.parameters, prim.limited, rows, vectors, columns, parts > 1,
        prim.quantized, signs=_signs(e, r, weights), tables=prim.tables,
    )  # fmt: skip
    pitch = tiles * spec.width(e.target)
    if batch > 1 and pitch * dtype.size % 512 == 0:
        pitch += _LINE // dtype.size
    work = e.allocate(dtype, (directions, spec.planes() * batch * pitch), (0, 1))
    args: dict[str, int | Ref] = {
        "steps": steps, "batch": batch, "hidden": hidden, "pitch": pitch, "work": e.ref(work, dtype),
        "backward": sum(1 << d for d, back in enumerate(prim.reverse) if back),
    }  # fmt: skip
    source = _rows(e, given)
    args |= {"given": e.ref(source, dtype), **_steps("given", "tbd", source.strides)}
    if prim.quantized:
        scales = None if prim.whole else prim.inputs[-1]
        args["r"], args["r_d"] = packed_quantized(e, r, scales, spec, prim.zero)
    for name, first, count in (("r", 0, spec.direct), ("q", spec.direct, gates - spec.direct)):
        if count and not prim.quantized:
            args[name], args[f"{name}_d"] = _packed(e, r, gates, first, count, spec)
    after = 2 + prim.states
    for i, t in enumerate(prim.inputs[2:after]):
        place = e.place(t)
        args |= {f"from{i}": e.ref(place, dtype), **_steps(f"from{i}", "dbh", place.strides)}
    for i, t in enumerate(prim.inputs[after : after + prim.parameters]):
        place = _rows(e, t)
        args |= {f"param{i}": e.ref(place, dtype), **_steps(f"param{i}", "d", place.strides)}
    if prim.limited:
        lengths = prim.inputs[after + prim.parameters]
        assert lengths.dtype is DType.I64
        args["lengths"] = e.ref(e.in_order(lengths, (0,), lambda pl: batch == 1 or pl.strides[0] == 1), lengths.dtype)
    for i, t in enumerate(prim.inputs[len(prim.inputs) - prim.tables :]):
        args[f"table{i}"] = e.ref(e.in_order(t, (0,), lambda place: place.strides[0] == 1), t.dtype)
    results = []
    for name, axes, t in zip(("y", "to0", "to1"), ("tdb", "db", "db"), prim.outputs, strict=False):
        place = e.output(t)
        if place.strides[-1] != 1 and hidden > 1:
            place = e.allocate(dtype, t.shape, natural(t.rank))
        results.append((t, place))
        args |= {name: e.ref(place, dtype), **_steps(name, axes, place.strides)}
    if parts > 1:
        sync = e.allocate(DType.I64, (directions, words(parts)), (0, 1))
        emit_fill(e, 0, sync, (directions, words(parts)), DType.I64)
        args |= {"sync": e.ref(sync, DType.I64), "parts": parts, "share": share}
    else:
        args["span"] = span
    flops = 2 * steps * batch * directions * gates * hidden * hidden
    e.command(spec, args, directions * (parts if parts > 1 else -(-batch // span)), 1, flops)
    for t, place in results:
        if e.output(t) is not place:
            e.copy(place, e.output(t), t.shape, dtype)
    return True


def _weights(e: Emitter, prim: p.Recurrence, dtype: DType) -> DType:
    """The type in which weights are kept."""
    if prim.quantized:
        return DType.I8 if has_dot4(e.target) else DType.F32
    pairs = dtype is DType.F32 and e.options.precision == "low" and group_of(e.target, DType.BF16) == DOT2
    return DType.BF16 if pairs else dtype


def _signs(e: Emitter, r: Tensor, weights: DType) -> bool:
    """Whether products of bytes may be by signs."""
    return (
        weights is DType.I8 and r.const is not None and can_lend_signs(e.target) and not bool((r.const == -128).any())
    )


def _split(e: Emitter, prim: p.Recurrence, batch: int, weights: DType) -> tuple[int, int]:
    """How a direction is divided: into parts of the units, which meet after every step, or (1 part) into blocks of so
    many sequences."""
    directions, rows, hidden = prim.inputs[1].shape
    workers, target = e.threads // directions, e.target
    if workers < 2:
        return 1, batch
    products = batch * rows * hidden / group_size(weights) / target.lanes(DType.F32) / target.fma_per_cycle
    cycles = max(rows * hidden * weights.size / BYTES_PER_CYCLE, products)
    parts = min(workers, -(-hidden // target.lanes(prim.inputs[0].dtype)), int(cycles / MEETING))
    return (parts, batch) if parts > 1 else (1, -(-batch // workers))


def _steps(name: str, axes: str, strides: Sequence[int]) -> dict[str, int]:
    return {f"{name}_{a}": s for a, s in zip(axes, strides, strict=False)}


def _rows(e: Emitter, tensor: Tensor) -> Place:
    """A tensor whose last dimension is contiguous."""
    last = tensor.shape[-1]
    return e.in_order(tensor, natural(tensor.rank), lambda place: place.strides[-1] == 1 or last == 1)


def _packed(e: Emitter, r: Tensor, gates: int, first: int, count: int, spec: RecurrenceSpec) -> tuple[Ref, int]:
    """Address of the rows of gates ``first ..`` of ``r[D, G*H, H]`` as the kernel reads them, and the elements of one
    direction; packed once when they are constant, else in every run."""
    directions, _, hidden = r.shape
    lanes, width, group = spec.lanes(e.target), spec.width(e.target), DOT2 if spec.weights is DType.BF16 else 1
    tiles, depth = -(-hidden // width), steps_of(spec.weights, hidden)
    size = tiles * depth * spec.vectors * count * lanes  # weights, or pairs of them
    data = r.const
    if data is None:
        room = e.allocate(spec.weights, (directions, size * group), (0, 1)).buffer
        if hidden % width or hidden % group:
            emit_fill(e, 0, Place(room, 0, (1,)), (directions * size * group,), spec.weights)
        _pack(e, r, room, gates, first, count, spec)
        return Ref(room, 0), size * group
    key = ("recurrent", id(data), first, count, gates, spec.vectors, spec.columns, lanes, group)
    room, fresh = e.pool.reserve(key, directions * size * group, spec.weights, (data, r.keep))
    if fresh:
        with e.collect() as commands:
            _pack(e, r, room, gates, first, count, spec)
        room.setup += commands
    return Ref(room, 0), size * group


def _pack(e: Emitter, r: Tensor, room: Buffer, gates: int, first: int, count: int, spec: RecurrenceSpec) -> None:
    """Commands that fill ``room``; places of units and values of the state that there are not keep their zeros."""
    directions, _, hidden = r.shape
    lanes, width, pairs = spec.lanes(e.target), spec.width(e.target), spec.weights is DType.BF16
    tiles, depth, unit = -(-hidden // width), steps_of(spec.weights, hidden), spec.columns * lanes
    tile = depth * spec.vectors * count * lanes
    place = e.place(r)
    step_d, step_row, step_k = place.strides
    raw = {DType.F32: DType.U32, DType.F64: DType.U64}[spec.dtype]
    runs = [(0, hidden // DOT2, True), (hidden - 1, hidden % DOT2, False)] if pairs else [(0, hidden, False)]
    for column in range(spec.vectors * count):
        vector, gate = divmod(column, count)
        part, place_in = divmod(column, spec.columns)
        for first_tile, some, units in _pieces(hidden, width, vector * lanes, lanes):
            for k0, times, both in runs:
                shape = (directions, some, units, times)
                if 0 in shape:
                    continue
                step = DOT2 if pairs else 1
                frm = (step_d, width * step_row, step_row, step * step_k)
                to = (tiles * tile, tile, 1, unit)
                row = (first + gate) * hidden + first_tile * width + vector * lanes
                begin = place.offset + row * step_row + k0 * step_k
                operands = [(Tensor(raw, shape), Place(place.buffer, begin + i * step_k, frm)) for i in range(1 + both)]
                into = first_tile * tile + (part * depth + k0 // step) * unit + place_in * lanes
                target = Place(room, into, to)
                if pairs:
                    emit_nest(e, pair_of(raw, len(operands)), shape, operands, target, DType.U32)
                else:
                    emit_nest(e, body_of([raw], lambda b, x: x), shape, operands, target, raw)


def _pieces(hidden: int, width: int, start: int, lanes: int) -> list[tuple[int, int, int]]:
    """The tiles, ``width`` units apart, that have a vector of units at ``start``: the first, how many, and how many
    units they have there; those that have all ``lanes``, and the last one that has some."""
    whole = max(-(-(hidden - start - lanes + 1) // width), 0)
    return [(0, whole, lanes), (whole, 1, min(max(hidden - start - whole * width, 0), lanes - 1))]


__all__ = ["emit_recurrence"]
