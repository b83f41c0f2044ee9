"""The disk cache of packed weights: what it believes, and that it leaves nothing half-written."""

from __future__ import annotations

import mmap
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

from MNN.cache.entries import TEMPORARY, Cache
from MNN.cache.eviction import keep_within
from MNN.cache.packed import Checks, PackedStore, checksum

NAME, OTHER = "ab" * 32, "cd" * 32
SIZE = 3 * (1 << 20) + 8200 + 5


def numbers(seed: int = 0, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def write(store: PackedStore, name: str = NAME, seed: int = 0) -> np.ndarray:
    draft = store.draft(name, SIZE)
    assert draft is not None
    assert not draft.numbers.any()
    draft.numbers[...] = numbers(seed)
    return draft.commit(store)


def test_what_is_written_is_found(tmp_path: pathlib.Path) -> None:
    store = PackedStore(tmp_path)
    assert store.find(NAME) is None
    first = write(store)
    found = PackedStore(tmp_path).find(NAME)
    assert found is not None
    for array in (first, found):
        np.testing.assert_array_equal(array, numbers())
        assert not array.flags.writeable
        assert array.ctypes.data % 64 == 0
    assert os.listdir(tmp_path / "packed") == [NAME]


@pytest.mark.skipif(not hasattr(mmap.mmap, "madvise"), reason="no advice on this system")
def test_systems_without_large_pages(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 1 << 20, raising=False)  # no advice that any system knows
    with mmap.mmap(-1, mmap.PAGESIZE) as anything, pytest.raises(OSError, match="Invalid argument"):
        anything.madvise(mmap.MADV_HUGEPAGE)
    write(PackedStore(tmp_path))
    found = PackedStore(tmp_path).find(NAME)
    assert found is not None
    np.testing.assert_array_equal(found, numbers())


@pytest.mark.parametrize(
    "damage", ["flip first", "flip middle", "flip last", "zero page", "truncate", "longer", "empty", "head", "name"]
)
def test_damaged_entries_are_absent_and_written_again(tmp_path: pathlib.Path, damage: str) -> None:
    store = PackedStore(tmp_path)
    write(store)
    path = tmp_path / "packed" / NAME
    data = bytearray(path.read_bytes())
    if damage.startswith("flip"):
        at = {"first": 4096, "middle": len(data) // 2, "last": len(data) - 1}[damage.split()[1]]
        data[at] ^= 1
    elif damage == "zero page":
        data[8192 : 8192 + 4096] = bytes(4096)
    elif damage == "head":
        data[10] ^= 1
    elif damage == "truncate":
        data = data[:-4096]
    elif damage == "longer":
        data += bytes(8)
    elif damage == "empty":
        data = bytearray()
    path.write_bytes(data)
    if damage == "name":
        path.rename(tmp_path / "packed" / OTHER)
    assert store.find(OTHER if damage == "name" else NAME) is None
    write(store)
    found = store.find(NAME)
    assert found is not None
    np.testing.assert_array_equal(found, numbers())


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_what_others_can_write_is_not_believed(tmp_path: pathlib.Path) -> None:
    store = PackedStore(tmp_path)
    write(store)
    path = tmp_path / "packed" / NAME
    path.chmod(0o666)
    assert store.find(NAME) is None
    path.unlink()
    elsewhere = tmp_path / "elsewhere"
    PackedStore(elsewhere)
    write(PackedStore(elsewhere))
    path.symlink_to(elsewhere / "packed" / NAME)
    assert store.find(NAME) is None
    (tmp_path / "packed").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others own it or can write to it"):
        assert PackedStore(tmp_path).folder is None


def test_a_draft_that_is_dropped_leaves_nothing(tmp_path: pathlib.Path) -> None:
    store = PackedStore(tmp_path)
    draft = store.draft(NAME, SIZE)
    assert draft is not None
    assert os.listdir(tmp_path / "packed")
    del draft
    assert os.listdir(tmp_path / "packed") == []


def test_two_writers_of_one_entry(tmp_path: pathlib.Path) -> None:
    store, other = PackedStore(tmp_path), PackedStore(tmp_path)
    drafts = [s.draft(NAME, SIZE) for s in (store, other)]
    for draft in drafts:
        assert draft is not None
        draft.numbers[...] = numbers()
    first, second = (d.commit(s) for d, s in zip(drafts, (store, other), strict=True) if d is not None)
    np.testing.assert_array_equal(first, second)
    assert os.listdir(tmp_path / "packed") == [NAME]


def test_the_least_recently_used_go_first(tmp_path: pathlib.Path) -> None:
    store = PackedStore(tmp_path, limit=4 * SIZE)
    names = [f"{i:064x}" for i in range(6)]
    for age, name in enumerate(names):
        write(store, name)
        os.utime(tmp_path / "packed" / name, (1e9 + age, 1e9 + age))
    old = tmp_path / "packed" / f"{TEMPORARY}left"
    old.write_bytes(b"x")
    os.utime(old, (1e9, 1e9))
    keep_within(tmp_path, 2 * SIZE + 3 * 4096)
    assert len(os.listdir(tmp_path / "packed")) <= 2
    assert store.find(names[-1]) is not None
    assert not old.exists()


def test_no_room_means_no_entry(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PackedStore(tmp_path, limit=SIZE - 1)
    assert store.draft(NAME, SIZE) is None

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    store = PackedStore(tmp_path)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert store.draft(NAME, SIZE) is None
    assert os.listdir(tmp_path / "packed") == []


def test_switched_off(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "_off_everywhere", True)
    assert PackedStore.default().folder is None
    assert PackedStore(None).find(NAME) is None
    assert PackedStore(None).draft(NAME, SIZE) is None


def test_the_checksum_sees_moved_and_changed_bytes() -> None:
    data = numbers()
    sums = {checksum(data), checksum(data[:-1]), checksum(np.roll(data, 8192 * 128)), checksum(np.roll(data, 1))}
    assert len(sums) == 4
    for at in (0, 5, 1 << 20, SIZE - 1):
        changed = data.copy()
        changed[at] ^= 128
        assert checksum(changed) not in sums


SESSION = """
import sys, numpy as np
from MNN.cache import packed
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session
rng = np.random.default_rng(0)
w = Value("w", DType.F32, (256, 300), rng.standard_normal((256, 300)).astype(np.float32))
x, y = Value("x", DType.F32, ("n", 256)), Value("y", DType.F32)
session = Session(Graph("g", [x], [y], [Node("MatMul", "m", [x, w], [y])]))
data = rng.standard_normal((70, 256)).astype(np.float32)
drafts = []
real = packed.PackedStore.draft
packed.PackedStore.draft = lambda *a: drafts.append(a) or real(*a)
found = session.run({"x": data})["y"]
assert np.allclose(found, data @ w.data, atol=1e-3), abs(found - data @ w.data).max()
print(len(drafts))
"""


def test_a_second_process_does_not_pack_again(tmp_path: pathlib.Path) -> None:
    def run() -> str:
        env = {**os.environ, "MNN_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", SESSION], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert run() == "1"
    assert run() == "0"
    entry = next((tmp_path / "packed").iterdir())
    with entry.open("r+b") as file:
        file.seek(5000)
        file.write(b"damaged")
    assert run() == "1"
    assert run() == "0"


@pytest.mark.parametrize("threads", [True, False])
def test_checks_may_come_later(tmp_path: pathlib.Path, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PackedStore(tmp_path)
    names = [f"{i:064x}" for i in range(4)]
    for name in names:
        draft = store.draft(name, 5000)
        assert draft is not None
        draft.numbers[:] = 7
        draft.commit(store)
    if not threads:
        monkeypatch.setattr(threading.Thread, "start", raising)
    again, checks = PackedStore(tmp_path), Checks()
    found = [again.find(name, checks) for name in names]
    assert all(numbers is not None and not again._mapped for numbers in found)
    checks.begin()
    assert checks.sound()
    assert sorted(again._mapped) == names
    with (tmp_path / "packed" / names[2]).open("r+b") as file:
        file.seek(8000)
        file.write(b"damage")
    last, checks = PackedStore(tmp_path), Checks()
    assert all(last.find(name, checks) is not None for name in names)
    checks.begin()
    assert not checks.sound()
    assert names[2] not in last._mapped
    assert last.find(names[2]) is None


def raising(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_checks_that_a_fork_cut_off_are_done_by_who_asks(tmp_path: pathlib.Path) -> None:
    store, name = PackedStore(tmp_path), "5" * 64
    draft = store.draft(name, 5000)
    assert draft is not None
    draft.commit(store)
    checks = Checks()
    again = PackedStore(tmp_path)
    assert again.find(name, checks) is not None
    checks._waiting.clear()  # taken by a thread that is gone
    assert checks.sound()
    assert list(again._mapped) == [name]
