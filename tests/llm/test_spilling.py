"""Caches that are larger than the memory they may have: the same numbers, and no more memory than is told."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.engine.paged import PagedDecoder, Work
from MNN.llm.engine.spilling import Spilling
from MNN.llm.models.cache import PAGE, CacheForm
from MNN.llm.models.families import build
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.llm import cases
from tests.llm.check import Arrays, table_of
from tests.llm.test_families import RECORDED

PAGES = 48


def decoder(family: str, spilling: Spilling | None) -> PagedDecoder:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data, cache = Arrays(cases.weights(notes["shapes"], notes["seed"])), CacheForm(32, 32, PAGES, PAGES)
    net = build(notes["config"], data, cache=cache)
    session = Session(net.graph, Config(precision="high", cache=False), None, net.states)
    table = table_of(data[net.embeddings])
    return PagedDecoder(session, net.states, cache, table, PAGES * PAGE, spilling=spilling)


def mapped(folder: Path) -> int:
    """Bytes of files in a folder that this process has in memory."""
    found, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = str(folder) in line
        elif ours and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


@pytest.mark.parametrize("family", ["llama", "gemma2", "deepseek_v2"])
def test_the_same_numbers_in_less_memory(tmp_path: Path, family: str) -> None:
    plain = decoder(family, None)
    page = sum(pool.strides[0] for names in plain.window_states for pool in map(plain.pool, names))
    spilling = Spilling(4 * page, tmp_path)
    spilled, rng, both = decoder(family, spilling), np.random.default_rng(4), []
    spilled.pool(spilled.window_states[0][0])  # the same plans, for the same rounding
    for one in (plain, spilled):
        texts = [one.text() for _ in range(5)]
        both.append(texts)
    most, everything = 0, 0
    for turn in range(16):
        chosen = rng.choice(5, int(rng.integers(1, 4)), replace=False)
        given = [cases.tokens(100 * turn + int(i), int(rng.integers(1, 150))) for i in chosen]
        if turn == 9:  # a text that others begin with, and one that goes back
            for one, texts in zip((plain, spilled), both, strict=True):
                texts[0] = one.fork(texts[1])
                one.cut(texts[2], len(texts[2].tokens) // 2)
        found = [
            one.step([Work(texts[i], tokens, min(3, len(tokens))) for i, tokens in zip(chosen, given, strict=True)])
            for one, texts in zip((plain, spilled), both, strict=True)
        ]
        for wanted, same in zip(*found, strict=True):
            assert np.array_equal(wanted, same)
        most, everything = max(most, spilling.resident), max(everything, plain.pools[0].used * page)
    assert everything > 2 * spilling.budget  # there was something to spill
    assert 0 < most <= spilling.budget
    edges = 2 * 4096 * PAGES * sum(map(len, spilled.window_states))  # of pages that begin within the system's
    assert mapped(tmp_path) <= spilling.budget + edges
    both.clear()
    del texts
    gc.collect()
    assert all(pool.used == 0 for pool in spilled.pools)


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(MNNError, match="cache_memory is 0"):
        Spilling(0, tmp_path)
    with pytest.raises(MNNError, match="has no room for"):
        Spilling(1 << 20, tmp_path).zeros(1 << 60)
    assert not list(tmp_path.iterdir())
