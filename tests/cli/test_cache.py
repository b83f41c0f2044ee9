"""``mnn cache``: what is kept is listed, limited and removed; nothing else is touched."""

from __future__ import annotations

import os

import numpy as np
import pytest

import MNN
from MNN.cache.entries import Cache
from MNN.cache.eviction import DEFAULT_LIMIT, contents, keep_within, limit_of
from MNN.cache.notes import note_key, write_note
from MNN.cache.packed import PackedStore
from MNN.errors import MNNError
from MNN.runtime.storage.background import finish


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A cache of its own, with three kernels, one packed constant, one plan, and a measurement; each used a while
    after the one before."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MNN_CACHE_DIR", str(folder))
    monkeypatch.delenv("MNN_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    for i in range(3):
        Cache.default().put(f"{i:064x}", bytes(10_000))
    draft = PackedStore(folder).draft("a" * 64, 100_000)
    draft.commit(PackedStore(folder))
    Cache.default("programs").put("b" * 64, bytes(20_000))
    write_note(note_key("choices", ["x"]), {"a": 1})
    return folder


def _names(root):
    return {part: sorted(os.listdir(root / part)) for part in ("objects", "packed", "programs", "measured")}


def test_list_and_size(mnn, root):
    result = mnn("cache", "list")
    assert result.code == 0
    for text in ("compiled kernels", "packed weights", "plans of models", "measurements of this machine"):
        assert text in result.out
    (row,) = [line.split() for line in result.out.splitlines() if line.startswith("compiled kernels")]
    assert row[2] == "3"
    assert row[3:5] == ["30.1", "kB"]
    total = sum(f.stat().st_size for part in ("objects", "packed", "programs") for f in (root / part).iterdir())
    assert 150_000 < total < 160_000
    assert mnn("cache", "size").out == f"{total / 1000:.0f} kB of at most 4 GB in {root}\n"
    assert mnn("cache", "list").out.endswith(f"{total / 1000:.0f} kB of at most 4 GB in {root}\n")


def test_nothing_is_made_by_looking(mnn, tmp_path, monkeypatch):
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "none"))
    assert mnn("cache", "list").out == f"nothing is kept in {tmp_path / 'none'}\n"
    assert mnn("cache", "clear").out == f"removed 0 files, 0 B, from {tmp_path / 'none'}\n"
    assert not (tmp_path / "none").exists()


def test_clear_keeps_measurements_and_what_is_not_its_own(mnn, root):
    (root / "objects" / "thesis.o").write_text("mine")
    (root / "notes.txt").write_text("mine")
    result = mnn("cache", "clear")
    assert result.code == 0
    assert result.out.startswith("removed 5 files, 1")
    assert "was kept (--all removes that too)" in result.out
    assert _names(root) == {
        "objects": ["thesis.o"],
        "packed": [],
        "programs": [],
        "measured": os.listdir(root / "measured"),
    }
    assert len(os.listdir(root / "measured")) == 1
    assert mnn("cache", "clear", "--all").out.startswith("removed 1 file, ")
    assert os.listdir(root / "measured") == []
    assert (root / "notes.txt").exists()


def test_a_cleared_cache_is_filled_again(root, mnn, digits):
    wanted = MNN.load(str(digits)).run({"image": np.ones((1, 1, 8, 8), np.float32)})
    assert mnn("cache", "clear").code == 0
    again = MNN.load(str(digits)).run({"image": np.ones((1, 1, 8, 8), np.float32)})
    np.testing.assert_array_equal(wanted["probability"], again["probability"])


def _age(root):
    """In the order in which they were used last: kernel 1, the packed constant, kernel 0, the plan, kernel 2."""
    for age, name in enumerate([f"objects/{1:064x}.o", "packed/" + "a" * 64, f"objects/{0:064x}.o",
                                "programs/" + "b" * 64 + ".o", f"objects/{2:064x}.o"]):  # fmt: skip
        os.utime(root / name, (1e9 + age, 1e9 + age))


def test_what_was_used_longest_ago_goes_first_of_all_parts(root):
    _age(root)
    keep_within(root, 45_000)
    left = _names(root)
    assert left["objects"] == [f"{0:064x}.o", f"{2:064x}.o"]
    assert left["packed"] == []
    assert left["programs"] == ["b" * 64 + ".o"]
    assert len(left["measured"]) == 1


def test_reading_counts_as_using(root):
    _age(root)
    assert Cache.default().get(f"{1:064x}") == bytes(10_000)
    keep_within(root, 15_000)
    assert _names(root)["objects"] == [f"{1:064x}.o"]


def test_a_limit_that_is_set_holds_from_then_on(mnn, root, monkeypatch):
    _age(root)
    result = mnn("cache", "size", "--limit", "45kB")
    assert result.out == f"40.1 kB of at most 45 kB in {root}\n"
    for i in range(10, 20):
        Cache.default().put(f"{i:064x}", bytes(10_000))
    assert sum(p.nbytes for p in contents(root) if p.name != "measured") <= 45_000
    monkeypatch.setenv("MNN_CACHE_LIMIT", "30kB")
    Cache.default().put("c" * 64, bytes(10_000))
    assert sum(p.nbytes for p in contents(root) if p.name != "measured") <= 30_000
    monkeypatch.delenv("MNN_CACHE_LIMIT")
    assert mnn("cache", "size", "--limit", "default").out.endswith(f" of at most 4 GB in {root}\n")
    assert limit_of(root) == DEFAULT_LIMIT


def test_packed_weights_share_the_limit(root, monkeypatch):
    monkeypatch.setenv("MNN_CACHE_LIMIT", "250kB")
    store = PackedStore(root)
    assert store.draft("d" * 64, 300_000) is None
    for i in range(4):
        store.draft(f"{i:064x}", 100_000).commit(store)
    assert sum(p.nbytes for p in contents(root) if p.name != "measured") <= 350_000  # checked before each is written


def test_limits_that_are_none(mnn, refused, root, monkeypatch):
    for text in ("much", "3"):  # three bytes are hardly meant
        assert f"--limit is a size such as 500MB or 2GB, not '{text}'" in refused("cache", "size", "--limit", text)
    assert len(contents(root)) == 4
    finish()  # what other tests left to be stored would meet the limits that follow
    monkeypatch.setenv("MNN_CACHE_LIMIT", "1GB")
    assert "MNN_CACHE_LIMIT is set to 1GB and goes before" in refused("cache", "size", "--limit", "2GB")
    assert mnn("cache", "size").out.endswith(f" of at most 1 GB in {root}\n")
    monkeypatch.setenv("MNN_CACHE_LIMIT", "much")
    assert "MNN_CACHE_LIMIT is a size such as 500MB or 2GB, not 'much'" in refused("cache", "size")
    with pytest.raises(MNNError, match="MNN_CACHE_LIMIT is a size"):
        Cache.default()


def test_without_room_nothing_stays(root, monkeypatch):
    monkeypatch.setenv("MNN_CACHE_LIMIT", "0")
    Cache.default().put("f" * 64, b"x")
    assert [p.name for p in contents(root)] == ["measured"]
