"""One measurement of ``mnn bench``, in a process of its own: what it loads and its memory are that model's alone."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from MNN.cli.inputs import random_feeds, with_small_integers
from MNN.cli.models import Opened, open_model
from MNN.cli.process import peak_memory_mb
from MNN.cli.shapes import batched_shapes
from MNN.comparison import error_of
from MNN.errors import MNNError
from MNN.formatting import plural
from MNN.progress import ReportProgress, silent
from MNN.runtime.double import run_in_double
from MNN.runtime.session import Session

WARM_UP = 3
AGAIN = 4
"""Times that timings are taken at most, when those before are impossible."""
_STEP = "step "
"""How lines of the child begin that say how far it is."""
_SELDOM_S = 0.2
"""Seconds between two of them."""
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

    Latencies are those of whole calls from Python; ``overhead_us``: microseconds that the fastest of them takes beyond
    the fastest native call, None when noise hides it. ``load_ms``: opening the model in a fresh process, with the parts
    of the engine that this imports. ``first_ms``: the same until the first result is there. ``gflops``: billions of
    operations per second at the minimum latency. ``peak_mb``: the largest resident size of the process, Python
    included, before any reference is computed. ``error``: largest difference from ``reference`` relative to the
    largest value of an output, None when not asked for.
    """

    model: str
    threads: int
    precision: str
    batch: int | None
    min_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    overhead_us: float | None
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


def measure(job: Job, report_progress: ReportProgress = silent) -> Row:
    """Loads a model in this process, runs it on seeded noise, and reports."""
    opened, feeds = prepare(job)
    session = opened.session
    report_progress("first run")
    start = time.perf_counter()
    results = first_run(job, session, feeds)
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        session.run(feeds)
    plans = session.plans_used()
    parts = [part for p in plans for part in p.bound.parts()]

    def timed() -> tuple[float, float]:
        begin = time.perf_counter()
        session.run(feeds)
        middle = time.perf_counter()
        for part in parts:
            part.compute(job.threads)
        return middle - begin, time.perf_counter() - middle

    whole, inner = timings(timed, job.runs, report_progress)
    peak = peak_memory_mb()
    report_progress("computing in float64" if job.check else "done")
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
        overhead_us=overhead(whole, inner),
        load_ms=opened.load_s * 1e3,
        first_ms=(opened.load_s + first) * 1e3,
        arena_mb=sum(p.bound.program.arena_bytes for p in plans) / 2**20,
        peak_mb=peak,
        gflops=sum(p.bound.program.flops for p in plans) / min(whole) / 1e9,
        error=error,
        reference=reference,
    )


def timings(
    timed: Callable[[], tuple[float, float]], runs: int, report_progress: ReportProgress = silent
) -> tuple[list[float], list[float]]:
    """``runs`` pairs of seconds: of whole calls, and of the native calls inside them. Where these are no less, which
    cannot be, the machine did other things meanwhile: more pairs are taken, up to :data:`AGAIN` times as many."""
    pairs: list[tuple[float, float]] = []
    for turn in range(AGAIN):
        for run in range(runs):
            report_progress("measuring" if not turn else "measuring again", run, runs)
            pairs.append(timed())
        if min(w for w, _ in pairs) > min(i for _, i in pairs):
            break
    return [w for w, _ in pairs], [i for _, i in pairs]


def overhead(whole: Sequence[float], inner: Sequence[float]) -> float | None:
    """Microseconds by which the fastest whole call exceeds the fastest native one; None when it does not."""
    found = (min(whole) - min(inner)) * 1e6
    return found if found > 0 else None


def _check(session: Session, feeds: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> tuple[float, str]:
    wanted, how = run_in_double(session.graph, feeds)
    return max((error_of(found[n], wanted[n]) for n in found), default=0.0), how


def measure_apart(job: Job, report_progress: ReportProgress = silent) -> Row:
    """:func:`measure` in a child process; its MNNError is raised here."""
    command = [sys.executable, "-m", "MNN.cli.measuring.measure", json.dumps(asdict(job))]
    last = ""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
            for line in child.stdout or ():
                if line.startswith(_STEP):
                    text, done, total = json.loads(line.removeprefix(_STEP))
                    report_progress(text, done, total)
                else:
                    last = line
        errors.seek(0)
        told = errors.read().strip()
    code = child.returncode
    if code == _REFUSED:
        raise MNNError(told)
    if code:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise MNNError(f"measuring {job.model} ended with {how}:\n{told[-2000:]}")
    return Row(**json.loads(last))


def main(text: str) -> None:
    """The child: a job as JSON in; how far it is, and last a row as JSON out."""
    fields: Mapping[str, object] = json.loads(text)
    job = Job(**fields)  # type: ignore[arg-type]
    said = 0.0

    def report_progress(text: str, done: int = 0, total: int = 0) -> None:
        nonlocal said
        if time.perf_counter() - said > _SELDOM_S:  # seldom: what is timed should not notice
            said = time.perf_counter()
            print(_STEP + json.dumps([text, done, total]), flush=True)

    try:
        print(json.dumps(asdict(measure(job, report_progress))))
    except (MNNError, MemoryError) as error:
        print(f"{job.model}: {error}", file=sys.stderr)
        sys.exit(_REFUSED)


if __name__ == "__main__":
    main(sys.argv[1])
