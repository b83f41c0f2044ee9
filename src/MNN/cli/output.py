"""Consoles: as wide as the terminal, and wide enough for tables where there is none."""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 160
"""Columns when the output goes to a file or a pipe."""


def console() -> Console:
    """Where results go."""
    found = Console()
    return found if found.is_terminal else Console(width=PLAIN_WIDTH)


def progress_console() -> Console:
    """Where progress goes: the error stream, so that results can be piped."""
    return Console(stderr=True)
