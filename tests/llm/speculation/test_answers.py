"""Answers with drafts are those without: greedy ones, drawn ones by their seed, and the distribution of tokens."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.answer import Answer
from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.speculation import Draft, Lookup, ModelDrafter, drafter_of
from tests.llm import cases
from tests.llm.speculation.writing import Words, small, written
from tests.llm.test_families import COUNT, RECORDED

EVERY = sorted({notes["config"]["model_type"] for notes in RECORDED})
FAMILIES = EVERY if COUNT > 1 else ["deepseek_v2", "gemma2", "llama", "mistral", "phi3", "qwen3_moe"]
"""With windows, experts, latent keys, and positions that turn by the length; all of them with MNN_LLM_CASES=2."""
DRAWN = ("mistral", "qwen3_moe")


class Noisy:
    """Proposes what the model writes, with mistakes by chance."""

    def __init__(self, text: list[int], seed: int) -> None:
        self._text, self._rng = text, np.random.default_rng(seed)

    def propose(self, tokens: list[int], count: int, options: SamplingOptions) -> Draft:
        real = self._text[len(tokens) : len(tokens) + int(self._rng.integers(0, count + 1))]
        return Draft([t if self._rng.random() < 0.85 else (t + 1) % cases.VOCABULARY for t in real])


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_unchanged(family: str) -> None:
    decoder, prompt = small(family), cases.tokens(5, 9)
    plain = written(decoder, prompt, 70)
    noisy = written(decoder, prompt, 70, Noisy([*prompt, *plain.tokens], 1))
    looked = written(decoder, prompt, 70, Lookup(3, 1))
    assert noisy.tokens == looked.tokens == plain.tokens
    assert (len(plain.tokens), noisy.ended) == (70, "length")
    assert noisy.cost.kept <= noisy.cost.drafted
    if decoder.at_once(decoder.text()) > 1:  # else positions turn by the length, and nothing is drafted
        assert noisy.cost.kept > 20
    del plain, noisy, looked
    gc.collect()
    assert all(pool.used == 0 for pool in decoder.pools)


@pytest.mark.parametrize("family", DRAWN)
def test_a_seed_says_all_of_an_answer(family: str) -> None:
    decoder, prompt = small(family), cases.tokens(6, 12)
    options = {"temperature": 0.6, "top_k": 9, "repetition_penalty": 1.1, "seed": 3}
    plain = written(decoder, prompt, 60, **options)
    for drafter in (Lookup(3, 1), Noisy([*prompt, *plain.tokens], 2)):
        found = written(decoder, prompt, 60, drafter, **options)
        assert found.tokens == plain.tokens
        assert found.cost.drafted > 0
    other = [written(decoder, prompt, 40, ModelDrafter(small(family, 1), 0.0), **options).tokens for _ in range(2)]
    assert other[0] == other[1]  # drawn in another way, but by the seed too


def test_a_model_that_drafts_for_itself_is_believed() -> None:
    decoder, prompt = small("llama"), cases.tokens(7, 5)
    plain = written(decoder, prompt, 50)
    found = written(decoder, prompt, 50, ModelDrafter(small("llama")))
    assert found.tokens == plain.tokens
    assert found.cost.kept == found.cost.drafted > 30


def _unlikely(counts: np.ndarray, chances: np.ndarray) -> float:
    """How unlikely counts are by chi squared over the tokens that are expected five times or more and all others
    together: in standard deviations (Wilson & Hilferty 1931)."""
    expected = chances * counts.sum()
    often = expected >= 5
    seen, wanted = counts[often], expected[often]
    rest = expected[~often].sum()
    if rest >= 5:
        seen, wanted = np.append(seen, counts[~often].sum()), np.append(wanted, rest)
    chi, free = float(((seen - wanted) ** 2 / wanted).sum()), len(wanted) - 1
    if not free:  # one token has all the chance
        return 0.0
    return ((chi / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_checked_has_the_models_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words, count = int(rng.integers(4, 20)), 5000
    logits = (rng.standard_normal(words) * 2).astype(np.float32)
    narrowed = {"top_k": int(rng.integers(2, words + 1)), "top_p": float(rng.uniform(0.7, 1))} if seed % 2 else {}
    sampler = Sampler(SamplingOptions(temperature=float(rng.uniform(0.5, 1.5)), seed=seed, **narrowed))
    theirs = rng.dirichlet(np.full(words + seed % 3, 0.7))  # drafters may know more words
    drawn = [sampler.check(logits, int(token), theirs) for token in rng.choice(len(theirs), count, p=theirs)]
    chances = sampler.probabilities(logits)
    counts = np.bincount(drawn, minlength=words)
    assert counts[chances == 0].sum() == 0
    assert _unlikely(counts, chances) < 4
    believed = np.bincount(rng.choice(words, count, p=theirs[:words] / theirs[:words].sum()), minlength=words)
    assert _unlikely(believed, np.maximum(chances, 1e-3)) > 4  # the test sees another distribution


def test_answers_drafted_by_another_model_have_the_models_distribution() -> None:
    decoder, drafter, prompt = small("llama"), ModelDrafter(small("llama", 1), 0.0), cases.tokens(8, 6)
    options = {"temperature": 0.8, "top_k": 12}
    answers, kept, drafted = [], 0, 0
    for seed in range(1000):
        answer = written(decoder, prompt, 4, drafter, seed=seed, **options)
        answers.append(answer.tokens)
        kept, drafted = kept + answer.cost.kept, drafted + answer.cost.drafted
    assert 0 < kept < drafted
    sampler = Sampler(SamplingOptions(**options))  # type: ignore[arg-type]
    text = decoder.text()
    first = sampler.probabilities(decoder.feed(text, prompt)[-1])
    second = np.zeros_like(first)
    third = np.zeros_like(first)
    for one in np.flatnonzero(first):
        decoder.cut(text, len(prompt))
        after = sampler.probabilities(decoder.feed(text, [int(one)])[-1])
        second += first[one] * after
        for two in np.flatnonzero(after):
            decoder.cut(text, len(prompt) + 1)
            third += first[one] * after[two] * sampler.probabilities(decoder.feed(text, [int(two)])[-1])
    for place, chances in enumerate((first, second, third)):
        counts = np.bincount([tokens[place] for tokens in answers], minlength=len(chances))
        assert _unlikely(counts, chances) < 4


def test_lookup_proposes_what_followed() -> None:
    options, lookup = SamplingOptions(), Lookup(3, 2)
    assert lookup.propose([1, 2, 3], 4, options).tokens == ()
    assert lookup.propose([1, 2, 3, 4, 1, 2], 3, options).tokens == [3, 4, 1]
    assert lookup.propose([1, 2, 3, 4, 1, 2, 9, 1, 2], 2, options).tokens == [9, 1]  # the last time
    assert lookup.propose([5, 6, 5, 6], 5, options).tokens == [5, 6, 5, 6, 5]  # beyond the end it repeats
    assert lookup.propose([7, 8], 5, options).tokens == ()  # another text


def test_what_cannot_draft() -> None:
    with pytest.raises(MNNError, match="no draft 'eagle'; give 'lookup', 'heads'"):
        drafter_of("eagle", None)  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="cannot draft"):
        drafter_of(3, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
def test_answers_in_one_text_in_turns(family: str) -> None:
    """Each is what it would be by itself, whoever has used the caches meanwhile: another answer, with a draft or
    without, a new beginning, or what drafts."""
    decoder, prompts = small(family), [cases.tokens(seed, 9) for seed in (5, 6)]
    first, second = (written(decoder, prompt, 24).tokens for prompt in prompts)
    history, words = decoder.text(), Words()

    def begun(place: int, drafter: Any = None) -> Answer:
        return Answer(
            decoder=decoder, history=history, prompt=prompts[place], tokenizer=words,  # type: ignore[arg-type]
            options=SamplingOptions(temperature=0.0), most=24, drafter=drafter,
        )  # fmt: skip

    for drafters in ((None, None), (Lookup(3, 1), None), (Lookup(3, 1), Lookup(3, 1))):
        one, other = begun(0, drafters[0]), begun(1, drafters[1])
        for _ in zip(one, other, strict=False):
            pass
        assert (one.read(), one.tokens, other.read(), other.tokens) == (one.text, first, other.text, second)
    one = begun(0)
    next(iter(one))
    decoder.cut(history, 0)
    one.read()
    assert one.tokens == first
    one = begun(0, ModelDrafter(decoder, text=history))
    one.read()
    assert one.tokens == first
    assert one.cost.kept > 10
