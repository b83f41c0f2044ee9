"""Commands of layers whose states lie in slots: one each, which writes slots where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.linear_attention.spec import COLUMNS, CausalConvolutionSpec, LinearAttentionSpec
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor


@emits(p.CausalConvolution)
def emit_causal_convolution(e: Emitter, group: Group) -> bool:
    """A pool that is a state is written in place; another one is copied first."""
    prim = group.root
    assert isinstance(prim, p.CausalConvolution)
    pool, x, w, segments = prim.inputs
    if not _known(prim.inputs):
        return False
    args = _shared(e, pool, prim.outputs[0], segments, x.shape[0])
    source, to = _rows(e, x), _results(e, prim.outputs[1])
    args |= {"x": e.ref(source, DType.F32), "x_t": source.strides[0], "y": e.ref(to, DType.F32), "y_t": to.strides[0]}
    args["w"] = e.ref(_dense(e, w), DType.F32)
    spec = CausalConvolutionSpec(w.shape[1], w.shape[0])
    e.command(spec, args, -(-w.shape[1] // COLUMNS), 1)
    _settle(e, to, prim.outputs[1])
    return True


@emits(p.LinearAttention)
def emit_linear_attention(e: Emitter, group: Group) -> bool:
    """The same."""
    prim = group.root
    assert isinstance(prim, p.LinearAttention)
    pool, *given, segments = prim.inputs
    if not _known(prim.inputs):
        return False
    v = given[2]
    rows = given[3].rank > 2
    spec = LinearAttentionSpec(v.shape[1], given[0].shape[1], given[0].shape[2], v.shape[2], prim.delta, rows)
    args = _shared(e, pool, prim.outputs[0], segments, v.shape[0])
    to = _results(e, prim.outputs[1])
    places = [*(_rows(e, t) if t.rank > 2 else e.place(t) for t in given), to]
    for name, place in zip(("q", "k", "v", "decay", *spec.more, "y"), places, strict=True):
        args |= {name: e.ref(place, DType.F32), f"{name}_t": place.strides[0], f"{name}_h": place.strides[1]}
    e.command(spec, args, spec.heads * (spec.value_size // spec.width(e.target)), 1)
    _settle(e, to, prim.outputs[1])
    return True


def _known(tensors: Sequence[Tensor]) -> bool:
    """Whether kernels take these."""
    *floats, segments = tensors
    fits = segments.dtype is DType.I64 and all(t.dtype is DType.F32 for t in floats)
    return fits and all(0 not in t.shape for t in tensors)


def _shared(e: Emitter, pool: Tensor, after: Tensor, segments: Tensor, tokens: int) -> dict[str, int | Ref]:
    """What both have."""
    if e.place(pool) != e.output(after):
        e.copy(e.place(pool), e.output(after), pool.shape, pool.dtype)
    at = e.in_order(segments, (0, 1), lambda place: place.strides == (4, 1))
    return {
        "pool": e.ref(_dense(e, after), DType.F32), "places": pool.shape[0], "tokens": tokens,
        "segments": e.ref(at, DType.I64), "count": segments.shape[0],
    }  # fmt: skip


def _dense(e: Emitter, tensor: Tensor) -> Place:
    dense = st.dense(tensor.shape, natural(tensor.rank))
    return e.in_order(tensor, natural(tensor.rank), lambda place: place.strides == dense)


def _rows(e: Emitter, tensor: Tensor) -> Place:
    """A tensor whose last dimension is contiguous."""
    last = tensor.shape[-1]
    return e.in_order(tensor, natural(tensor.rank), lambda place: place.strides[-1] == 1 or last == 1)


def _results(e: Emitter, tensor: Tensor) -> Place:
    """Where a kernel writes them: rows of neighbours."""
    place = e.output(tensor)
    return place if place.strides[-1] == 1 else e.allocate(DType.F32, tensor.shape, natural(tensor.rank))


def _settle(e: Emitter, found: Place, tensor: Tensor) -> None:
    if e.output(tensor) is not found:
        e.copy(found, e.output(tensor), tensor.shape, DType.F32)


__all__ = ["emit_causal_convolution", "emit_linear_attention"]
