"""What the way back needs of the way there: kept, or computed again where memory is short.

A gradient needs most of what was computed on the way to its loss. Kept, that is the larger part of a training step's
memory. What is cheap to compute for its size is computed again in front of its first use instead, elementwise maps
(activations, normalisations by statistics that are kept) first, contractions last (Chen et al., "Training Deep Nets
with Sublinear Memory Cost", 2016). Recomputed are primitives, so that what is elementwise is mostly fused into its use.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from MNN.errors import MNNError
from MNN.formatting import nbytes
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor

_VIEWS = (p.Reshape, p.Permute, p.Slice, p.Expand)
"""Primitives that mostly look at their operand's memory."""
_SMALL = 1 << 14
"""Bytes up to which a tensor is always kept: statistics, what is summed over."""
_CHEAP = 2.5
"""Additions a byte up to which things are computed again without being asked: what that takes, memory takes as well."""
_FEW = 8
_READ = 2
"""Additions an element, and tensors, of what is computed again for each of its uses."""
_FUSING = (p.Map, p.Reduce)
"""Primitives that maps in front of them are fused with."""
_TRIED = 24
"""How many choices between keeping everything and nothing are looked at."""
_COSTLY = 10.0
"""What a function costs, in additions."""
_FUNCTIONS = frozenset("exp exp2 log log1p expm1 sin cos tan erf pow tanh sinh cosh".split())


def with_recomputation(prims: Sequence[Prim], start: int, budget: int | None, where: str) -> list[Prim]:
    """The same primitives, those from ``start`` on using less of what the others made: so that it and what is computed
    again take at most ``budget`` bytes at any time; without one, nothing that costs next to nothing to compute again.

    Raises :class:`MNNError` where even the least is more than that."""
    way, back = _Way(prims[:start]), prims[start:]
    kept = way.needed(back)
    order = way.dropped(kept, _CHEAP if budget is None else inf)
    if budget is None:
        return [*prims[:start], *way.rewritten(back, kept.keys() - set(order))]
    least = inf
    for turn in range(_TRIED + 1):  # what is computed again takes memory too: dropping everything gains nothing
        left = kept.keys() - set(order[: len(order) * turn // _TRIED])
        takes = way.peak(back, left)
        if takes <= budget:
            return [*prims[:start], *way.rewritten(back, left)]
        least = min(least, takes)
    raise MNNError(
        f"{where}: activations may take {nbytes(budget)} (activation_memory), but they need at least "
        f"{nbytes(least, enough=True)}; give that much, or train on smaller batches"
    )


def _bytes(t: Tensor) -> int:
    return prod(t.shape) * t.dtype.size


@dataclass
class _Way:
    """The primitives on the way to the loss."""

    prims: Sequence[Prim]
    _own: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._own = {id(prim) for prim in self.prims}

    def _made_here(self, t: Tensor) -> Prim | None:
        prim = t.producer
        return prim if t.const is None and prim is not None and id(prim) in self._own else None

    def _base(self, t: Tensor) -> Tensor:
        """What a view looks at."""
        prim = self._made_here(t)
        while isinstance(prim, _VIEWS):
            t = prim.inputs[0]
            prim = self._made_here(t)
        return t

    def needed(self, back: Iterable[Prim]) -> dict[Tensor, None]:
        """What these primitives use of this way, in the order of first use."""
        bases = (self._base(t) for prim in back for t in prim.inputs)
        return dict.fromkeys(t for t in bases if self._made_here(t) is not None)

    def _there(self, t: Tensor, kept: Collection[Tensor]) -> bool:
        """Whether a tensor need not be computed again."""
        base = self._base(t)
        return self._made_here(base) is None or base in kept or _bytes(base) <= _SMALL

    def cost(self, t: Tensor, kept: Collection[Tensor]) -> float:
        """Operations to compute a tensor again from what is kept; infinite where that cannot be."""
        total, done, stack = 0.0, {t}, [t]
        while stack and total < inf:
            prim = stack.pop().producer
            assert prim is not None
            total += _operations(prim)
            for x in prim.inputs:
                base = self._base(x)
                if base not in done and not (base is not t and self._there(base, kept)):
                    done.add(base)
                    stack.append(base)
        return total

    def dropped(self, kept: Collection[Tensor], most: float) -> list[Tensor]:
        """What need not be kept, the cheapest for its bytes first, below a cost of ``most`` additions a byte."""
        left, order = dict.fromkeys(kept), list[Tensor]()
        heap = [(0.0, number, t) for number, t in enumerate(kept) if _bytes(t) > _SMALL]
        while heap:
            _, number, t = heapq.heappop(heap)
            cost = self.cost(t, left) / _bytes(t)
            if cost >= most:
                continue
            if heap and cost > heap[0][0]:  # costs only grow by what is dropped: what is up to date and first is least
                heapq.heappush(heap, (cost, number, t))
                continue
            del left[t]
            order.append(t)
        return order

    def peak(self, back: Sequence[Prim], kept: Collection[Tensor]) -> int:
        """The most bytes that results of this way, those computed again among them, take at any time."""
        steps = [(prim, prim.inputs) for prim in self.prims] + self._steps(back, kept)
        count = len(self.prims)
        own = self._own | {id(prim) for prim, _ in steps[count:]} - {id(prim) for prim in back}
        last: dict[Tensor, int] = {}
        for i, (prim, inputs) in enumerate(steps):
            for t in (*inputs, *prim.outputs):
                while isinstance(t.producer, _VIEWS) and id(t.producer) in own:
                    t = t.producer.inputs[0]
                if t.const is None and t.producer is not None and id(t.producer) in own:
                    last[t] = i
        ends: dict[int, int] = {}
        for t, i in last.items():
            ends[i] = ends.get(i, 0) + _bytes(t)
        most = now = 0
        for i, (prim, _) in enumerate(steps):
            now += sum(_bytes(t) for t in prim.outputs if t in last)
            most = max(most, now)
            now -= ends.get(i, 0)
        return most

    def rewritten(self, back: Sequence[Prim], kept: Collection[Tensor]) -> list[Prim]:
        """The primitives ``back``, each behind what has to be computed again for it."""
        steps = self._steps(back, kept)
        for prim, inputs in steps:
            prim.inputs = inputs
        return [prim for prim, _ in steps]

    def _steps(self, back: Sequence[Prim], kept: Collection[Tensor]) -> list[tuple[Prim, list[Tensor]]]:
        """These primitives and the operands that each is to have. What takes a few operations of one or two tensors is
        computed again for each map and reduction that uses it, which it is fused with; all else once."""
        found: list[tuple[Prim, list[Tensor]]] = []
        again: dict[Tensor, Tensor] = {}
        inner: dict[Tensor, dict[Tensor, Tensor]] = {}
        fused = self._fused(kept)

        def ready(t: Tensor, own: Mapping[Tensor, Tensor]) -> bool:
            return t in own or t in again or self._there(t, kept)

        def taken(prim: Prim, own: Mapping[Tensor, Tensor]) -> list[Tensor]:
            return [own.get(t, again.get(t, t)) for t in prim.inputs]

        for prim in back:
            single: dict[Tensor, Tensor] = {}
            stack = [(t, single, isinstance(prim, _FUSING)) for t in prim.inputs]
            while stack:
                t, own, fusing = stack[-1]
                if ready(t, own):
                    stack.pop()
                    continue
                maker = t.producer
                assert maker is not None
                alone = fusing and t in fused
                parts = own if alone else inner.setdefault(t, {})
                missing = [x for x in maker.inputs if not ready(x, parts)]
                if missing:
                    stack += [(x, parts, isinstance(maker, _FUSING)) for x in missing]
                    continue
                stack.pop()
                twin = _twin(maker, taken(maker, parts))
                found.append((twin, twin.inputs))
                (own if alone else again).update(zip(maker.outputs, twin.outputs, strict=True))
            found.append((prim, taken(prim, single)))
        return found

    def _fused(self, kept: Collection[Tensor]) -> set[Tensor]:
        """What is computed again within a kernel that uses it: results of maps that take at most :data:`_FEW` additions
        an element, of at most :data:`_READ` large tensors that are there."""
        found: dict[Tensor, tuple[float, frozenset[Tensor]]] = {}
        for prim in self.prims:
            if not isinstance(prim, p.Map):
                continue
            work, read = (
                _operations(prim) / max(prod(prim.outputs[0].shape), 1) / len(prim.outputs),
                frozenset[Tensor](),
            )
            for t in prim.inputs:
                if t in found and not self._there(t, kept):
                    work, read = work + found[t][0], read | found[t][1]
                elif _bytes(t) > _SMALL:
                    read |= {self._base(t)}
            if work <= _FEW and len(read) <= _READ:
                found.update(dict.fromkeys(prim.outputs, (work, read)))
        return set(found)


def _twin(prim: Prim, inputs: list[Tensor]) -> Prim:
    """The same primitive on other operands, with results of its own."""
    twin = copy.copy(prim)
    twin.inputs, twin.sort = inputs, None
    twin.outputs = [Tensor(t.dtype, t.shape, None, t.name, twin) for t in prim.outputs]
    return twin


def _operations(prim: Prim) -> float:
    """What a primitive costs, in additions; infinite for one that is never computed twice."""
    size = float(sum(prod(t.shape) for t in prim.outputs))
    if isinstance(prim, p.Map):
        return size * sum(_COSTLY if i.op in _FUNCTIONS else i.op not in ("arg", "const") for i in prim.body.code)
    if isinstance(prim, (p.Reduce, p.ArgReduce)):
        return float(prod(prim.inputs[0].shape))
    if isinstance(prim, p.Window):
        return size * prod(prim.kernel)
    if isinstance(prim, p.MatMul):
        return 2 * size * prim.inputs[0].shape[-1]
    if isinstance(prim, p.Conv):
        return 2 * size * prod(prim.inputs[1].shape[1:])
    if isinstance(prim, (*_VIEWS, p.Pad, p.Concat, p.Gather)):
        return size
    return inf


__all__ = ["with_recomputation"]
