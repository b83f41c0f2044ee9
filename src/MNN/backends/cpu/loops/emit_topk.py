"""The largest or smallest elements along the last dimension."""

from __future__ import annotations

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.topk import FLOATS, INTEGERS, TopKSpec
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import natural
from MNN.ir import prims as p
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

_MOST = 64
"""Elements beyond which a row is better sorted, as the reference implementation does."""
_GRAIN = 4096
"""Elements that a worker looks at, at least."""


@emits(p.TopK)
def emit_topk(e: Emitter, group: Group) -> bool:
    """Few of many; False where the reference implementation sorts."""
    prim = group.root
    assert isinstance(prim, p.TopK)
    x, (values, places) = prim.inputs[0], prim.outputs
    n, k = x.shape[prim.axis], values.shape[prim.axis]
    known = x.dtype in FLOATS and values.dtype is x.dtype and places.dtype in INTEGERS
    if not known or prim.axis != x.rank - 1 or not 0 < room_of(k) <= _MOST or 0 in x.shape:
        return False

    def contiguous(place: Place) -> bool:
        return place.strides[-1] == 1 or n == 1

    source = e.in_order(x, natural(x.rank), contiguous)
    results = [e.output(t) for t in prim.outputs]
    if any(place.strides[-1] != 1 and k != 1 for place in results):
        return False
    columns = [place.strides[:-1] for place in (source, *results)]
    extents, columns = st.merge_loops(x.shape[:-1], columns, tuple(range(x.rank - 1)))
    args: dict[str, int | Ref] = {"n": n, "k": k, **{f"extent{d}": size for d, size in enumerate(extents)}}
    for name, t, place, steps in zip(
        ("x", "values", "places"), (x, *prim.outputs), (source, *results), columns, strict=True
    ):
        args[name] = e.ref(place, t.dtype)
        args |= {f"{name}_s{d}": s for d, s in enumerate(steps)}
    spec = TopKSpec(x.dtype, places.dtype, len(extents), prim.largest)
    e.command(spec, args, elements(extents), max(1, _GRAIN // max(room_of(n), 1)))
    return True


__all__ = ["emit_topk"]
