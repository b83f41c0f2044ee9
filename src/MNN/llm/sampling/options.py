"""How the next token is chosen, as users set it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from MNN.errors import MNNError

ORDER = ("temperature", "top_k", "tail_free", "typical", "top_p", "min_p")
"""The order in which distributions are narrowed, unless said otherwise: that of transformers and vLLM."""


@dataclass(frozen=True)
class SamplingOptions:
    """How the next token is chosen. What is left at its default does nothing.

    ``temperature``: what logits are divided by; 0 takes the most probable token. ``top_k``: only the k most probable
    (0: all). ``top_p``: the smallest set of most probable ones that has this probability together (Holtzman 2019).
    ``min_p``: only those that have this share of the best one's probability. ``typical``: the smallest set whose
    information is nearest to the entropy, with this probability together (Meister 2022). ``tail_free``: cuts where the
    sorted probabilities' curvature, added up, passes this share (Phillips 2019).

    ``repetition_penalty``: divides the logits of tokens that were there before, or multiplies negative ones (Keskar
    2019). ``presence_penalty``, ``frequency_penalty``: subtracted from the logits of tokens of the answer, once, and
    for each time (OpenAI). ``penalty_window``: how many of the last tokens these look at (0: all).
    ``dry_multiplier``, ``dry_base``, ``dry_allowed_length``, ``dry_window``, ``dry_breakers``: the DRY penalty
    ``multiplier * base ** (n - allowed_length)`` on tokens that would prolong a repetition of n tokens; ids of breakers
    end repetitions. ``logit_bias``: added to the logits of tokens by their ids; -100 and less forbids a token.

    ``seed``: of the random numbers; None: another one each time. ``order``: the names of what narrows the
    distribution, in the order in which it is done.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical: float = 1.0
    tail_free: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = 0
    dry_breakers: frozenset[int] = frozenset()
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    order: tuple[str, ...] = ORDER

    def __post_init__(self) -> None:
        for name, low, high, form in _LIMITS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
                raise MNNError(f"{name} is {value!r}; {form} is expected")
        for name in ("top_k", "penalty_window", "dry_allowed_length", "dry_window"):
            if getattr(self, name) != int(getattr(self, name)):
                raise MNNError(f"{name} is {getattr(self, name)!r}; a whole number is expected")
        if self.seed is not None and (not isinstance(self.seed, int) or self.seed < 0):
            raise MNNError(f"seed is {self.seed!r}; a natural number is expected")
        unknown = sorted(set(self.order) - set(ORDER))
        if unknown or len(set(self.order)) != len(self.order):
            raise MNNError(f"order is {list(self.order)}; different ones of {', '.join(ORDER)} are expected")
        if not isinstance(self.logit_bias, Mapping):
            raise MNNError(f"logit_bias is {self.logit_bias!r:.60}; numbers by the ids of tokens are expected")
        for token, amount in self.logit_bias.items():
            if not isinstance(token, int | np.integer):
                raise MNNError(f"logit_bias has {token!r:.60}; the ids of tokens are expected")
            if not isinstance(amount, int | float | np.integer | np.floating) or not amount <= _LARGE:
                raise MNNError(f"logit_bias of token {token!r:.60} is no number up to {_LARGE:g}")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def looks_back(self) -> bool:
        """Whether earlier tokens matter."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
            or self.dry_multiplier != 0
        )


_LARGE = 1e6
_LIMITS: Iterable[tuple[str, float, float, str]] = (
    ("temperature", 0, 1000, "a number from 0 to 1000"),
    ("top_k", 0, 1 << 31, "0 or a natural number"),
    ("top_p", 0, 1, "a number from 0 to 1"),
    ("min_p", 0, 1, "a number from 0 to 1"),
    ("typical", 0, 1, "a number from 0 to 1"),
    ("tail_free", 0, 1, "a number from 0 to 1"),
    ("repetition_penalty", 1e-3, 1000, "a number above 0"),
    ("presence_penalty", -_LARGE, _LARGE, "a number"),
    ("frequency_penalty", -_LARGE, _LARGE, "a number"),
    ("penalty_window", 0, 1 << 31, "0 or a natural number"),
    ("dry_multiplier", 0, _LARGE, "a number from 0 up"),
    ("dry_base", 1, 100, "a number from 1 to 100"),
    ("dry_allowed_length", 1, 1 << 31, "a natural number"),
    ("dry_window", 0, 1 << 31, "0 or a natural number"),
)
