"""Several texts in one run: each as if it were alone; shared pages, windows, and no page lost."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.engine.decoder import CHUNK, pieces
from MNN.llm.engine.paged import PagedDecoder, Work
from MNN.llm.engine.pages import NoPagesError, PageList, PagePool
from MNN.llm.models.cache import PAGE
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.speculation.writing import small
from tests.llm.test_families import RECORDED


def _decoder(family: str, bits: int = 32, **changes: object) -> PagedDecoder:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    config = {**notes["config"], **changes}
    data = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    return decoder_of(config, data, Config(precision="high", cache=False), bits=bits)


def _close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-5) -> None:
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def test_texts_of_different_lengths_in_one_run() -> None:
    decoder = _decoder("mistral", sliding_window=20)
    rng = np.random.default_rng(1)
    given = [[int(t) for t in rng.integers(0, 48, n)] for n in (3, 150, 25)]
    alone = [decoder.feed(decoder.text(), tokens, every=True) for tokens in given]
    texts, at = [decoder.text() for _ in given], [0, 0, 0]
    while any(at[i] < len(tokens) for i, tokens in enumerate(given)):
        which = [i for i, tokens in enumerate(given) if at[i] < len(tokens) and rng.random() < 0.8]
        parts = [given[i][at[i] : at[i] + int(rng.choice([1, 1, 9]))] for i in which]
        if not which:
            continue
        works = [Work(texts[i], part, len(part)) for i, part in zip(which, parts, strict=True)]
        for i, logits, part in zip(which, decoder.step(works), parts, strict=True):
            _close(logits, alone[i][at[i] : at[i] + len(part)])
            at[i] += len(part)
    assert texts[1].lists[0].gone == (150 + 1 - 20 - PAGE) // PAGE == 1
    del texts, works
    gc.collect()
    assert all(pool.used == 0 for pool in decoder.pools)


def test_no_text_goes_on_where_one_would_be_too_long() -> None:
    decoder = _decoder("qwen3")
    decoder.max_length = 9
    works = [Work(decoder.text(), [1] * n, 1) for n in (3, 10)]
    with pytest.raises(MNNError, match="would have 10 tokens; the model was loaded for 9"):
        decoder.step(works)
    assert [len(work.text.tokens) for work in works] == [0, 0]
    for rows in (0, 1, 2):
        assert decoder.step([Work(works[0].text, [1, 2], rows)])[0].shape[0] == rows


def test_shorter_texts_of_models_whose_positions_turn_by_the_length() -> None:
    """Beyond the trained length all positions turn in another way, and back again below it."""
    decoder = _decoder("phi3")
    trained = next(n for n in RECORDED if n["config"]["model_type"] == "phi3")["config"]["rope_parameters"]
    length = trained["original_max_position_embeddings"]
    tokens = cases.tokens(4, length + 9)
    for first, then in ((length + 9, length), (length, length + 1), (length - 1, length), (length + 9, length + 2)):
        text = decoder.text()
        decoder.feed(text, tokens[:first])
        missing = decoder.resume(text, tokens[:then])
        _close(decoder.feed(text, missing)[-1], decoder.feed(decoder.text(), tokens[:then])[-1])


def test_a_text_that_is_interrupted_as_all_its_positions_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read again turns as the longer text would: a shorter one does not go on from it."""
    decoder = small("phi3", sliding_window=None)
    tokens = cases.tokens(4, 2 * CHUNK)
    length = decoder._switch
    text, run, calls = decoder.text(), decoder._run, []

    def second_breaks(works: list[Work], total: int) -> list[np.ndarray]:
        calls.append(total)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(works, total)

    decoder.feed(text, tokens[: length - 2])
    with monkeypatch.context() as patch:
        patch.setattr(decoder, "_run", second_breaks)
        with pytest.raises(KeyboardInterrupt):
            decoder.feed(text, tokens[length - 2 :])
    missing = decoder.resume(text, tokens[:length])
    _close(decoder.feed(text, missing)[-1], decoder.feed(decoder.text(), tokens[:length])[-1])


def test_forks_share_pages_and_write_into_their_own() -> None:
    decoder = _decoder("qwen3")
    first = decoder.text()
    decoder.feed(first, [1] * (PAGE + 5))
    pool = decoder.pools[0]
    assert pool.used == 2
    other = decoder.fork(first)
    assert pool.used == 2
    wanted = decoder.feed(first, [7, 8, 9])
    assert pool.used == 3
    _close(decoder.feed(other, [4, 5, 6]), decoder.feed(decoder.text(), [1] * (PAGE + 5) + [4, 5, 6]))
    decoder.cut(first, PAGE + 5)
    _close(decoder.feed(first, [7, 8, 9]), wanted)
    with pytest.raises(MNNError, match="no tokens"):
        decoder.feed(first, [])
    del first, other
    gc.collect()
    assert pool.used == 0


@pytest.mark.parametrize(("bits", "tolerance"), [(16, 2e-3), (8, 3e-2), (4, 0.4)])
def test_fewer_bits_are_near(bits: int, tolerance: float) -> None:
    tokens = cases.tokens(3, 40)
    exact, rounded = _decoder("qwen3"), _decoder("qwen3", bits)
    wanted = exact.feed(exact.text(), tokens)
    found = rounded.feed(rounded.text(), tokens)
    _close(found, wanted, tolerance)
    assert np.abs(found - wanted).max() > 0


def test_pages_are_counted() -> None:
    pool = PagePool(3)
    one, other = PageList(pool), PageList(pool)
    one.grow(2 * PAGE)
    with pytest.raises(NoPagesError, match="2 pages of the cache are needed, 1 are free"):
        other.grow(PAGE + 1)
    assert other.pages == []
    shared = one.fork(PAGE + 1)
    one.cut(0)
    assert pool.used == 2
    shared.cut(1)
    assert pool.used == 1


def test_pieces_of_prompts_are_about_as_long() -> None:
    for count in [1, CHUNK, CHUNK + 1, *np.random.default_rng(0).integers(1, 9 * CHUNK, 50).tolist()]:
        tokens = list(range(count))
        found = [tokens[piece] for piece in pieces(count)]
        sizes = [len(piece) for piece in found]
        assert [token for piece in found for token in piece] == tokens
        assert len(sizes) == -(-count // CHUNK)
        assert max(sizes) <= min(CHUNK, min(sizes) + 1)
