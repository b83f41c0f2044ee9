"""``mnn compare``: which tensor differs, and at which node it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from MNN.cli.inputs import floats, load_inputs, parse_shapes, random_feeds
from MNN.cli.models import read
from MNN.cli.output import console
from MNN.comparison import Comparison, compare
from MNN.runtime.session import Session

NAME = "compare"


def command(
    reference: Annotated[Path, typer.Argument(help="The model to trust (.onnx or .mnn).")],
    model: Annotated[
        Path | None, typer.Argument(help="The model to check; by default the first.")
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="NAME=FILE; else seeded noise.")
    ] = None,
    shapes: Annotated[list[str] | None, typer.Option("--shape", help="NAME=1x3x224x224.")] = None,
    tolerance: Annotated[float, typer.Option(help="Largest error, relative to the tensor's largest value.")] = 1e-4,
    show: Annotated[int, typer.Option(help="How many tensors to list.")] = 20,
    no_onnxruntime: Annotated[bool, typer.Option("--no-onnxruntime", help="Compare with the numpy meaning.")] = False,
) -> None:
    """Compare every intermediate tensor of two models, or of one with its reference meaning; exits 1 on differences."""
    checked = model or reference
    session = Session(read(checked))
    given = parse_shapes(shapes or [])
    loaded = load_inputs(session, inputs or [], given, floats("0"), floats("1/255"))
    feeds = loaded if len(loaded) == len(session.inputs) else {**random_feeds(session, given), **loaded}
    result = compare(reference, checked, feeds, tolerance, not no_onnxruntime)
    console().print(_table(result, show))
    if result.first is not None:
        d = result.first
        print(f"the error begins at {d.op} '{d.node}' (tensor '{d.tensor}', {d.error:.2e})")
    if any(d.error > tolerance for d in result.differences):
        raise typer.Exit(1)
    print(f"all {len(result.differences)} tensors agree within {tolerance:g}")


def _table(result: Comparison, show: int) -> Table:
    table = Table(title=f"compared with {result.reference}, largest error first", title_justify="left")
    for column in ("tensor", "node", "operator", "shape"):
        table.add_column(column, overflow="fold")
    table.add_column("error", justify="right")
    for d in sorted(result.differences, key=lambda d: -d.error)[:show]:
        colour = "red" if d.error > result.tolerance else "green"
        table.add_row(d.tensor, d.node, d.op, "x".join(map(str, d.shape)), f"[{colour}]{d.error:.2e}[/]")
    return table
