"""The limit of the cache holds whatever many sessions write, without each of them looking at all entries."""

from __future__ import annotations

import hashlib
import os
import pathlib
import time

import numpy as np
import pytest

from MNN.cache import eviction, ledger
from MNN.cache.entries import Cache
from MNN.cache.eviction import PARTS, clear
from MNN.cache.packed import PackedStore

LIMIT = 4_000_000


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As many numbers as times that the whole was looked at."""
    found: list[int] = []
    prune = eviction._prune

    def counted(folders: list[pathlib.Path], limit: int, wanted: int) -> int:
        found.append(prune(folders, limit, wanted))
        return found[-1]

    monkeypatch.setattr(eviction, "_prune", counted)
    monkeypatch.setenv("MNN_CACHE_LIMIT", f"{LIMIT}B")
    return found


def held(root: pathlib.Path) -> int:
    return sum(file.stat().st_size for part in PARTS if (root / part).is_dir() for file in (root / part).iterdir())


def put(root: pathlib.Path, number: int, nbytes: int, part: str = "objects") -> None:
    """As a session of its own does."""
    Cache(root, part).put(hashlib.sha256(b"%d" % number).hexdigest(), bytes(nbytes))


def test_sessions_do_not_look_at_all_entries_one_by_one(tmp_path: pathlib.Path, looks: list[int]) -> None:
    for i in range(60):
        put(tmp_path, i, 500, ("objects", "programs")[i % 2])
    assert len(looks) == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_limit_holds(tmp_path: pathlib.Path, looks: list[int], seed: int) -> None:
    rng, total, largest = np.random.default_rng(seed), 0, 200_000
    for i in range(300):
        nbytes, part = int(rng.integers(1, (3_000, largest)[int(rng.integers(2))])), rng.choice(list(PARTS))
        if part == "packed":
            store = PackedStore(tmp_path)
            draft = store.draft(hashlib.sha256(b"%d" % i).hexdigest(), nbytes)
            assert draft is not None
            draft.commit(store)
            nbytes += 4096
        else:
            put(tmp_path, i, nbytes, part)
        total += nbytes
        assert held(tmp_path) <= LIMIT + (largest if part == "packed" else 0)  # whose room is made beforehand
    assert held(tmp_path) > LIMIT // 2
    assert len(looks) < 3 + total / (LIMIT / 32)


@pytest.mark.parametrize("head", [b"", b"MNNGREW1", b"x" * 24, b"MNNGREW1" + bytes(16)])
def test_what_says_nothing_is_written_anew(tmp_path: pathlib.Path, looks: list[int], head: bytes) -> None:
    put(tmp_path, 0, 1000)
    (tmp_path / ledger._NAME).write_bytes(head)
    put(tmp_path, 1, 1000)
    put(tmp_path, 2, 1000)
    assert len(looks) == 2


def test_all_is_looked_at_once_a_day(tmp_path: pathlib.Path, looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 0, 1000)
    abandoned = tmp_path / "objects" / ".new-abc"
    abandoned.write_bytes(bytes(1000))
    os.utime(abandoned, (1e9, 1e9))
    put(tmp_path, 1, 1000)
    assert abandoned.exists()
    now = time.time()
    monkeypatch.setattr(ledger.time, "time", lambda: now + 90_000)
    put(tmp_path, 2, 1000)
    assert not abandoned.exists()
    monkeypatch.setattr(ledger.time, "time", lambda: now)  # the clock was put back
    put(tmp_path, 3, 1000)
    assert len(looks) == 3


def test_a_cleared_cache_is_looked_at(tmp_path: pathlib.Path, looks: list[int]) -> None:
    put(tmp_path, 0, 1000)
    assert clear(tmp_path)[0] == 1
    put(tmp_path, 1, 1000)
    assert looks == [1040, 1040]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="this system follows links")
def test_nothing_is_written_where_a_link_leads(tmp_path: pathlib.Path) -> None:
    """Parts are folders of their user alone; what lies beside them may be in one that others write to, too."""
    root, other = tmp_path / "cache", tmp_path / "other"
    root.mkdir(mode=0o700)
    other.write_bytes(b"somebody's")
    (root / "written").symlink_to(other)
    ledger.looked(root, 5)
    assert [ledger.grown(root, n, LIMIT) for n in (5000, LIMIT)] == [False, True]  # each process counts by itself then
    assert other.read_bytes() == b"somebody's"


def test_a_root_that_cannot_be_written(
    tmp_path: pathlib.Path, looks: list[int], recwarn: pytest.WarningsRecorder
) -> None:
    """Parts that can are used, within the limit, and the whole is not looked at for each entry."""
    (tmp_path / ledger._NAME).mkdir()  # also root cannot write to that
    for number in range(200):
        put(tmp_path, number, 60_000)
        assert held(tmp_path) <= LIMIT
    assert held(tmp_path) > LIMIT // 2
    assert 1 < len(looks) < 100
    assert not recwarn.list


def test_a_root_that_cannot_be_made_is_told_of_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("in the way")
    root = tmp_path / "file" / "mnn"
    with pytest.warns(RuntimeWarning) as caught:
        made = [Cache(root, "objects"), Cache(root, "measured"), PackedStore(root)]
    assert not any(one.folder for one in made)
    (said,) = {str(w.message) for w in caught}
    assert said.startswith(f"the cache {root} is not used: {root} cannot be made (")
    assert said.endswith("); MNN_CACHE_DIR can name another folder")
