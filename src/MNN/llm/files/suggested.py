"""How the makers of a model suggest that tokens are chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from MNN.errors import MNNError, UnsupportedError
from MNN.llm.files.gguf.reader import read_gguf
from MNN.llm.files.mapped import read_json
from MNN.llm.files.places import find
from MNN.llm.sampling import SamplingOptions

_GGUF = {
    "temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "penalty_repeat": "repetition_penalty",
}  # fmt: skip
"""What metadata of a GGUF file call them, behind ``general.sampling.``."""
_NAMES = tuple(_GGUF.values())


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
    """The options among these, but for what none may be."""
    found: dict[str, float] = {}
    for name in _NAMES:
        if name not in told:
            continue
        try:
            SamplingOptions(**{name: told[name]})
        except MNNError:  # a suggestion that nobody can follow
            continue
        found[name] = told[name]
    return found


__all__ = ["suggested"]
