"""The texts that a scheduler works on: begun from what is in the caches already, kept when they are finished, dropped
when room is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from MNN.llm.engine.decoder import Decoder, Text, common
from MNN.llm.engine.marks import Marks
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
        that was not used for the longest time first."""

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
        while not self._room(steps, spare) or not self._slots(marks):
            if not self._slots(marks) and sum(one.lean() for one, _ in marks):
                continue
            if not self._kept:
                return False
            self.drop(next(iter(self._kept)))
        return True

    def _slots(self, marks: Sequence[tuple[Marks, int]]) -> bool:
        """Whether there are slots for steps by so many tokens."""
        return sum(one.needed(count) for one, count in marks) <= self._decoder.slots.free

    def _room(self, steps: Sequence[Step], spare: int) -> bool:
        for number, pool in enumerate(self._decoder.pools):
            needed = spare
            for text, tokens in steps:
                assert isinstance(text, PagedText)
                pages, length = text.lists[number], len(text.tokens)
                copied = length % PAGE > 0 and pool.shared(pages.pages[length // PAGE])
                needed += pages.missing(length + len(tokens)) + copied
            if needed > pool.free:
                return False
        return True

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
        alike = [(old, held) for old, held in self._kept.items() if old.adapter == text.adapter]
        within = [old for old, held in alike if common(held, tokens) == len(held)]
        for old in within:
            self.drop(old)
        if text.marks is not None:
            text.marks.rest()
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


def texts_of(decoder: Decoder) -> Texts:
    """As a decoder has them."""
    return PagedTexts(decoder) if isinstance(decoder, PagedDecoder) else LoneText(decoder)


__all__ = ["DraftedStep", "LoneText", "PagedTexts", "Step", "Texts", "texts_of"]
