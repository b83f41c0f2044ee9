"""A fourth layout for :class:`MNN.backends.cpu.amx.spec.AmxSpec`: groups of channels apart, for small groups.

A pixel of a group is a few bytes, far fewer than a row of a tile has. Pixels of neighbouring groups beside it meet
weights of zero, three quarters of them for bytes in groups of 16. Pixels of the same group beside it are the other taps
of a window along its line. So a block brings every line group by group, and then each group is a window over few
channels, as in :mod:`MNN.backends.cpu.amx.lines`, with columns of its own. Groups of fewer than 16 results are taken a
few at a time, so that these fill column tiles.

B is what it is for one group of as many channels: columns of all groups one after the other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from MNN.backends.cpu.amx.cost import Plan, plan_window
from MNN.backends.cpu.amx.layout import DEPTH, Layout
from MNN.backends.cpu.amx.lines import Lines, has_lines, line_layout, lines_of
from MNN.backends.cpu.amx.records import LENGTH
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets.base import Target

COLUMNS = (16, 32)
"""Columns that a section may have: those of a tile, and of two."""


@dataclass(frozen=True)
class Sections:
    """``lines``: of one section's pixels as if they were side by side; ``channels``: elements of such a pixel;
    ``step``: how many are from one to the next of A. Results come in sections of so many ``columns``."""

    lines: Lines
    channels: int
    step: int
    columns: int


def sections_of(w: Window, columns: int) -> Sections | None:
    """For a window over the channels of a section; None where its taps along a line are not neighbours."""
    if len(w.outputs) == 1:  # a line alone
        w = Window(
            w.images, (1, *w.outputs), (1, *w.inputs), (1, *w.kernel), (1, *w.strides), (1, *w.dilations), w.image_step,
            (w.inputs[0] * w.steps[0], *w.steps), w.channels,
        )  # fmt: skip
    beside = dataclasses.replace(w, steps=(*w.steps[:-1], w.channels))
    return Sections(lines_of(beside), w.channels, w.steps[-1], columns) if has_lines(beside) else None


def plan_sections(target: Target, sections: Sections, n: int, threads: int) -> Plan:
    """As :func:`MNN.backends.cpu.amx.cost.plan_window`."""
    runs = sections.lines.runs
    share = sections.lines.length / (runs.outputs[-1] * -(-runs.channels // DEPTH) * DEPTH)
    return plan_window(target, runs, n, 1, threads, share, sections=(sections.columns, sections.channels))


def section_layout(sections: Sections, rows: int, columns: int) -> Layout:
    """As :func:`MNN.backends.cpu.amx.layout.window_layout`, for blocks of so many ``columns`` at most."""
    plain = line_layout(sections.lines, rows)
    items, regions = plain.items.copy(), plain.regions.copy()
    items[:, 2] = sections.lines.length // sections.channels
    regions[:, LENGTH] = -(-columns // sections.columns) * sections.channels
    return dataclasses.replace(
        plain,
        items=items,
        regions=regions,
        step=sections.step,
        plane=-(-columns // sections.columns) * plain.plane,
        beside=plain.plane,
        lines=False,
        sections=(sections.columns, sections.channels),
    )


__all__ = ["COLUMNS", "Sections", "plan_sections", "section_layout", "sections_of"]
