"""``mnn convert``: any supported model file to .mnn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from MNN.cli.models import existing
from MNN.cli.output import progress_console
from MNN.converter import Options, Report, convert, parse_names

NAME = "convert"


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
) -> None:
    """Convert a model to .mnn. Lists everything that is not supported before it writes anything."""
    show(source, target, Options(level, parse_names(disabled or []), fp16, external, batch, biz_code, keep_format))


def show(source: Path, target: Path, options: Options) -> Report:
    """Converts with a progress line and prints what was done."""
    existing(source)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    screen = progress_console()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task(f"{source.name}: reading", total=None)
        report = convert(
            source, target, options, lambda text: progress.update(task, description=f"{source.name}: {text}")
        )
    files = " + ".join(f"{path} ({_size(count)})" for path, count in report.files.items())
    print(f"{source} -> {files}: {report.nodes_before} operators became {report.nodes_after}")
    done = ", ".join(f"{name} {count}" for name, count in report.changes.items() if count)
    if done:
        print(f"passes: {done}")
    return report


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
