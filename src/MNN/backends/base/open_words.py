"""What of a program depends on sizes that it leaves open: words, each with the size that it is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from MNN.ir.size_functions import Shape as Shape
from MNN.ir.size_functions import matcher
from MNN.ir.symbolic import evaluate, parse

BLOCKS, GRAIN = "", "grain of blocks"
"""Slots that are no argument's: how many blocks a command has, and how many a worker takes at least."""


@dataclass(frozen=True)
class OpenWord:
    """An argument of a command that follows from open sizes: the number ``size``, or an address so many bytes into the
    argument's buffer. For :data:`BLOCKS` and :data:`GRAIN`, those of the command. Of a program that runs once for every
    slice of a batch, the only command is the one that does that."""

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
    def match(self) -> Callable[[Sequence[tuple[int, ...]]], tuple[int, ...] | None]:
        """A function of the sizes of inputs: what the open sizes are; None where the program is not for them."""
        return matcher(self.names, self.least, self.most, self.inputs)

    def __getstate__(self) -> dict[str, object]:
        """What is written to disk: no functions."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def results(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The sizes of results for inputs of these sizes, which are within bounds."""
        values = dict(zip(self.names, self.match(shapes) or (), strict=True))
        return [tuple([evaluate(parse(n) if isinstance(n, str) else n, values) for n in s]) for s in self.outputs]


__all__ = ["BLOCKS", "GRAIN", "OpenSizes", "OpenWord"]
