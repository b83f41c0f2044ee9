"""The workers: Python threads parked inside the native loop with the interpreter lock released.

There is one pool for the whole process, made on first use and grown on demand; every session uses it. It serves one
command at a time. A run that finds it busy goes through its blocks alone, so several runs in several Python threads
never wait for each other. See :mod:`MNN.backends.cpu.native_loop.loop_ir` for how blocks are handed out.

Environment: ``MNN_SPIN_US`` (microseconds that an idle worker spins before it sleeps, default 50), ``MNN_LINGER_US``
(the same while some run is in progress, giving way to other threads, default 1000), ``MNN_AFTER_US`` (the same when
none is, default 400: to wake one costs the next run 0.1 ms), ``MNN_WORKER_SLEEP``
(``futex``: asleep in the kernel, Linux only; ``python``: in a semaphore of the interpreter; by default what the system
has).
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.immortal import immortal
from MNN.backends.cpu.native_loop.functions import loop_functions
from MNN.backends.cpu.native_loop.layout import LINE, POOL, SLOT, SLOT_BYTES
from MNN.errors import MNNError

MAX_THREADS = 256
"""Most threads that one run can use, the caller included."""

# Linux system calls, by machine.
_CALLS = {
    "x86_64": {"futex": 202, "setaffinity": 203, "getaffinity": 204},
    "aarch64": {"futex": 98, "setaffinity": 122, "getaffinity": 123},
}
_BYTES = POOL["slots"] + SLOT_BYTES * MAX_THREADS
_WAKE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class WorkerPool:
    """Workers 1 .. n; number 0 is whoever calls. Use :func:`pool_for` rather than making one."""

    def __init__(self, sleep: str, spin_us: float, linger_us: float, after_us: float) -> None:
        """``sleep`` is "futex" or "python". Raises ``MNNError`` when this system has no futex."""
        self._memory = aligned_bytes(_BYTES, LINE, zero=True)
        immortal(self._memory)  # a worker that could not be stopped at exit may still look at it
        self.address: int = self._memory.ctypes.data
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._worker = loop_functions().worker
        self._semaphores = [threading.Semaphore(0)]  # number 0 has no use for one
        self._wake: Callable[[int], None] | None = None
        if sleep == "futex":
            call = _syscall_address()
            if call is None:
                raise MNNError("MNN_WORKER_SLEEP is 'futex', which this system does not have; use 'python'")
            self._set("syscall", call)
            for name, number in _CALLS[platform.machine()].items():
                self._set(name, number)
            self._set("getcpu", _libc_function("sched_getcpu"))
        else:
            wake = _WAKE(self._rouse)
            immortal(wake)
            self._wake = wake
            self._set("wake", ctypes.cast(wake, ctypes.c_void_p).value or 0)
        self.sleep = sleep
        self._set("give_way", _give_way_address())
        pause, yielding = self._cost(0), self._cost(1)
        self._set("spin", int(spin_us * 1e3 / pause))
        self._set("linger", int(linger_us * 1e3 / yielding))
        self._set("after", int(after_us * 1e3 / yielding))

    @property
    def workers(self) -> int:
        """How many workers there are, not counting callers."""
        return len(self._threads)

    def grow(self, workers: int) -> int:
        """Starts workers until there are ``workers``; returns how many there are.

        There may be fewer when the system refuses threads (a limit, or the interpreter is shutting down): runs are
        right with any number.
        """
        with self._lock:
            while len(self._threads) < min(workers, MAX_THREADS - 1) and not self._word("stop"):
                number = len(self._threads) + 1
                if len(self._semaphores) == number:
                    self._semaphores.append(threading.Semaphore(0))
                thread = threading.Thread(target=self._serve, args=(number,), name=f"MNN-{number}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # "can't start new thread"
                    break
                self._threads.append(thread)
            return len(self._threads)

    def stop(self, timeout: float = 1.0) -> bool:
        """Ends the workers, waiting at most ``timeout`` seconds; True if all have ended."""
        with self._lock:
            self._set("stop", 1)
            for number in range(1, len(self._semaphores)):
                self._semaphores[number].release()
            self._wake_sleepers()
            end = time.monotonic() + timeout
            for thread in self._threads:
                thread.join(max(0.0, end - time.monotonic()))
            return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, number: int) -> None:
        worker, address, semaphore = self._worker, self.address, self._semaphores[number]
        slot = POOL["slots"] + number * SLOT_BYTES
        ctypes.c_int64.from_address(address + slot + SLOT["thread"]).value = threading.get_native_id()
        while True:
            worker(address, number, 0, None)
            if self._word("stop"):
                return
            semaphore.acquire()  # only ever reached when sleeping in Python

    def _rouse(self, number: int) -> None:
        self._semaphores[number].release()

    def _wake_sleepers(self) -> None:
        call = self._word("syscall")
        if not call:
            return
        syscall = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 4)(call)
        for number in range(1, len(self._threads) + 1):
            slot = POOL["slots"] + number * SLOT_BYTES
            self._memory[slot : slot + 4] = 0
            syscall(self._word("futex"), self.address + slot, 129, 1)

    def _cost(self, yielding: int, count: int = 200) -> float:
        """Nanoseconds of one turn of the idle loop, the least of a few tries."""
        spin = loop_functions().spin
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter_ns()
            spin(self.address, count, yielding, None)
            best = min(best, time.perf_counter_ns() - start)
        return max(best / count, 0.1)

    def _word(self, name: str) -> int:
        return ctypes.c_int64.from_address(self.address + POOL[name]).value

    def _set(self, name: str, value: int) -> None:
        ctypes.c_int64.from_address(self.address + POOL[name]).value = value


def available_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_threads(wanted: int) -> int:
    """``wanted``, or as many threads as there are processors for: more would only take turns."""
    return wanted if wanted == 1 else max(1, min(wanted, available_threads()))


def pool_for(threads: int) -> WorkerPool | None:
    """The process's pool with workers for ``threads`` threads (the caller is one); None for one thread and at exit.

    Raises ``MNNError`` when an environment variable of the pool holds nonsense.
    """
    if threads <= 1 or _STATE.closed:
        return None
    pool = _STATE.pool
    if pool is not None and pool.workers >= threads - 1:
        return pool
    with _STATE.lock:
        pool = _STATE.pool
        if pool is None:
            pool = _STATE.pool = WorkerPool(*_options())
    pool.grow(threads - 1)
    return pool


class _State:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: WorkerPool | None = None
        self.closed = False


_STATE = _State()


def _after_fork() -> None:
    # The child has none of the parent's workers; the locks may have been held by threads that are gone.
    _STATE.lock = threading.Lock()
    _STATE.pool = None


def _at_exit() -> None:
    # Workers are stopped while the interpreter is whole; later their thread could not leave native code cleanly.
    _STATE.closed = True
    pool, _STATE.pool = _STATE.pool, None
    if pool is not None:
        pool.stop()


def _options() -> tuple[str, float, float, float]:
    default = "python" if _syscall_address() is None else "futex"
    sleep = os.environ.get("MNN_WORKER_SLEEP") or default
    if sleep not in ("futex", "python"):
        raise MNNError(f"MNN_WORKER_SLEEP is '{sleep}'; it must be 'futex' or 'python'")
    times = {"MNN_SPIN_US": 50.0, "MNN_LINGER_US": 1000.0, "MNN_AFTER_US": 400.0}
    spin, linger, after = (_microseconds(name, default) for name, default in times.items())
    return sleep, spin, linger, after


def _microseconds(name: str, default: float) -> float:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e7:
        raise MNNError(f"{name} is '{text}'; it must be a number of microseconds from 0 to 10000000")
    return value


def _syscall_address() -> int | None:
    if not sys.platform.startswith("linux") or platform.machine() not in _CALLS:
        return None
    if np.dtype(np.intp).itemsize != 8:  # a 32-bit process on a 64-bit kernel has other numbers
        return None
    return ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value


def _give_way_address() -> int:
    """Address of a function ``int f(void)`` that lets another thread run, or 0."""
    if sys.platform == "win32":
        return ctypes.cast(ctypes.WinDLL("kernel32").SwitchToThread, ctypes.c_void_p).value or 0
    return _libc_function("sched_yield")


def _libc_function(name: str) -> int:
    """Address of a function of the C library, or 0 when this one lacks it."""
    function = getattr(ctypes.CDLL(None), name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
