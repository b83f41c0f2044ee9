"""Careless use of sessions: many threads, forks, failures in between, more workers than cores, ever new sizes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.errors import MNNError, RunError
from MNN.frontends.onnx.load import load
from MNN.runtime import executor
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor, PlanCache
from MNN.runtime.session import Session
from tests.hostile.models import attention, digits, sequence
from tests.hostile.operators import CASES, Case
from tests.hostile.test_limits import chain

ROOT = Path(__file__).parents[2]


def pictures(count: int = 1) -> dict[str, np.ndarray]:
    (value,) = load(digits()).inputs
    assert value.shape is not None
    shape = [count, *(int(d) for d in value.shape[1:])]
    return {value.name: np.random.default_rng(count).random(shape).astype(np.float32)}


def tokens(batch: int, length: int) -> dict[str, np.ndarray]:
    return {"tokens": np.random.default_rng(length).integers(0, 20, (batch, length))}


def sounds(steps: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(steps).normal(size=(steps, 2, 4)).astype(np.float32)}


def at_once(*jobs: Callable[[], None]) -> None:
    """Runs the jobs in threads of their own that start together; raises what any of them raised."""
    gate, errors = threading.Barrier(len(jobs)), []

    def work(job: Callable[[], None]) -> None:
        gate.wait()
        try:
            job()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(t.is_alive() for t in threads), "a thread hangs"
    if errors:
        raise errors[0]


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_of_several_threads_at_once(threads: int) -> None:
    """Different models and the same, planning and running at the same time."""
    models = [(digits(), pictures()), (attention(), tokens(2, 5)), (sequence(), sounds(6)), (digits(), pictures())]

    def job(data: bytes, feeds: dict[str, np.ndarray]) -> Callable[[], None]:
        wanted = Session(load(data), Config(reference=True)).run(feeds)

        def run() -> None:
            session = Session(load(data), Config(threads=threads))
            for _ in range(30):
                same(session.run(feeds), wanted)

        return run

    at_once(*(job(*model) for model in models))


@pytest.mark.parametrize("threads", [1, 2])
def test_one_session_from_several_threads(threads: int) -> None:
    """Each thread gets the answers to its own inputs, of sizes that differ from thread to thread."""
    session = Session(load(attention()), Config(threads=threads))
    reference = Session(load(attention()), Config(reference=True))

    def job(length: int) -> Callable[[], None]:
        feeds = tokens(1, length)
        wanted = reference.run(feeds)

        def run() -> None:
            for _ in range(40):
                same(session.run(feeds), wanted)

        return run

    at_once(*(job(n) for n in (3, 4, 4, 7)))


@pytest.mark.parametrize("reference", [False, True], ids=["kernels", "meaning"])
def test_a_session_works_after_it_failed(reference: bool) -> None:
    """An index out of range in the data, wrong shapes, missing inputs: each raises, and the next run is right."""
    session = Session(load(attention()), Config(reference=reference))
    feeds = tokens(2, 5)
    wanted = session.run(feeds)
    for _ in range(3):
        for wrong in (20, -21, 2**40, -(2**63)):
            bad = feeds["tokens"].copy()
            bad[1, 4] = wrong
            with pytest.raises(RunError, match=r"gather|Gather|index"):
                session.run({"tokens": bad})
            same(session.run(feeds), wanted)
        for nonsense in ({}, {"tokens": np.zeros(3, np.int64)}, {"tokens": np.zeros((1, 2), np.float32)}, {"other": 1}):
            with pytest.raises(MNNError):
                session.run(nonsense)  # type: ignore[arg-type]
        same(session.run(feeds), wanted)


def test_a_failing_session_leaves_others_alone() -> None:
    good, bad = Session(load(attention()), Config(threads=2)), Session(load(attention()), Config(threads=2))
    feeds = tokens(2, 5)
    wanted = good.run(feeds)

    def fails() -> None:
        for _ in range(40):
            with pytest.raises(RunError):
                bad.run({"tokens": np.full((2, 5), 99)})

    def works() -> None:
        for _ in range(40):
            same(good.run(feeds), wanted)

    at_once(fails, works)


def test_a_failure_in_the_middle_of_a_loop() -> None:
    case = next(c for c in _cases("Loop") if c.inputs[0] == 40)
    session = Session(load(case.model()), Config(time_limit=60))
    wanted = session.run({"x2": np.ones(2, np.float32)})
    with pytest.raises(MNNError):
        session.run({"x2": np.ones(3, np.float32)})
    same(session.run({"x2": np.ones(2, np.float32)}), wanted)


def _cases(op: str) -> list[Case]:
    return [c for c in CASES if c.op == op]


@pytest.mark.parametrize("threads", [3, 16, 64, 256])
def test_more_workers_than_cores(threads: int) -> None:
    feeds = pictures()
    wanted = Session(load(digits()), Config(reference=True)).run(feeds)
    session = Session(load(digits()), Config(threads=threads))
    for _ in range(5):
        same(session.run(feeds), wanted)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the memory of a process")
def test_ever_new_sizes_take_bounded_memory() -> None:
    """30 sizes in turn, several times over: more plans than are kept. Memory and kernels stop growing."""
    session = Session(load(attention()), Config(cache=False))
    library = session._executor.backend.library
    resident, compiled = [], []
    for _ in range(5):
        for length in range(1, 31):
            found = session.run(tokens(3, length))
            assert all(np.isfinite(a).all() for a in found.values())
        resident.append(_resident())
        compiled.append(library.compiled)
    assert compiled[-1] == compiled[0], compiled
    assert resident[-1] - resident[1] < 8 << 20, [r >> 20 for r in resident]


def test_plans_of_large_inputs_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is bounded in bytes too: 30 sizes of 2 to 60 MiB never hold more than the limit and one plan."""
    limit = 64 << 20
    monkeypatch.setattr(executor, "PLAN_BYTES", limit)
    session = Session(chain(0), Config(cache=False))
    plans = session._executor._plans
    assert isinstance(plans, PlanCache)
    for count in [*range(1, 31), *range(30, 0, -1)]:
        x = np.ones((count * 256, 1024), np.float32)
        session.run({"x": x})
        held = [plan.bound for many in plans._plans.values() for plan in many]
        blocks = {bound.block: bound.block.used for bound in held if isinstance(bound, BoundProgram)}
        assert sum(blocks.values()) <= max(limit, held[-1].program.arena_bytes)
        assert plans.nbytes() == sum(blocks.values()) >= held[-1].program.arena_bytes
    assert len(plans._plans) >= 2


FORK = """
import os, sys, threading
import numpy as np
from MNN.frontends.onnx.load import load
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.hostile.models import attention, digits
from tests.hostile.test_sessions import pictures, same, tokens
session = Session(load(digits()), Config(threads=2))
feeds, other = pictures(), tokens(2, 5)
wanted, wanted_other = session.run(feeds), Session(load(attention()), Config(reference=True)).run(other)
stop = threading.Event()
def work():
    while not stop.is_set():
        session.run(feeds)
busy = threading.Thread(target=work)
if sys.argv[1] == "busy":
    busy.start()
for _ in range(10):
    child = os.fork()
    if not child:
        try:
            for _ in range(3):
                same(session.run(feeds), wanted)                       # the parent's session
            same(Session(load(attention()), Config(threads=2)).run(other), wanted_other)  # one of its own
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status
    same(session.run(feeds), wanted)
stop.set()
print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("parent", ["idle", "busy"])
def test_fork_after_a_run(parent: str) -> None:
    """A child uses the parent's session and one of its own, also when a thread of the parent was inside of a run."""
    found = _python(FORK, parent)
    assert (found.returncode, found.stdout.strip()) == (0, "fine"), found.stderr[-2000:]


def _python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# -- the kernel cache, as whole processes use it ----------------------------------------------------------------------

ANSWER = """
import sys, warnings
from MNN.frontends.onnx.load import load
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.hostile.models import digits
from tests.hostile.test_sessions import pictures
warnings.simplefilter("always")
session = Session(load(digits()), Config(cache=sys.argv[1] == "cache"))
(found,) = session.run(pictures()).values()
print(session._executor.backend.library.compiled, found.tobytes().hex())
"""


def _answers(folder: Path, mode: str = "cache") -> tuple[int, str, str]:
    """Kernels compiled by a fresh process, the answer, and what it said on stderr."""
    run = _python(ANSWER, mode, MNN_CACHE_DIR=str(folder))
    assert run.returncode == 0, run.stderr[-2000:]
    compiled, answer = run.stdout.split()
    return int(compiled), answer, run.stderr


def test_processes_share_kernels_and_mistrust_damaged_ones(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first, answer, said = _answers(folder)
    assert first > 0
    assert not said
    assert _answers(folder) == (0, answer, "")
    entries = sorted((folder / "objects").glob("*.o"))
    assert len(entries) >= first
    good = {entry: entry.read_bytes() for entry in entries}
    rng = np.random.default_rng(0)
    for i, entry in enumerate(entries):  # every second one is damaged somewhere, or cut, or another one
        data = bytearray(entry.read_bytes())
        if i % 4 == 0:
            data[int(rng.integers(len(data)))] ^= 255
        elif i % 4 == 2:
            data = bytearray(entries[i - 1].read_bytes()) if i % 8 == 2 else data[: len(data) // 2]
        entry.write_bytes(data)
    shutil.rmtree(folder / "packed")  # else nobody needs the kernels that pack weights
    again, repaired, _ = _answers(folder)
    assert 0 < again < first
    assert repaired == answer
    assert {entry: entry.read_bytes() for entry in entries} == good
    assert _answers(folder) == (0, answer, "")


def test_processes_that_start_together(tmp_path: Path) -> None:
    answers: list[tuple[int, str, str]] = []
    at_once(*[lambda: answers.append(_answers(tmp_path / "cache"))] * 3)
    assert len({answer for _, answer, _ in answers}) == 1
    assert all(said == "" for _, _, said in answers)
    assert not list((tmp_path / "cache").rglob(".new-*"))
    assert _answers(tmp_path / "cache")[0] == 0


def test_without_a_cache_nothing_is_written(tmp_path: Path) -> None:
    compiled, _, said = _answers(tmp_path / "cache", "none")
    assert compiled > 0
    assert not said
    assert not list(tmp_path.rglob("*.o"))


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    compiled, answer, said = _answers(tmp_path / "file" / "cache")
    assert compiled > 0
    assert "is not used" in said
    assert answer == _answers(tmp_path / "other")[1]


def test_executors_are_not_shared_by_mistake() -> None:
    """Two sessions of one graph share kernels, but neither plans nor memory."""
    graph = load(digits())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = Session(graph), Session(graph)
    assert isinstance(one._executor, Executor)
    a, b = pictures(1), {name: array * 2 for name, array in pictures(1).items()}
    first, second = one.run(a), two.run(b)
    kept = {name: array.copy() for name, array in first.items()}
    two.run(b)
    same(first, kept)
    assert any(np.abs(first[name] - second[name]).max() > 0 for name in first)
