"""The other end of ``peers.worker``: starts engine processes and makes them take turns."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .models import Array, Model
from .peers.catalog import Peer
from .peers.interface import UnavailableError
from .setup_peers import REPOSITORY, interpreter

ANSWER_LIMIT_S = 600
END_S = 10
STOPPABLE = hasattr(signal, "SIGSTOP")


class Process:
    """One engine process, stopped while it is not its turn, so that a spinning thread pool costs the others nothing."""

    def __init__(self, peer: Peer, work: Path) -> None:
        python = sys.executable if peer.environment == "here" else str(interpreter(work, peer.environment))
        environment = dict(os.environ)
        if peer.environment == "here":
            source = str(REPOSITORY / "src")
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH")]))
        else:
            environment.pop("PYTHONPATH", None)
        environment.update(peer.variables)
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(work / "inductor")  # compiled once, not once a process
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.peers.worker", peer.module],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, request: str, **values: Any) -> dict[str, Any]:
        """Send one request and wait for its answer; UnavailableError if the engine says so or dies."""
        self._signal("SIGCONT")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"request": request, **values}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self.process.wait(ANSWER_LIMIT_S)
            raise UnavailableError(f"the engine's process ended (exit code {code}) on '{request}'")
        self._signal("SIGSTOP")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnavailableError(answer["error"])
        return answer

    def _signal(self, name: str) -> None:
        if STOPPABLE and self.process.poll() is None:
            self.process.send_signal(getattr(signal, name))

    def close(self) -> None:
        """Lets the process end by itself, which stores what engines keep for their next start; kills it when that takes
        long."""
        self._signal("SIGCONT")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@dataclass
class Measurement:
    """One engine on one model: times in ms, ``rounds_ms`` those of each turn; ``note`` says why there are none.

    ``overhead_ms``: what the API adds to the native call, where that can be told. ``details``: what the engine says.
    """

    engine: str
    version: str = ""
    load_ms: float = 0.0
    first_ms: float = 0.0
    peak_mb: float = 0.0
    rounds_ms: list[list[float]] = field(default_factory=list)
    overhead_ms: float | None = None
    details: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)
    note: str = ""

    @property
    def times_ms(self) -> list[float]:
        return [t for turn in self.rounds_ms for t in turn]


@dataclass(frozen=True)
class Conditions:
    """How to measure: each round gives every engine a turn of ``turn_ms``, on these cores, by this ``clock``
    (:data:`benchmarks.peers.worker.CLOCKS`)."""

    threads: int
    cores: tuple[int, ...]
    turn_ms: float = 250.0
    rounds: int = 7
    pause_s: float = 0.02
    clock: str = "wall"


def measure(
    model: Model,
    candidates: Sequence[tuple[Peer, Path]],
    conditions: Conditions,
    work: Path,
    each: Sequence[Conditions] = (),
) -> list[Measurement]:
    """Load ``model`` in every engine, then let them take turns: each round all engines, in rotating order. ``each``:
    of every candidate, where they have threads and cores of their own."""
    results: list[Measurement] = []
    running: list[tuple[Process, Measurement]] = []
    with tempfile.TemporaryDirectory() as name:
        feeds = Path(name) / "feeds.npz"
        np.savez(feeds, **model.feeds)
        try:
            for number, (peer, file) in enumerate(candidates):
                own = each[number] if each else conditions
                result = Measurement(peer.name)
                results.append(result)
                process = Process(peer, work)
                try:
                    _start(process, result, file, feeds, model, peer.precision, own)
                    running.append((process, result))
                except UnavailableError as reason:
                    result.note = str(reason)
                    process.close()
            for turn in range(conditions.rounds):
                for k in range(len(running)):
                    process, result = running[(turn + k) % len(running)]
                    answer = process.ask("run", turn_ms=conditions.turn_ms, clock=conditions.clock)
                    result.rounds_ms.append(answer["times_ms"])
                    time.sleep(conditions.pause_s)
            for process, result in running:
                if next(p for p, _ in candidates if p.name == result.engine).environment == "here":
                    _overhead(process, result, conditions)
        finally:
            for process, _ in running:
                process.close()
    return results


def outputs_of(model: Model, peer: Peer, work: Path) -> dict[str, Array]:
    """One run of a model in an engine, not timed."""
    found = measure(model, [(peer, model.path)], Conditions(1, (), 0.0, 0), work)[0]
    if found.note:
        raise UnavailableError(found.note)
    return found.outputs


def _overhead(process: Process, result: Measurement, conditions: Conditions) -> None:
    try:
        result.overhead_ms = process.ask("overhead", turn_ms=conditions.turn_ms)["overhead_ms"]
    except UnavailableError as reason:
        result.details["overhead"] = str(reason)


def _start(
    process: Process, result: Measurement, file: Path, feeds: Path, model: Model, precision: str, conditions: Conditions
) -> None:
    answer = process.ask(
        "load",
        model=str(file),
        inputs=str(feeds),
        outputs=model.outputs,
        threads=conditions.threads,
        precision=precision,
        cores=list(conditions.cores),
    )
    result.version, result.load_ms, result.first_ms = answer["version"], answer["load_ms"], answer["first_ms"]
    found = feeds.with_name(f"{result.engine}.npz")
    answer = process.ask("outputs", outputs=str(found))
    result.peak_mb, result.details = answer["peak_mb"], answer["details"]
    with np.load(found) as archive:
        result.outputs = {n: archive[n] for n in archive.files}
