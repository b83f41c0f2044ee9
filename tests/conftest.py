"""What all tests share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from importlib import metadata

import pytest

os.environ.setdefault("MNN_VERIFY", "1")  # every stage of every compilation, in child processes too

from MNN.backends.cpu.targets.base import _host_target, families, host_target
from MNN.backends.cpu.targets.host import processor
from tests import reference_sessions
from tests.budgets import pytest_configure as pytest_configure

reference_sessions.prepare()


def pytest_collection_finish() -> None:
    """Some 700,000 objects of tests and modules stay for the whole run: collections of garbage, of which tests ask for
    many, need not look at them each time (0.4 s)."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Python 3.10 has no newer ONNX Runtime than 1.23, which is wrong in places, and crashes in one."""
    mark = item.get_closest_marker("onnxruntime")
    if mark is None:
        return
    have, (need,) = metadata.version("onnxruntime"), mark.args
    if _numbers(have) >= _numbers(need):
        return
    if sys.version_info >= (3, 11):
        pytest.fail(f"ONNX Runtime {have} is too old to compare with; install {need} or newer")
    pytest.skip(f"ONNX Runtime {have} computes this in another way than {need} and newer ones")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


@pytest.fixture
def without_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what vectors compute: this processor, or one like it that has no matrix unit."""
    target = host_target()
    if any(feature.startswith("amx-") for feature in target.features):
        given = os.environ.get("MNN_TARGET", "").split(",")[1:]
        lent = [change for change in given if not change[1:].startswith("amx-")]
        own = sorted(f"-{feature}" for feature in families()["x86"].granted(processor()[0]) if "amx-" in feature)
        monkeypatch.setenv("MNN_TARGET", ",".join([target.name, *lent, *own]))


@pytest.fixture
def wide_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of 512 bits, emulated where the processor has none."""
    target = host_target()
    if target.family != "x86":
        pytest.skip("vectors of 512 bits are x86's")
    if target.vector_bytes != 64:
        monkeypatch.setenv("MNN_TARGET", "avx512,+avx512bf16,+avx512vnni")


@pytest.fixture
def weaker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes this machine one of a weaker target, less features that are optional there: ``"avx2 -avxvnni"``. With an
    empty text it stays what it is."""

    def lower(text: str) -> None:
        name, *without = text.split() or [""]
        if name:
            monkeypatch.setenv("MNN_TARGET", name)
        features, triple = processor()
        left = features - {feature.removeprefix("-") for feature in without}
        monkeypatch.setattr("MNN.backends.cpu.targets.base.processor", lambda: (left, triple))
        _host_target.cache_clear()

    yield lower
    monkeypatch.undo()
    _host_target.cache_clear()
