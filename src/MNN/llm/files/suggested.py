"""How the makers of a model suggest that tokens are chosen."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from MNN.errors import UnsupportedError
from MNN.llm.files.gguf.reader import read_gguf
from MNN.llm.files.mapped import read_json
from MNN.llm.files.places import find

_GGUF = {
    "temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "penalty_repeat": "repetition_penalty",
}  # fmt: skip
"""What metadata of a GGUF file call them, behind ``general.sampling.``."""
_LIMITS = {"temperature": 100.0, "top_k": float(1 << 30), "top_p": 1.0, "min_p": 1.0, "repetition_penalty": 100.0}
"""Options and the most that they may be; a number beyond, or below zero, is passed over."""


def suggested(path: str | os.PathLike[str]) -> dict[str, float]:
    """Arguments of :class:`MNN.llm.SamplingOptions` that a model's files suggest: ``generation_config.json`` of a
    folder, or metadata of a GGUF file. Empty where they say nothing."""
    try:
        place = find(path)
    except UnsupportedError:  # a folder of another kind
        return {}
    if place.gguf is not None:
        told = read_gguf(place.gguf).metadata
        return _usable({ours: told.get(f"general.sampling.{name}") for name, ours in _GGUF.items()})
    file = place.folder / "generation_config.json"
    found = read_json(file) if file.is_file() else {}
    if found.get("do_sample") is False:
        return {"temperature": 0.0}
    return _usable(found)


def _usable(told: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, most in _LIMITS.items():
        value = told.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            continue
        if 0 <= value <= most and (value > 0 or name != "repetition_penalty"):
            found[name] = int(value) if name == "top_k" else float(value)
    return found


__all__ = ["suggested"]
