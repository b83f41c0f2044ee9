"""The pool over the life of a process: idleness, fork, exit. Each in a child process of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from MNN.backends.cpu.native_loop import pool
from MNN.errors import MNNError

ROOT = pathlib.Path(__file__).parents[4]
MODES = ["python"] if pool._syscall_address() is None else ["futex", "python"]
SETUP = """
import os, signal, sys, threading, time
import numpy as np
from MNN.backends.cpu.native_loop import pool
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from tests.backends.cpu.native_loop.natives import address

def make(blocks=64, grain=1, turns=10, commands=5):
    out = np.zeros(blocks, np.int64)
    rows = [Command(address("count"), [out.ctypes.data, turns], blocks, grain)] * commands
    return NativeProgram(rows, scratch_bytes=16), out
"""


def child(body: str, mode: str, **environment: str) -> str:
    """Runs code after SETUP in a new interpreter; fails the test on a crash, a hang or any message on stderr."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "MNN_WORKER_SLEEP": mode, **environment}
    code = SETUP + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("mode", MODES)
def test_idle_workers_use_no_processor_time(mode: str) -> None:
    out = child(
        """
        program, _ = make()
        for _ in range(20):
            program.run(4)
        assert pool._STATE.pool.workers == 3
        time.sleep(0.1)
        start = time.process_time()
        time.sleep(0.5)
        print(time.process_time() - start)
        """,
        mode,
    )
    assert float(out) < 0.02


@pytest.mark.parametrize("mode", MODES)
def test_what_a_run_now_and_then_costs_is_bounded(mode: str) -> None:
    out = child(
        """
        program, _ = make()
        program.run(2)
        time.sleep(0.05)
        start = time.process_time()
        for _ in range(40):
            program.run(2)
            time.sleep(0.02)
        print((time.process_time() - start) / 40)
        """,
        mode,
    )
    assert float(out) < 0.002  # the worker waits 0.45 ms after a run; the rest is waking, and a loaded machine


@pytest.mark.parametrize("mode", MODES)
def test_workers_come_back_after_sleep(mode: str) -> None:
    child(
        """
        program, out = make(blocks=400, turns=100_000, commands=1)
        helped = runs = 0
        while runs < 10 or (not helped and runs < 300):  # other processes may hold the processors for a while
            time.sleep(0.02)
            program.run(2)
            runs += 1
            helped += program._scratch.view(np.int64)[program._stride // 8] > 0
        assert (out == runs).all()
        assert helped > 0
        """,
        mode,
    )


@pytest.mark.parametrize("mode", MODES)
def test_the_pool_starts_again_after_stop_and_start(mode: str) -> None:
    child(
        """
        program, out = make()
        for i in range(20):
            program.run(3)
            old, pool._STATE.pool = pool._STATE.pool, None
            assert old.stop(10)
        assert (out == 100).all()
        """,
        mode,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("mode", MODES)
def test_a_forked_child_makes_its_own_workers(mode: str) -> None:
    child(
        """
        program, out = make()
        program.run(3)
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                ok = pool._STATE.pool is None
                for _ in range(10):
                    program.run(3)
                ok = ok and (out == 55).all() and pool._STATE.pool.workers == 2
                sys.exit(0 if ok else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        program.run(3)
        assert (out == 10).all()
        """,
        mode,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("mode", MODES)
def test_fork_while_another_thread_runs(mode: str) -> None:
    child(
        """
        program, _ = make(turns=1000)
        other, out = make()
        end = threading.Event()
        def work():
            while not end.is_set():
                program.run(2)
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                other.run(2)
                program.run(2)  # its lock may have been held when the process forked
                os._exit(0 if (out == 5).all() else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        end.set()
        thread.join()
        """,
        mode,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("mode", MODES)
def test_fork_inside_a_host_command(mode: str) -> None:
    child(
        """
        command_program, out = make()
        row = Command(address("count"), [out.ctypes.data, 1], 64, 1)
        pids = []
        program = NativeProgram([row, Command(lambda a, b, e: pids.append(os.fork()), [], 1, 1), row], scratch_bytes=16)
        program.run(3)
        assert (out == 2).all()
        if pids[0] == 0:
            signal.alarm(20)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
        """,
        mode,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spin", ["50", "1000000"])
def test_exit_with_workers_asleep_or_spinning(mode: str, spin: str) -> None:
    child("program, _ = make(); program.run(4)", mode, MNN_SPIN_US=spin)


@pytest.mark.parametrize("mode", MODES)
def test_exit_while_daemon_threads_run_programs(mode: str) -> None:
    child(
        """
        def work(program):
            while True:
                program.run(3)
        for _ in range(3):
            threading.Thread(target=work, args=(make(turns=1000)[0],), daemon=True).start()
        time.sleep(0.2)
        """,
        mode,
    )


@pytest.mark.parametrize("mode", MODES)
def test_programs_run_in_exit_handlers(mode: str) -> None:
    out = child(
        """
        import atexit
        program, out = make()
        def late():
            program.run(3)
            print(out.min(), out.max())
        pool._STATE.closed = False
        atexit.unregister(pool._at_exit)
        atexit.register(late)
        atexit.register(pool._at_exit)  # runs first
        program.run(3)
        """,
        mode,
    )
    assert out.split() == ["10", "10"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("MNN_WORKER_SLEEP", "never"), ("MNN_SPIN_US", "soon"), ("MNN_AFTER_US", "-1"), ("MNN_LINGER_US", "nan")],
)
def test_nonsense_in_the_environment_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(MNNError, match=name):
        pool._options()


def test_fewer_workers_when_the_system_refuses_threads(workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    from tests.backends.cpu.native_loop.test_native import NativeProgram, counting

    command, out = counting(50, 1)
    NativeProgram([command], scratch_bytes=16).run(4)
    assert (out[:-1] == 1).all()
    assert pool._STATE.pool is not None
    assert pool._STATE.pool.workers == 0


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity masks")
def test_workers_keep_their_affinity() -> None:
    child(
        """
        mask = os.sched_getaffinity(0)
        program, out = make(blocks=400, turns=20_000, commands=1)
        for i in range(30):
            time.sleep(0.005)
            program.run(3)
        time.sleep(0.05)
        workers = pool._STATE.pool._threads
        assert all(os.sched_getaffinity(w.native_id) == mask for w in workers), [
            os.sched_getaffinity(w.native_id) for w in workers
        ]
        one = {min(mask)}
        for thread in [threading.main_thread(), *workers]:
            os.sched_setaffinity(thread.native_id, one)  # nowhere else to go
        for i in range(10):
            time.sleep(0.005)
            program.run(3)
        assert all(os.sched_getaffinity(w.native_id) == one for w in workers)
        assert (out == 40).all()
        """,
        MODES[0],
    )
