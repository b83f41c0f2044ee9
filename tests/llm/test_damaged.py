"""Configurations and weights that do not fit: each is one error that says so, before anything is computed."""

from __future__ import annotations

import copy
import math
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.llm.models.families import build, build_encoder
from tests.llm import cases
from tests.llm.check import Arrays
from tests.llm.test_families import ALL

COUNT = int(os.environ.get("MNN_DAMAGED_COUNT", "4"))
"""Changes of every model that are tried."""
VALUES: list[Any] = [
    None, 0, -1, 1, 2.5, "x", True, [], {}, [1], {"a": 1}, 1 << 40, 1e308, math.nan, math.inf, "gelu", 7,
]  # fmt: skip
SHAPES: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda a: a.reshape(-1), lambda a: a[:0], lambda a: a[..., : max(1, a.shape[-1] // 2)], lambda a: a[None],
    lambda a: a.astype(np.float16), lambda a: np.concatenate([a, a]),
]  # fmt: skip


class Loaded(Arrays):
    """Weights whose absence is told as that of files is."""

    def __missing__(self, name: str) -> np.ndarray:
        raise FormatError(f"the model lacks the weight '{name}'")


def damaged_config(told: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """One entry gone, or another value in its place."""
    config = copy.deepcopy(told)
    place, name = config, rng.choice([name for name in config if name != "model_type"])
    if isinstance(config[name], dict) and config[name] and rng.random() < 0.7:
        place, name = config[name], rng.choice(list(config[name]))
    if rng.random() < 0.2:
        del place[name]
    else:
        place[name] = rng.choice(VALUES)
    return config


def damaged_weights(told: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    name = rng.choice(list(told))
    if rng.random() < 0.4:
        return {k: v for k, v in told.items() if k != name}
    return told | {name: rng.choice(SHAPES)(told[name])}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("notes", [n for n in ALL if n["seed"] == 0], ids=lambda n: n["config"]["model_type"])
def test_one_error_or_a_model(notes: dict[str, Any]) -> None:
    whole = cases.weights(notes["shapes"], 0)
    made = build_encoder if notes.get("encoder") else build
    for seed in range(COUNT):
        rng = random.Random(f"{notes['config']['model_type']} {seed}")
        config, weights = dict(notes["config"]), whole
        if rng.random() < 0.6:
            config = damaged_config(config, rng)
        else:
            weights = damaged_weights(weights, rng)
        try:
            made(config, Loaded(weights))
        except MNNError as error:
            assert len(str(error)) < 2000  # noqa: PT017 - not every change is an error


LISTED = [n for n in ALL if n["seed"] == 0 and any(isinstance(value, list) for value in n["config"].values())]


@pytest.mark.parametrize("notes", LISTED, ids=lambda n: n["config"]["model_type"])
def test_lists_that_are_none(notes: dict[str, Any]) -> None:
    """Text in place of a list, a list of other things, and one that is too short."""
    weights = Loaded(cases.weights(notes["shapes"], 0))
    made, refused = build_encoder if notes.get("encoder") else build, 0
    for name in [name for name, value in notes["config"].items() if isinstance(value, list)]:
        for value in ("x", [{}] * 9, notes["config"][name][:1]):
            try:
                made(notes["config"] | {name: value}, weights)
            except MNNError:
                refused += 1
    assert refused


def test_what_does_not_fit_is_named() -> None:
    notes = next(n for n in ALL if n["config"]["model_type"] == "qwen2" and n["seed"] == 0)
    weights, at = cases.weights(notes["shapes"], 0), "model.layers.0.self_attn"
    short = weights | {f"{at}.q_proj.bias": weights[f"{at}.q_proj.bias"][:-1]}
    with pytest.raises(FormatError, match=r"'model.layers.0.self_attn.q_proj.bias' has the shape \[\d+\]; expected is"):
        build(notes["config"], Loaded(short))
    narrow = weights | {f"{at}.k_proj.weight": weights[f"{at}.k_proj.weight"][:, :-1]}
    with pytest.raises(FormatError, match="cannot lie side by side; expected are matrices of one width"):
        build(notes["config"], Loaded(narrow))
    with pytest.raises(FormatError, match=r"hidden_size = 1099511627776; expected is a whole number from 1 to"):
        build(notes["config"] | {"hidden_size": 1 << 40}, Loaded(weights))
    with pytest.raises(FormatError, match="rms_norm_eps = nan; expected is a number"):
        build(notes["config"] | {"rms_norm_eps": math.nan}, Loaded(weights))
