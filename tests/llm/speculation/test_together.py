"""Drafts of answers that are written together: each answer is the one that it is alone, without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from MNN.cli.language.drafting import _once
from MNN.errors import MNNError
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.engine.scheduler import Scheduler
from MNN.llm.generation import Generation
from MNN.llm.language_model import LanguageModel
from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.speculation import Draft, Drafter, Lookup, ModelDrafter
from MNN.llm.speculation.together import ROWS, each_its_own
from tests.llm.speculation.test_answers import _unlikely
from tests.llm.speculation.writing import small
from tests.llm.test_scheduler import PAGES, WORDS, Letters, asked, check_alone, finish, narrow, shared, unused

CASES = [("qwen3", "lookup"), ("gemma2", "itself"), ("gemma2", "wrong"), ("qwen3_moe", "lookup"), ("phi3", "itself"),
         ("granitemoehybrid", "wrong"), ("qwen3_next", "itself")]  # fmt: skip
"""One with windows, one with experts, one whose positions turn by the length; and some with recurrent layers."""


class Wrong:
    """Proposes by chance."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(7)

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        return Draft(self._rng.integers(1, WORDS, int(self._rng.integers(0, count + 1))).tolist())

    def another(self) -> Drafter:
        return Wrong()


def drafters(family: str) -> dict[str, Drafter]:
    return {"lookup": Lookup(2, 1), "itself": ModelDrafter(shared(family), 0.0), "wrong": Wrong()}


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_each_as_if_alone(family: str, kind: str) -> None:
    """Answers that come at random times, with common beginnings; none of a step's drafts is longer than it may be."""
    decoder, rng = shared(family), np.random.default_rng(len(kind))
    drafter = drafters(family)[kind]
    scheduler = Scheduler(decoder, 5, each_its_own(drafter))
    beginning, many = rng.integers(1, WORDS, 70).tolist(), []
    for length in rng.integers(1, 90, 7).tolist():
        prompt = [*beginning[: int(rng.integers(0, 71))], *rng.integers(1, WORDS, length).tolist()]
        one = asked(prompt, int(rng.integers(2, 40)), logit_bias={0: -100.0})
        many.append(one)
        scheduler.add([one])
        for _ in range(int(rng.integers(0, 14))):
            scheduler.advance()
    told = finish(scheduler)
    assert not [one for one in told if one.error]
    for one in many:
        assert (one.ended, len(one.tokens)) == ("length", one.most)
        assert one.text == "".join(chr(48 + token) for token in one.tokens)
        assert one.cost.kept <= one.cost.drafted
        check_alone(decoder, one)
    drafted, kept = sum(one.cost.drafted for one in many), sum(one.cost.kept for one in many)
    if kind == "itself" and drafted:  # the first tokens beyond its own are drafted, all that is drafted is taken
        assert kept > 0.9 * drafted - ROWS
    assert drafted > 0 or decoder.turns_by_length
    close(drafter)
    assert unused(scheduler, decoder)


def close(drafter: Drafter) -> None:
    """Texts that a model has kept for others are dropped."""
    texts: Any = getattr(drafter, "_texts", None)
    for text in list(texts._kept) if texts is not None else ():
        texts.drop(text)


def run(
    decoder: PagedDecoder, prompts: Sequence[list[int]], make: Callable[[], Drafter] | None, **options: Any
) -> list[Generation]:
    scheduler, many = Scheduler(decoder, 3, make), [asked(prompt, 25, **options) for prompt in prompts]
    for one in many:
        scheduler.add([one])
    assert not [one for one in finish(scheduler) if one.error]
    assert unused(scheduler, decoder) or make is not None
    return many


@pytest.mark.parametrize("kind", ["lookup", "other"])
def test_a_seed_says_all_of_an_answer(kind: str) -> None:
    """However many are written beside it, and whatever drafts."""
    decoder, options = shared("qwen3"), {"temperature": 0.4, "top_p": 0.9, "seed": 5}
    drafter: Drafter = Lookup(2, 1) if kind == "lookup" else ModelDrafter(small("qwen3", 1), 0.0)
    prompts = [np.random.default_rng(n).integers(1, WORDS, 9 + n).tolist() for n in range(4)]
    plain = run(decoder, prompts, None, **options)
    found = run(decoder, prompts, each_its_own(drafter), **options)
    alone = [run(decoder, [prompt], each_its_own(drafter), **options)[0] for prompt in prompts]
    for one, other, third in zip(plain, found, alone, strict=True):
        assert one.tokens == other.tokens == third.tokens
    assert sum(one.cost.drafted for one in found) > 0


def test_the_distribution_is_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a seed, drafts of another model are drawn, and checked as they are where one is written alone."""
    real, numbers = np.random.PCG64, itertools.count(100)
    monkeypatch.setattr(np.random, "PCG64", lambda seed=None: real(next(numbers) if seed is None else seed))
    decoder, drafter = small("llama"), ModelDrafter(small("llama", 1), 0.0)
    options, prompt = {"temperature": 0.8, "top_k": 12}, np.random.default_rng(8).integers(1, WORDS, 6).tolist()
    scheduler, many = Scheduler(decoder, 3, each_its_own(drafter)), []
    for _ in range(800):
        many.append(asked(prompt, 3, **options))
        scheduler.add(many[-1:])
    finish(scheduler)
    drafted, kept = sum(one.cost.drafted for one in many), sum(one.cost.kept for one in many)
    assert 0 < kept < drafted
    sampler, text = Sampler(SamplingOptions(**options)), decoder.text()  # type: ignore[arg-type]
    first = sampler.probabilities(decoder.feed(text, prompt)[-1])
    second = np.zeros_like(first)
    for one in np.flatnonzero(first[1:]) + 1:
        decoder.cut(text, len(prompt))
        second += first[one] * sampler.probabilities(decoder.feed(text, [int(one)])[-1])
    for place, chances in enumerate((first, second)):  # token 0 ends an answer, and is not written
        counts = np.bincount([one.tokens[place] for one in many if len(one.tokens) > place], minlength=len(chances))
        assert _unlikely(counts[1:], chances[1:] / chances[1:].sum()) < 4


def test_a_drafter_without_room_proposes_less() -> None:
    """Its own caches are full: answers go on without, and begin from what finished ones have read where they can."""
    decoder, other = shared("qwen3"), small("qwen3", 1)
    drafter = ModelDrafter(shared("mistral"), 0.0)
    prompts = [np.random.default_rng(n).integers(1, WORDS, 100).tolist() for n in range(3)]
    with narrow(shared("mistral"), 3):
        found = run(decoder, prompts, each_its_own(drafter), logit_bias={0: -100.0})
    for one in found:
        check_alone(decoder, one)
    close(drafter)
    again = ModelDrafter(other, 0.0)
    make = each_its_own(again)
    run(decoder, prompts[:1], make)
    fed: list[int] = []
    feed, step = other.feed, other.step
    other.feed = lambda text, tokens, every=False: fed.append(len(tokens)) or feed(text, tokens, every)  # type: ignore[method-assign,func-returns-value,assignment]
    try:
        run(decoder, [[*prompts[0], 5]], make)
    finally:
        other.feed, other.step = feed, step  # type: ignore[method-assign]
    assert 0 < max(fed) < 40  # not the hundred of the prompt
    assert PAGES > 3


def test_what_cannot_draft_for_several() -> None:
    class Own:
        def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
            return Draft()

    with pytest.raises(MNNError, match=r"needs a method another\(\)"):
        each_its_own(Own())


class Failing(Wrong):
    """What users may write: drafters that raise, at once or later, and those that propose what is no draft."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.asked = kind, 0

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        self.asked += 1
        if self.kind == "raises" or (self.kind == "raises later" and self.asked > 2):
            raise ZeroDivisionError("inside")
        found: Any = {
            "none": None, "beyond": Draft([WORDS]), "negative": Draft([-1]), "text": Draft("ab"),  # type: ignore[arg-type]
            "long": Draft([1] * 700),
        }.get(self.kind)  # fmt: skip
        return (
            found
            if self.kind in ("none", "beyond", "negative", "text", "long")
            else super().propose(tokens, count, options)
        )

    def another(self) -> Drafter:
        if self.kind == "not made":
            raise ZeroDivisionError("inside")
        return Failing(self.kind)

    def close(self) -> None:
        if self.kind == "not closed":
            raise ZeroDivisionError("inside")


KINDS = ("raises", "raises later", "none", "beyond", "negative", "text", "long", "not made", "not closed")


@pytest.mark.parametrize("kind", KINDS)
def test_drafters_that_fail(kind: str) -> None:
    """Answers go on without them."""
    decoder, prompts = shared("qwen3"), [np.random.default_rng(n).integers(1, WORDS, 9).tolist() for n in range(3)]
    plain = [run(decoder, [prompt], None, logit_bias={0: -100.0})[0] for prompt in prompts]
    found = run(decoder, prompts, each_its_own(Failing(kind)), logit_bias={0: -100.0})
    assert [one.tokens for one in found] == [one.tokens for one in plain]


def test_what_drafts_forgets_with_the_rest() -> None:
    """Answers that are timed one after the other all read the question, with what drafts too."""
    decoder, other = shared("qwen3"), small("qwen3", 1)
    words: Any = Letters()
    llm, drafter = LanguageModel(decoder, words, {"max_length": 200}), ModelDrafter(other, 0.0)
    prompt = np.random.default_rng(2).integers(1, WORDS, 60).tolist()
    read: list[int] = []
    feed = other.feed
    other.feed = lambda text, tokens, every=False: read.append(len(tokens)) or feed(text, tokens, every)  # type: ignore[method-assign,func-returns-value,assignment]
    try:
        for _ in range(3):
            read.clear()
            _once(llm, prompt, 9, drafter)  # type: ignore[arg-type]
            assert max(read) > 50
    finally:
        other.feed = feed  # type: ignore[method-assign]
