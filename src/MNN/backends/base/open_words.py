"""What of a program depends on sizes that it leaves open: words, each with the size that it is."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from MNN.ir.symbolic import compiled, evaluate, multiple_of, parse

Shape = tuple["int | str", ...]
"""Sizes of a tensor: numbers, and formulas of the open ones."""


BLOCKS, GRAIN = "", "grain of blocks"
"""Slots that are no argument's: how many blocks a command has, and how many a worker takes at least."""


@dataclass(frozen=True)
class OpenWord:
    """An argument of a command that follows from open sizes: the number ``size``, or an address so many bytes into the
    argument's buffer. For :data:`BLOCKS` and :data:`GRAIN`, those of the command."""

    command: int
    slot: str
    size: str


@dataclass(frozen=True)
class OpenSizes:
    """The sizes that a program leaves open, by ``names``, each within its bounds; its other numbers are those at the
    largest. Formulas are plain texts, which :func:`MNN.ir.symbolic.parse` reads."""

    names: tuple[str, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]
    words: tuple[OpenWord, ...]
    inputs: tuple[Shape, ...]
    """Of the caller's inputs; the others, behind these, have the ``numbers``."""
    outputs: tuple[Shape, ...]
    numbers: tuple[Shape, ...] = ()
    alone_is_faster: bool = False
    """See ``Program``."""

    @functools.cached_property
    def _alike(self) -> tuple[tuple[Shape, tuple[int, ...]], ...]:
        """Shapes of inputs, each with the numbers of those that have it: there are as many caches as layers."""
        found: dict[Shape, list[int]] = {}
        for number, shape in enumerate(self.inputs):
            found.setdefault(shape, []).append(number)
        return tuple([(shape, tuple(numbers)) for shape, numbers in found.items()])

    @functools.cached_property
    def _units(self) -> dict[str, tuple[str, int]]:
        """Sizes of inputs that are multiples of an open one: its name, and of how many units."""
        sizes = {size: parse(size) for shape in self.inputs for size in shape if isinstance(size, str)}
        found = {size: multiple_of(parsed) for size, parsed in sizes.items()}
        return {size: unit for size, unit in found.items() if unit is not None and unit[0] in self.names}

    def match(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
        """What the open sizes are for inputs of these sizes; None where the program is not for them."""
        found: dict[str, int] = {}
        later: list[tuple[str, int]] = []
        names = self.names
        if len(shapes) != len(self.inputs):
            return None
        for own, (first, *others) in self._alike:
            given = shapes[first]
            for other in others:
                if shapes[other] != given:
                    return None
            if own == given:
                continue
            if len(own) != len(given):
                return None
            for size, number in zip(own, given, strict=True):
                if size == number:
                    continue
                if not isinstance(size, str):
                    return None
                if size not in names:
                    unit = self._units.get(size)
                    if unit is None:
                        later.append((size, number))
                        continue
                    size, rest = unit[0], number % unit[1]
                    number //= unit[1]
                    if rest:
                        return None
                if found.setdefault(size, number) != number:
                    return None
        if len(found) < len(names) or any(evaluate(parse(size), found) != number for size, number in later):
            return None
        numbers = tuple([found[name] for name in self.names])
        inside = all(low <= n <= high for low, n, high in zip(self.least, numbers, self.most, strict=True))
        return numbers if inside else None

    def results(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The sizes of results for inputs of these sizes, which are within bounds."""
        values = dict(zip(self.names, self.match(shapes) or (), strict=True))
        return [tuple([evaluate(parse(n) if isinstance(n, str) else n, values) for n in s]) for s in self.outputs]


def shapes_at(shapes: Sequence[Shape], names: Sequence[str]) -> Callable[..., list[tuple[int, ...]]]:
    """The sizes of tensors as a function of the open ones, in the order of ``names``."""
    different = list(dict.fromkeys(shapes))
    formulas = compiled(list(itertools.chain.from_iterable(different)), names)
    numbers = [different.index(shape) for shape in shapes]

    def at(*sizes: int) -> list[tuple[int, ...]]:
        found = iter(formulas(*sizes))
        made = [tuple(itertools.islice(found, len(shape))) for shape in different]
        return [made[number] for number in numbers]

    return at


__all__ = ["BLOCKS", "GRAIN", "OpenSizes", "OpenWord", "shapes_at"]
