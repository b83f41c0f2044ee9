"""``mnn compare``: which tensor differs, and at which node it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from MNN.bisection import bisect
from MNN.cli.inputs import floats, load_inputs, parse_shapes, random_feeds
from MNN.cli.models import existing, read
from MNN.cli.output import console, progress_console
from MNN.comparison import Comparison, compare
from MNN.runtime.session import Session
from MNN.words import dims

NAME = "compare"
DIFFERENT = 1
"""Exit code when the models differ."""


def command(
    reference: Annotated[Path, typer.Argument(help="The model to trust (.onnx or .mnn).")],
    model: Annotated[Path | None, typer.Argument(help="The model to check; by default the first.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="NAME=FILE; inputs without one get seeded noise.")
    ] = None,
    shapes: Annotated[list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224.")] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Largest error, relative to the tensor's largest value.")
    ] = 5e-4,
    show: Annotated[int, typer.Option(min=1, help="How many tensors to list.")] = 20,
    mean: Annotated[str, typer.Option(help="Subtracted from pictures, per channel.")] = "0",
    norm: Annotated[str, typer.Option(help="Multiplied with pictures, per channel.")] = "1/255",
    find: Annotated[
        bool,
        typer.Option(
            "--bisect",
            help="Find out who is wrong: the first node, kernel, pass or file after which the numbers differ.",
        ),
    ] = False,
    level: Annotated[int, typer.Option("--optimizeLevel", min=0, max=2, help="Passes that --bisect tries.")] = 1,
    no_onnxruntime: Annotated[bool, typer.Option("--no-onnxruntime", help="Compare with the numpy meaning.")] = False,
) -> None:
    """Compare every intermediate tensor of two models, or of one with its reference meaning; exits 1 on differences."""
    checked = existing(model or reference)
    existing(reference)
    with progress_console().status("reading") as status:
        session = Session(read(checked))
        given = parse_shapes(shapes or [])
        loaded = load_inputs(session, inputs or [], given, floats(mean), floats(norm))
        feeds = {**random_feeds(session, given, loaded), **loaded}
        if find:
            verdict = bisect(
                reference,
                feeds,
                tolerance,
                level,
                model,
                not no_onnxruntime,
                lambda text: status.update(f"trying {text}"),
            )
    if find:
        print(verdict.text)
        raise typer.Exit(DIFFERENT if verdict.culprit else 0)
    with progress_console().status("running both sides"):
        result = compare(reference, checked, feeds, tolerance, not no_onnxruntime)
    console().print(_table(result, show))
    if result.note:
        print(result.note)
    wrong = [d for d in result.differences if not d.error <= tolerance]
    if wrong:
        if result.first is not None:
            d = result.first
            print(f"the error begins at node '{d.node}' ({d.op}): its tensor '{d.tensor}' is off by {d.error:.2e}")
        print(f"{len(wrong)} of {len(result.differences)} tensors differ by more than {tolerance:g}")
        raise typer.Exit(DIFFERENT)
    print(f"all {len(result.differences)} tensors agree within {tolerance:g}")


def _table(result: Comparison, show: int) -> Table:
    table = Table(title=f"compared with {result.reference}, largest error first", title_justify="left")
    for column in ("tensor", "node", "operator", "shape"):
        table.add_column(column, overflow="fold")
    table.add_column("error", justify="right")
    for d in sorted(result.differences, key=lambda d: -d.error)[:show]:
        colour = "green" if d.error <= result.tolerance else "red"
        table.add_row(escape(d.tensor), escape(d.node), escape(d.op), dims(d.shape), f"[{colour}]{d.error:.2e}[/]")
    return table
