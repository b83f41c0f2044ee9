"""``mnn train``: a classifier of pictures from a configuration of few lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from MNN.formatting import nbytes, plural

NAME = "train"
SHORT = "Train a classifier of pictures."
"""What the list of commands says."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def command(
    config: Annotated[Path, typer.Argument(help="A TOML file: the pictures' folder, the model to write, and more.")],
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin anew where an earlier training left a checkpoint.")
    ] = False,
) -> None:
    """Train a classifier on folders of pictures: from nothing, from a model's file, or from a teacher.

    Ctrl-C ends it with a checkpoint, and the same command goes on from there.
    """
    from MNN.train import classification

    settings = classification.read(config)
    if anew:
        classification.begin_anew(settings)
    try:
        found = classification.train(settings)
    except KeyboardInterrupt:
        print(f"interrupted: the same command goes on from {settings.beside['checkpoint']}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    best = found.history.best
    if found.history.stopped:
        print(f"ended early: {found.history.stopped}")
    if best is not None:
        print(f"the best of {plural(len(found.history.epochs), 'epoch')}: {best}")
    classes, size = plural(len(found.classes), "class", "classes"), nbytes(settings.output.stat().st_size)
    print(f"{settings.output} ({size}): {classes}")
    share = 100 * found.right / found.held
    print(f"of the {found.held} pictures held out it finds {found.right} right ({share:.1f} %)")
    print(f"beside it: {', '.join(path.name for path in found.files[1:])}")
