"""Where states lie: an input and the output that it becomes, in one memory.

What a run adds is written in place, and nothing else is moved. Two primitives do so:

- a concatenation along one axis, what was there first (caches that grow): where memory is laid out for the room that
  the length may take, appending writes what is new;
- a scatter into what was there (caches of a fixed size, written at places that are known only when the model runs):
  rows are written over, which is only right where nobody else reads what they were; new tokens are put into the pages
  of a cache in the same way;
- an elementwise map of what was there (parameters and an optimiser's moments): each element is written where it was
read,
  which is only right where all others have read it before. That depends on commands, and is checked when they are
  known.

The first two may be seen through reshapes and permutations, and rows may be put into what has been appended to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from MNN.backends.base.program import Buffer, Command, Place
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.loops.emit_indexed import scatters
from MNN.compiler import in_place
from MNN.compiler import strides as st
from MNN.compiler.layout import natural, view_strides
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

_VIEWS = (p.Permute, p.Reshape)


def places(
    e: Emitter,
    uses: Mapping[Tensor, list[Prim]],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    states: Sequence[tuple[int, int]],
) -> dict[Tensor, Place]:
    """Places of the inputs and outputs of states, of those which can be in one memory."""
    found: dict[Tensor, Place] = {}
    for given, result in states:
        before, after = inputs[given], outputs[result]
        if before.const is not None or before in found or after in found:
            continue
        path = _path(before, after, uses, outputs)
        if path is not None:
            found |= _in_place(e, before, path)
        elif _mapped(before, after, uses, outputs):
            found |= _over(e, before, after)
    return found


def lost(
    commands: Sequence[Command], places: Mapping[Tensor, Place], pairs: Sequence[tuple[Tensor, Tensor]]
) -> list[Tensor]:
    """Inputs of ``pairs`` that a map writes over before the last command has read them."""
    mapped = {places[x].buffer: x for x, y in pairs if x in places and isinstance(y.producer, p.Map)}
    return [tensor for buffer, tensor in mapped.items() if not in_place.replaced_at_last(commands, buffer)]


def _mapped(before: Tensor, after: Tensor, uses: Mapping[Tensor, list[Prim]], outputs: Collection[Tensor]) -> bool:
    """Whether a state's output is an elementwise map of its input, which nothing else but inner results needs."""
    prim = after.producer
    alike = (before.shape, before.dtype) == (after.shape, after.dtype)
    plain = all(isinstance(n, int) and type(n) is int for n in before.shape)
    return (
        isinstance(prim, p.Map)
        and prim.inputs.count(before) == 1
        and alike
        and plain
        and elements(before.shape) > 0
        and before not in outputs
        and not uses.get(after)
    )


def _over(e: Emitter, before: Tensor, after: Tensor) -> dict[Tensor, Place]:
    """One dense place for both."""
    place = Place(Buffer(elements(before.shape) * before.dtype.size), 0, st.dense(before.shape, natural(before.rank)))
    place.buffer.pinned = place.buffer.lent = True
    e.buffers.append(place.buffer)
    e.assign(after, place)
    return {before: place, after: place}


def _path(
    before: Tensor, after: Tensor, uses: Mapping[Tensor, list[Prim]], outputs: Collection[Tensor]
) -> list[Tensor] | None:
    """What is made of a state's input on the way to its output, first to last; None where it cannot be in place."""
    path: list[Tensor] = []
    tensor, overwritten = after, False
    while tensor is not before:
        prim = tensor.producer
        if prim is None or (overwritten and (len(uses.get(tensor, ())) > 1 or tensor in outputs)):
            return None
        if isinstance(prim, p.Concat):
            if prim.inputs[0] is not before or prim.inputs.count(before) > 1:
                return None
        elif isinstance(prim, p.Scatter):
            if not scatters(prim) or prim.inputs[0] in prim.inputs[1:]:
                return None
            overwritten = True
        elif isinstance(prim, (p.CacheWrite, p.CausalConvolution, p.LinearAttention)):
            overwritten = True
        elif not isinstance(prim, _VIEWS):
            return None
        path.append(tensor)
        tensor = prim.inputs[prim.outputs.index(tensor)]  # a result goes on from the operand with its number
    if overwritten and (len(uses.get(before, ())) > 1 or before in outputs):
        return None
    return path[::-1] if any(not isinstance(made.producer, _VIEWS) for made in path) else None


def _in_place(e: Emitter, before: Tensor, path: Sequence[Tensor]) -> dict[Tensor, Place]:
    """The places of a state's input and output, those of what lies between being noted; none where a view of one memory
    is none of the other."""
    appended = path[0] if isinstance(path[0].producer, p.Concat) else None
    if appended is None:
        room = [room_of(n) for n in before.shape]
        first = Place(Buffer(elements(room) * before.dtype.size), 0, st.dense(room, natural(before.rank)))
    else:
        first = e.output(appended)
        size = elements([room_of(n) for n in appended.shape]) * before.dtype.size
        if first.offset or first.buffer.nbytes < size or first.buffer.pinned or min(first.strides, default=0) < 0:
            return {}
    last, between = first, {}
    for made in path:
        if isinstance(made.producer, _VIEWS):
            seen = view_strides(made.producer, last.strides, made)
            if seen is None:
                return {}
            last = Place(last.buffer, last.offset + seen[0], seen[1])
        between[made] = last
    after = path[-1]
    strides = zip(after.shape, first.strides, last.strides, strict=True)
    if last.offset or any(a != b for n, a, b in strides if room_of(n) > 1):
        return {}
    if appended is None:
        e.buffers.append(first.buffer)
    for tensor, place in between.items():
        e.assign(tensor, place)
    first.buffer.pinned = first.buffer.lent = True
    return {before: first, after: last}


__all__ = ["lost", "places"]
