"""The choice of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import RunError
from MNN.llm.sampling.narrowing import NARROWING, Candidates
from MNN.llm.sampling.options import SamplingOptions
from MNN.llm.sampling.penalties import bias, penalize

Array = np.ndarray[Any, np.dtype[Any]]


class Sampler:
    """Chooses tokens of one sequence. ``prompt``: how many of the history's first tokens are the user's.

    A sampler has random numbers of its own: with a seed, the same logits give the same tokens.
    """

    def __init__(self, options: SamplingOptions | None = None, prompt: int = 0) -> None:
        self.options = options or SamplingOptions()
        self.prompt = prompt
        self._random = np.random.Generator(np.random.PCG64(self.options.seed))

    def next(self, logits: Array, history: Sequence[int] | Array = (), allowed: Array | None = None) -> int:
        """The id of the next token.

        ``logits``: floats ``[words]``; they are not changed. ``history``: all tokens so far, where penalties look.
        ``allowed``: bool ``[words or fewer]``, the tokens that a grammar lets through. RunError where no token has a
        chance, or logits are not numbers.
        """
        candidates = self.candidates(logits, history, allowed)
        if self.options.greedy or len(candidates.logits) == 1:
            place = int(np.argmax(candidates.logits))
        else:
            place = drawn(candidates.weights(), self._random.random())
        return place if candidates.ids is None else int(candidates.ids[place])

    def check(
        self, logits: Array, token: int, chances: Array, history: Sequence[int] | Array = (),
        allowed: Array | None = None,
    ) -> int:  # fmt: skip
        """The next token where ``token`` was drawn by the probabilities ``chances [words]`` of something else: itself,
        or another one, so that over all draws tokens have the probabilities of :meth:`next` (rejection sampling,
        Leviathan et al. 2022, arXiv:2211.17192). Other arguments are those of :meth:`next`."""
        own = self.probabilities(logits, history, allowed)
        theirs = np.zeros(len(own))
        theirs[: len(chances)] = chances[: len(own)]
        if token < len(own) and self._random.random() * theirs[token] < own[token]:
            return token
        rest = np.maximum(own - theirs, 0.0)
        return drawn(rest if rest.any() else own, self._random.random())

    def candidates(
        self, logits: Array, history: Sequence[int] | Array = (), allowed: Array | None = None
    ) -> Candidates:
        """The tokens that have a chance, with the logits that decide; arguments are those of :meth:`next`."""
        options = self.options
        changed = self.changed(logits, history, allowed)
        highest = changed.max(initial=-np.inf)
        if not np.isfinite(highest):
            what = "are not all numbers" if np.isnan(highest) or highest > 0 else "leave no token a chance"
            raise RunError(f"the next token cannot be chosen: the logits {what}")
        candidates = Candidates(None, changed)
        if options.greedy:
            return candidates
        for name in options.order:
            candidates = NARROWING[name](candidates, options)
        return candidates

    def probabilities(self, logits: Array, history: Sequence[int] | Array = (), allowed: Array | None = None) -> Array:
        """With which probability :meth:`next` gives each token, float64 ``[words]``."""
        candidates = self.candidates(logits, history, allowed)
        found = np.zeros(len(logits))
        places = np.arange(len(logits)) if candidates.ids is None else candidates.ids
        if self.options.greedy:
            found[places[np.argmax(candidates.logits)]] = 1
            return found
        weights = candidates.weights().astype(np.float64)
        found[places] = weights / weights.sum()
        return found

    def changed(self, logits: Array, history: Sequence[int] | Array = (), allowed: Array | None = None) -> Array:
        """The logits f32 ``[words]`` with penalties and biases, or those that are given where nothing changes them;
        arguments are those of :meth:`next`."""
        options = self.options
        if not (options.looks_back or options.logit_bias or allowed is not None):
            return np.asarray(logits, np.float32).reshape(-1)
        changed = np.array(logits, np.float32).reshape(-1)
        if options.looks_back and len(history):
            tokens = np.asarray(history, np.int64)
            inside = (tokens >= 0) & (tokens < len(changed))
            prompt = int(np.count_nonzero(inside[: self.prompt]))
            penalize(changed, tokens if inside.all() else tokens[inside], prompt, options)
        if options.logit_bias:
            bias(changed, options)
        if allowed is not None:
            n = min(len(allowed), len(changed))
            changed[:n][~np.asarray(allowed[:n], bool)] = -np.inf
            changed[n:] = -np.inf
        return changed


BLOCK = 512
"""Weights that are added up at once to find the block that a draw falls into."""


def drawn(weights: Array, at: float) -> int:
    """The place where the running sum of the weights passes ``at`` (0 to 1) of the whole sum."""
    whole = len(weights) // BLOCK * BLOCK
    sums = [*weights[:whole].reshape(-1, BLOCK).sum(axis=1).tolist(), float(weights[whole:].sum())]
    reached = np.cumsum(sums)
    wanted = at * reached[-1]
    block = min(int(np.searchsorted(reached, wanted, side="right")), len(reached) - 1)
    inside = np.cumsum(weights[block * BLOCK : (block + 1) * BLOCK], dtype=np.float64)
    before = reached[block - 1] if block else 0.0
    place = block * BLOCK + int(np.searchsorted(inside, wanted - before, side="right"))
    place = min(place, len(weights) - 1)
    while weights[place] == 0 and place > 0:  # rounding has passed the last one with a chance
        place -= 1
    return place


@dataclass(frozen=True)
class LogProbability:
    """A token with the logarithm of the probability that the model gave it, and the most probable ones."""

    token: int
    value: float
    top: tuple[tuple[int, float], ...] = ()


def log_probability(logits: Array, token: int, top: int = 0) -> LogProbability:
    """What the model itself thought of ``token``: before temperature, penalties and all else.

    ``logits``: floats ``[words]``. ``top``: how many of the most probable tokens to tell, the best first.
    """
    wide = np.asarray(logits, np.float32).reshape(-1)
    highest = wide.max()
    total = float(highest) + float(np.log(np.exp(wide - highest).sum(dtype=np.float64)))
    best: tuple[tuple[int, float], ...] = ()
    count = min(top, len(wide))
    if count > 0:
        border = np.partition(wide, len(wide) - count)[len(wide) - count]
        above = np.flatnonzero(wide > border)
        places = np.concatenate([above, np.flatnonzero(wide == border)[: count - len(above)]])
        places = places[np.argsort(-wide[places], kind="stable")]
        best = tuple((int(i), float(wide[i]) - total) for i in places)
    return LogProbability(token, float(wide[token]) - total, best)
