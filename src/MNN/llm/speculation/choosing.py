"""The tokens of a draft as they are chosen."""

from __future__ import annotations

import numpy as np

from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.speculation.draft import Array, Draft

SURE = 0.3
"""A draft ends where no token has this chance. It is looked at before a token is drawn: looking at what was drawn would
change the distribution of what the check lets through."""


class Chooser:
    """Takes the most probable tokens where answers do, else draws them as answers are drawn (but for penalties, which
    only the check knows)."""

    def __init__(self, options: SamplingOptions, length: int, sure: float = SURE) -> None:
        """``length``: tokens of the text, by which and the seed of ``options`` draws are repeated."""
        self._sampler, self._sure = Sampler(options), sure
        seed = options.seed
        self._random = np.random.Generator(np.random.PCG64(None if seed is None else [seed, length]))
        self.drafted: list[int] = []
        self._chances: list[Array] = []

    def take(self, logits: Array) -> bool:
        """Chooses a token by logits ``[words]``; whether one was sure enough."""
        odds = self._sampler.probabilities(logits)
        if self._sampler.options.greedy:
            self.drafted.append(int(odds.argmax()))
            return True
        if odds.max() < self._sure:
            return False
        self.drafted.append(int(self._random.choice(len(odds), p=odds)))
        self._chances.append(odds)
        return True

    def draft(self) -> Draft:
        """What was chosen."""
        return Draft(self.drafted, np.stack(self._chances) if self._chances else None)


__all__ = ["SURE", "Chooser"]
