"""Consoles: as wide as the terminal, and wide enough for tables where there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rich.console import Console

from MNN.errors import MNNError
from MNN.schema.files import replacing

PLAIN_WIDTH = 160
"""Columns when the output goes to a file or a pipe."""


def console() -> Console:
    """Where results go."""
    found = Console(emoji=False)  # ":x:" in a name is no picture
    return found if found.is_terminal or os.environ.get("COLUMNS") else Console(width=PLAIN_WIDTH, emoji=False)


def progress_console() -> Console:
    """Where progress goes: the error stream, so that results can be piped."""
    return Console(stderr=True, emoji=False)


def make_folder(path: Path) -> None:
    """Makes a folder for results, and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "a file of that name is there" if path.exists() else error.strerror or error
        raise MNNError(f"cannot make the folder {path}: {reason}") from error


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file, whole or not at all."""
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
