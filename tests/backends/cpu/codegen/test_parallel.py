"""Kernels compiled by several threads at once are those that one thread compiles."""

from __future__ import annotations

import contextvars
import threading
import time

import pytest

from MNN.backends.cpu.codegen import parallel, toolchain
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.codegen.parallel import side_by_side
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.lang.declarations import checked_build, is_checked
from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.backends.cpu.targets import host_target
from MNN.ir.dtype import DType

F32 = DType.F32


@pytest.fixture(autouse=True)
def _several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "workers", lambda: 3)


def test_objects_are_those_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("MNN.backends.cpu.codegen.library.workers", lambda: 3)
    target = host_target()
    specs = [TransposeSpec(size, batch) for size in (1, 2, 4, 8) for batch in (0, 1)]
    contractions = [ContractSpec(F32, F32, F32, F32, mr, 2, True) for mr in (1, 2, 3, 4, 5, 6)]
    library = Library(target)
    keys = {library.key(spec): spec for spec in (*specs, *contractions)}
    found = library._objects(keys)
    assert library.compiled == len(keys)
    for key, spec in keys.items():
        symbol, data = found[key]
        ir = toolchain.rename_entry(spec.emit(target), symbol)
        assert data == toolchain.compile_object(ir, target, spec.shaped)


def test_results_keep_their_order_and_threads_share_the_work() -> None:
    threads = set()

    def work(n: int) -> int:
        threads.add(threading.get_ident())
        time.sleep(0.02)
        return n * n

    assert side_by_side(work, range(12)) == [n * n for n in range(12)]
    assert len(threads) == 3


def test_what_one_raises_is_raised_when_all_have_stopped() -> None:
    at_work: list[int] = []

    def work(n: int) -> None:
        at_work.append(n)
        if n == 1:
            raise ValueError("bad")
        time.sleep(0.05)
        at_work.remove(n)

    with pytest.raises(ValueError, match="bad"):
        side_by_side(work, range(50))
    assert at_work == [1]


def test_checked_builds_are_checked_in_every_thread() -> None:
    def work(n: int) -> bool:
        time.sleep(0.02)
        return is_checked()

    with checked_build():
        assert all(side_by_side(work, range(6)))
    assert not contextvars.copy_context().run(is_checked)


def test_without_the_function_one_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(parallel, "_emission", lambda: None)
    assert parallel.workers() == 1
    spec, target = TransposeSpec(4, 1), host_target()
    assert Library(target).object(spec)[1]
