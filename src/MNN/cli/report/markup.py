"""Pieces of HTML and SVG: everything that comes from a model or a machine is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

COLOURS = 8
"""Kinds that get a colour of their own; the rest share the last."""


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; ``_`` in names of attributes becomes ``-`` (``class_`` is ``class``), None leaves one out.

    ``content`` is markup already; attribute values are escaped.
    """
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{content}</{name}>"


def text(value: object) -> str:
    """Anything as escaped text."""
    return escape(str(value), quote=False)


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.1f}"
    return str(value)


def section(title: str, note: str, body: str, anchor: str) -> str:
    """A card of the page."""
    head = tag("h2", text(title)) + (tag("p", text(note), class_="note") if note else "")
    return tag("section", head + body, id=anchor, class_="card")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = (), name: str = "") -> str:
    """A table of markup cells; columns in ``numeric`` are aligned to the right. With a ``name`` it can be sorted."""
    right = set(numeric)

    def cells(kind: str, row: Sequence[str]) -> str:
        return "".join(tag(kind, cell, class_="n" if i in right else None) for i, cell in enumerate(row))

    head = tag("thead", tag("tr", cells("th", [text(h) for h in headings])))
    body = tag("tbody", "".join(tag("tr", cells("td", row)) for row in rows))
    whole = tag("table", head + body, id=name or None, class_="sortable" if name else None)
    return tag("div", whole, class_="scroll")


def tile(name: str, value: str, note: str = "", grade: str | None = None) -> str:
    """A number with its name above it; ``grade`` (good, fair, poor) colours it."""
    parts = (
        tag("span", text(name), class_="soft"),
        tag("b", text(value), class_=grade),
        tag("span", text(note), class_="soft"),
    )
    return tag("div", "".join(parts), class_="tile")


def palette(names: Iterable[str]) -> dict[str, int]:
    """A colour's number for every name, in the order given."""
    return {name: min(i, COLOURS - 1) for i, name in enumerate(dict.fromkeys(names))}


def legend(colours: Mapping[str, int]) -> str:
    """Names beside their colours."""
    items = (tag("span", tag("i", class_=f"dot c{number}") + text(name)) for name, number in colours.items())
    return tag("div", "".join(items), class_="legend")


def nice_ticks(top: float, count: int = 6) -> list[float]:
    """Round numbers from 0 to ``top``, about ``count`` of them."""
    if not top > 0:
        return [0.0]
    raw = top / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    return [i * step for i in range(int(top / step + 1e-9) + 1)]


def si(value: float) -> str:
    """A number for people: 0.35, 12.3, 4,560."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
