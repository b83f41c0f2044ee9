"""A beam search by this engine against one that was recorded."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from MNN.llm.beams import Beam, BeamWriter, Search
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.sampling import SamplingOptions
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.test_families import RECORDED

TOLERANCE = 1e-4
"""Of scores."""


class Letters:
    """A tokenizer of one character for each token."""

    def __init__(self, ends: list[int]) -> None:
        self.stop_ids = frozenset(ends)

    def decode(self, tokens: list[int]) -> str:
        return "".join(chr(48 + token) for token in tokens)


@functools.cache
def decoder(family: str, seed: int) -> PagedDecoder:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data = Arrays(cases.weights(notes["shapes"], seed))
    return decoder_of(notes["config"], data, Config(precision="high", cache=False))


def beams(case: dict[str, Any], **more: Any) -> list[Beam]:
    """What this engine finds."""
    model = decoder(case["family"], case["seed"])
    tokenizer: Any = Letters(case["ends"])
    search = Search(case["count"], case["length_penalty"], case["early"])
    options = SamplingOptions(temperature=0.0, **more.pop("penalties", {}))
    return BeamWriter(model, tokenizer, search, options, case["most"], **more).write(model.text(), case["prompt"])


def difference(case: dict[str, Any]) -> str:
    """What is different; empty where nothing is, or where two texts have the same score."""
    found = beams(case)
    wanted = case["texts"]
    scores = np.array([one.score for one in found]), np.array([one["score"] for one in wanted])
    if len(found) != len(wanted) or np.abs(scores[0] - scores[1]).max() > TOLERANCE * np.abs(scores[1]).max():
        return f"scores {scores[0].tolist()} and {scores[1].tolist()}"
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        near = np.abs(np.delete(scores[1], i) - other["score"]).min(initial=np.inf)
        if list(one.tokens) != other["tokens"] and near > TOLERANCE * abs(other["score"]):
            return f"tokens {list(one.tokens)} and {other['tokens']}"
    return ""
