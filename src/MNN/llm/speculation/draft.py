"""What drafters and answers say to each other, and how many tokens are drafted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from MNN.errors import MNNError
from MNN.llm.engine.decoder import Text
from MNN.llm.sampling import SamplingOptions

_LOG = logging.getLogger(__name__)  # those who run the server see what its users need not know
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
        self._gave_up = False

    def propose(self, tokens: Sequence[int], room: int, text: Text | None = None) -> Draft:
        """How ``tokens`` may go on, by at most ``room`` tokens. ``text``: what the model that checks has read of
        them."""
        count = self.wanted(room)
        return self.ask(tokens, count, text) if count else Draft()

    def ask(self, tokens: Sequence[int], count: int, text: Text | None, words: int = 0) -> Draft:
        """A draft of at most ``count`` tokens. ``words``: how many there are, where that is known. Raises
        :class:`MNNError` for what is no draft."""
        if text is not None and isinstance(self.drafter, TextDrafter):
            found = self.drafter.propose_behind(text, tokens, count, self.options)
        else:
            found = self.drafter.propose(tokens, count, self.options)
        if not isinstance(found, Draft) or not all(
            isinstance(n, (int, np.integer)) and 0 <= n < (words or n + 1) for n in found.tokens
        ):
            raise MNNError(f"{self.drafter!r:.80} proposed {found!r:.80}; a Draft with numbers of tokens is expected")
        if len(found.tokens) <= count:
            return found
        return Draft(found.tokens[:count], None if found.chances is None else found.chances[:count])

    def wanted(self, room: int) -> int:
        """Of how many tokens the next draft is to be, ``room`` at most. To be asked once for each."""
        if self._gave_up:
            return 0
        if self._wait:
            self._wait -= 1
            return 0
        return max(min(self._count, room), 0)

    def give_up(self) -> None:
        """Its drafter failed: no more drafts are wanted."""
        self._gave_up = True

    def close(self) -> None:
        """The answer is finished; a drafter that keeps what it has read for others has a method ``close``."""
        end = getattr(self.drafter, "close", None)
        if end is not None:
            try:
                end()
            except Exception:  # noqa: BLE001 - the answer is there
                _LOG.exception("a drafter could not be closed")

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
