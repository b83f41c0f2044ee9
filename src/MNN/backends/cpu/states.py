"""Where states lie: an input that a run appends to, and the output that is both, in one memory.

A cache of keys is an input of the length so far and an output that is longer: a concatenation along one axis, the cache
first. Where memory is laid out for the room that its length may take, appending writes what is new and moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Place
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of


def places(
    e: Emitter, inputs: Sequence[Tensor], outputs: Sequence[Tensor], states: Sequence[tuple[int, int]]
) -> dict[Tensor, Place]:
    """Places of the inputs and outputs of states, of those which can be in one memory."""
    found: dict[Tensor, Place] = {}
    for given, result in states:
        before, after = inputs[given], outputs[result]
        prim = after.producer
        if before.const is not None or before in found or after in found or not _appends(prim, before):
            continue
        place = e.output(after)
        room = elements([room_of(n) for n in after.shape]) * after.dtype.size
        if place.offset or place.buffer.nbytes < room or place.buffer.pinned or min(place.strides, default=0) < 0:
            continue
        place.buffer.pinned = place.buffer.lent = True
        found[before] = found[after] = place
    return found


def _appends(prim: p.Prim | None, before: Tensor) -> bool:
    return isinstance(prim, p.Concat) and prim.inputs[0] is before and prim.inputs.count(before) == 1


__all__ = ["places"]
