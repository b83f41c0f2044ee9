"""A history as a picture: losses, and other numbers, by epoch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from html import escape

from MNN.errors import MNNError
from MNN.schema.files import path_of, replacing
from MNN.train.history import History

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 28, 34
COLOURS = ("#1f77b4", "#d62728")


def plot(history: History, path: str | os.PathLike[str]) -> None:
    """Writes an SVG with one drawing for the loss and one for each metric, of training and validation, whole or not at
    all. Raises :class:`MNNError` for a history without epochs, or a name that is not that of an .svg file."""
    target = path_of(path)
    if target.suffix.lower() != ".svg":
        raise MNNError(f"{target}: a plot is a .svg file")
    if not isinstance(history, History):
        raise MNNError(f"plot() draws what fit() gives, found {type(history).__name__}")
    if not history.epochs:
        raise MNNError("there is nothing to draw: no epoch was finished")
    kinds = ["loss", *dict.fromkeys(n for e in history.epochs for n in (*e.metrics, *e.validation) if n != "loss")]
    drawings = []
    for number, kind in enumerate(kinds):
        lines = {
            "training": [e.loss if kind == "loss" else e.metrics.get(kind, math.nan) for e in history.epochs],
            "validation": [e.validation.get(kind, math.nan) for e in history.epochs],
        }
        drawings.append(f'<g transform="translate(0 {number * HEIGHT})">{_drawing(kind, lines)}</g>')
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(kinds)}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(drawings)}</svg>\n"
    )
    with replacing(target) as file:
        file.write(text.encode())


def _drawing(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """Lines over the numbers of epochs, from 1 on; what is not finite is left out."""
    values = [v for line in lines.values() for v in line if math.isfinite(v)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low < 1e-9 * max(abs(high), 1e-9):
        low, high = low - 0.5 * max(abs(low), 1.0), high + 0.5 * max(abs(high), 1.0)
    count = max(len(line) for line in lines.values())

    def x(epoch: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (epoch - 1) / max(count - 1, 1)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{escape(title)}</text>']
    for value in _ticks(low, high):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    every = max(1, -(-count // 10))
    for epoch in range(1, count + 1, every):
        parts.append(f'<text x="{x(epoch):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{epoch}</text>')
    for number, (name, line) in enumerate(lines.items()):
        points = [f"{x(i + 1):.1f},{y(v):.1f}" for i, v in enumerate(line) if math.isfinite(v)]
        if points:
            colour = COLOURS[number]
            parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [
                f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2.5" fill="{colour}"/>' for p in points
            ]
            parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 14 + 18 * number}" fill="{colour}">{name}</text>')
    return "".join(parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


__all__ = ["plot"]
