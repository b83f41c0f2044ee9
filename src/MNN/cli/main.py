"""Entry point of ``mnn``: finds the subcommands and turns errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import MNN
from MNN.cli import bench, compare, convert, demo, dump, info, run
from MNN.errors import MNNError

app = typer.Typer(
    name="mnn",
    help="Convert, inspect, run and measure neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (demo, convert, info, dump, run, bench, compare):
    app.command(module.NAME)(module.command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"MNN in Python {MNN.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


def guarded(action: typer.Typer, arguments: list[str] | None = None) -> None:
    """Runs a command line application; an :class:`MNNError` becomes its message and exit code 2."""
    try:
        action(args=arguments)
    except MNNError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except FileNotFoundError as error:
        Console(stderr=True).print(f"[bold red]error:[/] no such file: {escape(str(error.filename))}", soft_wrap=True)
        sys.exit(2)


def main() -> None:
    """The ``mnn`` command."""
    guarded(app)


if __name__ == "__main__":
    main()
