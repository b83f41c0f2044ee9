"""``mnn cache``: what is kept on disk, how much that may be, and getting rid of it."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.markup import escape

from MNN.cache.entries import default_folder, make_private
from MNN.cache.eviction import MEASURED, PARTS, clear, contents, said, set_limit
from MNN.cli.display.output import console
from MNN.cli.display.tables import add_row, number, show, words
from MNN.errors import MNNError
from MNN.formatting import nbytes, parse_bytes, plural

NAME = "cache"
SHORT = "See, limit or clear what is kept on disk."
"""What the list of commands says."""
MEASUREMENTS = "measurements of this machine"

app = typer.Typer(
    help="Compiled kernels, packed weights and plans are kept on disk, so that models start faster the next time. "
    "The folder is MNN_CACHE_DIR, else mnn in the user's cache folder. What was used longest ago goes when more is "
    "kept than MNN_CACHE_LIMIT or `mnn cache size --limit` say (4 GB by default).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("list", short_help="What is kept, and how much of it.")
def list_parts() -> None:
    """Show what is kept: kinds of entries, how many, their size, and when one was last used."""
    root = default_folder()
    found = contents(root)
    if not found:
        print(f"nothing is kept in {root}")
        return
    columns = [words("kept"), number("entries"), number("size"), words("last used", least=16)]
    for part in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(part.used))
        name = PARTS.get(part.name, MEASUREMENTS)
        add_row(columns, escape(name), f"{part.entries:,}", nbytes(part.nbytes), used)
    show(console(), columns)
    print(said(root))


@app.command("size", short_help="How much is kept; --limit sets how much may be.")
def size(
    limit: Annotated[
        str, typer.Option(help="Keep at most this much from now on: 500MB, 2GB, ... or default (4GB).")
    ] = "",
) -> None:
    """Show how much is kept and how much may be; with --limit set that, and remove what is beyond."""
    root = default_folder()
    if limit:
        wanted = None if limit == "default" else parse_bytes(limit, "--limit")
        problem = make_private(root)
        if problem:
            raise MNNError(f"the cache folder {root} cannot be used: {problem}")
        set_limit(root, wanted)
    print(said(root))


@app.command("clear", short_help="Remove what is kept.")
def clear_all(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what --tune and --machine of mnn bench have measured.")
    ] = False,
) -> None:
    """Remove compiled kernels, packed weights and plans; they are made again when they are needed."""
    root = default_folder()
    count, removed = clear(root, everything)
    kept = any(part.name == MEASURED for part in contents(root))
    left = "; what mnn bench has measured was kept (--all removes that too)" if kept else ""
    print(f"removed {plural(count, 'file')}, {nbytes(removed)}, from {root}{left}")
