"""What a machine can do is found once, and remembered where that is wanted."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from MNN.backends.cpu.targets import host
from MNN.cache.entries import Cache

SOURCE = str(pathlib.Path(__file__).parents[4] / "src")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    host.processor.cache_clear()


def asked() -> tuple[frozenset[str], str]:
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on), llvm.get_process_triple()


def python(code: str, folder: pathlib.Path) -> str:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "MNN_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_what_llvm_says(tmp_path: pathlib.Path) -> None:
    assert host.processor() == asked()
    assert not (tmp_path / "cache").exists()  # asking leaves nothing behind
    host.remember()
    host.processor.cache_clear()
    assert host.processor() == asked()


@pytest.mark.skipif(not host._key(), reason="this processor does not say what it is")
def test_remembered_without_llvm(tmp_path: pathlib.Path) -> None:
    asks = "from MNN.backends.cpu.targets import host_target; key = host_target().key()"
    code = f"import sys; {asks}; print(key, 'llvmlite.binding' in sys.modules)"
    first = python(code, tmp_path / "cache")
    assert first.endswith(" True\n")
    host.remember()
    assert python(code, tmp_path / "cache") == first.replace(" True\n", " False\n")


@pytest.mark.skipif(not host._key(), reason="this processor does not say what it is")
@pytest.mark.parametrize("note", [b"", b"{}", b"[1]", json.dumps([None, "x"]).encode(), b"\xff"])
def test_nonsense_is_not_believed(note: bytes) -> None:
    Cache.default("measured").put(host._key(), note)
    assert host.processor() == asked()


def test_every_core_says_the_same() -> None:
    first = host._said()
    if not hasattr(os, "sched_setaffinity"):
        assert host._said() == first
        return
    allowed = os.sched_getaffinity(0)
    try:
        for core in allowed:
            os.sched_setaffinity(0, {core})
            assert host._said() == first
    finally:
        os.sched_setaffinity(0, allowed)
