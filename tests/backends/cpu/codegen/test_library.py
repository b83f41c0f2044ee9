"""Compiling, caching and loading of kernels."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen import library, toolchain
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.lang.module import F32, Kernel
from MNN.backends.cpu.targets import Target, host_target
from MNN.cache.entries import Cache


@dataclasses.dataclass(frozen=True)
class ScaleSpec(KernelSpec):
    """y = x * factor, for tests."""

    factor: int

    def slots(self) -> tuple[str, ...]:
        return ("x", "y", "n")

    def emit(self, target: Target) -> str:
        k = Kernel(self.slots())
        with k.b.loop(0, k.slot("n")) as loop:
            x = k.b.load(F32, k.b.gep(k.pointer("x"), F32, loop.index))
            k.b.store(x * float(self.factor), k.b.gep(k.pointer("y"), F32, loop.index))
        return k.finish()


def call(address: int, factor: int) -> None:
    x = np.arange(5, dtype=np.float32)
    y = np.zeros(5, np.float32)
    args = np.array([x.ctypes.data, y.ctypes.data, 5], np.int64)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)
    kernel(args.ctypes.data, 0, 1, None)
    np.testing.assert_array_equal(y, x * factor)


@pytest.fixture(autouse=True)
def _fresh_process_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_LOADED", {})


def test_load_dedupes_and_keeps_order(tmp_path: pathlib.Path) -> None:
    lib = Library(host_target(), Cache(tmp_path))
    a, b, c = lib.load([ScaleSpec(2), ScaleSpec(3), ScaleSpec(2)])
    assert a == c != b
    assert lib.compiled == 2
    call(a, 2)
    call(b, 3)
    assert Library(host_target()).load([ScaleSpec(2)]) == [a]  # one copy per process


def test_second_process_finds_the_objects(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Library(host_target(), Cache(tmp_path)).load([ScaleSpec(2)])
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(ScaleSpec, "emit", None)  # a hit emits nothing
    lib = Library(host_target(), Cache(tmp_path))
    call(lib.load([ScaleSpec(2)])[0], 2)
    assert lib.compiled == 0


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "swap", "link"])
def test_damaged_entries_are_rewritten(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    Library(host_target(), Cache(tmp_path)).load([ScaleSpec(2)])
    first = next((tmp_path / "objects").glob("*.o"))
    good = first.read_bytes()
    if damage == "flip":
        first.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    elif damage == "truncate":
        first.write_bytes(good[:-5])
    elif damage == "empty":
        first.write_bytes(b"")
    elif damage == "swap":
        Library(host_target(), Cache(tmp_path)).load([ScaleSpec(3)])
        other = next(p for p in (tmp_path / "objects").glob("*.o") if p != first)
        first.write_bytes(other.read_bytes())
    else:
        (tmp_path / "elsewhere").write_bytes(good)
        first.unlink()
        first.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(library, "_LOADED", {})
    lib = Library(host_target(), Cache(tmp_path))
    call(lib.load([ScaleSpec(2)])[0], 2)
    assert lib.compiled == 1
    assert first.read_bytes() == good
    assert not first.is_symlink()


def test_a_folder_others_can_write_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others own it or can write"):
        cache = Cache(tmp_path)
    cache.put("k", b"data")
    assert cache.get("k") is None
    assert not list((tmp_path / "objects").iterdir())


def test_a_parent_others_can_write_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="can be written by others"):
        assert Cache(tmp_path / "open" / "inner").folder is None


def test_the_folder_is_private_and_writes_leave_nothing_behind(tmp_path: pathlib.Path) -> None:
    cache = Cache(tmp_path / "new")
    cache.put("k", b"data")
    assert cache.get("k") == b"data"
    folder = tmp_path / "new" / "objects"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in folder.iterdir()] == ["k.o"]


def test_a_full_disk_turns_the_cache_off(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put("k", b"data")
    assert not list((tmp_path / "objects").iterdir())
    assert cache.get("k") is None


def test_prune_deletes_the_oldest(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    for i in range(4):
        cache.put(f"{i:064x}", bytes(1000))
        os.utime(tmp_path / "objects" / f"{i:064x}.o", (i, i))
    monkeypatch.setenv("MNN_CACHE_LIMIT", "2500B")
    cache.prune()
    assert sorted(p.name for p in (tmp_path / "objects").iterdir()) == [f"{i:064x}.o" for i in (2, 3)]


def test_two_processes_may_write_at_once(tmp_path: pathlib.Path) -> None:
    code = (
        "import sys\nfrom MNN.cache.entries import Cache\nc = Cache(sys.argv[1])\n"
        "for i in range(300):\n"
        "    data = c.get('k')\n    assert data is None or data == bytes(50000), 'torn entry'\n"
        "    c.put('k', bytes(50000))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    runs = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) for _ in range(2)]
    assert [r.wait(60) for r in runs] == [0, 0]


def test_threads_load_the_same_kernel_once(tmp_path: pathlib.Path) -> None:
    lib = Library(host_target(), Cache(tmp_path))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.extend(lib.load([ScaleSpec(5)]))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 1
    assert lib.compiled == 1


def test_spec_keys_tell_fields_apart() -> None:
    assert ScaleSpec(2).key() == "ScaleSpec(factor=2)"
    with pytest.raises(ValueError, match="exactly once"):
        toolchain.rename_entry("define void @other() { ret void }", "x")


def test_llvm_comes_back_after_it_was_let_go(tmp_path: pathlib.Path) -> None:
    lib = Library(host_target(), Cache(tmp_path))
    first = lib.load([ScaleSpec(2)])[0]
    toolchain.release_memory()
    call(first, 2)
    call(lib.load([ScaleSpec(3)])[0], 3)
    assert lib.compiled == lib.loaded == 2
