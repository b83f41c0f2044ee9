"""Entry point of ``mnn``: finds the subcommands and turns errors into one sentence and an exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import MNN
from MNN.cli import bench, compare, convert, demo, dump, info, run
from MNN.cli.flags import plain_flags
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

FAILED = 2
"""Exit code for everything that a user can put right; 1 means that ``mnn compare`` found a difference."""


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
    """Runs a command line application; errors that a user can cause become their message and exit code 2."""
    try:
        action(args=plain_flags(sys.argv[1:] if arguments is None else arguments))
    except MNNError as error:
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except MemoryError as error:
        _fail(f"not enough memory{f': {error}' if str(error) else ''}; try a smaller batch or input size")


def _fail(text: str) -> NoReturn:
    Console(stderr=True).print(f"[bold red]error:[/] {escape(text)}", highlight=False, soft_wrap=True)
    sys.exit(FAILED)


def ended(number: int, frame: FrameType | None) -> None:
    """Being told to end unwinds, so that temporary files are removed."""
    del frame
    sys.exit(128 + number)


def main() -> None:
    """The ``mnn`` command."""
    signal.signal(signal.SIGTERM, ended)
    guarded(app)


if __name__ == "__main__":
    main()
