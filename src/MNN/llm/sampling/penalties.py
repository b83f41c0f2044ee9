"""Penalties on tokens that were there before, and biases: changes of logits before anything is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.llm.sampling.options import SamplingOptions

Array = np.ndarray[Any, np.dtype[Any]]
FORBIDDEN = -100.0
"""A bias from here down leaves a token no chance (OpenAI's rule)."""
PENALTIES = frozenset({
    "repetition_penalty", "presence_penalty", "frequency_penalty", "penalty_window", "dry_multiplier", "dry_base",
    "dry_allowed_length", "dry_window", "dry_breakers", "logit_bias",
})  # fmt: skip
"""Options that change logits, and draw nothing."""
LONGEST = 512
"""Tokens of a repetition that the DRY penalty counts."""


def penalize(logits: Array, history: Array, prompt: int, options: SamplingOptions) -> None:
    """Changes ``logits``, float32 ``[words]``, in place.

    ``history``: all tokens so far, int64 ``[n]``, of which the first ``prompt`` are the user's.
    """
    window = options.penalty_window
    if options.repetition_penalty != 1:
        seen = np.unique(history[-window:] if window else history)
        old = logits[seen]
        logits[seen] = np.where(old < 0, old * options.repetition_penalty, old / options.repetition_penalty)
    if options.presence_penalty or options.frequency_penalty:
        answer = history[prompt:]
        seen, times = np.unique(answer[-window:] if window else answer, return_counts=True)
        logits[seen] -= (options.presence_penalty + options.frequency_penalty * times).astype(np.float32)
    if options.dry_multiplier:
        recent = history[-options.dry_window :] if options.dry_window else history
        tokens, lengths = repetitions(recent, options.dry_breakers)
        counts = lengths >= options.dry_allowed_length
        over = lengths[counts] - options.dry_allowed_length
        with np.errstate(over="ignore"):
            amount = np.minimum(options.dry_multiplier * np.power(float(options.dry_base), over), 1e30)
        logits[tokens[counts]] -= amount.astype(np.float32)


def bias(logits: Array, options: SamplingOptions) -> None:
    """Adds ``logit_bias`` in place; ids beyond the words are left out."""
    for token, amount in options.logit_bias.items():
        if 0 <= token < len(logits):
            logits[token] = -np.inf if amount <= FORBIDDEN else logits[token] + np.float32(amount)


def repetitions(history: Array, breakers: frozenset[int] = frozenset()) -> tuple[Array, Array]:
    """The tokens that would prolong a repetition, int64 ``[m]``, and how long each repetition is already.

    A repetition of n: the last n tokens were there before, and the token followed them. Breakers are in none.
    """
    n = len(history)
    if n < 2 or int(history[-1]) in breakers:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.flatnonzero(history[:-1] == history[-1])  # where the last token was before
    lengths = np.ones(len(ends), np.int64)
    going = np.arange(len(ends))
    for back in range(1, min(n - 1, LONGEST)):
        word = history[-1 - back]
        if int(word) in breakers:
            break
        places = ends[going] - back
        going = going[(places >= 0) & (history[places] == word)]
        if not len(going):
            break
        lengths[going] += 1
    followers = history[ends + 1]
    tokens, inverse = np.unique(followers, return_inverse=True)
    longest = np.zeros(len(tokens), np.int64)
    np.maximum.at(longest, inverse, lengths)
    keep = np.array([int(token) not in breakers for token in tokens], bool)
    return tokens[keep], longest[keep]
