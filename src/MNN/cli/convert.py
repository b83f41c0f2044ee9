"""``mnn convert``: any supported model file to .mnn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from MNN.cli.convert_page import page
from MNN.cli.drawing import draw
from MNN.cli.inputs import load_inputs, parse_shapes, random_feeds
from MNN.cli.models import existing, read
from MNN.cli.output import progress_console, write_text
from MNN.comparison import Comparison, compare
from MNN.conversion_report import Report
from MNN.converter import Check, Options, convert, parse_names
from MNN.errors import MNNError, RunError, ShapeError, UnsupportedError
from MNN.frontends.mnn.support import needs_this_engine
from MNN.runtime.session import Session
from MNN.words import nbytes, plural

NAME = "convert"
USUAL = 5e-4
"""Errors above this are marked in reports."""


def command(
    source: Annotated[Path, typer.Argument(help="The model to convert (.onnx, .mnn or .json).")],
    target: Annotated[Path, typer.Argument(help="The .mnn file to write.")],
    fp16: Annotated[bool, typer.Option("--fp16/--no-fp16", help="Store weights in half precision.")] = False,
    external: Annotated[
        bool,
        typer.Option(
            "--saveExternalData/--no-saveExternalData",
            help="Keep weights in TARGET.weight; done anyway when one file cannot hold them (2 GB).",
        ),
    ] = False,
    level: Annotated[int, typer.Option("--optimizeLevel", min=0, max=2, help="0 none, 1 exact, 2 faster, larger.")] = 1,
    batch: Annotated[int | None, typer.Option("--batch", help="Fix an open batch size.")] = None,
    keep_format: Annotated[
        bool,
        typer.Option(
            "--keepInputFormat/--no-keepInputFormat",
            help="Inputs keep their layout; else the official engine takes pictures as NC4HW4.",
        ),
    ] = True,
    disabled: Annotated[list[str] | None, typer.Option("--disable-pass", help="Leave out a pass, by name.")] = None,
    biz_code: Annotated[str, typer.Option("--bizCode", help="A label stored in the file.")] = "",
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--check",
            min=0,
            help="Run the result and the source (onnxruntime where installed) and write nothing when an output is off "
            "by more than this, relative to its largest value.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="NAME=FILE for --check; others get seeded noise.")
    ] = None,
    shapes: Annotated[list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224 for --check.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="What was done, as .html or .json.")] = None,
    drawing: Annotated[
        Path | None, typer.Option("--optimize-report", help="The graph before and after, as .html or .svg.")
    ] = None,
) -> None:
    """Convert a model to .mnn. Lists everything that is not supported before it writes anything."""
    for path, kinds in ((report, (".html", ".json")), (drawing, (".html", ".svg"))):
        if path is not None and path.suffix.lower() not in kinds:
            raise MNNError(f"{path}: a report is a {' or '.join(kinds)} file")
    for path in (target, report, drawing):
        if path is not None and not path.parent.is_dir():
            raise MNNError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    if target.exists() and existing(source).samefile(target) and source.suffix.lower() != ".mnn":
        raise MNNError(f"{target} is the model to convert, which would be lost; write to another file")
    options = Options(level, parse_names(disabled or []), fp16, external, batch, biz_code, keep_format)
    check = None
    if tolerance is not None or report is not None:
        check = checker(source, tolerance, inputs or [], parse_shapes(shapes or []))
    done = show(source, target, options, check)
    if report is not None:
        text = page(done, drawings=False) if report.suffix.lower() == ".html" else json.dumps(done.data(), indent=1)
        write_text(report, text)
        print(f"report: {report}")
    if drawing is not None:
        _write_drawings(drawing, done)


def checker(source: Path, tolerance: float | None, inputs: list[str], shapes: dict[str, tuple[int, ...]]) -> Check:
    """Compares a written file with its source; without a tolerance it only tells, and open sizes end it in a note."""

    def check(written: Path) -> Comparison:
        limit = USUAL if tolerance is None else tolerance
        try:
            session = Session(read(written))
            loaded = load_inputs(session, inputs, shapes, [0.0], [1.0])
            feeds = {**random_feeds(session, shapes, loaded), **loaded}
        except (ShapeError, UnsupportedError) as error:  # open sizes, or inputs that cannot be made up
            if tolerance is not None or inputs or shapes:
                raise
            return Comparison("nothing", [], limit, None, f"not checked: {error}")
        try:
            found = compare(source, written, feeds, limit)
        except RunError:  # integers made up beyond a table; no table is smaller than two
            large = [n for n, a in feeds.items() if n not in loaded and a.dtype.kind in "iu" and a.max(initial=0) > 1]
            if not large:
                raise
            feeds.update({n: feeds[n] % 2 for n in large})
            found = compare(source, written, feeds, limit)
        outputs = {d.tensor: d.error for d in found.differences if d.tensor in session.outputs}
        wrong = {name: error for name, error in outputs.items() if not error <= limit}
        if tolerance is not None and wrong:
            listed = ", ".join(f"'{name}' is off by {error:.2e}" for name, error in wrong.items())
            begins = f"; it begins at '{found.first.tensor}' of node '{found.first.node}'" if found.first else ""
            raise MNNError(
                f"{source}: the converted model differs from {found.reference} by more than {tolerance:g}: {listed}"
                f"{begins}. Nothing was written; mnn compare --bisect {source} finds the cause"
            )
        return found

    return check


def _write_drawings(path: Path, report: Report) -> None:
    if path.suffix.lower() == ".html":
        write_text(path, page(report, drawings=True))
        print(f"report: {path}")
        return
    for title, part in (("before", report.before), ("after", report.after)):
        file = path.with_name(f"{path.stem}-{title}.svg")
        write_text(file, draw(part))
        print(f"drawing: {file}")


def show(source: Path, target: Path, options: Options, check: Check | None = None) -> Report:
    """Converts with a progress line and prints what was done."""
    existing(source)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    screen = progress_console()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task(f"{source.name}: reading", total=None)
        report = convert(
            source, target, options, lambda text: progress.update(task, description=f"{source.name}: {text}"), check
        )
    files = " + ".join(f"{path} ({nbytes(count)})" for path, count in report.files.items())
    print(f"{source} -> {files}: {plural(report.nodes_before, 'operator')} became {report.nodes_after}")
    done = ", ".join(f"{name} {count}" for name, count in report.changes.items() if count)
    if done:
        print(f"passes: {done}")
    lacking = needs_this_engine(report.support)
    if lacking:
        print(lacking)
    if report.check is not None and report.check.differences:
        worst = max(d.error for d in report.check.differences)
        count = plural(len(report.check.differences), "tensor")
        print(f"checked against {report.check.reference}: {count}, worst {worst:.1e}")
    elif report.check is not None:
        print(report.check.note)
    return report
