"""Which finished texts are kept for others to begin from, and when they make way."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from MNN.llm.engine.paged import PagedDecoder, PagedText, Work
from MNN.llm.engine.texts import PagedTexts, Step
from MNN.llm.models.cache import PAGE
from tests.llm.test_scheduler import PAGES, WORDS, shared


def written(decoder: PagedDecoder, text: PagedText, prompt: list[int], answer: list[int]) -> PagedText:
    """Goes on by a prompt, and token by token by an answer."""
    if prompt:
        decoder.feed(text, prompt)
    for token in answer:
        decoder.step([Work(text, [token])])
    return text


@pytest.mark.parametrize("family", ["mistral", "lfm2"])
def test_a_longer_text_replaces_one_that_it_goes_back_to(family: str) -> None:
    """Where windows have left the beginning, or recurrent layers know no place there, the shorter one stays."""
    decoder = shared(family)
    texts, rng = PagedTexts(decoder), np.random.default_rng(len(family))
    draw = lambda count: rng.integers(1, WORDS, count).tolist()  # noqa: E731
    prompt, answer, more, another = draw(30), draw(12), draw(3 * PAGE), draw(5)
    first = texts.begin(prompt, ())
    assert isinstance(first, PagedText)
    texts.keep(written(decoder, first, prompt, answer))
    asked = [*prompt, *answer, *more]
    longer = texts.begin(asked, ())
    assert isinstance(longer, PagedText)
    assert len(longer.tokens) == len(prompt) + len(answer)
    texts.keep(written(decoder, longer, asked[len(longer.tokens) : -20], asked[-20:]))
    given = [*prompt, *answer, *another]
    again = texts.begin(given, ())
    assert isinstance(again, PagedText)
    assert len(again.tokens) == len(prompt) + len(answer)
    logits = decoder.feed(again, given[len(again.tokens) :])
    wanted = decoder.feed(alone := decoder.text(), given)
    assert np.abs(logits - wanted).max() <= 1e-4 * np.abs(wanted).max()
    assert len(texts._kept) == (2 if family == "mistral" else 1)
    for one in [again, alone, *texts._kept]:
        texts.drop(one)
    assert all(pool.used == 0 for pool in (*decoder.pools, decoder.slots))


def test_few_slots_are_not_for_texts_that_wait() -> None:
    """Of recurrent layers: where places are few, a longer text replaces the shorter one in any case."""
    decoder = shared("lfm2")
    texts, tokens = PagedTexts(decoder), np.random.default_rng(1).integers(1, WORDS, 60).tolist()
    others = [decoder.slots.take() for _ in range(decoder.slots.free - 20)]
    for length in (20, 40, 60):  # each read anew, so that it has no place where the one before ends
        texts.keep(written(decoder, decoder.text(), tokens[:length], []))
    assert len(texts._kept) == 1
    for one in list(texts._kept):
        texts.drop(one)
    for slot in others:
        decoder.slots.give_back(slot)
    assert decoder.slots.used == 0


@pytest.mark.parametrize("family", ["mistral", "lfm2"])
def test_nothing_is_forgotten_in_vain(family: str) -> None:
    """Kept texts make way where that is enough, the oldest first and no more than needed; else all stay."""
    decoder, rng = shared(family), np.random.default_rng(3 + len(family))
    outcomes = set()
    for _ in range(14):
        texts = PagedTexts(decoder)
        beginning = rng.integers(1, WORDS, 150).tolist()
        for _ in range(int(rng.integers(1, 6))):
            tokens = [*beginning[: int(rng.integers(0, 151))], *rng.integers(1, WORDS, int(rng.integers(1, 200)))]
            text = texts.begin([*map(int, tokens), 0], ())
            assert isinstance(text, PagedText)
            texts.keep(written(decoder, text, [int(n) for n in tokens[len(text.tokens) :]], []))
        going = texts.begin([*beginning, 1], ())
        assert isinstance(going, PagedText)
        written(decoder, going, [2] * int(rng.integers(0 if going.tokens else 1, 80)), [])
        other = decoder.text()
        left = int(rng.integers(0, 6))
        for one in other.lists:
            one.grow((one.pool.free - left) * PAGE)
        few = [decoder.slots.take() for _ in range(max(decoder.slots.free - int(rng.integers(0, 4)), 0))]
        steps: list[Step] = [(going, [1] * int(rng.integers(1, 12 * PAGE)))]
        spare, kept, places = int(rng.integers(0, 3)), list(texts._kept), _places(going)
        fits = texts.fits(steps, spare)
        outcomes.add(fits)
        if fits:
            assert list(texts._kept) == kept[len(kept) - len(texts._kept) :]
            assert _has_room(decoder, going, len(steps[0][1]), spare)
        else:
            assert list(texts._kept) == kept
            assert _places(going) == places
            for one in kept:
                texts.drop(one)
            if going.marks is not None:
                going.marks.lean()
            assert not _has_room(decoder, going, len(steps[0][1]), spare)
        for one in [going, other, *texts._kept]:
            texts.drop(one)
        for slot in few:
            decoder.slots.give_back(slot)
        gc.collect()
        assert all(pool.used == 0 for pool in (*decoder.pools, decoder.slots))
    assert outcomes == {False, True}
    assert PAGES > 12


def _places(text: PagedText) -> list[int]:
    return [] if text.marks is None else [mark.length for mark in text.marks.kept]


def _has_room(decoder: PagedDecoder, text: PagedText, count: int, spare: int) -> bool:
    """As things are, whatever else might make way."""
    before, found = len(text.tokens), True
    for one in text.lists:
        copied = before % PAGE > 0 and one.pool.shared(one.pages[before // PAGE])
        found &= one.missing(before + count) + copied + spare <= one.pool.free
    return found and (text.marks is None or text.marks.needed(count) <= decoder.slots.free)
