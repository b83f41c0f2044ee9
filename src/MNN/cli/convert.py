"""``mnn convert``: any supported model file to .mnn, or to ONNX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from MNN.cli.convert_check import Checker
from MNN.cli.converted_test import FolderTest
from MNN.cli.display.output import write_text
from MNN.cli.display.progress import progress
from MNN.cli.models import existing
from MNN.cli.options import Disabled, InputShapes, Prototxt, Shapes, Signature, hints
from MNN.cli.report.conversion import page
from MNN.cli.report.drawing import draw
from MNN.cli.shapes import parse_shapes
from MNN.conversion_report import Report
from MNN.converter import Options, as_it_stands, convert, parse_names
from MNN.errors import MNNError
from MNN.formatting import nbytes, plural
from MNN.frontends.mnn.support import needs_this_engine
from MNN.schema.files import replaceable

NAME = "convert"
SHORT = "Convert a model to .mnn."
"""What the list of commands says."""


def command(
    source: Annotated[Path, typer.Argument(help="A model of ONNX, PyTorch, TensorFlow, Keras, Caffe or .mnn.")],
    target: Annotated[Path, typer.Argument(help="The .mnn (or .onnx) file to write.")],
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
    disabled: Disabled = None,
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
        list[str] | None,
        typer.Option("--input", "-i", metavar="NAME=FILE", help="For --check; others get seeded noise."),
    ] = None,
    shapes: Shapes = None,
    input_shapes: InputShapes = None,
    prototxt: Prototxt = None,
    signature: Signature = None,
    report: Annotated[Path | None, typer.Option("--report", help="What was done, as .html or .json.")] = None,
    drawing: Annotated[
        Path | None, typer.Option("--optimize-report", help="The graph before and after, as .html or .svg.")
    ] = None,
) -> None:
    """Convert a model to .mnn, or to .onnx. Lists everything that is not supported before it writes anything."""
    for path, kinds in ((report, (".html", ".json")), (drawing, (".html", ".svg"))):
        if path is not None and path.suffix.lower() not in kinds:
            raise MNNError(f"{path}: a report is a {' or '.join(kinds)} file")
    if report is not None and drawing is not None and report.absolute() == drawing.absolute():
        raise MNNError(f"--report and --optimize-report would both be {report}; give each a file of its own")
    for path in (target, report, drawing):
        if path is not None:
            replaceable(path)
    check_target(source, target, ".onnx")
    options = Options(
        level,
        parse_names(disabled or []),
        fp16,
        external,
        batch,
        biz_code,
        keep_format,
        hints=hints(input_shapes, prototxt, signature),
    )
    check = None
    if tolerance is not None or report is not None:
        if tolerance is not None and as_it_stands(source, target, options):
            raise MNNError("--check: a JSON file is written back exactly as it stands; there is nothing to check")
        check = Checker(source, options, tolerance, inputs or [], parse_shapes(shapes or []))
    elif inputs or shapes:
        given = " and ".join(n for n, on in (("--input", inputs), ("--shape", shapes)) if on)
        raise MNNError(
            f"{given} would change nothing: such options are for --check and --report, which are not asked for"
        )
    done = show(source, target, options, check)
    if report is not None:
        text = page(done, drawings=False) if report.suffix.lower() == ".html" else json.dumps(done.data(), indent=1)
        write_text(report, text)
        print(f"report: {report}")
    if drawing is not None:
        _write_drawings(drawing, done)


def check_target(source: Path, target: Path, *others: str) -> None:
    """Raises when what is to be written would carry the name of another kind of file, or lie where the source is.

    ``others``: suffixes of other kinds that are written.
    """
    existing(source)
    if target.is_file() and source.samefile(target) and source.suffix.lower() != ".mnn":
        raise MNNError(f"{target} is the model to convert, which would be lost; write to another file")
    suffix = target.suffix.lower()
    if suffix not in ("", ".mnn", *others) and not suffix[1:].isdecimal():  # the end of a version is none: net-1.0
        better = target.with_suffix(".mnn")
        raise MNNError(f"{target}: what is written is a .mnn model, and its name says otherwise; write to {better}")


def _write_drawings(path: Path, report: Report) -> None:
    if path.suffix.lower() == ".html":
        write_text(path, page(report, drawings=True))
        print(f"report: {path}")
        return
    for title, part in (("before", report.before), ("after", report.after)):
        file = path.with_name(f"{path.stem}-{title}.svg")
        write_text(file, draw(part))
        print(f"drawing: {file}")


def show(source: Path, target: Path, options: Options, check: Checker | FolderTest | None = None) -> Report:
    """Converts with a progress line and prints what was done."""
    existing(source)
    with progress(source.name) as report_progress:
        report = convert(
            source,
            target,
            options,
            report_progress,
            None if check is None else lambda file: check.run(file, report_progress),
        )
    files = " + ".join(f"{path} ({nbytes(count)})" for path, count in report.files.items())
    print(f"{source} -> {files}: {plural(report.nodes_before, 'operator')} became {report.nodes_after}")
    done = ", ".join(f"{name} {count}" for name, count in report.changes.items() if count)
    if done:
        print(f"passes: {done}")
    if report.changes.get("weight-quantization") == 0:
        print("note: no weights were quantised: no convolution or product by a matrix has constant f32 weights")
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
