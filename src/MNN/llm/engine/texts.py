"""The texts that a scheduler works on: begun from what is in the caches already, kept when they are finished, dropped
when room is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from MNN.llm.engine.decoder import Decoder, Text, common
from MNN.llm.engine.marks import SPARE, Marks
from MNN.llm.engine.paged import MOST_TEXTS, PagedDecoder, PagedText, Work
from MNN.llm.models.cache import PAGE

Array = np.ndarray[Any, np.dtype[Any]]
Step = tuple[Text, Sequence[int]]
"""A text, and the tokens that it is to go on by."""
DraftedStep = tuple[Text, Sequence[int], int]
"""The same with how many of the last tokens logits are wanted behind."""
KEPT = 256
"""Finished texts that are kept at most: each is looked at when an answer begins."""


class Texts(Protocol):
    """What a scheduler asks of texts."""

    most: int
    """Texts that go on at the same time."""
    chunked: bool
    """Whether prompts may be read in parts."""

    def begin(self, tokens: Sequence[int], others: Iterable[Text], adapter: str = "") -> Text:
        """A text that holds as many of the first tokens, but for the last one, as any kept text or one of ``others``
        with the same ``adapter`` has."""

    def fork(self, text: Text) -> Text:
        """Another one that goes on from the same tokens."""

    def fits(self, steps: Sequence[Step], spare: int = 0) -> bool:
        """Whether the caches have room for steps, and for ``spare`` pages more; kept texts make way for them, the one
        that was not used for the longest time first. Where that would not be enough, all stay."""

    def step(self, steps: Sequence[DraftedStep]) -> list[Array]:
        """Has texts go on together: the logits of each, ``[rows, vocabulary]``."""

    def cut(self, text: Text, length: int) -> None:
        """Has a text go back to its first ``length`` tokens, or to none where these cannot be gone on from."""

    def keep(self, text: Text) -> None:
        """A text that is finished, from which others may begin."""

    def drop(self, text: Text) -> None:
        """A text that nobody needs."""

    @property
    def kept(self) -> int:
        """Tokens of kept texts."""


class PagedTexts:
    """Those of a decoder with pages: beginnings are shared."""

    most = MOST_TEXTS

    def __init__(self, decoder: PagedDecoder) -> None:
        self._decoder = decoder
        self.chunked = not decoder.turns_by_length
        self._kept: dict[PagedText, Array] = {}
        """With their tokens; the one that was used last is the last."""

    def begin(self, tokens: Sequence[int], others: Iterable[Text], adapter: str = "") -> Text:
        if self._decoder.turns_by_length:  # what a shorter text needs is not what a longer one has
            return self._decoder.text(adapter)
        wanted = np.asarray(tokens[:-1], np.int64)
        among = [(held, text) for text, held in self._kept.items()]
        among += [(np.asarray(text.tokens[: len(wanted)]), text) for text in others if isinstance(text, PagedText)]
        found = [(common(held, wanted), text) for held, text in among if text.adapter == adapter]
        found = [(self._decoder.reach(text, count), text) for count, text in found]
        found = [(count, text) for count, text in found if count]
        if not found:
            return self._decoder.text(adapter)
        count, best = max(found, key=lambda entry: entry[0])
        if best in self._kept:
            self._kept[best] = self._kept.pop(best)
        return self._decoder.fork(best, count)

    def fork(self, text: Text) -> Text:
        assert isinstance(text, PagedText)
        return self._decoder.fork(text)

    def fits(self, steps: Sequence[Step], spare: int = 0) -> bool:
        marks = [(t.marks, len(tokens)) for t, tokens in steps if isinstance(t, PagedText) and t.marks is not None]
        if self._room(steps, spare) and self._slots(marks):
            return True
        if not self._could(steps, spare, marks):  # what is kept would be forgotten in vain
            return False
        while not self._room(steps, spare) or not self._slots(marks):
            if self._slots(marks) or not sum(one.lean() for one, _ in marks):
                self.drop(next(iter(self._kept)))
        return True

    def _could(self, steps: Sequence[Step], spare: int, marks: Sequence[tuple[Marks, int]]) -> bool:
        """Whether there would be room if no text were kept, and texts had no place to go back to."""
        for number, pool in enumerate(self._decoder.pools):
            going = Counter(chain.from_iterable(text.lists[number].held for text in self._kept))
            free = pool.free + sum(pool.uses(page) == count for page, count in going.items())
            if self._pages(steps, number, going) + spare > free:
                return False
        slots = self._decoder.slots
        going = Counter(mark.slot for text in self._kept if text.marks is not None for mark in text.marks.kept)
        going.update(mark.slot for one, _ in marks for mark in one.spare)
        free = slots.free + sum(slots.uses(slot) == count for slot, count in going.items())
        return _slots_needed(marks) <= free

    def _slots(self, marks: Sequence[tuple[Marks, int]]) -> bool:
        """Whether there are slots for steps by so many tokens."""
        return _slots_needed(marks) <= self._decoder.slots.free

    def _room(self, steps: Sequence[Step], spare: int) -> bool:
        pools = self._decoder.pools
        return all(self._pages(steps, number, {}) + spare <= pool.free for number, pool in enumerate(pools))

    def _pages(self, steps: Sequence[Step], number: int, going: Mapping[int, int]) -> int:
        """Pages of a pool that steps take, where so many texts that have a page are ``going``."""
        pool, needed = self._decoder.pools[number], 0
        for text, tokens in steps:
            assert isinstance(text, PagedText)
            pages, length = text.lists[number], len(text.tokens)
            needed += pages.missing(length + len(tokens))
            if length % PAGE:  # a page that others have too is copied before anything is written into it
                last = pages.pages[length // PAGE]
                needed += pool.uses(last) - going.get(last, 0) > 1
        return needed

    def step(self, steps: Sequence[DraftedStep]) -> list[Array]:
        works = [
            Work(text, tokens, rows, drafted=rows - 1) for text, tokens, rows in steps if isinstance(text, PagedText)
        ]
        return self._decoder.step(works)

    def cut(self, text: Text, length: int) -> None:
        self._decoder.cut(text, length)

    def keep(self, text: Text) -> None:
        assert isinstance(text, PagedText)
        tokens = np.asarray(text.tokens, np.int64)
        if text.marks is not None:
            text.marks.rest()
        alike = [(old, held) for old, held in self._kept.items() if old.adapter == text.adapter]
        within = [old for old, held in alike if common(held, tokens) == len(held)]
        for old in within:
            reached = self._decoder.reach(text, len(old.tokens)) == len(old.tokens)
            if reached or (old.marks is not None and self._decoder.slots.free < SPARE):
                self.drop(old)  # else it serves those that cannot begin from the longer one
        if len(tokens):
            self._kept[text] = tokens
        if len(self._kept) > KEPT:
            self.drop(next(iter(self._kept)))

    def drop(self, text: Text) -> None:
        assert isinstance(text, PagedText)
        self._kept.pop(text, None)
        self._decoder.cut(text, 0)

    @property
    def kept(self) -> int:
        return sum(len(held) for held in self._kept.values())


class LoneText:
    """That of a decoder whose caches hold one text: the next one goes back to what both begin with."""

    most = 1
    chunked = True

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._text = decoder.text()

    def begin(self, tokens: Sequence[int], others: Iterable[Text], adapter: str = "") -> Text:
        self._decoder.adapt(self._text, adapter)
        self._decoder.resume(self._text, tokens)
        return self._text

    def fork(self, text: Text) -> Text:
        raise NotImplementedError("one text at a time is never forked")

    def fits(self, steps: Sequence[Step], spare: int = 0) -> bool:
        return True

    def step(self, steps: Sequence[DraftedStep]) -> list[Array]:
        return [self._decoder.feed(text, tokens, rows > 1)[-rows:] for text, tokens, rows in steps]

    def cut(self, text: Text, length: int) -> None:
        self._decoder.cut(text, length)

    def keep(self, text: Text) -> None:
        """It is."""

    def drop(self, text: Text) -> None:
        self._decoder.cut(text, 0)

    @property
    def kept(self) -> int:
        return len(self._text.tokens)


def _slots_needed(marks: Sequence[tuple[Marks, int]]) -> int:
    return sum(one.needed(count) for one, count in marks)


def texts_of(decoder: Decoder) -> Texts:
    """As a decoder has them."""
    return PagedTexts(decoder) if isinstance(decoder, PagedDecoder) else LoneText(decoder)


__all__ = ["DraftedStep", "LoneText", "PagedTexts", "Step", "Texts", "texts_of"]
