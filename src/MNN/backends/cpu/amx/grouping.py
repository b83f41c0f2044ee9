"""How the columns of a block are taken on AMX tiles, and what is asked for ahead meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from MNN.backends.cpu.amx.cost import PANEL, panel_bytes
from MNN.backends.cpu.amx.layout import LEAST, Layout
from MNN.backends.cpu.amx.tiles import ROW_BYTES, ROWS
from MNN.backends.cpu.targets.base import Target

_GROUP = 8
"""Panels of a group at most: rows of results are then written in runs of some length, which memory likes."""
_TALL_GROUP = 4
"""Panels of a group of tall sums at most: what is fetched ahead is the group behind."""
_PAIR_LINE = PANEL * 4
"""Bytes from one row of sums to the next where those of two pairs are held."""
_GROUP_SHARE = 16
"""A group takes at most one part in so many of the second-level cache: the one behind it is fetched meanwhile."""
_AHEAD = (1, 4, 16, 32)
"""Lines that kernels ask for in a step. Few kinds of kernels do for all sizes: a step goes on where the next line is
that nobody has asked for, and asking again for the lines behind it costs little."""
_ASK = 1.0
"""Cycles to ask for a line that is there (ResNet-18 in ``low``: three of them in every step take 2 %)."""
_UNASKED = 16.0
"""Cycles that a step waits for a line which was not asked for, of those that the third-level cache brings in turns."""


@dataclass(frozen=True)
class Grouping:
    """How columns are taken: in a ``group`` at a time, how many ``lines`` the steps of a kernel call should ask for,
    its spec's ``passing``, and of shared rows the ``part`` of the columns that a block computes."""

    group: int
    line: int
    held: int
    lines: int
    passing: bool
    part: int

    def words(self) -> dict[str, int]:
        """The slots of a kernel call that follow."""
        return {"group": self.group, "line": self.line, "held": self.held, "fetch": self.lines * ROW_BYTES}


def grouping(
    target: Target, n: int, nb: int, layout: Layout, parts: int, w24: bool = False, half: bool = False, shared: int = 0,
    overlap: bool = False,
) -> Grouping:  # fmt: skip
    """For ``n`` columns in blocks of ``nb``; every block has some of those of ``shared`` row tiles, in whole groups.
    ``overlap``: the spec's."""
    size = panel_bytes(layout.n_steps, parts, w24, half)
    panels = -(-min(n, nb) // PANEL)
    share = -(-panels // layout.m_blocks) if shared else panels
    pairs = layout.pairs
    left = parts * min(layout.n_steps * PANEL * ROW_BYTES, int(np.ptp(layout.kofs)) + PANEL * layout.pitch)
    if layout.tall:
        group, columns, rows = -(-panels // -(-panels // _TALL_GROUP)), panels, max(layout.tiles, LEAST) * ROWS
    elif layout.chunks > 1:
        group, columns, rows = 1, panels, max(pairs, 2 if overlap else 1) * PANEL
    else:
        most = 1 if layout.sliced else max(1, min(_GROUP, share, target.l2_bytes // _GROUP_SHARE // size))
        most = _near(target, share, most, size, left, pairs) if overlap and parts == 1 else most
        group = columns = -(-share // -(-share // most))
        rows = PANEL
    line = columns * PANEL * 4
    line += ROW_BYTES if line % 256 == 0 else 0
    if overlap and layout.chunks == 1 and not layout.tall:
        line, rows = _PAIR_LINE, 2 * PANEL
    in_cache = panels * size <= target.l2_bytes // 4 and layout.m_blocks > 2
    least = (layout.tiles - shared) // 2 if shared else pairs  # of a group's pairs of tiles
    lines = 0 if in_cache else min(-(-size // (layout.n_steps * ROW_BYTES)) // least, _AHEAD[-1])
    passing = layout.tall or left + group * size > target.l1_bytes  # two row tiles and a group, one after the other
    return Grouping(group * PANEL, line, rows * line, lines, passing, -(-share // group) * group * PANEL)


def _near(target: Target, share: int, most: int, size: int, left: int, pairs: int) -> int:
    """Of ``share`` panels of ``size`` bytes, ``most`` at most, how many to take at a time, so that least comes from the
    second-level cache: panels come once where they stay in the first-level cache, beside ``left`` bytes of a pair of
    row tiles and the sums of two, and for each of so many ``pairs`` where they do not; rows come for every group."""

    def brought(group: int) -> tuple[int, int]:
        stays = left + group * size + 2 * PANEL * _PAIR_LINE <= target.l1_bytes
        return share * size * (1 if stays else pairs) + pairs * left * -(-share // group), -group

    return min(range(1, most + 1), key=brought)


def ask_ahead(lines: int, steps: int, made: Collection[int] = (), spare: float = 0.0) -> int:
    """For how many lines a kernel should ask in each of so many ``steps`` where ``lines`` are wanted.

    A kernel that was ``made`` is taken where what it asks for beyond them, or does not ask for, costs no more than
    ``spare`` cycles.
    """
    best = next(n for n in _AHEAD if n >= lines)

    def cost(n: int) -> float:
        return steps * ((n - best) * _ASK if n >= lines else (lines - n) * _UNASKED)

    return min((n for n in made if cost(n) <= spare), key=lambda n: (cost(n), n), default=best)


__all__ = ["Grouping", "ask_ahead", "grouping"]
