"""``mnn bench``: latency, start-up and memory of models, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from MNN.cli.display.output import console, write_json
from MNN.cli.display.progress import progress
from MNN.cli.display.tables import add_row, number, show, words
from MNN.cli.measuring.measure import Job, Row, measure_apart
from MNN.cli.models import existing, parse_numbers, read
from MNN.cli.options import Shapes
from MNN.cli.shapes import parse_shapes
from MNN.errors import MNNError
from MNN.runtime.config import Config
from MNN.schema.files import replaceable

NAME = "bench"
TOP = 20
SHORT = "Time models, and see where the time goes."
"""What the list of commands says."""


def command(
    models: Annotated[list[Path] | None, typer.Argument(help=".mnn, .onnx or .tflite files.")] = None,
    threads: Annotated[str, typer.Option(help="One or more thread counts: 1,2.")] = "1",
    precision: Annotated[str, typer.Option(help="One or more of high, normal and low.")] = "normal",
    batch: Annotated[str, typer.Option(help="One or more batch sizes: 1,8,32.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Timed inferences.")] = 30,
    shapes: Shapes = None,
    check: Annotated[bool, typer.Option("--check", help="Also the error against float64.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Where the time goes, command by command.")] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help=f"Rows that --profile and --tune list; {TOP} by default.")
    ] = None,
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
    views = {"--profile": profile, "--html": html is not None, "--asm": bool(asm), "--tune": tune}
    _check_useless({"--top": top is not None, "--check": check, "--json": out is not None}, views)
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        better = html.with_suffix(".html")
        raise MNNError(f"{html}: what is written is a page, and its name says otherwise; write to {better}")
    for path in (html, out):
        if path is not None:
            replaceable(path)  # before anything is measured
    rows = top or TOP
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
        from MNN.cli.measuring.machine import show_machine

        found = show_machine(not no_cache)
        if not jobs and out is not None:
            write_json(out, asdict(found))
    if asm:
        from MNN.cli.measuring.asm import show_kernels

        show_kernels(_only(jobs, "--asm"), asm)
    elif tune:
        from MNN.cli.measuring.tune import tune_models

        tune_models(jobs, rows, out)
    elif profile or html is not None:
        from MNN.cli.measuring.profile import show_profiles

        show_profiles(jobs if html is None else [_only(jobs, "--html")], rows, html, out)
    elif jobs:
        measured = _measure(jobs)
        _show(measured)
        if out is not None:
            write_json(out, [asdict(r) for r in measured])


def _measure(jobs: Sequence[Job]) -> list[Row]:
    rows = []
    with progress() as report_progress:
        for i, job in enumerate(jobs):
            place = f" ({i + 1} of {len(jobs)})" if len(jobs) > 1 else ""
            which = f"{Path(job.model).name}, {job.settings()}{place}"

            def told(text: str, done: int = 0, total: int = 0, which: str = which) -> None:
                report_progress(f"{which}: {text}", done, total)

            rows.append(measure_apart(job, told))
    return rows


def _check_request(files: Sequence[Path], machine: bool, views: dict[str, bool], tune: bool) -> None:
    if not files and not machine:
        raise typer.BadParameter("nothing to measure: give one or more model files, or --machine")
    chosen = [name for name, on in {**views, "--tune": tune}.items() if on]
    if len(chosen) > 1:
        raise MNNError(f"{' and '.join(chosen)} show different things; ask for one of them at a time")
    if chosen and not files:
        raise MNNError(f"{chosen[0]} needs a model file")


def _check_useless(asked: dict[str, bool], views: dict[str, bool]) -> None:
    """Raises when an option was given that changes nothing in the view that was asked for."""
    view = next((name for name, on in views.items() if on), "")
    needed = {
        "--top": ("--profile", "--html", "--tune"),
        "--check": ("",),
        "--json": ("", "--profile", "--html", "--tune"),
    }
    for name, on in asked.items():
        if on and view not in needed[name]:
            where = f"with {view}" if view else "without --profile or --tune"
            raise MNNError(f"{name} would change nothing {where}; leave it out")


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


def _show(rows: Sequence[Row]) -> None:
    """Settings are columns only where they differ; then what was measured."""
    settings: dict[str, Sequence[object]] = {"threads": [r.threads for r in rows]}
    settings["precision"] = [r.precision for r in rows]
    if any(r.batch is not None for r in rows):
        settings["batch"] = [r.batch or "-" for r in rows]
    same = {name: found[0] for name, found in settings.items() if len({*found}) == 1 and name != "threads"}
    title = ", ".join(["seeded noise as input", *(f"{name} {value}" for name, value in same.items())])
    checked = any(r.error is not None for r in rows)
    if checked:
        title += f"; error of the largest output against {' or '.join(sorted({r.reference for r in rows}))}"
    varied = [name for name in settings if name not in same]
    columns = [words("model"), *(number(name) for name in varied)]
    columns += [number(f"{name}\nms", "latency") for name in ("min", "median", "p90", "p99")]
    columns += [number("Python\n+us", "latency"), number("GFLOP/s", "latency")]
    columns += [number("load\nms", "rest"), number("first\nms", "rest"), number("arena\nMiB", "rest")]
    columns += [number("peak\nMiB", "rest"), *([number("error", "rest")] if checked else [])]
    for i, r in enumerate(rows):
        cells = [str(settings[name][i]) for name in varied]
        cells += [f"{n:.3f}" if n < 1 else f"{n:.2f}" for n in (r.min_ms, r.median_ms, r.p90_ms, r.p99_ms)]
        cells += ["-" if r.overhead_us is None else f"{r.overhead_us:.0f}", _short(r.gflops)]
        cells += [f"{r.load_ms:.1f}", f"{r.first_ms:.1f}", _short(r.arena_mb), _short(r.peak_mb)]
        add_row(columns, escape(r.model), *cells, *([f"{r.error:.1e}"] if r.error is not None else []))
    show(console(), columns, title)


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
