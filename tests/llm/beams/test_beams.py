"""Beam searches: as transformers', exact where beams are many enough, and without losing a page."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.beams import Search
from MNN.llm.sampling import SamplingOptions
from MNN.llm.sampling.penalties import PENALTIES, penalize
from tests.llm import cases
from tests.llm.beams.check import beams, decoder, difference

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))


def used(family: str, seed: int) -> int:
    gc.collect()
    return sum(pool.used for pool in decoder(family, seed).pools)


@pytest.mark.parametrize("case", RECORDED, ids=lambda c: f"{c['family']}-{c['seed']}")
def test_like_transformers(case: dict[str, Any]) -> None:
    assert difference(case) == ""
    assert used(case["family"], case["seed"]) == 0


def a_case(**changes: Any) -> dict[str, Any]:
    return {
        "family": "llama", "seed": 5, "prompt": cases.tokens(9, 7), "count": 4, "most": 6, "ends": [0],
        "length_penalty": 1.0, "early": False,
    } | changes  # fmt: skip


@pytest.mark.parametrize("penalized", [False, True])
def test_as_many_beams_as_tokens_find_the_best_pair(penalized: bool) -> None:
    case = a_case(count=cases.VOCABULARY, most=2, ends=[3, 11])
    penalties = {"repetition_penalty": 1.4, "logit_bias": {7: -100.0}} if penalized else {}
    found = beams(case, penalties=penalties)
    model, options = decoder("llama", 5), SamplingOptions(temperature=0.0, **penalties)  # type: ignore[arg-type]

    def chances(tokens: list[int]) -> np.ndarray:
        logits = model.feed(model.text(), tokens)[-1].copy()
        penalize(logits, np.array(tokens), len(case["prompt"]), options)
        if penalized:
            logits[7] = -np.inf
        wide = logits.astype(np.float64)
        return wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())

    first, pairs = chances(case["prompt"]), {}
    for one in range(cases.VOCABULARY):
        if one in case["ends"]:
            pairs[one,] = first[one]
        elif first[one] > -np.inf:
            pairs |= {(one, b): (first[one] + p) / 2 for b, p in enumerate(chances([*case["prompt"], one]))}
    best = sorted(pairs.values(), reverse=True)[: len(found)]
    assert np.allclose([one.score for one in found], best, atol=1e-4)
    assert all(7 not in one.tokens for one in found) or not penalized


def test_texts_that_end_beams() -> None:
    plain = beams(a_case(most=12))
    stop = plain[0].text[4:6]
    found = beams(a_case(most=12), stop=[stop])
    assert all(stop not in one.text for one in found)
    assert any(one.ended == "stop" and one.text == plain[0].text[: plain[0].text.index(stop)] for one in found)
    assert used("llama", 5) == 0


class OddOnly:
    """A grammar of odd tokens, three of them."""

    def __init__(self, taken: int = 0) -> None:
        self.taken = taken

    def allowed(self, words: int) -> np.ndarray:
        found = np.arange(words) % 2 == 1
        return found if self.taken < 3 else np.arange(words) == 0

    def take(self, token: int) -> None:
        self.taken += 1

    def copy(self) -> OddOnly:
        return OddOnly(self.taken)


def test_beams_that_fit_a_grammar() -> None:
    found = beams(a_case(most=9, length_penalty=0.0), grammar=OddOnly())
    assert [len(one.tokens) for one in found] == [3] * 4
    assert all(token % 2 for one in found for token in one.tokens)
    assert len({tuple(one.tokens) for one in found}) == 4


def test_what_fails_gives_its_pages_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoder("llama", 5)
    calls = []
    step = model.step

    def failing(works: Any) -> Any:
        calls.append(works)
        if len(calls) > 3:
            raise MNNError("enough")
        return step(works)

    monkeypatch.setattr(model, "step", failing)
    with pytest.raises(MNNError, match="enough"):
        beams(a_case())
    calls.clear()
    assert used("llama", 5) == 0


def test_what_cannot_be_searched() -> None:
    with pytest.raises(MNNError, match="0 beams cannot be written"):
        Search(0)
    with pytest.raises(MNNError, match="length_penalty is 'x'"):
        Search(2, "x")  # type: ignore[arg-type]
    assert set(SamplingOptions.__dataclass_fields__) > PENALTIES
