"""How tokens are chosen: distributions from their definitions, and what is drawn from them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError, RunError
from MNN.llm.sampling import ORDER, Sampler, SamplingOptions, StopStrings, log_probability
from MNN.llm.sampling.narrowing import COLUMNS
from MNN.llm.sampling.penalties import repetitions
from MNN.llm.sampling.stopping import round_of
from tests.llm.sampling import naive

CASES = int(os.environ.get("MNN_SAMPLING_CASES", "400"))
WORDS = 60


def random_options(rng: np.random.Generator, **fixed: Any) -> SamplingOptions:
    """Some of the settings, at random."""

    def maybe(draw: Any, default: Any) -> Any:
        return draw() if rng.random() < 0.4 else default

    ids = rng.choice(WORDS, 3, replace=False).tolist()
    found = {
        "temperature": maybe(lambda: float(rng.uniform(0.1, 3)), 1.0),
        "top_k": maybe(lambda: int(rng.integers(1, WORDS + 5)), 0),
        "top_p": maybe(lambda: float(rng.uniform(0, 1)), 1.0),
        "min_p": maybe(lambda: float(rng.uniform(0, 0.5)), 0.0),
        "typical": maybe(lambda: float(rng.uniform(0.05, 1)), 1.0),
        "tail_free": maybe(lambda: float(rng.uniform(0.05, 1)), 1.0),
        "repetition_penalty": maybe(lambda: float(rng.uniform(0.5, 2)), 1.0),
        "presence_penalty": maybe(lambda: float(rng.uniform(-2, 2)), 0.0),
        "frequency_penalty": maybe(lambda: float(rng.uniform(-1, 1)), 0.0),
        "penalty_window": maybe(lambda: int(rng.integers(1, 20)), 0),
        "dry_multiplier": maybe(lambda: float(rng.uniform(0, 2)), 0.0),
        "dry_base": float(rng.uniform(1, 2.5)),
        "dry_allowed_length": int(rng.integers(1, 4)),
        "dry_window": maybe(lambda: int(rng.integers(2, 30)), 0),
        "dry_breakers": frozenset(maybe(lambda: ids[:2], [])),
        "logit_bias": dict(zip(ids, [float(rng.uniform(-3, 3)), -100.0, 5.0], strict=True))
        if rng.random() < 0.3
        else {},
        "order": tuple(rng.permutation(ORDER).tolist()) if rng.random() < 0.3 else ORDER,
    }
    return SamplingOptions(**{**found, **fixed})


def test_distributions() -> None:
    """Random settings together, against the definitions. Rounding decides what lies on a border: few may differ."""
    rng = np.random.default_rng(0)
    different = []
    for case in range(CASES):
        logits = (rng.standard_normal(WORDS) * rng.choice([0.5, 2, 6])).astype(np.float32)
        history = rng.integers(0, rng.choice([4, WORDS]), rng.integers(0, 50))
        prompt = int(rng.integers(0, len(history) + 1))
        options = random_options(rng)
        found = Sampler(options, prompt).probabilities(logits, history)
        expected = naive.distribution(logits, history.tolist(), prompt, options)
        if not np.allclose(found, expected, rtol=1e-4, atol=1e-6):
            different.append(case)
    assert len(different) <= CASES // 200, different


@pytest.mark.parametrize("words", [50_000, 150_000])
@pytest.mark.parametrize("spread", [0.3, 3.0, 8.0])
def test_many_words(words: int, spread: float) -> None:
    """Candidates are found by thresholds where words are many: the sets that sorting gives."""
    rng = np.random.default_rng(1)
    logits = (rng.standard_normal(words) * spread).astype(np.float32)
    weights = np.exp(logits.astype(np.float64) - logits.max())
    shares = weights / weights.sum()
    order = np.argsort(-shares, kind="stable")
    nucleus = order[: int(np.searchsorted(np.cumsum(shares[order]), 0.9)) + 1]
    found = np.flatnonzero(Sampler(SamplingOptions(top_p=0.9)).probabilities(logits))
    assert abs(len(found) - len(nucleus)) <= 2
    assert len(np.setxor1d(found, nucleus)) <= 2
    far = np.abs(-np.log(shares) + (shares * np.log(shares)).sum())
    order = np.argsort(far, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(shares[order]), 0.7)) + 1]
    found = np.flatnonzero(Sampler(SamplingOptions(typical=0.7)).probabilities(logits))
    assert len(np.setxor1d(found, kept)) <= 1 + words // 10_000
    found = np.flatnonzero(Sampler(SamplingOptions(top_k=40)).probabilities(logits))
    np.testing.assert_array_equal(np.sort(np.argsort(-logits, kind="stable")[:40]), found)


def test_the_largest_of_many_words() -> None:
    """Those that sorting gives, the first ones of equals; words that have no chance are not among them."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        words = int(rng.integers(2, 12) * COLUMNS + rng.integers(-2, 3))
        logits = rng.standard_normal(words).astype(np.float32) * 3
        if rng.random() < 0.5:  # many equal ones
            logits = np.rint(logits * rng.choice([0.3, 1, 30]))
        if rng.random() < 0.3:  # few with a chance
            logits[rng.random(words) < rng.choice([0.5, 0.999])] = -np.inf
        k = int(rng.choice([2, 3, 20, 40, 500, COLUMNS // 4, COLUMNS // 4 + 1, words - 1]))
        best = np.argsort(-logits, kind="stable")[:k]
        found = np.flatnonzero(Sampler(SamplingOptions(top_k=k)).probabilities(logits))
        exactly = Sampler(SamplingOptions(top_k=k)).candidates(logits).ids
        assert exactly is not None
        np.testing.assert_array_equal(np.sort(best), exactly)
        assert set(found) <= {int(i) for i in best if np.isfinite(logits[i])}


@pytest.mark.parametrize("seed", range(4))
def test_draws(seed: int) -> None:
    """Frequencies of 20,000 draws against the distribution (chi squared; at the 99.99 % point)."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(30).astype(np.float32) * 2
    options = [
        SamplingOptions(),
        SamplingOptions(temperature=0.6),
        SamplingOptions(top_p=0.8),
        SamplingOptions(top_k=5),
    ]
    sampler = Sampler(SamplingOptions(**{**vars(options[seed]), "seed": seed + 1}))
    shares = sampler.probabilities(logits)
    draws = 20_000
    counts = np.bincount([sampler.next(logits) for _ in range(draws)], minlength=30)
    assert not counts[shares == 0].any()
    some = shares * draws > 5
    deviation = ((counts[some] - shares[some] * draws) ** 2 / (shares[some] * draws)).sum()
    degrees = some.sum() - 1
    assert deviation < degrees + 4 * np.sqrt(2 * degrees) + 10  # above the 99.99 % point for all these degrees


def test_seeds() -> None:
    logits = np.zeros(1000, np.float32)
    first, again, other = (
        [sampler.next(logits) for _ in range(20)] for sampler in (Sampler(SamplingOptions(seed=s)) for s in (3, 3, 4))
    )
    assert first == again != other
    free = [Sampler(SamplingOptions()).next(logits) for _ in range(10)]
    assert len(set(free)) > 1


def test_greedy_and_what_is_allowed() -> None:
    logits = np.array([1.0, 5.0, 5.0, 2.0], np.float32)
    assert Sampler(SamplingOptions(temperature=0)).next(logits) == 1
    mask = np.array([True, False, False, True])
    assert Sampler(SamplingOptions(temperature=0)).next(logits, (), mask) == 3
    assert {Sampler(SamplingOptions(seed=i)).next(logits, (), mask[:1]) for i in range(9)} == {0}
    np.testing.assert_array_equal(logits, [1, 5, 5, 2])  # not changed
    assert Sampler(SamplingOptions(temperature=1e-6, seed=0)).next(np.array([1.0, 2.0, 1.5])) == 1


@pytest.mark.parametrize("temperature", [5e-324, 1e-46, 1e-30, 1e-9])
def test_as_good_as_no_temperature(temperature: float) -> None:
    logits = np.random.default_rng(4).standard_normal(3000).astype(np.float32)
    logits[7] = -np.inf
    assert Sampler(SamplingOptions(temperature=temperature, seed=1)).next(logits) == logits.argmax()


def test_no_chance() -> None:
    sampler = Sampler()
    for logits, message in [
        (np.full(4, -np.inf), "no token a chance"),
        (np.array([1.0, np.nan]), "not all numbers"),
        (np.array([1.0, np.inf]), "not all numbers"),
        (np.zeros(0), "no token a chance"),
    ]:
        with pytest.raises(RunError, match=message):
            sampler.next(logits)
    with pytest.raises(RunError, match="no token a chance"):
        sampler.next(np.zeros(3), (), np.zeros(3, bool))
    assert sampler.next(np.array([-np.inf, 0.0])) == 1


def test_repetitions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        history = rng.integers(0, rng.choice([2, 3, 6]), rng.integers(0, 40))
        breakers = frozenset(rng.choice(6, rng.integers(0, 2)).tolist())
        tokens, lengths = repetitions(history, breakers)
        expected = naive.repetitions(history.tolist(), breakers)
        assert dict(zip(tokens.tolist(), lengths.tolist(), strict=True)) == expected


def test_histories_of_other_models() -> None:
    """Ids beyond the words (images, padding) have no logits to change."""
    options = SamplingOptions(repetition_penalty=2.0, presence_penalty=1.0, temperature=0)
    assert Sampler(options).next(np.array([1.0, 1.5, 0.5]), [1, 9, -1]) == 0


def test_log_probabilities() -> None:
    rng = np.random.default_rng(3)
    logits = rng.standard_normal(5000).astype(np.float32) * 4
    expected = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
    found = log_probability(logits, 17, 5)
    assert found.token == 17
    assert found.value == pytest.approx(expected[17], abs=1e-5)
    best = np.argsort(-expected)[:5]
    assert [token for token, _ in found.top] == best.tolist()
    np.testing.assert_allclose([value for _, value in found.top], expected[best], atol=1e-5)
    assert log_probability(logits, 17).top == ()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 1.5}, "top_p is 1.5; a number from 0 to 1"),
        ({"top_k": 1.5}, "whole number"),
        ({"top_k": True}, "top_k"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": -1}, "seed"),
        ({"order": ("top_k", "top_z")}, "order"),
        ({"order": ("top_k", "top_k")}, "order"),
        ({"logit_bias": {1: float("nan")}}, "logit_bias"),
        ({"logit_bias": {1: 10**5000}}, "logit_bias of token 1 is no number up to 1e"),
        ({"logit_bias": {1: float("inf")}}, "logit_bias of token 1 is no number up to 1e"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
    ],
)
def test_settings_that_make_no_sense(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(MNNError, match=message):
        SamplingOptions(**setting)


def test_stop_strings() -> None:
    """However a text is cut into pieces, the same comes out: what stands before the stop that is complete first."""
    rng = np.random.default_rng(4)
    for _ in range(400):
        whole = "".join(rng.choice(list("abc"), rng.integers(0, 30)))
        stops = ["".join(rng.choice(list("abc"), rng.integers(1, 5))) for _ in range(rng.integers(0, 4))]
        hits = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]
        expected = whole[: min(hits)[1]] if hits else whole
        watch, out, place = StopStrings(stops), "", 0
        while place < len(whole):
            step = int(rng.integers(1, 5))
            out += watch.push(whole[place : place + step])
            assert whole.startswith(out)
            place += step
        out += watch.finish()
        assert out == expected
        assert (watch.found is not None) == bool(hits)


def test_what_may_become_a_stop_is_held_back() -> None:
    watch = StopStrings(["<end>"])
    assert [watch.push(piece) for piece in ["one <", "en", "x <e", "nd> more"]] == ["one ", "", "<enx ", ""]
    assert watch.found == "<end>"
    assert (watch.push("x"), watch.finish()) == ("", "")


def test_rounds_without_end_are_found() -> None:
    """Twelve rounds, 256 tokens at least, of up to 64 tokens; not fewer, nor where one token differs."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        period = int(rng.integers(1, 65))
        some = rng.permutation(1000)[:period].tolist()  # no shorter round in it
        before = rng.integers(0, 1000, int(rng.integers(0, 400))).tolist()
        least = max(12 * period, 256)
        rounds = (some * (least // period + 1))[:least]
        assert round_of([*before, -1, *rounds]) == period
        assert round_of([-1, *rounds[:-1]]) == 0
        rounds[int(rng.integers(0, least))] = -2
        assert round_of([*before, -1, *rounds]) == 0
    assert round_of(rng.integers(0, 3, 5000).tolist()) == 0
    assert round_of([]) == 0
