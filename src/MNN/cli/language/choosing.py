"""How words of a chat are chosen: as its user says, else as the model's makers suggest, else carefully."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from MNN.llm.files.suggested import suggested
from MNN.llm.sampling import SamplingOptions

_NAMES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "dry_multiplier", "seed")
NEUTRAL: dict[str, Any] = {name: getattr(SamplingOptions(), name) for name in _NAMES}
"""What does nothing."""
USUAL = {"temperature": 0.3, "min_p": 0.05}
"""Where nobody says anything: small models lose the thread at higher temperatures. No penalty on repetitions: one on
words that were there before is against the question's own, and one on what prolongs a repetition against a text that
is to be copied."""


def choosing(model: str | os.PathLike[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of :class:`MNN.llm.SamplingOptions`; those ``given`` as None are not given."""
    told = {name: value for name, value in given.items() if value is not None}
    return NEUTRAL | (suggested(model) or USUAL) | told


__all__ = ["NEUTRAL", "USUAL", "choosing"]
