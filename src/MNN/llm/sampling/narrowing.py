"""What narrows a distribution: each takes candidates and keeps some of them.

Words are many, those with a chance few: candidates are found by thresholds first, and only they are sorted. The results
are exactly those of sorting all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.llm.sampling.options import SamplingOptions

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Candidates:
    """``ids``: int64 ``[n]``, or None for all words. ``logits``: float32 ``[n]``, not all minus infinity."""

    ids: Array | None
    logits: Array

    def keep(self, which: Array) -> Candidates:
        """Those of a mask or at some places."""
        if self.ids is not None:
            return Candidates(self.ids[which], self.logits[which])
        places = np.flatnonzero(which) if which.dtype == np.bool_ else which
        return Candidates(places, self.logits[places])

    def weights(self) -> Array:
        """Probabilities times a number: float32 ``[n]``, the largest is 1."""
        below = self.logits - self.logits.max()
        return np.asarray(np.exp(below, out=below))


_COLDEST = float(np.finfo(np.float32).tiny)
"""Less may be 0 as a float of 32 bits."""


def temperature(candidates: Candidates, options: SamplingOptions) -> Candidates:
    """Divides the logits, counted from the largest so that none overflows."""
    if options.temperature == 1:
        return candidates
    with np.errstate(over="ignore"):
        scaled = candidates.logits - candidates.logits.max()
        scaled /= np.float32(max(options.temperature, _COLDEST))
    return Candidates(candidates.ids, scaled)


def top_k(candidates: Candidates, options: SamplingOptions) -> Candidates:
    """The k largest; of equals at the border, those with the smallest ids."""
    k, logits = int(options.top_k), candidates.logits
    if not 0 < k < len(logits):
        return candidates
    places = _some_largest(logits, k)
    few = logits if places is None else logits[places]
    border = np.partition(few, len(few) - k)[len(few) - k]
    above = few > border
    more = k - int(np.count_nonzero(above))
    above[np.flatnonzero(few == border)[:more]] = True
    return candidates.keep(above if places is None else places[above])


COLUMNS = 2048


def _some_largest(numbers: Array, k: int) -> Array | None:
    """Places, rising, of the ``k`` largest numbers and of some more, with all that equal one of them; None where all
    are to be looked at. No fewer than ``k`` are as large as the k-th of the largest ones of some columns that they are
    dealt out to, which takes a tenth of the time of parting them all."""
    rows = len(numbers) // COLUMNS
    if rows < 2 or k > COLUMNS // 4:
        return None
    highest = numbers[: rows * COLUMNS].reshape(rows, COLUMNS).max(axis=0)
    return np.flatnonzero(numbers >= np.partition(highest, COLUMNS - k)[COLUMNS - k])


_BORDERS = -np.logspace(-2, -12, 6, dtype=np.float32)
"""Of weights, negative."""


def top_p(candidates: Candidates, options: SamplingOptions) -> Candidates:
    """The fewest of the most probable whose probability together reaches ``top_p``; one at least."""
    if options.top_p >= 1:
        return candidates
    weights = candidates.weights()
    return candidates.keep(_first(-weights, weights, options.top_p, _BORDERS))


def min_p(candidates: Candidates, options: SamplingOptions) -> Candidates:
    """Those that have this share of the best one's probability."""
    if options.min_p <= 0:
        return candidates
    least = candidates.logits.max() + np.float32(np.log(options.min_p))
    return candidates.keep(candidates.logits >= least)


def typical(candidates: Candidates, options: SamplingOptions) -> Candidates:
    """The fewest whose information is nearest to the entropy and whose probability together reaches ``typical``."""
    if options.typical >= 1:
        return candidates
    below = candidates.logits - candidates.logits.max()
    weights = np.exp(below)
    parts = np.zeros_like(below)
    np.multiply(weights, below, out=parts, where=weights > 0)  # what has no chance has no part
    mean = np.float32(parts.sum() / weights.sum())
    distance = np.abs(below - mean)  # information less entropy: the normaliser falls out
    return candidates.keep(_first(distance, weights, options.typical, np.array([0.5, 1, 2, 4, 8, 16], np.float32)))


def tail_free(candidates: Candidates, options: SamplingOptions) -> Candidates:
    """Cuts where the curvature of the sorted probabilities, added up from the best, passes ``tail_free`` of its sum."""
    if options.tail_free >= 1 or len(candidates.logits) <= 2:
        return candidates
    weights = candidates.weights()
    ordered = np.sort(weights)[::-1].astype(np.float64)
    curvature = np.abs(np.diff(ordered, 2))
    total = curvature.sum()
    if total <= 0:
        return candidates
    beyond = np.cumsum(curvature) / total > options.tail_free
    last = max(int(np.argmax(beyond)) if beyond.any() else len(beyond), 1)
    border = np.float32(ordered[last - 1])
    kept = weights > border
    kept[np.flatnonzero(weights == border)[: last - int(np.count_nonzero(kept))]] = True
    return candidates.keep(kept)


SORTED = 2048
"""Candidates that are sorted; more are parted by halves first."""
CLOSE = 1 - 1e-9


def _first(keys: Array, weights: Array, share: float, borders: Array) -> Array:
    """The smallest keys, as few as have this share of all weights, one at least; their places, rising. Of equal keys at
    the border, those with the smallest places.

    ``borders``: values of keys, rising, below which it looks first.
    """
    target = share * float(weights.sum())
    places, few, their = None, keys, weights
    for border in borders if len(keys) > SORTED else ():
        some = np.flatnonzero(keys <= border)
        if float(weights[some].sum(dtype=np.float64)) > target * (1 + 1e-6):
            places, few, their = some, keys[some], weights[some]
            break
    last = _border(few, their, target)
    kept: Array = few < last
    missing = target - float(their[kept].sum(dtype=np.float64))
    equal = np.flatnonzero(few == last)
    reached = np.cumsum(their[equal], dtype=np.float64)
    kept[equal[: int(np.searchsorted(reached, missing * CLOSE)) + 1]] = True
    found: Array = np.flatnonzero(kept) if places is None else places[kept]
    return found


def _border(keys: Array, weights: Array, target: float) -> np.float32:
    """The key at which the weights of smaller ones and its own reach the target: quickselect by weights."""
    while len(keys) > SORTED:
        half = len(keys) // 2
        order = np.argpartition(keys, half)
        left = float(weights[order[:half]].sum(dtype=np.float64))
        part = order[:half] if left >= target * CLOSE else order[half:]
        target -= 0 if left >= target * CLOSE else left
        keys, weights = keys[part], weights[part]
    order = np.argsort(keys, kind="stable")
    reached = np.cumsum(weights[order], dtype=np.float64)
    found: np.float32 = keys[order[min(int(np.searchsorted(reached, target * CLOSE)), len(keys) - 1)]]
    return found


NARROWING: dict[str, Callable[[Candidates, SamplingOptions], Candidates]] = {
    "temperature": temperature,
    "top_k": top_k,
    "tail_free": tail_free,
    "typical": typical,
    "top_p": top_p,
    "min_p": min_p,
}
"""By the names of :data:`MNN.llm.sampling.options.ORDER`."""
