"""Tables that fit their console: what is too wide for one is stacked into several, each with the columns that name the
rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Blanks between columns."""
_SPARE = 2
"""Old releases of rich count borders that are not drawn."""


@dataclass
class Column:
    """A column: its heading (lines apart by newlines), and a cell of markup for each row.

    ``least``: the narrowest that its texts may be folded to; 0 for numbers, which are never folded. Columns of one
    ``part`` stay together where there is no room for all; those without one are in every table.
    """

    heading: str
    part: str = ""
    right: bool = True
    least: int = 0
    cells: list[str] = field(default_factory=list)

    def natural(self) -> int:
        """Characters of its widest line."""
        lines = [*self.heading.split("\n"), *(n for c in self.cells for n in Text.from_markup(c).plain.split("\n"))]
        return max(map(cell_len, lines), default=0)

    def narrowest(self) -> int:
        """Characters that it needs at least."""
        if not self.least:
            return self.natural()
        heading = max(map(cell_len, self.heading.split("\n")))
        return min(self.natural(), max(self.least, heading))


def number(heading: str, part: str = "") -> Column:
    """A column of numbers, aligned to the right."""
    return Column(heading, part)


def words(heading: str, part: str = "", least: int = 12) -> Column:
    """A column of texts, folded where there is too little room."""
    return Column(heading, part, right=False, least=least)


def add_row(columns: Sequence[Column], *cells: str) -> None:
    """A cell for each column."""
    for column, cell in zip(columns, cells, strict=True):
        column.cells.append(cell)


def show(screen: Console, columns: Sequence[Column], title: str = "") -> None:
    """Prints a title and the rows: as one table if that fits the console, else part by part."""
    if title:
        screen.print(title, highlight=False)
    for i, found in enumerate(stacked(columns, screen.width)):
        if i:
            screen.print()
        screen.print(_table(found, screen.width))


def stacked(columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """The columns of each table, in order: all of them, or the naming ones with as many of one part as fit."""
    if _needs(columns) <= width:
        yield list(columns)
        return
    naming = [c for c in columns if not c.part]
    for part in dict.fromkeys(c.part for c in columns if c.part):
        some: list[Column] = []
        for column in (c for c in columns if c.part == part):
            if some and _needs([*naming, *some, column]) > width:
                yield [*naming, *some]
                some = []
            some.append(column)
        yield [*naming, *some]


def _needs(columns: Iterable[Column]) -> int:
    widths = [c.narrowest() for c in columns]
    return sum(widths) + _GAP * (len(widths) - 1) + _SPARE


def _table(columns: Sequence[Column], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    room = width - _needs(columns)
    for column in columns:
        extra = min(room, column.natural() - column.narrowest()) if column.least else 0
        room -= max(extra, 0)
        size = column.narrowest() + max(extra, 0)
        justify = "right" if column.right else "left"
        table.add_column(column.heading, justify=justify, overflow="fold", min_width=size, max_width=size)  # type: ignore[arg-type]
    for row in zip(*(c.cells for c in columns), strict=True):
        table.add_row(*row)
    return table
