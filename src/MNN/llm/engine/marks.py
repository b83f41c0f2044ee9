"""Where a text can go back to whose model has recurrent layers: what these have made of it is known behind some of its
tokens alone, and lies in a slot for each such place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.llm.engine.pages import NoPagesError, PagePool
from MNN.llm.models.cache import PAGE, TILE

SPARE = 192
"""Slots that are left for texts to go on: places to go back to later do without."""
_SMALL = 2 << 20
"""Bytes of a slot up to which there are many."""
_ALL = 1 << 28
"""Bytes of a text's slots."""
Segment = tuple[int, int, int, int]
"""The first of a step's tokens, their number, and the slots in front of them and behind them."""


@dataclass(frozen=True)
class MarkForm:
    """``every``: behind how many tokens a place is kept; ``most``: how many of them; ``recent``: how many of the last
    places are kept whatever they are."""

    every: int = PAGE
    most: int = 32
    recent: int = 8

    @classmethod
    def of(cls, nbytes: int) -> MarkForm:
        """For slots of so many bytes: few of large ones."""
        if nbytes <= _SMALL:
            return cls(most=max(min(_ALL // max(nbytes, 1), 64), 8))
        return cls(8 * PAGE, max(_ALL // nbytes, 4), 3)


@dataclass
class Mark:
    """A place behind ``length`` tokens. ``lasting``: for texts that begin alike."""

    length: int
    slot: int
    lasting: bool = False


@dataclass(eq=False)
class Marks:
    """The places of one text, first to last; a text that holds anything has one behind its last token."""

    pool: PagePool
    form: MarkForm
    kept: list[Mark] = field(default_factory=list)
    hold: int | None = None
    """A place that has to stay until a longer piece of work is done."""

    def reach(self, length: int) -> int:
        """The last place up to so many tokens."""
        return max([mark.length for mark in self.kept if mark.length <= length], default=0)

    def needed(self, count: int) -> int:
        """Slots that a step by so many tokens takes at least."""
        return 2 if count > 1 else 1

    def grow(self, old: int, count: int, drafted: int = 0) -> list[Segment]:
        """Takes slots for a step by ``count`` tokens, of which the last ``drafted`` may be taken back, and gives its
        segments: the first of the tokens, their number, the slot before and the slot behind them. Raises
        :class:`NoPagesError` where there are none; places up to ``old`` are as they were."""
        end = old + count
        stops = {end: count > 1 and not drafted}
        if 0 < drafted < count:
            stops[end - drafted] = False
        borders = range((old // self.form.every + 1) * self.form.every, end, self.form.every)
        spare = max(self.pool.free - SPARE, 0)
        for border in borders[::-1][: min(spare, self.form.most)]:
            stops[border] = True
        if len(stops) > self.pool.free:
            self.lean()
        if len(stops) > self.pool.free:
            raise NoPagesError(f"{len(stops)} slots of recurrent layers are needed, {self.pool.free} are free")
        last = self.kept[-1] if self.kept else Mark(0, -1)
        assert last.length == old, "a text goes on from where its recurrent layers are"
        found, before = [], last
        for stop, lasting in sorted(stops.items()):
            mark = Mark(stop, self.pool.take(), lasting or stop % self.form.every == 0)
            self.kept.append(mark)
            found.append((before.length - old, stop - before.length, before.slot, mark.slot))
            before = mark
        return found

    def settle(self, old: int) -> None:
        """A step from ``old`` tokens on is done: places that nobody needs are given back."""
        low = old if self.hold is None else min(old, self.hold)
        recent = len(self.kept) - self.form.recent
        self._keep([mark.lasting or mark.length >= low or i >= recent for i, mark in enumerate(self.kept)])
        self._thin()

    def rest(self) -> None:
        """The text is finished: what is kept is for others, its end too, which longer ones then keep as well."""
        if self.kept:
            self.kept[-1].lasting = True
        self._keep([mark.lasting for mark in self.kept])

    @property
    def spare(self) -> list[Mark]:
        """The places that a text can do without: all but the last one."""
        return [mark for mark in self.kept[:-1] if mark.length != self.hold]

    def lean(self) -> bool:
        """Keeps the last place alone, where others need slots; whether there was another one."""
        spare = self.spare
        self._keep([mark not in spare for mark in self.kept])
        return bool(spare)

    def cut(self, length: int) -> None:
        """Gives back what lies behind so many tokens."""
        self._keep([mark.length <= length for mark in self.kept])

    def fork(self, length: int) -> Marks:
        """Those of another text with the same first tokens."""
        kept = [mark for mark in self.kept if mark.length <= length]
        for mark in kept:
            self.pool.share(mark.slot)
        return Marks(self.pool, self.form, [Mark(m.length, m.slot, m.lasting) for m in kept])

    def begin(self, length: int) -> int:
        """A slot for what is put in from elsewhere, behind so many tokens of an empty text."""
        assert not self.kept, "only what is empty begins later"
        self.kept.append(Mark(length, self.pool.take(), True))
        return self.kept[0].slot

    def _keep(self, which: list[bool]) -> None:
        for mark, stays in zip(self.kept, which, strict=True):
            if not stays:
                self.pool.give_back(mark.slot)
        self.kept = [mark for mark, stays in zip(self.kept, which, strict=True) if stays]

    def _thin(self) -> None:
        """Of too many lasting places, those go that lie nearest to the one before."""
        lasting = [i for i, mark in enumerate(self.kept[: -self.form.recent]) if mark.lasting]
        while len(lasting) > self.form.most:
            gaps = [self.kept[b].length - self.kept[a].length for a, b in zip([0, *lasting], lasting, strict=False)]
            going = gaps.index(min(gaps[1:])) if len(gaps) > 1 else 0
            self.pool.give_back(self.kept.pop(lasting[going]).slot)
            lasting = [i for i, mark in enumerate(self.kept[: -self.form.recent]) if mark.lasting]


def laid_out(parts: Sequence[Sequence[Segment]], counts: Sequence[int], tokens: int, least: int) -> np.ndarray:
    """The segments of several texts, which go on by ``counts`` of a step's ``tokens``, one after the other: i64
    ``[segments, 4]``, padded to sizes that have plans, ``least`` or more."""
    rows, first = [], 0
    for own, count in zip(parts, counts, strict=True):
        rows += [(first + at, some, source, to) for at, some, source, to in own]
        first += count
    if first < tokens:  # a token of no text
        rows.append((first, tokens - first, -1, -1))
    if tokens > 1:
        size = least if len(rows) <= least else -(-len(rows) // TILE) * TILE
        rows += [(0, 0, -1, -1)] * (size - len(rows))
    return np.array(rows, np.int64)


__all__ = ["SPARE", "Mark", "MarkForm", "Marks", "Segment", "laid_out"]
