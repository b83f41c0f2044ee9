"""One measurement of ``mnn bench``, in a process of its own: what it loads and its memory are that model's alone."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from MNN.cli.inputs import random_feeds, with_small_integers
from MNN.cli.models import Opened, open_model
from MNN.cli.process import peak_memory_mb
from MNN.cli.shapes import batched_shapes
from MNN.comparison import error_of
from MNN.errors import MNNError
from MNN.runtime.bind import BoundProgram
from MNN.runtime.double import run_in_double
from MNN.runtime.session import Session
from MNN.words import plural

WARM_UP = 3
_REFUSED = 2


@dataclass(frozen=True)
class Job:
    """What to measure: a model, settings, number of timed runs, sizes of its open inputs, and the batch size.

    ``check``: also compute the model in float64 and compare.
    """

    model: str
    threads: int
    precision: str
    runs: int
    shapes: dict[str, tuple[int, ...]]
    cache: bool
    batch: int | None = None
    check: bool = False

    def settings(self) -> str:
        """The settings in words."""
        batch = "" if self.batch is None else f", batch {self.batch}"
        return f"{plural(self.threads, 'thread')}, precision {self.precision}{batch}"


@dataclass(frozen=True)
class Row:
    """One line of the report; times in milliseconds, memory in MiB.

    Latencies are those of whole calls from Python; ``overhead_us``: microseconds that the least of them takes beyond
    the least native call. ``load_ms``: opening the model in a fresh process, with the parts of the engine that this
    imports. ``first_ms``: the same until the first result is there. ``gflops``: billions of operations per second at
    the minimum latency. ``peak_mb``: the largest resident size of the process, Python included, before any reference
    is computed. ``error``: largest difference from ``reference`` relative to the largest value of an output, None when
    not asked for.
    """

    model: str
    threads: int
    precision: str
    batch: int | None
    min_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    overhead_us: float
    load_ms: float
    first_ms: float
    arena_mb: float
    peak_mb: float
    gflops: float
    error: float | None
    reference: str


def prepare(job: Job) -> tuple[Opened, dict[str, np.ndarray]]:
    """The model opened with the job's settings, and seeded noise for its inputs."""
    opened = open_model(Path(job.model), job.threads, job.precision, job.cache)
    session = opened.session
    shapes = {n: tuple(s) for n, s in job.shapes.items() if n in session.inputs}
    if job.batch is not None:
        shapes = batched_shapes(session, shapes, job.batch)
    return opened, random_feeds(session, shapes)


def first_run(job: Job, session: Session, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first inference; a batch size that a model does not allow is named in the error.

    Where made-up integers are out of range, ``feeds`` gets zeros and ones instead: no table is smaller than that.
    """
    try:
        return with_small_integers(feeds, {}, lambda: session.run(feeds))
    except MNNError as error:
        if job.batch in (None, 1):
            raise
        hint = "its own batch size may be written into the model"
        raise MNNError(f"it cannot run with --batch {job.batch}: {hint} ({error})") from error


def measure(job: Job) -> Row:
    """Loads a model in this process, runs it on seeded noise, and reports."""
    opened, feeds = prepare(job)
    session = opened.session
    start = time.perf_counter()
    results = first_run(job, session, feeds)
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        session.run(feeds)
    plans = session.plans_used()
    native = [p.bound.native for p in plans if isinstance(p.bound, BoundProgram)]
    whole: list[float] = []
    inner: list[float] = []
    for _ in range(job.runs):
        begin = time.perf_counter()
        session.run(feeds)
        middle = time.perf_counter()
        for program in native:
            program.run(job.threads)
        end = time.perf_counter()
        whole.append(middle - begin)
        inner.append(end - middle)
    peak = peak_memory_mb()
    error, reference = _check(session, feeds, results) if job.check else (None, "")
    p90, p99 = (float(np.percentile(whole, q)) for q in (90, 99))
    return Row(
        model=Path(job.model).name,
        threads=job.threads,
        precision=job.precision,
        batch=job.batch,
        min_ms=min(whole) * 1e3,
        median_ms=statistics.median(whole) * 1e3,
        p90_ms=p90 * 1e3,
        p99_ms=p99 * 1e3,
        overhead_us=(min(whole) - min(inner)) * 1e6,
        load_ms=opened.load_s * 1e3,
        first_ms=(opened.load_s + first) * 1e3,
        arena_mb=sum(p.bound.program.arena_bytes for p in plans) / 2**20,
        peak_mb=peak,
        gflops=sum(p.bound.program.flops for p in plans) / min(whole) / 1e9,
        error=error,
        reference=reference,
    )


def _check(session: Session, feeds: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> tuple[float, str]:
    wanted, how = run_in_double(session.graph, feeds)
    return max((error_of(found[n], wanted[n]) for n in found), default=0.0), how


def measure_apart(job: Job) -> Row:
    """:func:`measure` in a child process; its MNNError is raised here."""
    command = [sys.executable, "-m", "MNN.cli.measure", json.dumps(asdict(job))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == _REFUSED:
        raise MNNError(done.stderr.strip())
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise MNNError(f"measuring {job.model} ended with {how}:\n{done.stderr.strip()[-2000:]}")
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def main(text: str) -> None:
    """The child: a job as JSON in, a row as JSON out."""
    fields: Mapping[str, object] = json.loads(text)
    job = Job(**fields)  # type: ignore[arg-type]
    try:
        print(json.dumps(asdict(measure(job))))
    except (MNNError, MemoryError) as error:
        print(f"{job.model}: {error}", file=sys.stderr)
        sys.exit(_REFUSED)


if __name__ == "__main__":
    main(sys.argv[1])
