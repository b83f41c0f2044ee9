"""Orders of dimensions and groups of primitives: found at one of the sizes that a range is tried at, for others too.

Both follow from the primitives and from comparisons of sizes. Where all of these come out alike, what was found at one
size is what would be found at another. Kernels and their arguments are made at every size, and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from MNN.compiler.fuse import Fuser, Group
from MNN.compiler.layout import DimensionOrder, assign_layouts
from MNN.compiler.verify_program import wanted
from MNN.ir.prims import Prim, Tensor
from MNN.ir.traced import Comparison, OpenSize, Trace
from MNN.ir.verify_primitives import ProgramError

Orders = dict[Tensor, DimensionOrder]
Uses = Mapping[Tensor, list[Prim]]


class _Group(NamedTuple):
    """A group by the positions of its primitives; ``shape``: of which one's results (from 0 on) or operands (from -1
    back) it has the shape."""

    kind: str
    prims: tuple[int, ...]
    shape: tuple[int, int]
    axes: tuple[int, ...]
    anchor: int | None


class _Structure(NamedTuple):
    """What was found of a list of primitives, by their positions."""

    wiring: list[tuple[object, ...]]
    """See :func:`_wiring`."""
    orders: list[DimensionOrder]
    groups: list[_Group]
    compared: Mapping[Comparison, bool]


def structure(
    prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor], uses: Uses
) -> tuple[Orders, list[Group]]:
    """The order in which the dimensions of every tensor lie, and the groups. ``uses``: who uses each tensor."""
    trace = next((n.trace for t in inputs for n in t.shape if isinstance(n, OpenSize)), None)
    if trace is None:
        return _found(prims, inputs, outputs, uses)
    key = "structure", len(prims), len(inputs)
    known: _Structure | None = trace.decided.get(key)
    wiring = _wiring(prims, inputs, outputs)
    if known is not None and known.wiring == wiring and trace.repeats(known.compared):
        taken = _taken(known, prims, inputs)
        if wanted():
            _verify(taken, _found(prims, inputs, outputs, uses))
        return taken
    before, trace.compared = trace.compared, {}
    try:
        found = _found(prims, inputs, outputs, uses)
        if known is None:
            trace.decided[key] = _noted(*found, prims, inputs, wiring, trace)
    finally:
        trace.compared = {**before, **trace.compared}
    return found


def _found(
    prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor], uses: Uses
) -> tuple[Orders, list[Group]]:
    orders = assign_layouts(prims, inputs, uses)
    return orders, Fuser(prims, uses, orders, outputs).groups()


def _noted(
    orders: Orders,
    groups: Sequence[Group],
    prims: Sequence[Prim],
    inputs: Sequence[Tensor],
    wiring: list[tuple[object, ...]],
    trace: Trace,
) -> _Structure | None:
    """What was found, for other traces; None where it cannot be told by positions."""
    position = {id(q): i for i, q in enumerate(prims)}
    noted: list[_Group] = []
    for g in groups:
        shape = _shaped(g)
        if shape is None:
            return None
        anchor = None if g.anchor is None else position[id(g.anchor)]
        noted.append(_Group(g.kind, tuple([position[id(q)] for q in g.prims]), shape, g.axes, anchor))
    return _Structure(wiring, [orders[t] for t in _tensors(prims, inputs)], noted, trace.compared)


def _wiring(prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[tuple[object, ...]]:
    """What kinds the primitives are of, and what they and the outputs take: tensors by their numbers, constants -1."""
    number = {id(t): i for i, t in enumerate(_tensors(prims, inputs))}.get
    taken: list[tuple[object, ...]] = [(type(q), *[number(id(t), -1) for t in q.inputs]) for q in prims]
    return [*taken, tuple([number(id(t), -1) for t in outputs])]


def _shaped(group: Group) -> tuple[int, int] | None:
    """Which tensor the shape of a group is of."""
    for number, q in enumerate(group.prims):
        for tensors, first, step in ((q.outputs, 0, 1), (q.inputs, -1, -1)):
            for i, t in enumerate(tensors):
                if t.shape is group.shape:
                    return number, first + step * i
    return None


def _taken(known: _Structure, prims: Sequence[Prim], inputs: Sequence[Tensor]) -> tuple[Orders, list[Group]]:
    """The same of these primitives."""
    groups = []
    for kind, positions, (number, at), axes, anchor in known.groups:
        own = [prims[i] for i in positions]
        of = own[number]
        shape = (of.outputs[at] if at >= 0 else of.inputs[-1 - at]).shape
        lead = None if anchor is None else prims[anchor]
        groups.append(Group(kind, own, shape, axes, lead, {id(q) for q in own}))
    return dict(zip(_tensors(prims, inputs), known.orders, strict=True)), groups


def _tensors(prims: Sequence[Prim], inputs: Sequence[Tensor]) -> list[Tensor]:
    return [*inputs, *[t for q in prims for t in q.outputs]]


def _verify(taken: tuple[Orders, list[Group]], found: tuple[Orders, list[Group]]) -> None:
    """Raises where what was taken over is not what is found."""

    def told(g: Group) -> tuple[object, ...]:
        return g.kind, list(map(id, g.prims)), tuple(map(int, g.shape)), g.axes, id(g.anchor)

    if taken[0] != found[0] or list(map(told, taken[1])) != list(map(told, found[1])):
        raise ProgramError("orders or groups that another size of the range has are not those of this one")


__all__ = ["structure"]
