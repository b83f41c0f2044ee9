"""Plans that hold for a range of sizes: made when inputs come with a second size, in the place of one plan per size."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from MNN.backends.base.open_words import OpenSizes, Shape
from MNN.compiler.open.errors import NeverOpenError, NotOpenError
from MNN.compiler.open.plan import LEAST, UNIT, Reach, SizeRange, range_for, range_of_units
from MNN.errors import MNNError
from MNN.ir.graph import Value
from MNN.ir.symbolic import Size, evaluate, multiply, names
from MNN.ir.traced import TracedSize, size_of

KEPT = 12
"""Plans for ranges that a graph keeps."""
OFTEN = 16
"""Runs at the same size after which a plan for it alone pays, where that is faster: planning takes some 30 ms, and such
runs take a tenth to a fifth longer, of 5 ms and more."""
_COUNTED = 1000
_TRIES = 12
"""Ranges that were tried in vain, after which every size of the graph is planned alone."""


class Resizable(Protocol):
    """A plan whose sizes can change."""

    @property
    def open_sizes(self) -> OpenSizes: ...

    def resize(self, sizes: tuple[int, ...]) -> None: ...


P = TypeVar("P", bound=Resizable)


class Given(NamedTuple):
    """What a plan is made for besides sizes."""

    inputs: tuple[Value, ...]
    types: tuple[np.dtype, ...]
    fetch: tuple[Value, ...]


_RangeFor = Callable[[int, int], SizeRange | None]
Make = Callable[[dict[Value, Shape], dict[str, SizeRange]], P]


class OpenPlans:
    """The plans for ranges of one graph."""

    def __init__(self) -> None:
        self._plans: dict[Given, list[Resizable]] = {}
        self._seen: dict[Given, list[tuple[int, ...]]] = {}
        """Sizes that were planned alone, of each the last ones."""
        self._asked: Counter[tuple[Given, tuple[tuple[int, ...], ...]]] = Counter()
        """How often sizes came that a plan for a range serves less well than one of their own would."""
        self._vain: set[tuple[object, ...]] = set()
        """What was tried in vain: is not again."""

    def saw(self, given: Given, shapes: Sequence[tuple[int, ...]]) -> None:
        """Says that inputs of these sizes were run without a plan of this graph."""
        self._seen.setdefault(given, list(shapes))

    def find(self, given: Given, shapes: Sequence[tuple[int, ...]]) -> Resizable | None:
        """The plan for inputs of these sizes, ready for them."""
        plans = self._plans.get(given, [])
        for at, plan in enumerate(plans):
            sizes = plan.open_sizes.match(shapes)
            if sizes is not None:
                if plan.open_sizes.alone_is_faster and self._often(given, shapes):
                    return None
                plan.resize(sizes)
                if at:
                    plans.insert(0, plans.pop(at))
                return plan
        return None

    def _often(self, given: Given, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether these sizes have come so often that a plan of their own pays."""
        if len(self._asked) > _COUNTED:
            self._asked.clear()
        self._asked[given, tuple(shapes)] += 1
        return self._asked[given, tuple(shapes)] >= OFTEN

    def make(self, given: Given, arrays: Sequence[np.ndarray], make: Make[P]) -> P | None:
        """A new plan for a range, where these inputs are the second ones and differ from the first in sizes that the
        model leaves open; None where they are to be planned alone."""
        shapes = [a.shape for a in arrays]
        before = self._seen.get(given)
        self._seen[given] = shapes
        often = self._asked[given, tuple(shapes)] >= OFTEN
        if before is None or often or len(self._vain) >= _TRIES:
            return None
        plan: P | None = None
        for sizes_of, ranges in _opened(given.inputs, before, shapes):
            of_any_range = (given, *sizes_of.values())
            asked = (*of_any_range, *ranges.values())
            if self._vain & {of_any_range, asked}:
                continue
            try:
                plan = make(sizes_of, ranges)
                break
            except NeverOpenError:
                self._vain.add(of_any_range)
            except (NotOpenError, MNNError):
                self._vain.add(asked)
        if plan is None:
            return None
        plans = self._plans.setdefault(given, [])
        plans.insert(0, plan)
        del plans[KEPT:]
        sizes = plan.open_sizes.match(shapes)
        if sizes is None:
            return None
        plan.resize(sizes)
        return plan


def _opened(
    inputs: Sequence[Value], before: Sequence[tuple[int, ...]], shapes: Sequence[tuple[int, ...]]
) -> Iterator[tuple[dict[Value, Shape], dict[str, SizeRange]]]:
    """The sizes of inputs, those that have changed being left open under names of their own, and the ranges of these;
    nothing where there is no range for some of them, or others depend on them. First with what sizes seem to have to
    do with each other (a mask is as long as a cache and what is new), then with each on its own; first for as many
    sizes as there may be, then without those that are much smaller. Images are planned without these at once: networks
    halve them again and again, and compute what is left of small ones in another way. At last comes a range of the
    multiples of :data:`UNIT`, where sizes are such: what is halved may be put together again. Sizes below
    :data:`LEAST`, as of a small batch, are not left open."""
    named = _named(inputs)
    values, old = _values(named, shapes), _values(named, before)
    if values is None or old is None:
        return
    changed = [name for name, number in values.items() if old[name] != number and number >= LEAST]
    derived = _derived([(name, old[name], values[name]) for name in changed])
    lengths = all(len({name for name in shape if name in changed}) < 2 for shape in named)
    reaches: list[Reach] = ["all", "most", "near", "windows"] if lengths else ["near", "windows"]
    ways: list[tuple[int, _RangeFor]] = [(1, partial(range_for, reach=reach)) for reach in reaches]
    if all(n % UNIT == 0 for name in changed for n in (old[name], values[name])):
        ways.append((UNIT, range_of_units))
    for (unit, range_of), known in itertools.product(ways, (derived, {}) if derived else ({},)):
        free = sorted([name for name in changed if name not in known], key=values.__getitem__)
        ranges = {f"s{i}": range_of(values[name] // unit, i) for i, name in enumerate(free)}
        own = {name: TracedSize(values[name], multiply(f"s{i}", unit)) for i, name in enumerate(free)}
        for name, (first, second) in known.items():
            sum_of = own[first] + (own[second] if isinstance(second, str) else second)
            own[name] = TracedSize(values[name], sum_of.size)
        found: dict[Value, Shape] = {}
        for value, sizes, shape in zip(inputs, named, shapes, strict=True):
            renamed = [_renamed(size, n, own, values) for size, n in zip(sizes, shape, strict=True)]
            if None not in renamed:
                found[value] = tuple([n for n in renamed if n is not None])
        if changed and len(found) == len(inputs) and None not in ranges.values():
            yield found, {name: r for name, r in ranges.items() if r is not None}


def _derived(sizes: Sequence[tuple[str, int, int]]) -> dict[str, tuple[str, str | int]]:
    """Sizes that were the sum of two others, or more than another by the same number, both times: what of."""
    found: dict[str, tuple[str, str | int]] = {}
    for name, old, new in sorted(sizes, key=lambda size: -size[2]):
        rest = [size for size in sizes if size[0] not in found and size[0] != name]
        sums = ((a, b) for a, b in itertools.combinations(rest, 2) if a[1] + b[1] == old and a[2] + b[2] == new)
        pair = next(sums, None)
        near = next((size for size in rest if new - size[2] == old - size[1] >= 0), None)
        if pair is not None:
            found[name] = pair[0][0], pair[1][0]
        elif near is not None:
            found[name] = near[0], new - near[2]
    for name in list(found)[::-1]:  # in terms of free ones: the smallest come first
        found[name] = found.pop(name)
    return found


def _renamed(size: int | str, number: int, own: Mapping[str, TracedSize], values: Mapping[str, int]) -> Size:
    """The size of an input in terms of those that are left open, others being what they are now; None where it follows
    from a size that is not known."""
    if not names(size) & own.keys():
        return number
    if not names(size) <= values.keys():
        return None
    traced = evaluate(size, {**values, **own})
    return size_of(traced) if int(traced) == number else None


def _named(inputs: Sequence[Value]) -> list[Shape]:
    """The sizes of inputs as the model gives them; those without a name have one of their own."""
    return [
        tuple([s if isinstance(s, (int, str)) else f"{v.name}.{i}" for i, s in enumerate(v.shape or ())])
        for v in inputs
    ]


def _values(named: Sequence[Shape], shapes: Sequence[tuple[int, ...]]) -> dict[str, int] | None:
    """What names stand for; None where one would have to be two numbers."""
    found: dict[str, int] = {}
    for sizes, shape in zip(named, shapes, strict=True):
        if len(sizes) != len(shape):
            return None
        for size, number in zip(sizes, shape, strict=True):
            if isinstance(size, str) and names(size) == {size} and found.setdefault(size, number) != number:
                return None
    return found


__all__ = ["Given", "OpenPlans", "Resizable"]
