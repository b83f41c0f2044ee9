"""Drafts by another model, smaller than the one that checks them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.speculation.draft import Array, Draft

SURE = 0.3
"""A draft ends where no token has this chance. It is looked at before a token is drawn: looking at what was drawn would
change the distribution of what the check lets through."""


class ModelDrafter:
    """Drafts by a decoder, which keeps what it has read of the text: greedily where answers are, else drawn as they are
    (but for penalties, which only the check knows)."""

    def __init__(self, decoder: Decoder, sure: float = SURE, text: Text | None = None) -> None:
        """``text``: where what is read is kept."""
        self._decoder, self._sure = decoder, sure
        self._text = decoder.text() if text is None else text

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """See :class:`~MNN.llm.speculation.draft.Drafter`."""
        if self._decoder.max_length is not None:
            count = min(count, self._decoder.max_length - len(tokens))
        if count < 1:
            return Draft()
        random = np.random.Generator(np.random.PCG64(None if options.seed is None else [options.seed, len(tokens)]))
        sampler = Sampler(options)
        logits = self._decoder.feed(self._text, self._decoder.resume(self._text, tokens))[-1]
        drafted: list[int] = []
        chances: list[Array] = []
        while True:
            odds = sampler.probabilities(logits)
            if not options.greedy and odds.max() < self._sure:
                break
            if options.greedy:
                drafted.append(int(odds.argmax()))
            else:
                drafted.append(int(random.choice(len(odds), p=odds)))
                chances.append(odds)
            if len(drafted) == count:
                break
            logits = self._decoder.feed(self._text, drafted[-1:])[-1]
        return Draft(drafted, np.stack(chances) if chances else None)


__all__ = ["SURE", "ModelDrafter"]
