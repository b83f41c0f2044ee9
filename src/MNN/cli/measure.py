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

from MNN.cli.inputs import random_feeds
from MNN.cli.models import open_model
from MNN.cli.process import peak_memory_mb
from MNN.errors import MNNError

WARM_UP = 3
_REFUSED = 2


@dataclass(frozen=True)
class Job:
    """What to measure: a model, settings, number of timed runs, and sizes of its open inputs."""

    model: str
    threads: int
    precision: str
    runs: int
    shapes: dict[str, tuple[int, ...]]
    cache: bool


@dataclass(frozen=True)
class Row:
    """One line of the report; times in milliseconds, memory in MiB.

    ``load_ms``: opening the model in a fresh process, with the parts of the engine that this imports. ``first_ms``: the
    same until the first result is there. ``gflops``: billions of operations per second at the minimum latency.
    ``peak_mb``: the largest resident size of the process, Python included.
    """

    model: str
    threads: int
    precision: str
    min_ms: float
    median_ms: float
    load_ms: float
    first_ms: float
    arena_mb: float
    peak_mb: float
    gflops: float


def measure(job: Job) -> Row:
    """Loads a model in this process, runs it on seeded noise, and reports."""
    opened = open_model(Path(job.model), job.threads, job.precision, job.cache)
    session = opened.session
    feeds = random_feeds(session, {n: s for n, s in job.shapes.items() if n in session.inputs})
    start = time.perf_counter()
    session.run(feeds)
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        session.run(feeds)
    times: list[float] = []
    for _ in range(job.runs):
        begin = time.perf_counter()
        session.run(feeds)
        times.append(time.perf_counter() - begin)
    plans = session.plans_used()
    return Row(
        model=Path(job.model).name,
        threads=job.threads,
        precision=job.precision,
        min_ms=min(times) * 1e3,
        median_ms=statistics.median(times) * 1e3,
        load_ms=opened.load_s * 1e3,
        first_ms=(opened.load_s + first) * 1e3,
        arena_mb=sum(p.bound.program.arena_bytes for p in plans) / 2**20,
        peak_mb=peak_memory_mb(),
        gflops=sum(p.bound.program.flops for p in plans) / min(times) / 1e9,
    )


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
