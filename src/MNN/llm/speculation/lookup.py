"""Drafts from the text itself: what followed the last words where they stood before (prompt lookup, Saxena 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation.draft import Draft


class Lookup:
    """Finds the longest of the last ``longest`` to ``shortest`` tokens that stood in the text before, and proposes what
    followed there, the last time.

    Where each n-gram was last is noted as a text grows: a step compares the text with what it was, and looks nothing up
    in it.
    """

    def __init__(self, longest: int = 4, shortest: int = 2) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._longest, self._shortest = longest, shortest
        self._known: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        """Behind which place of the text an n-gram was the last time that something followed it."""

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """See :class:`~MNN.llm.speculation.draft.Drafter`."""
        self._learn(tokens)
        for size in self._sizes:
            end = self._ends.get(tuple(tokens[-size:])) if size < len(tokens) else None
            if end is not None:
                return Draft(_going_on(tokens, end, count))
        return Draft()

    def another(self) -> Lookup:
        """One for another text."""
        return Lookup(self._longest, self._shortest)

    def _learn(self, tokens: Sequence[int]) -> None:
        """Notes the n-grams that end before the last token."""
        known = self._known
        if len(tokens) < len(known) or list(tokens[: len(known)]) != known:
            known, self._ends = [], {}
        for end in range(max(len(known), 1), len(tokens)):
            for size in self._sizes:
                if size <= end:
                    self._ends[tuple(tokens[end - size : end])] = end
        self._known = list(tokens)


def _going_on(tokens: Sequence[int], begin: int, count: int) -> list[int]:
    """``count`` tokens from ``begin`` on; where the text ends before, it repeats what it has written since."""
    period = len(tokens) - begin
    return [tokens[begin + i % period] for i in range(count)]


__all__ = ["Lookup"]
