"""Maps, copies, fills and concatenation: loop nests over strided operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.interleave import MOST_ROWS, InterleaveSpec
from MNN.backends.cpu.loops.map_nest import MapSpec, whole_vectors
from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.compiler import strides as st
from MNN.compiler.bodies import fused_body, is_literal
from MNN.compiler.fuse import Group
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body, body_of
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

CHUNK = 8192
"""Most elements of the innermost loop in one block."""
GRAIN = 16384
"""Elements a worker takes at a time; less is not worth waking one."""
BAND_WORK = 32768
"""Elements of a matrix that one block of a transposition moves."""
_LONG = 8
"""Elements of a run from which on transpositions in registers are worth it."""
MANY_ROWS = 256
"""Short rows from which on they have a kernel for their length."""
STRIDED_COST = 10.0
"""Cost of a strided access relative to one in a contiguous run, and of starting a row, in elements."""
ROW_COST = 24.0
_FEW_ROWS = 8
"""Of a matrix that is copied into panels, at a time."""


@emits("map", rank=1)
def emit_map(e: Emitter, group: Group) -> bool:
    """A group of elementwise maps; the last one may have several results."""
    operands = [t for t in group.inputs() if not is_literal(t)]
    out, *others = group.root.outputs
    body = fused_body(group.prims, operands, group.root.outputs)
    places = [e.place(t) for t in operands]
    place = e.output(out)
    if len(operands) > 1:
        places = [_turned(e, t, pl, place, out) for t, pl in zip(operands, places, strict=True)]
    if not others and len(operands) == 1 and operands[0].shape == out.shape and _only_rounds(body):
        split = _split(places[0], place, out.shape)
        if split is not None and split.few:
            _emit_interleave(e, places[0], place, split, operands[0].dtype, out.dtype)
            return True
    if not others and len(operands) == 1 and operands[0].shape == out.shape and _made_first(operands[0], out):
        split = _split(places[0], place, out.shape)
        if split is not None and (split.few or min(room_of(split.extents[a]) for a in (split.j, -1)) >= _LONG):
            between = e.allocate(out.dtype, out.shape, st.order_of(out.shape, places[0].strides), roomy=True)
            emit_nest(e, body, out.shape, [(operands[0], places[0])], between, out.dtype)
            emit_copy(e, between, place, out.shape, out.dtype)
            return True
    besides = [(e.output(t), t.dtype) for t in others]
    emit_nest(e, body, out.shape, list(zip(operands, places, strict=True)), place, out.dtype, besides)
    return True


def _turned(e: Emitter, tensor: Tensor, place: Place, result: Place, out: Tensor) -> Place:
    """Where to read an operand: of one that runs another way through memory than the result, a copy in its order, for
    that is made by whole lines."""
    if tensor.shape != out.shape or room_of(elements(out.shape)) < GRAIN:
        return place
    split = _split(place, result, out.shape)
    if split is None or split.few or min(room_of(split.extents[a]) for a in (split.j, -1)) < _LONG:
        return place
    order = st.order_of(out.shape, result.strides)
    return e.in_order(tensor, order, lambda pl: False)


def _made_first(x: Tensor, out: Tensor) -> bool:
    """Whether numbers that are narrower than what they are made of are put in another order once they are made, which
    takes whole lines less time than storing them one by one."""
    return out.dtype.size < x.dtype.size and room_of(elements(out.shape)) >= GRAIN


def emit_nest(
    e: Emitter,
    body: Body,
    shape: Sequence[int],
    operands: Sequence[tuple[Tensor, Place]],
    dst: Place,
    dtype: DType,
    others: Sequence[tuple[Place, DType]] = (),
) -> None:
    """A loop nest over ``shape`` that stores ``body`` of the broadcast operands to ``dst``, its further results to
    ``others``."""
    if 0 in shape:
        return
    inputs = [st.broadcast_strides(t.shape, pl.strides, shape) for t, pl in operands]
    refs = [e.ref(pl, t.dtype) for t, pl in operands]
    strided_nest(e, body, tuple(shape), inputs, refs, dst, dtype, others)


def strided_nest(
    e: Emitter,
    body: Body,
    shape: st.Ints,
    inputs: Sequence[st.Ints],
    refs: Sequence[Ref],
    dst: Place,
    dtype: DType,
    others: Sequence[tuple[Place, DType]] = (),
) -> None:
    """The same, of operands at ``refs`` with the strides ``inputs`` over the ``shape``."""
    extents, columns = st.merge_loops(
        shape, [dst.strides, *[o.strides for o, _ in others], *inputs], st.order_of(shape, dst.strides)
    )
    extents, columns = _best_inner(extents, columns)
    rank, inner = len(extents), extents[-1]
    classes = [_inner_class(c[-1]) for c in columns]
    results = 1 + len(others)
    classes[:results] = ["1" if c == "0" else c for c in classes[:results]]  # a single element
    whole = whole_vectors(e.target, body, rank, inner) if room_of(elements(extents[:-1])) >= MANY_ROWS else 0
    if whole and rank > 2 and len(columns) == 2:
        extents, columns = _row_by_row(extents, columns)
        rank = len(extents)
    spec = MapSpec.of(body, rank, tuple(classes[results:]), tuple(classes[:results]), whole)
    widest = room_of(inner)
    chunk = widest if widest <= 2 * CHUNK else CHUNK
    args: dict[str, int | Ref] = {f"extent{d}": n for d, n in enumerate(extents)}
    args["chunk"] = chunk
    names = [*(f"out{i}" for i in range(results)), *(f"in{i}" for i in range(len(inputs)))]
    pointers = [e.ref(dst, dtype), *(e.ref(place, kind) for place, kind in others), *refs]
    for name, pointer, column, cls in zip(names, pointers, columns, classes, strict=True):
        args[name] = pointer
        args.update(stride_args(name, column, cls))
    outer = elements(extents[:-1])
    blocks = outer * -(-inner // chunk)
    e.command(spec, args, blocks, max(1, GRAIN // chunk), flops=0)


def stride_args(name: str, column: st.Ints, cls: str) -> dict[str, int | Ref]:
    """Stride slots of an operand: all loops but the innermost, and that too when it is of class ``s``."""
    used = column if cls == "s" else column[:-1]
    return {f"{name}_s{d}": s for d, s in enumerate(used)}


def _inner_class(stride: int) -> str:
    return "0" if stride == 0 else "1" if stride == 1 else "s"


def _best_inner(extents: st.Ints, columns: list[st.Ints]) -> tuple[st.Ints, list[st.Ints]]:
    """Moves the loop innermost that touches memory most evenly and is not too short."""

    def cost(loop: int) -> float:
        per_element = sum(0.1 if c[loop] == 0 else 1.0 if c[loop] == 1 else STRIDED_COST for c in columns)
        if columns[0][loop] == 0:
            per_element += 1e6  # the result must advance
        return per_element + ROW_COST / room_of(extents[loop])

    best = min(range(len(extents)), key=lambda a: (cost(a), -a)) if len(extents) > 1 else len(extents) - 1
    if best == len(extents) - 1:
        return extents, columns
    order = [a for a in range(len(extents)) if a != best] + [best]
    return tuple(extents[a] for a in order), [tuple(c[a] for a in order) for c in columns]


def _row_by_row(extents: st.Ints, columns: list[st.Ints]) -> tuple[st.Ints, list[st.Ints]]:
    """Panels that are copied from the columns of a matrix, a few of its rows at a time: its lines are read one behind
    the other so, and not one of every row, which may be in another page each (1.2 to 1.9 times as fast, AVX2)."""
    *outer, panels, rows, inner = extents
    source = columns[-1]
    if type(panels) is not int or type(rows) is not int or source[-3] != inner or abs(source[-2]) <= inner:
        return extents, columns
    few = _FEW_ROWS if rows % _FEW_ROWS == 0 else rows  # another number of rows takes the same kernel
    turned = [(*c[:-3], c[-2] * few, *c[-3:]) for c in columns]
    return (*outer, rows // few, panels, few, inner), turned


def emit_copy(e: Emitter, src: Place, dst: Place, shape: st.Ints, dtype: DType) -> None:
    """A strided copy; a register-blocked transposition where the two sides disagree about the innermost loop."""
    if 0 in shape:
        return
    split = _split(src, dst, shape)
    if split is not None:
        if split.few:
            _emit_interleave(e, src, dst, split, dtype, dtype)
            return
        if room_of(split.extents[split.j]) >= _LONG and room_of(split.extents[-1]) >= _LONG:
            _emit_transpose(e, src, dst, split, dtype)
            return
    raw = DType.U16 if dtype.is_float and dtype.size == 2 else dtype  # moved, not converted
    body = _moved(raw)
    strided_nest(e, body, shape, [src.strides], [e.ref(src, dtype)], dst, dtype)


@functools.cache
def _moved(dtype: DType) -> Body:
    """The body that gives what it is given."""
    return body_of([dtype], lambda b, x: x)


@dataclass(frozen=True)
class _Split:
    """Merged loops of a copy, ``j`` being contiguous in the source and the last one in the result."""

    extents: st.Ints
    to: st.Ints
    frm: st.Ints
    j: int

    @property
    def few(self) -> bool:
        """Whether the last loop is short, and its runs lie one behind the other in the result."""
        return self.extents[-1] <= MOST_ROWS and self.to[self.j] == self.extents[-1] > 1

    @property
    def batch(self) -> list[int]:
        """The other loops."""
        return [a for a in range(len(self.extents) - 1) if a != self.j]


def _split(src: Place, dst: Place, shape: st.Ints) -> _Split | None:
    """How a copy can be done as transpositions; None where both sides agree about the innermost loop."""
    if 0 in shape:
        return None
    extents, (to, frm) = st.merge_loops(shape, [dst.strides, src.strides], st.order_of(shape, dst.strides))
    inner = [a for a, s in enumerate(frm) if s == 1]
    if to[-1] == 1 and inner and inner[0] != len(extents) - 1 and frm[-1] != 0:
        return _Split(extents, to, frm, inner[0])
    return None


def _only_rounds(body: Body) -> bool:
    """Whether it rounds f32 to 16 bits and does nothing else."""
    return len(body.code) == 2 and body in _roundings()


@functools.cache
def _roundings() -> tuple[Body, ...]:
    return tuple([body_of([DType.F32], lambda b, x, to=to: b.cast(x, to)) for to in (DType.BF16, DType.F16)])


def _emit_transpose(e: Emitter, src: Place, dst: Place, split: _Split, dtype: DType) -> None:
    """``out[b.., j, i] = in[b.., i, j]``."""
    extents, to, frm, j = split.extents, split.to, split.frm, split.j
    last, batch = len(extents) - 1, split.batch
    spec = TransposeSpec(size=dtype.size, batch=len(batch))
    rows, cols = extents[last], extents[j]
    band = max(16, min(room_of(cols), BAND_WORK // room_of(rows) // 16 * 16))
    args: dict[str, int | Ref] = {f"batch{d}": extents[a] for d, a in enumerate(batch)}
    args |= {f"in_s{d}": frm[a] for d, a in enumerate(batch)}
    args |= {f"out_s{d}": to[a] for d, a in enumerate(batch)}
    args |= {"rows": rows, "cols": cols, "band": band, "in_row": frm[last], "out_row": to[j]}
    args |= {"in": e.ref(src, dtype), "out": e.ref(dst, dtype)}
    blocks = elements([extents[a] for a in batch]) * -(-cols // band)
    e.command(spec, args, blocks, max(1, GRAIN // (room_of(rows) * band)))


def _emit_interleave(e: Emitter, src: Place, dst: Place, split: _Split, dtype: DType, result: DType) -> None:
    """The few elements of the last loop lie in rows of their own in the source, one behind the other in the result."""
    extents, to, frm, j = split.extents, split.to, split.frm, split.j
    last, batch = len(extents) - 1, split.batch
    spec = InterleaveSpec(result.size, extents[last], len(batch), None if result is dtype else result)
    cols = extents[j]
    band = min(room_of(cols), BAND_WORK // extents[last])
    args: dict[str, int | Ref] = {f"batch{d}": extents[a] for d, a in enumerate(batch)}
    args |= {f"in_s{d}": frm[a] for d, a in enumerate(batch)}
    args |= {f"out_s{d}": to[a] for d, a in enumerate(batch)}
    args |= {"cols": cols, "band": band, "in_row": frm[last], "in": e.ref(src, dtype), "out": e.ref(dst, result)}
    blocks = elements([extents[a] for a in batch]) * -(-cols // band)
    e.command(spec, args, blocks, max(1, GRAIN // (extents[last] * band)))


def emit_fill(e: Emitter, value: float | int, dst: Place, shape: st.Ints, dtype: DType) -> None:
    """Stores one number everywhere."""
    if 0 not in shape:
        strided_nest(e, _constant(value, math.copysign(1, value), dtype), shape, [], [], dst, dtype)


@functools.lru_cache(maxsize=256)
def _constant(value: float | int, sign: float, dtype: DType) -> Body:
    """The body that gives a number, of which zeros of either ``sign`` are equal."""
    del sign
    return body_of([], lambda b: b.const(value, dtype))


@emits(p.Concat)
def emit_concat(e: Emitter, group: Group) -> bool:
    """Copies those parts that are not in place yet."""
    prim = group.root
    assert isinstance(prim, p.Concat)
    place = e.output(prim.outputs[0])
    at = 0
    for index, tensor in enumerate(prim.inputs):
        start = [at if a == prim.axis else 0 for a in range(tensor.rank)]
        region, current = e.region(place, start), e.place(tensor)
        placed = prim.inputs.index(tensor) == index and (current.buffer, current.offset) == (
            region.buffer,
            region.offset,
        )
        if not placed:
            e.copy(current, region, tensor.shape, tensor.dtype)
        at += tensor.shape[prim.axis]
    return True
