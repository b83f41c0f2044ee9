"""Keys and values of long texts move to large pages of the system once these are half full."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.llm.engine import large_pages
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.models.cache import PAGE, CacheForm
from MNN.llm.models.families import build
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.llm import cases
from tests.llm.check import Arrays, table_of
from tests.llm.test_families import RECORDED

PAGES = 600  # pools of 1 MB and more have memory that begins at large pages


def decoder(family: str) -> PagedDecoder:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data, cache = Arrays(cases.weights(notes["shapes"], notes["seed"])), CacheForm(32, 32, PAGES, PAGES)
    net = build(notes["config"], data, cache=cache)
    session = Session(net.graph, Config(precision="high", cache=False), None, net.states)
    return PagedDecoder(session, net.states, cache, table_of(data[net.embeddings]), PAGES * PAGE)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_what_is_half_full_moves_once(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    size, moved = 1 << 14, []
    move = large_pages.in_large_pages

    def noted(array: np.ndarray, begin: int, end: int) -> None:
        moved.append((array.ctypes.data, begin, end))
        move(array, begin, end)

    plain, texts, rng = decoder(family), [], np.random.default_rng(5)
    found = []
    for large in (1 << 60, size):  # nothing moves; some does
        monkeypatch.setattr(large_pages, "LARGE_PAGE", large)
        monkeypatch.setattr(large_pages, "in_large_pages", noted)
        plain, rng = decoder(family), np.random.default_rng(5)
        texts, logits = [plain.text() for _ in range(3)], []
        for turn in range(12):
            text = texts[int(rng.integers(3))]
            logits.append(plain.feed(text, cases.tokens(turn, int(rng.integers(1, 150)))))
            if turn == 7:  # pages that are given back are taken again
                plain.cut(texts[0], len(texts[0].tokens) // 3)
        found.append(np.concatenate(logits))
        assert bool(moved) == (large == size)
    np.testing.assert_array_equal(*found)
    for number, names in enumerate(plain.window_states):
        for pool in map(plain.pool, names):
            ranges = sorted((begin, end) for address, begin, end in moved if address == pool.ctypes.data)
            filled = plain.pools[number].touched * pool.strides[0]
            if pool.nbytes < 1 << 20:
                continue
            assert [0, *(end for _, end in ranges)] == [
                *(begin for begin, _ in ranges),
                (filled + size // 2) // size * size,
            ]
