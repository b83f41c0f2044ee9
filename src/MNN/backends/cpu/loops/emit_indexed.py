"""Gathers, scatters and running sums."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.emit_elementwise import CHUNK, GRAIN, stride_args
from MNN.backends.cpu.loops.gather import GatherSpec
from MNN.backends.cpu.loops.scan import ScanSpec
from MNN.backends.cpu.loops.scatter import ScatterSpec
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

INDEX_TYPES = (DType.I32, DType.I64)


@emits(p.Gather)
def emit_gather(e: Emitter, group: Group) -> bool:
    """``out[o] = data[...]`` through index tensors."""
    prim = group.root
    assert isinstance(prim, p.Gather)
    data, indices, out = prim.inputs[0], prim.inputs[1:], prim.outputs[0]
    if 0 in out.shape or 0 in data.shape or any(t.dtype not in INDEX_TYPES for t in indices):
        return False
    _gather(e, prim, e.place(data), out.shape, e.output(out), indices)
    return True


def _gather(
    e: Emitter, prim: p.Gather | p.Scatter, source: Place, shape: st.Ints, dst: Place, indices: Sequence[Tensor]
) -> None:
    """What stands in the data, whose place is ``source``, at the coordinates of a primitive."""
    data = prim.inputs[0]
    affine = _affine(prim.walk, source.strides, len(shape))
    columns, extents, classes = _loops(e, shape, dst, affine, indices, gather=True)
    spec = GatherSpec(
        dtype=data.dtype,
        index_dtypes=tuple(t.dtype for t in indices),
        rank=len(extents),
        data=classes[1],
        indices=tuple(classes[2:]),
        out=classes[0],
        near=_span(data.shape, source.strides) + _span(extents, columns[1]) < 1 << 31,
    )
    inner = extents[-1]
    widest = room_of(inner)
    chunk = widest if widest <= 2 * CHUNK else CHUNK
    args: dict[str, int | Ref] = {"chunk": chunk, "error": e.error_ref()}
    args |= _arguments(
        e, extents, columns, classes, ["out", "data"], [(data.dtype, dst), (data.dtype, source)], indices
    )
    for j, d in enumerate(prim.indexed):
        args[f"size{j}"], args[f"scale{j}"] = data.shape[d], source.strides[d]
    e.command(spec, args, elements(extents[:-1]) * -(-inner // chunk), max(1, GRAIN // chunk))


def scatters(prim: p.Scatter) -> bool:
    """Whether there is a kernel for this scatter."""
    data, updates, indices = prim.inputs[0], prim.inputs[1], prim.inputs[2:]
    return 0 not in data.shape and all(t.dtype in INDEX_TYPES for t in indices) and updates.dtype is data.dtype


@emits(p.Scatter)
def emit_scatter(e: Emitter, group: Group) -> bool:
    """A copy of the data with updates put in, in order; the data itself where it is in place already.

    What is in place must be as it was when an index is out of range: what will be written over is read before, which
    stops the run.
    """
    prim = group.root
    assert isinstance(prim, p.Scatter)
    data, updates, indices, out = prim.inputs[0], prim.inputs[1], prim.inputs[2:], prim.outputs[0]
    if not scatters(prim):
        return False
    dst = e.output(out)
    in_place = e.place(data) == dst
    if not in_place:
        e.copy(e.place(data), dst, data.shape, data.dtype)
    if 0 in updates.shape:
        return True
    if in_place:
        old = e.allocate(data.dtype, updates.shape, natural(updates.rank))
        _gather(e, prim, dst, updates.shape, old, indices)
    source = e.place(updates)
    affine = _affine(prim.walk, dst.strides, updates.rank)
    columns, extents, classes = _loops(e, updates.shape, source, affine, indices, gather=False)
    spec = ScatterSpec(
        dtype=data.dtype,
        op=prim.op,
        index_dtypes=tuple(t.dtype for t in indices),
        rank=len(extents),
        data=classes[1],
        indices=tuple(classes[2:]),
        updates=classes[0],
    )
    args: dict[str, int | Ref] = {"error": e.error_ref()}
    located = [(updates.dtype, source), (data.dtype, dst)]
    args |= _arguments(e, extents, columns, classes, ["updates", "data"], located, indices)
    for j, d in enumerate(prim.indexed):
        args[f"size{j}"], args[f"scale{j}"] = data.shape[d], dst.strides[d]
    e.command(spec, args, 1, 1)
    return True


def _span(shape: Sequence[int], strides: st.Ints) -> int:
    """The largest offset between two elements, either way, at all sizes."""
    return sum((room_of(n) - 1) * abs(room_of(s)) for n, s in zip(shape, strides, strict=True))


def _affine(walk: Sequence[int], strides: st.Ints, rank: int) -> st.Ints:
    """Strides of the data along the loops, without the indexed dimensions."""
    out = [0] * rank
    for d, axis in enumerate(walk):
        if axis >= 0:
            out[axis] += strides[d]
    return tuple(out)


def _loops(
    e: Emitter, shape: st.Ints, dense: Place, affine: st.Ints, indices: Sequence[Tensor], gather: bool
) -> tuple[list[st.Ints], st.Ints, list[str]]:
    index_columns = [st.broadcast_strides(t.shape, e.place(t).strides, shape) for t in indices]
    order = st.order_of(shape, dense.strides) if gather else tuple(range(len(shape)))
    extents, columns = st.merge_loops(shape, [dense.strides, affine, *index_columns], order)
    classes = ["0" if c[-1] == 0 else "1" if c[-1] == 1 else "s" for c in columns]
    if gather and classes[0] == "0":  # one element of the result; updates of a scatter may be one number for all
        classes[0] = "1"
    return columns, extents, classes


def _arguments(
    e: Emitter,
    extents: st.Ints,
    columns: Sequence[st.Ints],
    classes: Sequence[str],
    names: list[str],
    located: Sequence[tuple[DType, Place]],
    indices: Sequence[Tensor],
) -> dict[str, int | Ref]:
    args: dict[str, int | Ref] = {f"extent{d}": n for d, n in enumerate(extents)}
    names = names + [f"idx{j}" for j in range(len(indices))]
    places = [*located, *((t.dtype, e.place(t)) for t in indices)]
    for name, column, cls, (dtype, place) in zip(names, columns, classes, places, strict=True):
        args[name] = e.ref(place, dtype)
        args.update(stride_args(name, column, cls))
    return args


@emits(p.Scan)
def emit_scan(e: Emitter, group: Group) -> bool:
    """Running sum, product, maximum or minimum along one dimension."""
    prim = group.root
    assert isinstance(prim, p.Scan)
    x, out = prim.inputs[0], prim.outputs[0]
    if 0 in x.shape or x.dtype is DType.BOOL:
        return False
    src, dst = e.place(x), e.output(out)
    rest = [1 if a == prim.axis else n for a, n in enumerate(x.shape)]
    extents, (to, frm) = st.merge_loops(rest, [dst.strides, src.strides], st.order_of(rest, dst.strides))
    spec = ScanSpec(
        op=prim.op,
        dtype=x.dtype,
        exclusive=prim.exclusive,
        reverse=prim.reverse,
        rank=len(extents),
        contiguous=to[-1] == 1 and frm[-1] == 1,
    )
    args: dict[str, int | Ref] = {f"extent{d}": n for d, n in enumerate(extents)}
    args |= {f"in_s{d}": s for d, s in enumerate(frm)} | {f"out_s{d}": s for d, s in enumerate(to)}
    args |= {"n": x.shape[prim.axis], "in_step": src.strides[prim.axis], "out_step": dst.strides[prim.axis]}
    args |= {"in": e.ref(src, x.dtype), "out": e.ref(dst, out.dtype)}
    e.command(spec, args, elements(extents[:-1]), 1)
    return True
