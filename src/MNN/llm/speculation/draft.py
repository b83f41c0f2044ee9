"""What drafters and answers say to each other, and how many tokens are drafted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from MNN.llm.engine.decoder import Text
from MNN.llm.sampling import SamplingOptions

Array = np.ndarray[Any, np.dtype[Any]]
FIRST, MOST = 3, 7
"""Tokens of the first draft, and of the longest ones: with the token before, one and two tiles of rows of low-bit
weights. Beyond, a token costs as much as within, and more of them are in vain."""


@dataclass(frozen=True)
class Draft:
    """Tokens that may follow a text. ``chances``: with which probability each token was drawn, float64 ``[tokens,
    words]``; None where they were not drawn: the same text always gets them."""

    tokens: Sequence[int] = ()
    chances: Array | None = None

    def drawn(self, at: int) -> tuple[int, Array] | None:
        """The token at a place with the probabilities that it was drawn by, if it was."""
        if self.chances is None or at >= len(self.tokens):
            return None
        return self.tokens[at], self.chances[at]


@runtime_checkable
class Drafter(Protocol):
    """Proposes how texts go on. It may keep what it has computed of a text; what it proposes changes nothing but how
    long an answer takes."""

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """At most ``count`` tokens that may follow ``tokens``, in an answer that is written with ``options``; none
        where it knows nothing."""
        ...


@runtime_checkable
class TextDrafter(Drafter, Protocol):
    """One that looks at what the model that checks has read, too."""

    def propose_behind(self, text: Text, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """As :meth:`propose`; ``text``: what was read of ``tokens``."""
        ...


class Drafting:
    """The drafts of one answer: as long as they are taken, the next is longer; where less than half of one is, it is
    shorter by half, and where nothing is, answers go on without for a while. Nothing depends on the time that anything
    takes, so that a seed says all of an answer."""

    def __init__(self, drafter: Drafter, options: SamplingOptions) -> None:
        self.drafter, self.options = drafter, options
        self._count, self._wait, self._pause = FIRST, 0, 1

    def propose(self, tokens: Sequence[int], room: int, text: Text | None = None) -> Draft:
        """How ``tokens`` may go on, by at most ``room`` tokens. ``text``: what the model that checks has read of
        them."""
        count = self.wanted(room)
        return self.ask(tokens, count, text) if count else Draft()

    def ask(self, tokens: Sequence[int], count: int, text: Text | None) -> Draft:
        """A draft of at most ``count`` tokens."""
        if text is not None and isinstance(self.drafter, TextDrafter):
            return self.drafter.propose_behind(text, tokens, count, self.options)
        return self.drafter.propose(tokens, count, self.options)

    def wanted(self, room: int) -> int:
        """Of how many tokens the next draft is to be, ``room`` at most. To be asked once for each."""
        if self._wait:
            self._wait -= 1
            return 0
        return max(min(self._count, room), 0)

    def close(self) -> None:
        """The answer is finished; a drafter that keeps what it has read for others has a method ``close``."""
        end = getattr(self.drafter, "close", None)
        if end is not None:
            end()

    def note(self, drafted: int, kept: int) -> None:
        """How much of a draft the model took."""
        if not drafted:
            return
        if kept == drafted:
            self._count = min(2 * self._count + 1, MOST)
        elif 2 * kept < drafted:
            self._count = max(self._count // 2, 2)
        if kept:
            self._pause = 1
        else:
            self._wait, self._pause = self._pause, min(2 * self._pause, MOST)


__all__ = ["FIRST", "MOST", "Array", "Draft", "Drafter", "Drafting", "TextDrafter"]
