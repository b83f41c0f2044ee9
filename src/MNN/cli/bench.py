"""``mnn bench``: latency, start-up and memory of models, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from MNN.cli.measure import Job, Row, measure_apart
from MNN.cli.models import existing, parse_numbers, read
from MNN.cli.output import console, progress_console, write_json
from MNN.cli.shapes import parse_shapes
from MNN.errors import MNNError
from MNN.runtime.config import Config

NAME = "bench"
SHORT = "Time models, and see where the time goes."
"""What the list of commands says."""


def command(
    models: Annotated[list[Path] | None, typer.Argument(help=".mnn or .onnx files.")] = None,
    threads: Annotated[str, typer.Option(help="One or more thread counts: 1,2.")] = "1",
    precision: Annotated[str, typer.Option(help="One or more of high, normal and low.")] = "normal",
    batch: Annotated[str, typer.Option(help="One or more batch sizes: 1,8,32.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Timed inferences.")] = 30,
    shapes: Annotated[list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224, for open sizes.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Also the error against float64.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Where the time goes, command by command.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Rows that --profile and --tune list.")] = 20,
    html: Annotated[Path | None, typer.Option("--html", help="Write the profile as a page to look at.")] = None,
    asm: Annotated[
        str,
        typer.Option("--asm", help="Print a kernel's IR and assembly: its number in --profile or part of its name."),
    ] = "",
    tune: Annotated[bool, typer.Option("--tune", help="Measure the algorithms and remember the fastest.")] = False,
    machine: Annotated[bool, typer.Option("--machine", help="Measure this machine's peaks and remember them.")] = False,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the results as JSON.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not keep anything on disk.")] = False,
) -> None:
    """Time models on this machine, as seen from Python; or show where the time goes and how fast it could be."""
    given, files = parse_shapes(shapes or []), [existing(m) for m in models or []]
    _check_request(files, machine, {"--profile or --html": profile or html is not None, "--asm": bool(asm)}, tune)
    counts, levels = parse_numbers("--threads", threads), _precisions(precision)
    batches: list[int | None] = [*parse_numbers("--batch", batch)] if batch else [None]
    for count in counts:
        Config(count)
    _check_shapes(files, given)
    jobs = [
        Job(str(m), t, p, runs, given, not no_cache, b, check)
        for m in files for p in levels for b in batches for t in counts
    ]  # fmt: skip
    if machine:
        from MNN.cli.bench_machine import show_machine

        found = show_machine(not no_cache)
        if not jobs and out is not None:
            write_json(out, asdict(found))
    if asm:
        from MNN.cli.bench_asm import show_kernels

        show_kernels(_only(jobs, "--asm"), asm)
    elif tune:
        from MNN.cli.bench_tune import tune_models

        tune_models(jobs, top, out)
    elif profile or html is not None:
        from MNN.cli.bench_profile import show_profiles

        show_profiles(jobs if html is None else [_only(jobs, "--html")], top, html, out)
    elif jobs:
        rows = _measure(jobs)
        console().print(_table(rows))
        if out is not None:
            write_json(out, [asdict(r) for r in rows])


def _measure(jobs: Sequence[Job]) -> list[Row]:
    screen = progress_console()
    steps = track(jobs, "measuring", console=screen, transient=True, disable=not screen.is_terminal)
    return [measure_apart(job) for job in steps]


def _check_request(files: Sequence[Path], machine: bool, views: dict[str, bool], tune: bool) -> None:
    if not files and not machine:
        raise typer.BadParameter("nothing to measure: give one or more model files, or --machine")
    chosen = [name for name, on in {**views, "--tune": tune}.items() if on]
    if len(chosen) > 1:
        raise MNNError(f"{' and '.join(chosen)} show different things; ask for one of them at a time")
    if chosen and not files:
        raise MNNError(f"{chosen[0]} needs a model file")


def _only(jobs: Sequence[Job], option: str) -> Job:
    if len(jobs) != 1:
        raise MNNError(f"{option} takes one model with one setting, not {len(jobs)} combinations")
    return jobs[0]


def _precisions(text: str) -> list[str]:
    found = [p.strip() for p in text.split(",") if p.strip()] or [text]
    for name in found:
        Config(precision=name)
    return found


def _check_shapes(models: Sequence[Path], given: dict[str, tuple[int, ...]]) -> None:
    """Every name must be an input of one model at least; else a typing error would silently change nothing."""
    if given and models:
        known = {m: [v.name for v in read(m).inputs if not v.is_const] for m in models}
        for name in given:
            if not any(name in inputs for inputs in known.values()):
                listed = "\n".join(f"  {m}: {', '.join(inputs)}" for m, inputs in known.items())
                raise MNNError(f"--shape {name}=...: no model has an input of that name; they have:\n{listed}")


def _table(rows: Sequence[Row]) -> Table:
    """Settings are columns only where they differ; then what was measured."""
    settings = {"threads": [r.threads for r in rows], "precision": [r.precision for r in rows]}
    if any(r.batch is not None for r in rows):
        settings["batch"] = [r.batch or "-" for r in rows]
    same = {name: found[0] for name, found in settings.items() if len({*found}) == 1 and name != "threads"}
    title = ", ".join(["seeded noise as input", *(f"{name} {value}" for name, value in same.items())])
    checked = any(r.error is not None for r in rows)
    if checked:
        title += f"; error of the largest output against {' or '.join(sorted({r.reference for r in rows}))}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("model", overflow="fold")
    varied = [name for name in settings if name not in same]
    for heading in (
        *varied, "min\nms", "median\nms", "p90\nms", "p99\nms", "Python\n+us", "load\nms", "first\nms", "arena\nMiB",
        "peak\nMiB", "GFLOP/s", *(["error"] if checked else []),
    ):  # fmt: skip
        table.add_column(heading, justify="right", overflow="fold")
    for i, r in enumerate(rows):
        times = [r.min_ms, r.median_ms, r.p90_ms, r.p99_ms]
        cells = [str(settings[name][i]) for name in varied]
        cells += [f"{n:.3f}" if n < 1 else f"{n:.2f}" for n in times]
        cells += [f"{r.overhead_us:.0f}", f"{r.load_ms:.1f}", f"{r.first_ms:.1f}"]
        cells += [f"{n:.2f}" if n < 10 else f"{n:.1f}" for n in (r.arena_mb, r.peak_mb, r.gflops)]
        table.add_row(escape(r.model), *cells, *([f"{r.error:.1e}"] if r.error is not None else []))
    return table
