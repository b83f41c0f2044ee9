"""``mnn compare``: which tensor differs, and at which node it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from MNN.bisection import Steps, bisect
from MNN.cli.convert_check import ROUNDED, ROUNDING
from MNN.cli.display.output import console
from MNN.cli.display.progress import progress
from MNN.cli.display.tables import add_row, number, words
from MNN.cli.display.tables import show as show_table
from MNN.cli.inputs import Scaling, load_inputs, random_feeds, with_small_integers
from MNN.cli.models import existing, read
from MNN.cli.options import Mean, NoisyInputs, Norm, Shapes, Threads
from MNN.cli.shapes import parse_shapes
from MNN.comparison import EXACT, Comparison, compare
from MNN.converter import parse_names
from MNN.errors import MNNError
from MNN.formatting import dims, plural
from MNN.runtime.config import Config
from MNN.runtime.session import Session

NAME = "compare"
SHORT = "Which tensor differs, and where it begins."
"""What the list of commands says."""
DIFFERENT = 1
"""Exit code when the models differ."""


def command(
    reference: Annotated[Path, typer.Argument(help="The model to trust (.onnx, .tflite or .mnn).")],
    model: Annotated[Path | None, typer.Argument(help="The model to check; by default the first.")] = None,
    inputs: NoisyInputs = None,
    shapes: Shapes = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Largest error, relative to the tensor's largest value.")
    ] = 5e-4,
    show: Annotated[int, typer.Option(min=1, help="How many tensors to list.")] = 20,
    mean: Mean = None,
    norm: Norm = None,
    threads: Threads = 1,
    precision: Annotated[str, typer.Option(help="high, normal or low: how the kernels compute.")] = EXACT.precision,
    find: Annotated[
        bool,
        typer.Option(
            "--bisect",
            help="Find out who is wrong: the first node, kernel, pass or file after which the numbers differ.",
        ),
    ] = False,
    level: Annotated[
        int | None, typer.Option("--optimizeLevel", min=0, max=2, help="Passes that --bisect tries; 1 by default.")
    ] = None,
    disabled: Annotated[
        list[str] | None,
        typer.Option("--disable-pass", metavar="NAME", help="A pass that --bisect leaves out."),
    ] = None,
    fp16: Annotated[
        bool, typer.Option("--fp16/--no-fp16", help="--bisect also tries weights in half precision.")
    ] = False,
    no_onnxruntime: Annotated[
        bool, typer.Option("--no-onnxruntime", help="Compare with the reference implementation.")
    ] = False,
) -> None:
    """Compare every intermediate tensor of two models, or of one with the reference; exits 1 on differences."""
    checked = existing(model or reference)
    existing(reference)
    config = Config(threads, precision)
    asked = {"--optimizeLevel": level is not None, "--disable-pass": bool(disabled), "--fp16": fp16}
    if not find and any(asked.values()):
        raise MNNError(f"{', '.join(n for n, on in asked.items() if on)} would change nothing without --bisect")
    with progress(reference.name) as report_progress:
        report_progress("reading")
        session = Session(read(checked))
        given = parse_shapes(shapes or [])
        loaded = load_inputs(session, inputs or [], given, Scaling(mean, norm))
        feeds = {**random_feeds(session, given, loaded), **loaded}
        if find:
            steps = Steps(1 if level is None else level, parse_names(disabled or []), fp16, config=config)
            verdict = with_small_integers(
                feeds,
                loaded,
                lambda: bisect(reference, feeds, tolerance, steps, model, not no_onnxruntime, report_progress),
            )
        else:
            result = with_small_integers(
                feeds,
                loaded,
                lambda: compare(reference, checked, feeds, tolerance, not no_onnxruntime, config, report_progress),
            )
    if find:
        print(verdict.text)
        if verdict.difference is not None and verdict.difference.error < ROUNDING:
            print(f"{ROUNDED} --tolerance 1e-4")
        raise typer.Exit(DIFFERENT if verdict.culprit else 0)
    _show(result, show)
    if result.note:
        print(result.note)
    wrong = [d for d in result.differences if not d.error <= tolerance]
    count = len(result.differences)
    if wrong:
        if result.first is not None:
            d = result.first
            print(f"the error begins at node '{d.node}' ({d.op}): its tensor '{d.tensor}' is off by {d.error:.2e}")
        print(f"{len(wrong)} of {plural(count, 'tensor')} differ by more than {tolerance:g}")
        raise typer.Exit(DIFFERENT)
    agree = f"all {count} tensors agree" if count > 1 else "the only tensor agrees"
    print(f"{agree} within {tolerance:g}")


def _show(result: Comparison, rows: int) -> None:
    columns = [words("tensor", least=16), number("error", "where"), words("operator", "where")]
    columns += [words("node", "where", 16), words("shape", "where", 8)]
    for d in sorted(result.differences, key=lambda d: -d.error)[:rows]:
        colour = "green" if d.error <= result.tolerance else "red"
        error = f"[{colour}]{d.error:.2e}[/]"
        add_row(columns, escape(d.tensor), error, escape(d.op), escape(d.node), dims(d.shape))
    show_table(console(), columns, f"compared with {result.reference}, largest error first")
