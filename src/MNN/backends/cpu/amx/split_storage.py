"""``precision="normal"`` on tiles: which tensors between kernels are kept in two bf16 parts (``BF16X2``).

Products on tiles multiply the left side in two bf16 parts. Where a tensor is stored so, which takes the memory of the
f32, tiles are loaded from it as it lies: nothing is brought and split for every product anew, which takes 20 to 40 % of
the products with few columns (:mod:`MNN.backends.cpu.amx.cost`). Nothing is lost in these products, which would round
to the same parts; other readers find 16 to 17 bits.

A tensor is kept so when all that read and write it can do so, and its products gain more than that costs the others:

- its channels are innermost in memory, in whole thirty-twos;
- convolutions, depthwise convolutions and pooling write it, as it is, inside a border or as a part of a concatenation
  (whose other parts may be slices of such tensors);
- products on tiles read it, as left side or as an operand of their epilogue, and pooling (depthwise convolutions read
  every number several times).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from MNN.backends.cpu.amx.cost import DIRECT_COLUMNS, LEAST_COLUMNS, plan_rows
from MNN.backends.cpu.amx.layout import MOST_BETWEEN
from MNN.backends.cpu.targets.base import Target
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.compiler.layout import DimensionOrder, channels_last, natural
from MNN.compiler.usage import is_depthwise
from MNN.ir import prims as p
from MNN.ir.dtype import PARTED, DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements

_PARTS = 2
_STORE, _OPERAND, _POOL, _MOVE = 10.0, 4.0, 3.6, 0.0
"""Cycles for 32 numbers beyond those of f32: to store them, to load them in an epilogue, for each place of a pool's
window, and to bring them for the windows of a product. Measured within networks, command by command: 11 to 16 for the
first (with it, sums of residual blocks are rarely kept so), 3.6 for a pool's."""


class SplitStorage:
    """Chooses among the tensors of a program (an :func:`MNN.compiler.copies.own_copy`) that its groups
    store.

    ``fixed`` (inputs and outputs) stay f32.
    """

    def __init__(
        self,
        prims: Sequence[Prim],
        groups: Sequence[Group],
        uses: Mapping[Tensor, list[Prim]],
        orders: Mapping[Tensor, DimensionOrder],
        fixed: Sequence[Tensor],
        target: Target,
        threads: int,
    ) -> None:
        self._uses, self._orders, self._target, self._threads = uses, orders, target, threads
        self._parent: dict[Tensor, Tensor] = {}
        self._kept: set[Tensor] = set(fixed)
        self._gain: dict[Tensor, float] = {}
        self._home = {id(q) for g in groups for q in (*g.prims, *((g.anchor,) if g.anchor else ()))}
        self._made = {t for g in groups for t in g.root.outputs}
        for prim in prims:
            if isinstance(prim, p.Slice) and prim.inputs[0] in self._made:
                self._slice(prim)

    def choose(self, groups: Sequence[Group], apart: Sequence[Group], exact: frozenset[Prim]) -> list[Tensor]:
        """Sets the type of all chosen tensors; gives them.

        ``apart``: groups whose operands and results stay f32 (of chains, whose products are of vectors); ``exact``:
        products that need more than two parts."""
        besides = {id(g) for g in apart}
        for group in groups:
            lead = group.anchor or group.root
            if id(group) in besides or not self._see(group, lead, exact):
                self._kept.update((*lead.inputs, *group.inputs(), *group.root.outputs))
        total: dict[Tensor, float] = {}
        for t in self._made:
            root = self._find(t)
            total[root] = total.get(root, 0.0) + self._gain.get(t, 0.0)
            if not self._fits(t):
                self._kept.add(t)
        kept = {self._find(t) for t in self._kept}
        chosen = [t for t in self._made if self._find(t) not in kept and total[self._find(t)] > 0]
        for t in chosen:
            t.retype(DType.BF16X2)
        return chosen

    def _see(self, group: Group, lead: Prim, exact: frozenset[Prim]) -> bool:
        """Notes what a group says of its operands and result; False when it takes f32 alone."""
        out = group.root.outputs[0]
        if isinstance(lead, (p.Pad, p.Concat)):
            return self._join(lead)
        if isinstance(lead, p.Conv):
            self._convolution(lead, lead in exact)
            if lead.groups > 1 and not is_depthwise(lead):
                return False
        elif isinstance(lead, p.Window):
            self._add(lead.inputs[0], elements(out.shape) * elements(lead.kernel) * _POOL)
        else:
            return False
        self._add(out, elements(out.shape) * _STORE)
        for t in group.inputs() if group.anchor is not None else ():
            if t is not lead.outputs[0] and t.const is None:
                if t.shape != out.shape:
                    self._kept.add(t)
                self._add(t, elements(t.shape) * _OPERAND)
        return True

    def _convolution(self, conv: p.Conv, exact: bool) -> None:
        x, w = conv.inputs
        self._kept.add(w)
        if conv.groups > 1 or exact or w.const is None or w.dtype is not DType.F32 or w.shape[0] < LEAST_COLUMNS:
            self._kept.add(x)
        elif elements(w.shape[2:]) > 1 or set(conv.strides) != {1}:
            self._add(x, elements(x.shape) * _MOVE)
        else:
            lines, (n, k) = x.shape[0] * x.shape[2], w.shape[:2]
            m, between = lines * x.shape[3], lines * self._line(x)
            direct = n <= DIRECT_COLUMNS and between <= MOST_BETWEEN * m
            now = plan_rows(self._target, m, n, k, 1, _PARTS, 1, self._threads)
            if direct:
                m = between
            then = plan_rows(self._target, m, n, k, 1, _PARTS, 1, self._threads, direct=direct, parted=True)
            self._add(x, (then.cycles - now.cycles) * PARTED)

    def _line(self, t: Tensor) -> int:
        """Pixels from line to line where the tensor will lie: inside the border that is put around it, if any."""
        for user in self._uses.get(t, ()):
            if isinstance(user, (p.Pad, p.Concat)):
                return self._line(user.outputs[0])
        return t.shape[3]

    def _add(self, t: Tensor, cycles: float) -> None:
        """Notes what it costs to keep a tensor in parts, in cycles for 32 of what is counted."""
        self._gain[t] = self._gain.get(t, 0.0) - cycles / PARTED

    def _join(self, prim: p.Pad | p.Concat) -> bool:
        """Keeps what is put together alike; False where thirty-twos would be cut, or a part is another kind of view."""
        if isinstance(prim, p.Pad):
            if any((*prim.low[:2], *prim.high[:2])):
                return False
        elif prim.axis != 1:
            return False
        if not self._made.issuperset(prim.inputs):
            return False
        for t in prim.inputs:
            self._keep_alike(t, prim.outputs[0])
        return True

    def _slice(self, prim: p.Slice) -> None:
        """A view of whole thirty-twos of channels is what it looks at."""
        if prim.outputs[0].rank == 4 and prim.starts[1] % PARTED == 0 and prim.steps[1] == 1:
            self._keep_alike(prim.inputs[0], prim.outputs[0])
            self._made.add(prim.outputs[0])
            self._home.add(id(prim))

    def _keep_alike(self, t: Tensor, other: Tensor) -> None:
        a, b = self._find(t), self._find(other)
        if a is not b:
            self._parent[a] = b

    def _find(self, t: Tensor) -> Tensor:
        while t in self._parent:
            t = self._parent[t]
        return t

    def _fits(self, t: Tensor) -> bool:
        return (
            t.dtype is DType.F32
            and t.const is None
            and t.rank == 4
            and t.shape[1] % PARTED == 0
            and st.same_order(t.shape, self._orders.get(t, natural(4)), channels_last(4))
            and all(id(u) in self._home for u in self._uses.get(t, ()))
        )
