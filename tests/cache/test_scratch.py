"""Arrays in files without names: the same numbers, which need no memory once they were looked at."""

from __future__ import annotations

import re
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from MNN.cache import scratch as module
from MNN.cache.scratch import SMALLEST, Scratch, apart, scratch
from MNN.ir.quant import QuantizedArray
from MNN.ops.linear.compressed import _computable
from MNN.schema.files import origin, release

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems keep arrays where they are")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """How much is free on the disk, as told; files are small ones."""
    found = types.SimpleNamespace(free=1 << 40)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: found)
    monkeypatch.setattr(module, "_FILE", 4 << 20)
    return found


def resident() -> int:
    """Bytes in memory of files that have no name any more."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith("(deleted)")
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_same_numbers(disk: types.SimpleNamespace, tmp_path: Path, seed: int) -> None:
    """Of any kind and shape, in several files, some larger than one."""
    rng, room, before = np.random.default_rng(seed), Scratch(lambda: tmp_path), resident()
    kept = []
    for size in [*rng.integers(1, 3 << 19, 12).tolist(), 3 << 20, SMALLEST // 4 - 1]:
        kind = rng.choice(np.array(["u1", "f4", "f2", "i8"], "U2"))
        data = rng.integers(0, 200, (size // 8, 2)).astype(kind)
        kept.append((data.copy(), data, room.take(data)))
    for copy, data, found in kept:
        assert (found.dtype, found.shape) == (copy.dtype, copy.shape)
        np.testing.assert_array_equal(found, copy)
        assert (found is data) == (data.nbytes < SMALLEST)
        if found is not data:
            assert not found.flags.writeable
            place = origin(found)
            assert place is not None
            assert (place[0].identity, place[1] % 4096) == ("", 0)
    taken = sum(found.nbytes for _, data, found in kept if found is not data)
    assert resident() - before >= taken
    for _, _, found in kept:
        release(found)
    assert resident() - before < taken / 20 + 65536 * len(kept)
    for copy, _, found in kept:
        np.testing.assert_array_equal(found, copy)  # they are read again
    assert list(tmp_path.iterdir()) == []


def test_scales_are_given_back(disk: types.SimpleNamespace, tmp_path: Path) -> None:
    """Every plan looks at scales and offsets of low-bit weights; packed ones are what it then uses."""
    rows, blocks = 4096, 64
    numbers = [np.random.default_rng(i).random((rows, blocks), np.float32) for i in range(2)]
    room, before = Scratch(lambda: tmp_path), resident()
    scale, offset = (room.take(n) for n in numbers)
    weight = QuantizedArray(np.zeros((rows, 16 * blocks), np.uint8), scale, offset, 4, (rows, 32 * blocks), 4)
    assert _computable(weight)
    assert resident() - before < scale.nbytes / 10
    np.testing.assert_array_equal(scale, numbers[0])
    assert resident() - before >= scale.nbytes
    numbers[1][3, 3] = np.nan
    assert not _computable(replace(weight, offset=numbers[1]))


def test_no_room(disk: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays stay where they are: on a full disk, in a folder that cannot be written, without a cache."""
    data = np.arange(100_000)
    disk.free = 5 << 20
    assert Scratch(lambda: tmp_path).take(data) is data
    disk.free = 1 << 40
    assert Scratch(lambda: tmp_path / "none").take(data) is data
    assert Scratch(lambda: None).take(data) is data
    assert apart(data) is data
    with scratch(wanted=False):
        assert apart(data) is data
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    with scratch():
        assert apart(data) is not data
    assert apart(data) is data

    def full(*arguments: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(module.os, "posix_fallocate", full)
    assert Scratch(lambda: tmp_path).take(data) is data


def test_the_first_stay(disk: types.SimpleNamespace, tmp_path: Path) -> None:
    """Few weights cost less where they are; texts and what lies in a file already stay, too."""
    room = Scratch(lambda: tmp_path, stays=3 * SMALLEST)
    drawn = [np.random.default_rng(i).random(SMALLEST // 4, np.float32) for i in range(6)]
    assert [room.take(a) is a for a in drawn] == [True, True, True, False, False, False]
    moved = room.take(drawn[5])
    assert room.take(moved) is moved
    texts = np.full(SMALLEST, "text", object)
    assert room.take(texts) is texts


def test_matrices_lie_as_they_lay(disk: types.SimpleNamespace, tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).random((300, 200), np.float32)
    moved = Scratch(lambda: tmp_path).take(matrix.T)
    assert moved.T.flags.c_contiguous
    assert not moved.flags.c_contiguous
    np.testing.assert_array_equal(moved, matrix.T)
