"""What is given back to the system: pages of files after packing, LLVM's tables, never what the loader wrote to."""

from __future__ import annotations

import errno
import mmap
import os
import pathlib
import re
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.targets.base import host_target
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session
from MNN.runtime.storage.background import finish
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
    assert llvm.llvm_version_info  # which loads it
    text = pathlib.Path("/proc/self/smaps").read_text()
    found = [part for part in toolchain._unchanged(text) if "libllvmlite" in part[0]]
    whole = re.findall(r"^(\w+)-(\w+) (\S+) .*libllvmlite.*\n(?:[A-Z]\w+:.*\n)*?Anonymous: +(\d+)", text, re.MULTILINE)
    assert {(int(a, 16), int(b, 16)) for a, b, kind, own in whole if kind in ("r-xp", "r--p") and own == "0"} == {
        (begin, end) for _, begin, end in found
    }
    assert any(kind == "r--p" and own != "0" for _, _, kind, own in whole)  # where the loader put addresses


def test_libraries_that_wait_take_no_memory() -> None:
    assert llvm.llvm_version_info
    toolchain.release_memory()
    assert code_in_memory("libllvmlite|openblas") < 4096
    assert np.linalg.norm(np.arange(5.0)) == pytest.approx(30**0.5)  # and come back


@pytest.mark.parametrize("name", [b"\xff.mnn", "\u2028-\u2028.mnn".encode(), "\u2028\u2028 a.so".encode()], ids=ascii)
def test_files_of_any_name_may_be_in_memory(name: bytes, tmp_path: pathlib.Path) -> None:
    """As a model file is that weights are read from."""
    path = os.path.join(os.fsencode(tmp_path), name)
    with open(path, "w+b") as file:
        file.write(b"weights")
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            assert llvm.llvm_version_info
            toolchain.release_memory()
            assert code_in_memory("libllvmlite") < 4096
            assert held[:] == b"weights"


def test_memory_that_nothing_is_known_about_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(path: pathlib.Path) -> bytes:
        raise OSError(errno.EMFILE, "too many open files", str(path))

    monkeypatch.setattr(pathlib.Path, "read_bytes", none)
    assert llvm.llvm_version_info
    toolchain.release_memory()


def code_in_memory(libraries: str) -> int:
    """Kilobytes of the code of libraries."""
    text = pathlib.Path("/proc/self/smaps").read_text(errors="surrogateescape")
    rows = re.findall(rf"^\w+-\w+ r-xp .*(?:{libraries}).*\n(?:[A-Z]\w+:.*\n)*?Rss: +(\d+)", text, re.MULTILINE)
    assert len(rows) > libraries.count("|")
    return sum(map(int, rows))


def test_what_plans_at_once_leave_in_memory_is_given_back_when_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiles() -> None:
        toolchain.compile_object("define void @kernel() {\n ret void\n}", host_target())
        toolchain.release_memory_sometimes()

    finish()
    monkeypatch.setattr(toolchain._Releases, "next", 0.0)
    monkeypatch.setattr(toolchain, "_RELEASE_SHARE", 1e-4)  # however long this process has to wait for its turn
    compiles()
    assert code_in_memory("libllvmlite") < 4096  # before weights come
    compiles()
    assert code_in_memory("libllvmlite") > 4096
    x, y = Value("x", DType.F32, (2,)), Value("y", DType.F32)
    Session(Graph("g", [x], [y], [Node("ReLU", "act", [x], [y])])).run({"x": np.ones(2, np.float32)})  # any plan
    finish()
    assert code_in_memory("libllvmlite") < 4096


def test_a_library_that_is_gone_is_left_alone() -> None:
    assert not toolchain._stays("/no/such/library.so")
