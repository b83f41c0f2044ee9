"""What ends an answer while it streams: given texts, or that it goes round in circles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LONGEST_ROUND, _ROUNDS, _LEAST = 64, 12, 256


def round_of(tokens: Sequence[int]) -> int:
    """The number of tokens that an answer repeats without end, 0 where it does not: the last 256 tokens at least, and
    twelve rounds at least, are the same few again and again. Small models fall into that and do not come out."""
    for period in range(1, _LONGEST_ROUND + 1):
        length = max(_ROUNDS * period, _LEAST)
        if len(tokens) < length:
            return 0
        if tokens[-1] == tokens[-1 - period]:  # nearly always enough to know that it is none
            tail = tokens[-length:]
            if tail[period:] == tail[:-period]:
                return period
    return 0


class StopStrings:
    """Looks for texts in a stream. What might be the beginning of one is held back until that is sure."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """The text that is sure, up to a stop if there is one; ``found`` tells which.

        The stop that is complete first counts, and the longest of those. After one is found, nothing follows.
        """
        if self.found is not None:
            return ""
        self._held += text
        places = [(self._held.find(stop), stop) for stop in self._stops]
        hits = [(place + len(stop), place, stop) for place, stop in places if place >= 0]
        if hits:
            _, place, self.found = min(hits)
            sure, self._held = self._held[:place], ""
            return sure
        keep = self._beginning()
        cut = len(self._held) - keep
        sure, self._held = self._held[:cut], self._held[cut:]
        return sure

    def finish(self) -> str:
        """What is held back when the stream has ended without a stop."""
        rest, self._held = self._held, ""
        return rest

    def _beginning(self) -> int:
        """How many of the last characters may be the beginning of a stop."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-n:]) for stop in self._stops):
                return n
        return 0
