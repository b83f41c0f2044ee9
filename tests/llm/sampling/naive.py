"""The same distributions from their definitions: everything sorted, in float64, one step after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from MNN.llm.sampling import SamplingOptions


def distribution(logits: np.ndarray, history: Sequence[int], prompt: int, options: SamplingOptions) -> np.ndarray:
    """The probability of each token."""
    scores = penalized(logits.astype(np.float64), list(history), prompt, options)
    alive = {i: s for i, s in enumerate(scores) if s > -np.inf}
    if options.temperature == 0 or options.top_k == 1:
        best = max(alive, key=lambda i: (alive[i], -i))
        return np.array([float(i == best) for i in range(len(scores))])
    for name in options.order:
        alive = STEPS[name](alive, options)
    shares = softmax(alive)
    return np.array([shares.get(i, 0.0) for i in range(len(scores))])


def softmax(alive: dict[int, float]) -> dict[int, float]:
    highest = max(alive.values())
    weights = {i: np.exp(s - highest) for i, s in alive.items()}
    total = sum(weights.values())
    return {i: float(w / total) for i, w in weights.items()}


def penalized(scores: np.ndarray, history: list[int], prompt: int, options: SamplingOptions) -> np.ndarray:
    window = options.penalty_window
    for token in set(history[-window:] if window else history):
        value = scores[token]
        scores[token] = value * options.repetition_penalty if value < 0 else value / options.repetition_penalty
    answer = history[prompt:]
    for token, times in Counter(answer[-window:] if window else answer).items():
        scores[token] -= options.presence_penalty + options.frequency_penalty * times
    if options.dry_multiplier:
        recent = history[-options.dry_window :] if options.dry_window else history
        for token, length in repetitions(recent, options.dry_breakers).items():
            if length >= options.dry_allowed_length:
                scores[token] -= options.dry_multiplier * options.dry_base ** (length - options.dry_allowed_length)
    for token, amount in options.logit_bias.items():
        scores[token] = -np.inf if amount <= -100 else scores[token] + amount
    return scores


def repetitions(history: Sequence[int], breakers: frozenset[int]) -> dict[int, int]:
    """For each token that followed an earlier copy of the last tokens: the length of the longest such copy."""
    found: dict[int, int] = {}
    n = len(history)
    for follower in range(1, n):
        length = 0
        while (
            follower - 1 - length >= 0
            and n - 1 - length >= 0
            and history[follower - 1 - length] == history[n - 1 - length]
            and history[n - 1 - length] not in breakers
        ):
            length += 1
        if length and history[follower] not in breakers:
            found[history[follower]] = max(found.get(history[follower], 0), length)
    return found


def temperature(alive: dict[int, float], options: SamplingOptions) -> dict[int, float]:
    return {i: s / options.temperature for i, s in alive.items()}


def top_k(alive: dict[int, float], options: SamplingOptions) -> dict[int, float]:
    best = sorted(alive, key=lambda i: (-alive[i], i))
    return {i: alive[i] for i in best[: options.top_k or len(best)]}


def _until(alive: dict[int, float], order: list[int], share: float) -> dict[int, float]:
    shares, kept, total = softmax(alive), {}, 0.0
    for i in order:
        kept[i] = alive[i]
        total += shares[i]
        if total >= share * (1 - 1e-9):
            break
    return kept


def top_p(alive: dict[int, float], options: SamplingOptions) -> dict[int, float]:
    return _until(alive, sorted(alive, key=lambda i: (-alive[i], i)), options.top_p) if options.top_p < 1 else alive


def min_p(alive: dict[int, float], options: SamplingOptions) -> dict[int, float]:
    shares = softmax(alive)
    least = options.min_p * max(shares.values())
    return {i: s for i, s in alive.items() if shares[i] >= least * (1 - 1e-9)}


def typical(alive: dict[int, float], options: SamplingOptions) -> dict[int, float]:
    if options.typical >= 1:
        return alive
    shares = softmax(alive)
    entropy = -sum(p * np.log(p) for p in shares.values() if p > 0)
    far = {i: abs(-np.log(p) - entropy) if p > 0 else np.inf for i, p in shares.items()}
    return _until(alive, sorted(alive, key=lambda i: (far[i], i)), options.typical)


def tail_free(alive: dict[int, float], options: SamplingOptions) -> dict[int, float]:
    if options.tail_free >= 1 or len(alive) <= 2:
        return alive
    shares = softmax(alive)
    order = sorted(alive, key=lambda i: (-shares[i], i))
    first = [shares[a] - shares[b] for a, b in pairwise(order)]
    second = [abs(a - b) for a, b in pairwise(first)]
    total, running = sum(second), 0.0
    if total <= 0:
        return alive
    kept = len(second)
    for place, curvature in enumerate(second):
        running += curvature / total
        if running > options.tail_free:
            kept = place
            break
    return {i: alive[i] for i in order[: max(kept, 1)]}


STEPS = {
    "temperature": temperature,
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
    "typical": typical,
    "tail_free": tail_free,
}
