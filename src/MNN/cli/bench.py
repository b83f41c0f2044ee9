"""``mnn bench``: latency, start-up and memory of models."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table

from MNN.cli.inputs import parse_shapes, random_feeds
from MNN.cli.models import open_model, parse_threads
from MNN.cli.output import console, progress_console
from MNN.cli.process import peak_memory_mb
from MNN.schema.files import replacing

NAME = "bench"
WARM_UP = 3


@dataclass(frozen=True)
class Row:
    """One line of the report; times in milliseconds, memory in MiB. ``gflops`` is billions of operations per second
    at the minimum latency; ``peak_mb`` is the process's largest resident size so far."""

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


def measure(
    path: Path, threads: int, precision: str, runs: int, shapes: dict[str, tuple[int, ...]], cache: bool
) -> Row:
    """Loads a model, runs it ``runs`` times on seeded noise and reports."""
    opened = open_model(path, threads, precision, cache)
    session = opened.session
    known = {n: s for n, s in shapes.items() if n in session.inputs}
    feeds = random_feeds(session, known)
    start = time.perf_counter()
    session.run(feeds)
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        session.run(feeds)
    times: list[float] = []
    for _ in range(runs):
        begin = time.perf_counter()
        session.run(feeds)
        times.append(time.perf_counter() - begin)
    plans = session.plans_used()
    flops = sum(p.bound.program.flops for p in plans)
    arena = sum(p.bound.program.arena_bytes for p in plans)
    return Row(
        model=path.name,
        threads=threads,
        precision=precision,
        min_ms=min(times) * 1e3,
        median_ms=statistics.median(times) * 1e3,
        load_ms=opened.load_s * 1e3,
        first_ms=(opened.load_s + first) * 1e3,
        arena_mb=arena / 2**20,
        peak_mb=peak_memory_mb(),
        gflops=flops / min(times) / 1e9,
    )


def command(
    models: Annotated[list[Path], typer.Argument(help=".mnn or .onnx files.")],
    threads: Annotated[str, typer.Option(help="One or more thread counts: 1,2.")] = "1",
    precision: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    runs: Annotated[int, typer.Option(min=1, help="Timed inferences.")] = 30,
    shapes: Annotated[
        list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224, for open sizes.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the table as JSON.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not keep compiled kernels on disk.")] = False,
) -> None:
    """Time models on this machine: latency, load, first result, memory and arithmetic rate."""
    given = parse_shapes(shapes or [])
    work = [(m, t) for m in models for t in parse_threads(threads)]
    screen = console()
    rows = [
        measure(model, count, precision, runs, given, not no_cache)
        for model, count in track(work, description="measuring", console=progress_console(), transient=True)
    ]
    screen.print(_table(rows))
    if out is not None:
        with replacing(out) as file:
            file.write((json.dumps([asdict(r) for r in rows], indent=1) + "\n").encode())


def _table(rows: list[Row]) -> Table:
    table = Table(title=f"seeded noise as input, best of the runs; precision {rows[0].precision}", title_justify="left")
    table.add_column("model")
    for heading in ("threads", "min ms", "median ms", "load ms", "first ms", "arena MiB", "peak MiB", "GFLOP/s"):
        table.add_column(heading, justify="right")
    for r in rows:
        numbers = (r.min_ms, r.median_ms, r.load_ms, r.first_ms, r.arena_mb, r.peak_mb, r.gflops)
        table.add_row(r.model, str(r.threads), *(f"{n:.2f}" for n in numbers))
    return table
