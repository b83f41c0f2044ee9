"""Jobs that nobody waits for: done soon, at the latest at the exit, and by nobody twice."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import pytest

from MNN.runtime.gc_pause import uninterrupted
from MNN.runtime.storage import background as module
from MNN.runtime.storage.background import IDLE, finish, run_in_background


def test_jobs_are_done_in_order_by_another_thread() -> None:
    done: list[tuple[int, int]] = []
    for i in range(20):
        run_in_background(lambda i=i: done.append((i, threading.get_ident())))  # type: ignore[misc]
    give_up = time.monotonic() + 10
    while len(done) < 20 and time.monotonic() < give_up:
        time.sleep(0.01)
    assert [i for i, _ in done] == list(range(20))
    assert threading.get_ident() not in {thread for _, thread in done}


def test_a_job_that_waits_is_not_given_twice() -> None:
    finish()
    done: list[int] = []
    job, other = partial(done.append, 1), partial(done.append, 2)
    for _ in range(3):
        run_in_background(job, IDLE, once=True)
        run_in_background(other, IDLE)
    finish()
    assert done == [1, 2, 2, 2]
    run_in_background(job, IDLE, once=True)  # it does not wait any more
    finish()
    assert done == [1, 2, 2, 2, 1]


def test_no_thread_stays_behind() -> None:
    run_in_background(lambda: None)
    give_up = time.monotonic() + 10
    while module._thread is not None and time.monotonic() < give_up:
        time.sleep(0.01)
    assert module._thread is None


def test_finish_waits_for_the_job_at_work() -> None:
    started, done = threading.Event(), []

    def job() -> None:
        started.set()
        time.sleep(0.1)
        done.append(1)

    run_in_background(job)
    assert started.wait(10)
    finish()
    assert done == [1]


def test_a_job_that_raises_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    done: list[int] = []
    run_in_background(lambda: 1 // 0)
    give_up = time.monotonic() + 10
    while not told and time.monotonic() < give_up:
        time.sleep(0.01)
    run_in_background(lambda: done.append(1))
    finish()
    assert done == [1]
    assert len(told) == 1


def test_what_waits_is_done_at_the_exit() -> None:
    code = """
        import time
        from MNN.runtime.storage.background import run_in_background
        run_in_background(lambda: (time.sleep(0.05), print("one", flush=True)))
        run_in_background(lambda: print("two", flush=True))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["one", "two"], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_forks_wait_for_the_job_at_work_and_take_none_along() -> None:
    code = """
        import os, sys, time
        from MNN.runtime.storage.background import finish, run_in_background
        inside = []
        def job():
            inside.append(1)
            time.sleep(0.1)
            inside.clear()
        run_in_background(job)
        run_in_background(lambda: print("waiting", flush=True))
        while not inside:
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            finish()
            run_in_background(lambda: print("own", flush=True))
            finish()
            os._exit(len(inside))
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert sorted(done.stdout.split()) == ["0", "child", "own", "waiting"], done.stderr


def test_garbage_is_collected_again_after_a_plan_and_not_by_the_other_thread() -> None:
    gc.collect()
    collected: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collected.append(threading.get_ident())

    def job() -> list[list[int]]:
        return [[n] for n in range(20_000)]  # enough for several collections

    ran: list[int] = []
    gc.callbacks.append(note)
    try:
        run_in_background(lambda: ran.append(len(job())))
        give_up = time.monotonic() + 10
        while not ran and time.monotonic() < give_up:
            time.sleep(0.01)
        finish()
    finally:
        gc.callbacks.remove(note)
    assert ran
    assert set(collected) <= {threading.get_ident()}
    with uninterrupted(leave=run_in_background):
        assert not gc.isenabled()
    give_up = time.monotonic() + 10
    while not gc.isenabled() and time.monotonic() < give_up:
        time.sleep(0.01)
    assert gc.isenabled()


def test_long_jobs_wait_until_nothing_else_comes() -> None:
    finish()
    done: list[tuple[str, float]] = []
    start = time.monotonic()
    run_in_background(lambda: done.append(("long", time.monotonic() - start)), 0.3)
    run_in_background(lambda: done.append(("short", time.monotonic() - start)))
    time.sleep(0.2)
    run_in_background(lambda: done.append(("another", time.monotonic() - start)))
    give_up = start + 10
    while len(done) < 3 and time.monotonic() < give_up:
        time.sleep(0.01)
    assert [name for name, _ in done] == ["short", "another", "long"]
    assert done[2][1] >= 0.5
