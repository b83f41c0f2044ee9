"""``mnn bench``: latency, start-up and memory of models."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from MNN.cli.inputs import parse_shapes
from MNN.cli.measure import Job, Row, measure_apart
from MNN.cli.models import existing, parse_threads, read
from MNN.cli.output import console, progress_console
from MNN.errors import MNNError
from MNN.runtime.config import Config
from MNN.schema.files import replacing

NAME = "bench"
HEADINGS = ("threads", "min\nms", "median\nms", "load\nms", "first\nms", "arena\nMiB", "peak\nMiB", "GFLOP/s")


def command(
    models: Annotated[list[Path], typer.Argument(help=".mnn or .onnx files.")],
    threads: Annotated[str, typer.Option(help="One or more thread counts: 1,2.")] = "1",
    precision: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    runs: Annotated[int, typer.Option(min=1, help="Timed inferences.")] = 30,
    shapes: Annotated[list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224, for open sizes.")] = None,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the table as JSON.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not keep compiled kernels on disk.")] = False,
) -> None:
    """Time models on this machine: latency, load, first result, memory and arithmetic rate."""
    given, counts = parse_shapes(shapes or []), parse_threads(threads)
    for count in counts:
        Config(count, precision)
    _check_shapes([existing(m) for m in models], given)
    jobs = [Job(str(m), t, precision, runs, given, not no_cache) for m in models for t in counts]
    screen = progress_console()
    steps = track(jobs, "measuring", console=screen, transient=True, disable=not screen.is_terminal)
    rows = [measure_apart(job) for job in steps]
    console().print(_table(rows, precision))
    if out is not None:
        with replacing(out) as file:
            file.write((json.dumps([asdict(r) for r in rows], indent=1) + "\n").encode())


def _check_shapes(models: list[Path], given: dict[str, tuple[int, ...]]) -> None:
    """Every name must be an input of one model at least; else a typing error would silently change nothing."""
    if given:
        known = {m: [v.name for v in read(m).inputs if not v.is_const] for m in models}
        for name in given:
            if not any(name in inputs for inputs in known.values()):
                listed = "\n".join(f"  {m}: {', '.join(inputs)}" for m, inputs in known.items())
                raise MNNError(f"--shape {name}=...: no model has an input of that name; they have:\n{listed}")


def _table(rows: list[Row], precision: str) -> Table:
    table = Table(title=f"seeded noise as input; precision {precision}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("model", overflow="fold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", overflow="fold")
    for r in rows:
        times, rest = (r.min_ms, r.median_ms, r.load_ms, r.first_ms), (r.arena_mb, r.peak_mb, r.gflops)
        table.add_row(
            escape(r.model), str(r.threads), *(f"{n:.3f}" if n < 1 else f"{n:.2f}" for n in times),
            *(f"{n:.2f}" if n < 10 else f"{n:.1f}" for n in rest),
        )  # fmt: skip
    return table
