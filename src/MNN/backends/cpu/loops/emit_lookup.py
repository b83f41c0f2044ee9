"""Maps that are functions of one byte, by a table: activations between quantised tensors."""

from __future__ import annotations

import numpy as np

from MNN.backends.base.program import Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.lookup import ENTRIES, LookupSpec
from MNN.compiler import strides as st
from MNN.compiler.bodies import fused_body
from MNN.compiler.fuse import Group, looked_up
from MNN.ir.dtype import DType
from MNN.ir.shape import elements
from MNN.ir.traced import room_of
from MNN.reference.scalar import evaluate

_CHUNK = 16384
"""Most elements of the innermost loop in one block, and elements that a worker takes at a time."""


@emits("map")
def emit_lookup(e: Emitter, group: Group) -> bool:
    """A group that is a function of one byte; False where it is none, or runs along no contiguous dimension."""
    source, out = looked_up(group), group.root.outputs[0]
    if source is None or source.shape != out.shape:
        return False
    src, dst = e.place(source), e.output(out)
    extents, (to, frm) = st.merge_loops(out.shape, [dst.strides, src.strides], st.order_of(out.shape, dst.strides))
    if to[-1] != 1 or frm[-1] != 1:
        return False
    body = fused_body(group.prims, [source], [out])
    with np.errstate(all="ignore"):
        results = evaluate(body, [np.arange(ENTRIES, dtype=np.uint8).view(source.dtype.numpy)])[0]
    inner, outer = extents[-1], elements(extents[:-1])
    widest = room_of(inner)
    chunk = widest if widest <= 2 * _CHUNK else _CHUNK
    args: dict[str, int | Ref] = {f"extent{d}": n for d, n in enumerate(extents)}
    args |= {"chunk": chunk, "table": e.table(np.ascontiguousarray(results).view(np.uint8))}
    args |= {"in0": e.ref(src, DType.U8), "out0": e.ref(dst, DType.U8)}
    for name, steps in (("in0", frm), ("out0", to)):
        args |= {f"{name}_s{d}": s for d, s in enumerate(steps[:-1])}
    e.command(LookupSpec(len(extents)), args, outer * -(-inner // chunk), max(1, _CHUNK // chunk))
    return True


__all__ = ["emit_lookup"]
