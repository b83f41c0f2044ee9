"""What is given back to the system: pages of files after packing, LLVM's tables, never what the loader wrote to."""

from __future__ import annotations

import os
import pathlib
import re
import sys

import numpy as np
import pytest

from MNN.compiler.constants import ConstantPool
from MNN.kernels import toolchain
from MNN.schema.files import MappedFile, open_regular, release

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
COUNT = 1 << 18


@pytest.fixture
def numbers(tmp_path: pathlib.Path) -> np.ndarray:
    """A megabyte of a mapped file, every page of it read."""
    path = tmp_path / "weights"
    path.write_bytes(np.arange(1, COUNT + 1, dtype=np.float32).tobytes())
    with open_regular(path) as file:
        array = np.frombuffer(MappedFile.of(file, path), np.float32)
    assert array.sum() > 0
    assert resident(path) > 1000
    return array


def resident(path: pathlib.Path) -> int:
    """Kilobytes of a file that are in this process's memory."""
    text = pathlib.Path("/proc/self/smaps").read_text()
    found = re.search(rf"{re.escape(os.fspath(path))}\n(?:.*\n)*?Rss:\s+(\d+)", text)
    assert found is not None
    return int(found.group(1))


@pytest.mark.parametrize("form", ["whole", "transposed", "reversed", "reshaped"])
def test_arrays_of_files_are_released_whatever_their_strides(
    numbers: np.ndarray, form: str, tmp_path: pathlib.Path
) -> None:
    whole = numbers.copy()
    views = {"whole": numbers, "transposed": numbers.reshape(512, 512).T, "reversed": numbers[::-1]}
    release(views.get(form, numbers.reshape(4, -1, 64)))
    assert resident(tmp_path / "weights") < 16
    np.testing.assert_array_equal(numbers, whole)


def test_only_the_pages_of_the_array_itself_are_released(numbers: np.ndarray, tmp_path: pathlib.Path) -> None:
    release(numbers[: COUNT // 2])
    assert 500 <= resident(tmp_path / "weights") <= 516
    release(numbers[:0])
    release(np.zeros(10))
    assert 500 <= resident(tmp_path / "weights") <= 516


def test_looking_for_outliers_leaves_nothing_in_memory(numbers: np.ndarray, tmp_path: pathlib.Path) -> None:
    pool = ConstantPool()
    assert pool.even(("w",), numbers)
    assert resident(tmp_path / "weights") < 16
    far = numbers.copy()
    far[7] = 1e12
    assert not pool.even(("far",), far)
    assert pool.even(("zero",), np.zeros(5, np.float32))
    assert not pool.even(("nan",), np.full(5, np.nan, np.float32))


def test_what_the_loader_filled_in_is_told_from_the_file() -> None:
    maps = [line.split(maxsplit=5) for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    library = {words[5] for words in maps if len(words) == 6 and "libllvmlite" in words[5]}
    assert len(library) == 1
    ranges = toolchain._filled_in(library.pop())
    writable = [int(w[2], 16) for w in maps if len(w) == 6 and "libllvmlite" in w[5] and w[1] == "rw-p"]
    assert writable
    assert all(any(begin <= place < end for begin, end in ranges) for place in writable)


def test_a_file_that_is_no_library_counts_as_filled_in(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\2\1" + bytes(20))
    assert toolchain._filled_in(os.fspath(tmp_path / "x")) == [(0, sys.maxsize)]
    assert toolchain._filled_in(os.fspath(tmp_path / "absent")) == [(0, sys.maxsize)]
