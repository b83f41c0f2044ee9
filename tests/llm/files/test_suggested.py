"""How the makers of a model suggest that tokens are chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from MNN.cli.language.choosing import NEUTRAL, USUAL, choosing
from MNN.llm import SamplingOptions
from MNN.llm.files.suggested import suggested
from tests import zoo
from tests.llm.files import writing


def folder(place: Path, told: dict[str, Any] | None) -> Path:
    (place / "config.json").write_text("{}")
    (place / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    if told is not None:
        (place / "generation_config.json").write_text(json.dumps(told))
    return place


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, {}),
        ({"eos_token_id": 2}, {}),
        ({"do_sample": True, "temperature": 0.6, "top_k": 20, "x": 1}, {"temperature": 0.6, "top_k": 20}),
        ({"do_sample": False, "temperature": 0.6}, {"temperature": 0.0}),
        ({"temperature": "hot", "top_p": 7, "top_k": True, "min_p": -1, "repetition_penalty": 0}, {}),
        ({"repetition_penalty": 1.05, "min_p": 0}, {"repetition_penalty": 1.05, "min_p": 0.0}),
    ],
)
def test_folders(told: dict[str, Any] | None, expected: dict[str, float], tmp_path: Path) -> None:
    found = suggested(folder(tmp_path, told))
    assert found == expected
    SamplingOptions(**found)


def test_what_is_given_counts_first(tmp_path: Path) -> None:
    place = folder(tmp_path, {"temperature": 0.6, "top_k": 20})
    found = choosing(place, {"temperature": 0.1, "top_k": None, "seed": 3})
    assert found == NEUTRAL | {"temperature": 0.1, "top_k": 20, "seed": 3}
    SamplingOptions(**found)


def test_gguf_files(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    told = {"general.architecture": "llama", "general.sampling.temp": 0.5, "general.sampling.top_k": 30}
    file.write_bytes(writing.gguf(told, {}))
    assert suggested(file) == {"temperature": 0.5, "top_k": 30}


@pytest.mark.real
def test_files_that_suggest_nothing() -> None:
    assert choosing(zoo.path("smollm2_gguf"), {"temperature": None}) == NEUTRAL | USUAL
