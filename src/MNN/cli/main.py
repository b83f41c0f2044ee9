"""Entry point of ``mnn``: finds the subcommands and turns errors into one sentence and an exit code."""

from __future__ import annotations

import io
import signal
import sys
import warnings
from types import FrameType
from typing import Annotated, NoReturn, TextIO

import typer
from rich.console import Console
from rich.markup import escape

import MNN
from MNN.cli import bench, cache, compare, convert, demo, dump, info, run
from MNN.cli.flags import plain_flags
from MNN.cli.language import chat, llm, serve
from MNN.cli.training import train
from MNN.errors import MNNError

app = typer.Typer(
    name="mnn",
    help="Convert, inspect, run, measure and train neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (demo, convert, info, dump, run, bench, compare, cache, train, chat, llm, serve):
    if hasattr(module, "command"):
        app.command(module.NAME, short_help=module.SHORT)(module.command)
    else:
        app.add_typer(module.app, name=module.NAME, short_help=module.SHORT)

OFFICIAL = "mnnconvert"
"""The command that has no arguments without a name, so that values of switches may stand apart."""
FAILED = 2
"""Exit code for everything that a user can put right; 1 means that ``mnn compare`` found a difference."""


def version_shown(wanted: bool) -> None:
    """Prints the version and ends, if that was ``wanted``."""
    if wanted:
        print(f"MNN in Python {MNN.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=version_shown, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


def guarded(action: typer.Typer, name: str, arguments: list[str] | None = None) -> None:
    """Runs a command line application; errors that a user can cause become their message and exit code 2, and warnings
    are shown without the place in the engine where they arose."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # names that the terminal has no letters for; so is standard error
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        given = sys.argv[1:] if arguments is None else arguments
        _run(action, name, plain_flags(given, apart=name == OFFICIAL))


def _run(action: typer.Typer, name: str, arguments: list[str]) -> None:
    try:
        action(args=arguments, prog_name=name)
    except MNNError as error:
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}")
    except MemoryError as error:
        _fail(f"not enough memory{f': {error}' if str(error) else ''}; try a smaller batch or input size")


def _fail(text: str) -> NoReturn:
    Console(stderr=True, emoji=False).print(f"[bold red]error:[/] {escape(text)}", highlight=False, soft_wrap=True)
    sys.exit(FAILED)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, file, line
    Console(stderr=True, emoji=False).print(
        f"[bold yellow]warning:[/] {escape(str(message))}", highlight=False, soft_wrap=True
    )


def ended(number: int, frame: FrameType | None) -> None:
    """Being told to end unwinds, so that temporary files are removed."""
    del frame
    sys.exit(128 + number)


def main() -> None:
    """The ``mnn`` command."""
    signal.signal(signal.SIGTERM, ended)
    guarded(app, "mnn")


if __name__ == "__main__":
    main()
