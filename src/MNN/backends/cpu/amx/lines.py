"""A third layout for :class:`MNN.backends.cpu.amx.spec.AmxSpec`: lines of pixels, for windows over few channels.

The taps of a window along a line of channels-last pixels are one run of memory, and the runs of neighbouring windows
overlap. So every line is brought once, and tiles are loaded from it at places that are less than a tile's row apart:
nothing is joined. What a row of a tile has behind its run meets weights of zero, and must be a number for that: pixels
of the same line or of the next one, or the zeros that follow every line. (An infinity there becomes a NaN, at most 32
elements from where it belongs, as infinities spread over a tile of Winograd's.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from MNN.backends.cpu.amx.cost import Plan, plan_window
from MNN.backends.cpu.amx.layout import DEPTH, Layout, window_layout
from MNN.backends.cpu.amx.records import LENGTH, TILES
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets.base import Target


def has_lines(w: Window) -> bool:
    """Whether the taps along a line are one run of memory."""
    return len(w.outputs) > 1 and w.kernel[-1] > 1 and w.dilations[-1] == 1 and w.steps[-1] == w.channels


@dataclass(frozen=True)
class Lines:
    """``runs``: the window with each run of its taps as a pixel of many channels, under a window that is one wide.
    ``length``: elements of a line that windows touch."""

    runs: Window
    length: int


def lines_of(w: Window) -> Lines:
    """For a window that :func:`has_lines`."""

    def with_last(dims: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*dims[:-1], value)

    runs = dataclasses.replace(
        w,
        inputs=with_last(w.inputs, w.outputs[-1]),
        kernel=with_last(w.kernel, 1),
        strides=with_last(w.strides, 1),
        steps=with_last(w.steps, w.strides[-1] * w.channels),
        channels=w.kernel[-1] * w.channels,
    )
    return Lines(runs, ((w.outputs[-1] - 1) * w.strides[-1] + w.kernel[-1]) * w.channels)


def plan_lines(target: Target, lines: Lines, n: int, parts: int, threads: int, half: bool = False) -> Plan:
    """As :func:`MNN.backends.cpu.amx.cost.plan_window`."""
    runs = lines.runs
    share = lines.length / (runs.outputs[-1] * -(-runs.channels // DEPTH) * DEPTH)
    return plan_window(target, runs, n, parts, threads, share, half=half)


def line_layout(lines: Lines, rows: int) -> Layout:
    """As :func:`MNN.backends.cpu.amx.layout.window_layout`."""
    runs = lines.runs
    pitch = runs.steps[-1] * 2
    beyond = -(-runs.channels * 2 // pitch) - 1
    plain = window_layout(runs, rows, pitch, runs.outputs[-1] + beyond)
    items, regions = plain.items.copy(), plain.regions.copy()
    regions[:, LENGTH] = lines.length
    items[:, 2] = 1
    last_row = (int(regions[:, TILES].max()) * ROWS - 1) * pitch + int(plain.kofs.max())
    size = max(last_row, int(items[:, 1].max()) + lines.length * 2 + ROW_BYTES) + 2 * ROW_BYTES
    return dataclasses.replace(
        plain, items=items, regions=regions, lines=True, plane=(size // ROW_BYTES | 1) * ROW_BYTES
    )
