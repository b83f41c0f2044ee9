"""Answers that are written together: each as it would be alone; no page is lost, whoever leaves when."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from MNN.errors import RunError
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.engine.scheduler import BETWEEN, Progress, Scheduler
from MNN.llm.generation import Generation
from MNN.llm.models.cache import PAGE
from MNN.llm.sampling import SamplingOptions
from MNN.llm.text.streaming import TextStream
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import TOLERANCE, Arrays, decoder_of
from tests.llm.test_families import RECORDED

WORDS = 48


class Letters:
    """A tokenizer of one character for each token."""

    stop_ids = frozenset({0})

    def stream(self) -> TextStream:
        return TextStream(lambda token, _: bytes([48 + token]))


PAGES = 64


@functools.cache
def shared(family: str) -> PagedDecoder:
    """One whose caches have room for everything."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    return decoder_of(notes["config"], data, Config(precision="high", cache=False), (PAGES - 1) * PAGE)


@contextlib.contextmanager
def narrow(decoder: PagedDecoder, pages: int) -> Iterator[None]:
    """So many pages alone are left."""
    other = decoder.text()
    for one in other.lists:
        one.grow((PAGES - pages) * PAGE)
    yield
    decoder.cut(other, 0)


def asked(prompt: Sequence[int], most: int, **options: Any) -> Generation:
    sampling = SamplingOptions(**{"temperature": 0.0, **options})
    tokenizer: Any = Letters()
    return Generation(prompt=prompt, tokenizer=tokenizer, options=sampling, most=most)


def finish(scheduler: Scheduler) -> list[Progress]:
    told = []
    while scheduler.busy:
        told += scheduler.advance()
    return told


def check_alone(decoder: PagedDecoder, one: Generation) -> None:
    """Its tokens are those of the highest logits of the text by itself, but for ties within rounding."""
    text, forbidden = decoder.text(), list(one.options.logit_bias)
    logits = decoder.feed(text, one.prompt)[-1]
    for place, token in enumerate([*one.tokens, *([0] if one.ended == "stop" else [])]):
        bound = TOLERANCE * np.abs(logits).max()
        logits[forbidden] = -np.inf
        assert logits.max() - logits[token] <= bound, (place, token)
        if place < len(one.tokens):
            logits = decoder.feed(text, [token])[-1]
    decoder.cut(text, 0)


def unused(scheduler: Scheduler, decoder: PagedDecoder) -> bool:
    """Whether all pages are free once no text is kept."""
    assert not scheduler.running
    texts: Any = scheduler._texts
    for text in list(texts._kept):
        texts.drop(text)
    return all(pool.used == 0 for pool in (*decoder.pools, decoder.slots))


@pytest.mark.parametrize(
    "family", ["qwen3", "mistral", "gemma2", "phi3", "internlm3", "qwen3_moe", "lfm2", "granitemoehybrid"]
)
def test_each_as_if_alone(family: str) -> None:
    """Prompts of random lengths with common beginnings, that come at random times."""
    decoder, rng = shared(family), np.random.default_rng(len(family))
    scheduler, all_of_them = Scheduler(decoder, 5), []
    beginning = rng.integers(1, WORDS, 150).tolist()
    for length in rng.integers(1, 260, 9).tolist():
        own = rng.integers(1, WORDS, length).tolist()
        one = asked([*beginning[: int(rng.integers(0, 151))], *own], int(rng.integers(1, 40)))
        all_of_them.append(one)
        scheduler.add([one])
        for _ in range(int(rng.integers(0, 6))):
            scheduler.advance()
            assert scheduler.running <= 5
    told = finish(scheduler)
    assert not [one for one in told if one.error]
    for one in all_of_them:
        assert one.ended in ("stop", "length")
        assert one.text == "".join(chr(48 + token) for token in one.tokens)
        check_alone(decoder, one)
    assert unused(scheduler, decoder)


@pytest.mark.parametrize("family", ["qwen3", "gemma2"])
def test_little_room(family: str) -> None:
    """Texts make room for each other, wait and are read again; nothing is lost, and nothing is another answer."""
    decoder, rng = shared(family), np.random.default_rng(5)
    scheduler, no_end = Scheduler(decoder), {"logit_bias": {0: -100.0}}
    many = [asked(rng.integers(1, WORDS, n).tolist(), 90, **no_end) for n in rng.integers(20, 200, 7).tolist()]
    for one in many:
        scheduler.add([one])
    with narrow(decoder, 7):
        told = finish(scheduler)
    assert not [one for one in told if one.error]
    assert scheduler.preempted > 0
    for one in many:
        assert len(one.tokens) == 90
        assert one.text == "".join(piece.piece for piece in told if piece.generation is one)
        check_alone(decoder, one)
    assert unused(scheduler, decoder)


def test_several_answers_share_a_prompt() -> None:
    """It is read once; with seeds they are what each would be alone."""
    decoder, prompt = shared("qwen3"), np.random.default_rng(2).integers(1, WORDS, 3 * PAGE + 9).tolist()
    seeds = [{"temperature": 1.5, "seed": seed} for seed in (3, 4, 3)]
    scheduler, together = Scheduler(decoder), [asked(prompt, 30, **options) for options in seeds]
    scheduler.add(together)
    scheduler.advance()
    while not together[0].tokens:
        scheduler.advance()
    assert all(len(one.tokens) == 1 for one in together)
    scheduler.advance()
    assert decoder.pools[0].used == 3 + 3
    finish(scheduler)
    assert together[0].tokens == together[2].tokens != together[1].tokens
    for one, options in zip(together, seeds, strict=True):
        alone = Scheduler(decoder)
        again = asked(prompt, 30, **options)
        alone.add([again])
        finish(alone)
        assert again.tokens == one.tokens
        assert unused(alone, decoder) is False  # those of the others are kept still
    assert unused(scheduler, decoder)


def test_what_prompts_begin_with_is_read_once() -> None:
    """From finished texts, from those that are being written, and in the middle of pages; the least used make way."""
    decoder, rng = shared("qwen3"), np.random.default_rng(8)
    system = rng.integers(1, WORDS, 2 * PAGE + 30).tolist()
    scheduler = Scheduler(decoder)

    def answered(prompt: list[int], most: int) -> Generation:
        one = asked(prompt, most)
        scheduler.add([one])
        finish(scheduler)
        check_alone(decoder, one)
        return one

    first, second = asked([*system, 1, 2], 50), asked([*system, 3], 5)
    scheduler.add([first])
    while not first.tokens:
        scheduler.advance()
    scheduler.add([second])
    finish(scheduler)
    third = answered([*first.prompt, *first.tokens, 5, 6], 5)
    same = answered([*first.prompt], 50)
    assert first.cost.reused == 0
    assert second.cost.reused == len(system)
    assert third.cost.reused == len(first.prompt) + len(first.tokens) - (first.ended == "length")
    assert same.cost.reused == len(first.prompt) - 1  # one is computed for its logits
    assert same.tokens == first.tokens
    other = asked(rng.integers(1, WORDS, 9 * PAGE).tolist(), 5)
    with narrow(decoder, 12):
        scheduler.add([other])
        finish(scheduler)
    assert scheduler.cached < len(other.prompt) + 2 * PAGE
    again = answered([*second.prompt], 5)
    assert again.cost.reused < len(system)
    assert again.tokens == second.tokens
    assert unused(scheduler, decoder)


def test_those_who_leave() -> None:
    """Before they begin, while their prompt is read, while they write: their pages are free or kept, and what they
    have is right."""
    decoder, rng = shared("mistral"), np.random.default_rng(11)
    scheduler, many = Scheduler(decoder, 4), []
    for n in rng.integers(1, 900, 14).tolist():
        prompt = rng.integers(1, WORDS, n).tolist()
        choices = [asked(prompt, 30) for _ in range(int(rng.integers(1, 3)))]
        many += choices
        scheduler.add(choices)
    told = []
    while scheduler.busy:
        if rng.random() < 0.3:
            many[int(rng.integers(0, len(many)))].cancel()
        told += scheduler.advance()
    ends = [one.generation for one in told if one.ended]
    assert len(ends) == len(set(ends)) == len(many)
    assert {one.ended for one in many} >= {"cancelled", "length"}
    for one in many:
        check_alone(decoder, one)
    assert unused(scheduler, decoder)


def test_a_long_prompt_keeps_nobody_waiting() -> None:
    """It is read in parts, between which others write."""
    decoder = shared("qwen3")
    scheduler, rng = Scheduler(decoder), np.random.default_rng(3)
    short, long = asked([1, 2, 3], 60), asked(rng.integers(1, WORDS, 1500).tolist(), 2)
    scheduler.add([short])
    scheduler.advance()
    scheduler.add([long])
    before = len(short.tokens)
    steps = 0
    while not long.tokens:
        scheduler.advance()
        steps += 1
    assert len(short.tokens) - before == steps >= 1500 // BETWEEN
    finish(scheduler)
    check_alone(decoder, long)
    assert unused(scheduler, decoder)


def test_one_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is told, the others go on; where the run itself breaks, all that were in it are told."""
    decoder = shared("qwen3")
    scheduler = Scheduler(decoder)
    broken, fine = asked([1, 2], 9, logit_bias=dict.fromkeys(range(WORDS), -100.0)), asked([1, 2], 9)
    scheduler.add([broken])
    scheduler.add([fine])
    told = finish(scheduler)
    (error,) = [one for one in told if one.error]
    assert error.generation is broken
    assert isinstance(error.error, RunError)
    check_alone(decoder, fine)
    assert unused(scheduler, decoder)
    both = [asked([5], 9), asked([6], 9)]
    for one in both:
        scheduler.add([one])
    scheduler.advance()
    with monkeypatch.context() as patch:
        patch.setattr(decoder.model, "run", lambda feeds: 1 / 0)
        told = finish(scheduler)
    assert [(one.generation, type(one.error), one.ended) for one in told] == [
        (one, ZeroDivisionError, True) for one in both
    ]
    assert unused(scheduler, decoder)


def test_one_that_has_no_room() -> None:
    """Others hold the pages: it is told, and those who wait behind it are answered."""
    decoder, rng = shared("qwen3"), np.random.default_rng(6)
    scheduler = Scheduler(decoder)
    large, small = asked(rng.integers(1, WORDS, 6 * PAGE).tolist(), 5), [asked([n, 7], 5) for n in (1, 2, 3)]
    for one in (large, *small):
        scheduler.add([one])
    with narrow(decoder, 4):
        told = finish(scheduler)
    assert [one.generation for one in told if one.error] == [large]
    for one in small:
        check_alone(decoder, one)
    assert unused(scheduler, decoder)


def test_an_adapter_that_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes by it and who waits for it is told; the others go on."""
    decoder, names = shared("qwen3"), ["mine"]
    monkeypatch.setattr(PagedDecoder, "adapters", names)
    scheduler, plain = Scheduler(decoder, 2), asked([1, 2, 3], 20)
    writes, waits = asked([4, 5], 20), asked([6, 7], 20)
    writes.adapter = waits.adapter = "mine"
    for one in (plain, writes, waits):
        scheduler.add([one])
    scheduler.advance()
    assert (len(plain.tokens), len(writes.tokens), len(waits.tokens)) == (1, 1, 0)
    names.clear()
    told = finish(scheduler)
    assert {one.generation for one in told if one.error} == {writes, waits}
    check_alone(decoder, plain)
    assert unused(scheduler, decoder)
