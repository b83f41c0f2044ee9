"""The process that holds one model in one engine: ``python -m benchmarks.peers.worker MODULE``.

It reads one JSON object a line from its input and answers each with one line of JSON. Requests: ``load``, ``inputs``,
``run``, ``overhead``, ``outputs``; an answer with the key ``error`` says why a request failed. It ends with its input.
Engines print to standard output as they like: answers go to the descriptor that was it at the start, prints to standard
error.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from .interface import Engine, UnavailableError

MEMORY_LIMIT = 16 << 30  # bytes of address space
LEAST_RUNS, LEAST_SAMPLES = 2, 5
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
"""What runs are timed by: time that passes, or that the process has the processor for (all of its threads), where
others use the machine."""


class Worker:
    def __init__(self, module: str) -> None:
        self.module = module
        self.engine: Engine

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Pin, load, run once: load and first-result times include importing the engine."""
        if request["cores"] and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, request["cores"])
        feeds = _read(request["inputs"])
        start = time.perf_counter()
        engine_class = importlib.import_module(f"{__package__}.{self.module}").Engine
        imported = time.perf_counter()
        self.engine = engine_class(request["threads"], request["precision"])
        self.engine.load(Path(request["model"]), feeds, request["outputs"])
        loaded = time.perf_counter()
        self.engine.set_inputs(feeds)
        self.engine.run()
        first = time.perf_counter()
        return {
            "version": self.engine.version(),
            "import_ms": (imported - start) * 1e3,
            "load_ms": (loaded - imported) * 1e3,
            "first_ms": (first - imported) * 1e3,
        }

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """One untimed run to fill the caches again, then runs timed one by one for ``turn_ms``, two at least."""
        run, clock = self.engine.run, CLOCKS[request["clock"]]
        run()
        times: list[float] = []
        end = clock() + request["turn_ms"] / 1e3
        while len(times) < LEAST_RUNS or clock() < end:
            start = clock()
            run()
            times.append((clock() - start) * 1e3)
        return {"times_ms": times}

    def overhead(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the API adds to the engine's native calls, in ms: the median of some runs."""
        measure = getattr(self.engine, "overhead", None)
        if measure is None:
            raise UnavailableError("this engine's native call cannot be timed alone")
        end = time.perf_counter() + request["turn_ms"] / 1e3
        found: list[float] = []
        while len(found) < LEAST_SAMPLES or time.perf_counter() < end:
            found.append(measure())
        return {"overhead_ms": statistics.median(found) * 1e3}

    def inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        self.engine.set_inputs(_read(request["inputs"]))
        return {}

    def outputs(self, request: dict[str, Any]) -> dict[str, Any]:
        np.savez(request["outputs"], **self.engine.outputs())
        details = getattr(self.engine, "details", dict)()
        return {"peak_mb": _peak_mb(), "details": details}


def _read(path: str) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def _peak_mb() -> float:
    """Peak resident size of this process in MB (0 where the system does not say)."""
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage would count the size of the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1e3
    return 0.0


def _confine() -> None:
    """Have Linux end this process with its driver (a stopped process would not notice the end of its input), and refuse
    it memory beyond ``MEMORY_LIMIT`` (an engine that goes astray must not take the machine with it)."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL))


def main() -> None:
    _confine()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(sys.argv[1])
    requests = {name: getattr(worker, name) for name in ("load", "inputs", "run", "overhead", "outputs")}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = requests[request["request"]](request)
        except UnavailableError as error:
            answer = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is reported to the driver
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
