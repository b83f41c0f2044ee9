"""Which primitives become one kernel.

Elementwise maps and reductions are grown into groups backwards from the last one: a producer joins when everything
that uses it is already inside, so a group never waits for itself. What a group then is follows from what is in it:

- ``map``: elementwise only;
- ``rows``: with reductions over the innermost dimension, in one pass over rows (softmax, layer norm);
- ``fold``: one reduction over other dimensions, with maps before and after it.

At last a convolution, matrix product or window that feeds a map group alone takes it as its epilogue. One that cannot,
because the group is another's or costs too much, takes the maps that make its sums narrower out of the group: bytes lie
in memory between the two rather than sums.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from MNN.compiler import strides as st
from MNN.compiler.bodies import fused_body, is_literal
from MNN.compiler.layout import DimensionOrder
from MNN.compiler.usage import VIEWS
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Instr
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

MAX_CODE = 160
"""Most scalar instructions in a fused body; longer ones cost more to compile than they save."""
MAX_OPERANDS = 12
COSTLY = frozenset(
    "exp exp2 log log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf pow atan2".split()
)
_NAMED = 3
"""How many operators that are fused with a node are named with it."""
LOOK_BACK = 8
"""How many maps in a row may lie between a reduction and its use."""
MAX_EPILOGUE = 24
"""Most instructions of an epilogue, which is unrolled over a whole register tile; a costly one counts tenfold."""

TABLE_COST = 30
"""Least cost of a function of one byte that a table takes the place of; a costly instruction counts tenfold."""
TABLE_ELEMENTS = 1024
"""Elements up to which computing them costs less than the table's memory."""
BYTES = (DType.I8, DType.U8)


@dataclass(eq=False)
class Group:
    """Primitives of one kernel (in order) and the shape its loops run over.

    ``anchor`` is the contraction or window in front; ``axes`` what the reductions inside reduce.
    """

    kind: str
    prims: list[Prim]
    shape: tuple[int, ...]
    axes: tuple[int, ...] = ()
    anchor: Prim | None = None
    members: set[int] = field(default_factory=set)
    _inputs: list[Tensor] = field(default_factory=list)
    _inputs_of: list[Prim] | None = None
    """The primitives that ``_inputs`` was found for; a group that grows gets another list."""
    _origin: tuple[list[Prim], Prim | None, str] | None = None

    @property
    def root(self) -> Prim:
        return self.prims[-1]

    @property
    def is_several(self) -> bool:
        """Whether it gives several results, which only maps do: plain ones, or numbers of each row."""
        return len(self.prims[-1].outputs) > 1

    def inputs(self) -> list[Tensor]:
        """Tensors used from outside, in order of first use."""
        if self._inputs_of is not self.prims:
            if len(self.prims) == 1:
                found = dict.fromkeys(self.prims[0].inputs)
            else:
                found = dict.fromkeys([t for prim in self.prims for t in prim.inputs])
                for prim in self.prims:
                    for t in prim.outputs:
                        found.pop(t, None)
            self._inputs_of, self._inputs = self.prims, list(found)
        return list(self._inputs)

    def origin(self) -> str:
        """The node that it is about, and the operators of others that are fused with it."""
        known = self._origin
        if known is not None and known[0] is self.prims and known[1] is self.anchor:
            return known[2]
        lead = (self.anchor or self.root).origin
        others = tuple([q.origin for q in self.prims if q.origin != lead])
        found = _named(lead, others) if others else lead
        self._origin = self.prims, self.anchor, found
        return found

    def weight(self) -> int:
        return sum([len(q.body.code) if isinstance(q, p.Map) else 1 for q in self.prims])


@functools.lru_cache(maxsize=4096)
def _named(lead: str, others: tuple[str, ...]) -> str:
    """What a group is called: the same text for every size of the input."""
    words = list(dict.fromkeys([other.partition(" ")[0] for other in others]))
    return " + ".join([lead, *words[:_NAMED]]) + (" + ..." if len(words) > _NAMED else "")


def looked_up(group: Group) -> Tensor | None:
    """The one byte that a map group's byte is a function of, where computing that costs more than a table."""
    if group.kind != "map":
        return None
    out = group.prims[-1].outputs[0]
    if out.dtype not in BYTES or room_of(elements(out.shape)) < TABLE_ELEMENTS:
        return None
    given = [t for t in group.inputs() if not is_literal(t)]
    if len(given) != 1 or given[0].dtype not in BYTES or given[0].const is not None:
        return None
    code = [i for q in group.prims if isinstance(q, p.Map) for i in q.body.code]
    cost = sum(10 if i.op in COSTLY else 4 if i.op == "div" else i.op not in ("arg", "const") for i in code)
    return given[0] if cost >= TABLE_COST else None


def reduced(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def is_innermost(shape: Sequence[int], order: DimensionOrder, axes: Sequence[int]) -> bool:
    """Whether the reduced dimensions are the last ones in memory."""
    big = [a for a in order if shape[a] > 1]
    wanted = [a for a in big if a in axes]
    return bool(wanted) and big[-len(wanted) :] == wanted


class Fuser:
    """Builds the groups of a lowered program."""

    def __init__(
        self,
        prims: Sequence[Prim],
        uses: Mapping[Tensor, list[Prim]],
        orders: Mapping[Tensor, DimensionOrder],
        outputs: Sequence[Tensor],
    ) -> None:
        self._prims, self._uses, self._orders = prims, uses, orders
        self._kept = {id(t) for t in outputs}
        self._position = {id(prim): i for i, prim in enumerate(prims)}
        self._group_of: dict[int, Group] = {}

    def groups(self) -> list[Group]:
        """All groups, in an order in which they can run; views are left out."""
        groups: list[Group] = []
        for prim in reversed(self._prims):
            if id(prim) in self._group_of or isinstance(prim, VIEWS):
                continue
            group = self._start(prim)
            self._group_of[id(prim)] = group
            if group.kind in ("map", "rows", "fold"):
                self._grow(group)
            groups.append(group)
        taken = {id(g) for g in groups if self._attach(g)}
        for group in [g for g in groups if id(g) not in taken]:
            own = self._narrowing(group)
            if own is not None:
                taken.add(id(group))
                groups.append(own)
        position = self._position
        return sorted([g for g in groups if id(g) not in taken], key=lambda g: position[id(g.prims[-1])])

    def _start(self, prim: Prim) -> Group:
        members = {id(prim)}
        if isinstance(prim, p.Map):
            return Group("map", [prim], prim.outputs[0].shape, members=members)
        if isinstance(prim, (p.Reduce, p.ArgReduce)):
            source = prim.inputs[0]
            axes = prim.axes if isinstance(prim, p.Reduce) else (prim.axis,)
            inner = is_innermost(source.shape, self._orders[source], axes)
            kind = "rows" if inner or isinstance(prim, p.ArgReduce) else "fold"
            return Group(kind, [prim], source.shape, axes, members=members)
        return Group("single", [prim], prim.outputs[0].shape, members=members)

    def _grow(self, group: Group) -> None:
        grown = True
        never: set[Tensor] = set()
        while grown and looked_up(group) is None:
            grown = False
            for tensor in group.inputs():
                if tensor in never:
                    continue
                prim = tensor.producer
                if prim is None or not self._free(prim):
                    never.add(tensor)
                elif self._used_within(group, prim) and self._fits(group, prim):
                    group.members.add(id(prim))
                    position, at = self._position, 0
                    own = position[id(prim)]
                    while at < len(group.prims) and position[id(group.prims[at])] < own:
                        at += 1
                    group.prims = [*group.prims[:at], prim, *group.prims[at:]]
                    self._group_of[id(prim)] = group
                    grown = True
                    break

    def _free(self, prim: Prim) -> bool:
        """Whether a primitive can be part of some group and is of none yet."""
        number = id(prim)
        if number in self._group_of or not isinstance(prim, (p.Map, p.Reduce)) or number not in self._position:
            return False
        return len(prim.outputs) == 1 and id(prim.outputs[0]) not in self._kept

    def _used_within(self, group: Group, prim: Prim) -> bool:
        """Whether the group has all that uses a primitive."""
        for t in prim.outputs:
            for user in self._uses.get(t, ()):
                if id(user) not in group.members:
                    return False
        return True

    def _fits(self, group: Group, prim: Prim) -> bool:
        out = prim.outputs[0].shape
        used = group.inputs()
        if len(used) + len(prim.inputs) - 1 > MAX_OPERANDS:  # unless the group has some of them already
            known = {id(t) for t in used}
            if len(used) + sum(id(t) not in known for t in prim.inputs) - 1 > MAX_OPERANDS:
                return False
        if isinstance(prim, p.Map):
            if group.weight() + len(prim.body.code) > MAX_CODE:
                return False
            if out == group.shape:
                return True
            if group.kind == "map" and not group.is_several:
                axes = self._row_axes(prim, group)
                if axes:
                    group.kind, group.axes = "rows", axes
            return group.kind == "rows" and out == reduced(group.shape, group.axes)
        assert isinstance(prim, p.Reduce)
        source = prim.inputs[0]
        inner = is_innermost(source.shape, self._orders[source], prim.axes)
        if group.is_several and not (inner and self._per_row(group, prim)):
            return False
        if group.axes:
            return group.kind == "rows" and inner and source.shape == group.shape and prim.axes == group.axes
        if inner and source.shape == group.shape and self._orders_agree(group, source):
            group.kind, group.axes = "rows", prim.axes
            return True
        if out == group.shape and elements(source.shape) > elements(out):
            group.kind, group.axes, group.shape = ("rows" if inner else "fold"), prim.axes, source.shape
            return True
        return False

    def _per_row(self, group: Group, reduce: p.Reduce) -> bool:
        """Whether the results of a group are numbers of the rows that a reduction reduces."""
        shape = group.root.outputs[0].shape
        return shape == reduce.outputs[0].shape and elements(shape) < elements(reduce.inputs[0].shape)

    def _row_axes(self, prim: Prim, group: Group) -> tuple[int, ...]:
        """What a map on one number per row goes back to: the axes of a reduction over the group's rows, or nothing."""
        current: list[Prim] = [prim]
        out = prim.outputs[0].shape
        for _ in range(LOOK_BACK):
            makers = [t.producer for q in current for t in q.inputs if t.producer is not None and t.shape == out]
            for maker in makers:
                if isinstance(maker, p.Reduce) and maker.inputs[0].shape == group.shape:
                    source = maker.inputs[0]
                    inner = is_innermost(source.shape, self._orders[source], maker.axes)
                    return maker.axes if inner and self._orders_agree(group, source) else ()
            # maps of several results join no group, so that no reduction behind one is of the same group
            current = [m for m in makers if isinstance(m, p.Map) and len(m.outputs) == 1]
        return ()

    def _orders_agree(self, group: Group, source: Tensor) -> bool:
        root = group.root.outputs[0]
        return st.same_order(group.shape, self._orders[root], self._orders[source])

    def _narrowing(self, group: Group) -> Group | None:
        """For a group that is one contraction: the group of it and the maps behind that narrow its result, taken out of
        the group that they were in; None where there are none."""
        anchor = group.prims[-1]
        if group.kind != "single" or not isinstance(anchor, (p.Conv, p.MatMul, p.CompressedMatMul)):
            return None
        current, chain = anchor.outputs[0], list[Prim]()
        wide, target = current.dtype.size, None
        while id(current) not in self._kept and len(chain) < LOOK_BACK:
            users = self._uses.get(current, [])
            user = users[0] if len(users) == 1 else None
            if not isinstance(user, p.Map) or len(user.outputs) != 1 or user.outputs[0].shape != current.shape:
                return None
            if any(t is not current and t.const is None for t in user.inputs):
                return None
            home = self._group_of[id(user)]
            if (target is not None and home is not target) or user is home.root or home.kind == "single":
                return None
            target, current = home, user.outputs[0]
            chain.append(user)
            if current.dtype.size < wide:
                break
        if target is None or current.dtype.size >= wide:
            return None
        own = Group("map", chain, current.shape, members={id(q) for q in chain})
        order, other = self._orders[anchor.outputs[0]], self._orders[current]
        if not self._cheap(own) or not st.same_order(current.shape, order, other):
            return None
        own.anchor = anchor
        target.members -= own.members
        target.prims = [q for q in target.prims if id(q) not in own.members]
        return own

    def _attach(self, group: Group) -> bool:
        """Moves a group that is one contraction or window into the map group that alone uses it."""
        if group.kind != "single":
            return False
        anchor = group.prims[-1]
        if not isinstance(anchor, (p.Conv, p.MatMul, p.CompressedMatMul, p.Window)):
            return False
        out = anchor.outputs[0]
        users = self._uses.get(out, [])
        target = self._group_of.get(id(users[0])) if users else None
        if target is None or id(out) in self._kept:
            return False
        if len(users) > 1 and any(self._group_of.get(id(u)) is not target for u in users):
            return False
        if (
            target.is_several
            or target.kind != "map"
            or target.anchor is not None
            or target.shape != out.shape
            or not self._cheap(target)
        ):
            return False
        if not st.same_order(out.shape, self._orders[out], self._orders[target.root.outputs[0]]):
            return False
        target.anchor = anchor
        return True

    def _cheap(self, group: Group) -> bool:
        code = [i for q in group.prims if isinstance(q, p.Map) for i in q.body.code]
        cost = _cost(code)
        if MAX_EPILOGUE < cost <= 2 * MAX_EPILOGUE and any(i.op == "round" for i in code):
            operands = [t for t in group.inputs() if not is_literal(t)]
            cost = _cost(fused_body(group.prims, operands, group.root.outputs).code)
        return cost <= MAX_EPILOGUE


def _cost(code: Sequence[Instr]) -> int:
    return sum([10 if i.op in COSTLY else i.op not in ("arg", "const") for i in code])
