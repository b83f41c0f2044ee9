"""Small groups of channels in floating point: lanes hold what comes in, and sums are put in order at the end.

With fewer channels out of a group than a vector has lanes, several groups fill it. What comes in for them lies side by
side in memory. Instead of bringing it to the lanes of the results for every product, a vector of it is multiplied as it
lies, once for each of ``R`` rotations of the channels in a block of ``R``: lane ``i`` of a block then belongs to the
result ``(i + r) mod R``, and after all taps the ``R`` vectors of sums are rotated back and added up. So nothing is
multiplied by zero (the product of zero and an infinite number would be none), and nothing is permuted in the inner
loop: where ``R`` is as many channels as go in and out of a group, it is plain loads and multiply-adds.

``R`` divides the channels in and those out. Of the channels in, every block of ``R`` is a step, for which the lanes of
all blocks out have the same ``R`` numbers. With ``R = 1`` this is the product with a number in every lane of a group.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.lang.module import Builder, Type, Value
from MNN.backends.cpu.products.register_tiles import few_sums
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

MOST_CHANNELS = 16
"""Channels in or out of a group up to which it is small; with more there are Winograd's ways, and tiles are full."""
_MOST_ROWS, _MOST_VECTORS = 12, 4
_ISSUE_WIDTH = 5.0
_HIDDEN = 0.25
"""What is left of reads behind multiply-adds."""


@dataclass(frozen=True)
class Rotated:
    """A panel: ``groups`` of ``ins`` and ``outs`` channels, in blocks of ``rotations``, on vectors of ``lanes``."""

    ins: int
    outs: int
    groups: int
    rotations: int
    lanes: int

    @property
    def columns(self) -> int:
        """Channels out of a panel."""
        return self.groups * self.outs

    @property
    def channels(self) -> int:
        """Channels in of a panel."""
        return self.groups * self.ins

    @property
    def vectors(self) -> int:
        """Vectors of results, the last one perhaps in part."""
        return -(-self.columns // self.lanes)

    @property
    def steps(self) -> int:
        """Blocks of channels in."""
        return self.ins // self.rotations

    @property
    def at_once(self) -> bool:
        """Whether what comes in is one read of memory; else every group's block is."""
        return self.groups > 1 and self.channels <= self.lanes

    def places(self, step: int, vector: int) -> tuple[int, ...]:
        """The channel in of the panel that each lane is multiplied by, -1 for lanes behind the last column."""
        found = []
        for column in range(vector * self.lanes, (vector + 1) * self.lanes):
            group, out = divmod(column, self.outs)
            inside = group * self.ins + step * self.rotations + out % self.rotations
            found.append(inside if column < self.columns else -1)
        return tuple(found)

    def back(self, rotation: int) -> list[int]:
        """The lane of a vector of sums where the one for each lane is."""
        size = self.rotations
        found = [lane - lane % size + (lane - rotation) % size for lane in range(self.lanes)]
        return [at if at < self.lanes else -1 for at in found]

    def read(self, b: Builder, element: Type, pointer: Value) -> Value | None:
        """What comes in for a panel with its first channel at ``pointer``, where it is read at once."""
        return b.load(element.vec(self.channels), pointer) if self.at_once else None

    def left(self, b: Builder, element: Type, pointer: Value, whole: Value | None, step: int) -> list[Value]:
        """What the lanes of each vector are multiplied by in a step; ``whole``: what was read."""
        known: dict[tuple[int, ...], Value] = {}
        for places in map(self.places, [step] * self.vectors, range(self.vectors)):
            if places not in known:
                known[places] = self._placed(b, element, pointer, whole, places)
        return [known[self.places(step, v)] for v in range(self.vectors)]

    def _placed(self, b: Builder, element: Type, pointer: Value, whole: Value | None, places: tuple[int, ...]) -> Value:
        if whole is not None:
            return whole if self._as_it_lies(places) else b.shuffle(whole, None, places)
        size, (first, *others) = self.rotations, self._blocks(places)

        def one(begin: int) -> Value:
            part = b.load(element.vec(size), b.gep(pointer, element, begin))
            mine = [p - begin if begin <= p < begin + size else -1 for p in places]
            return b.splat(part, self.lanes) if size == 1 else b.shuffle(part, None, mine)

        joined = one(first)
        for begin in others:
            taken = [i + self.lanes if begin <= p < begin + size else i for i, p in enumerate(places)]
            joined = b.shuffle(joined, one(begin), taken)
        return joined

    def _as_it_lies(self, places: tuple[int, ...]) -> bool:
        return self.channels == self.lanes and all(p in (-1, i) for i, p in enumerate(places))

    def _blocks(self, places: tuple[int, ...]) -> list[int]:
        """Where the blocks of these channels begin."""
        return sorted({p - p % self.rotations for p in places if p >= 0})

    def work(self, step: int) -> tuple[int, int]:
        """Reads and permutations in a step, of one row, besides the read at once."""
        each = [self._blocks(p) for p in {self.places(step, v) for v in range(self.vectors)}]
        if self.at_once:
            return 0, sum(not self._as_it_lies(p) for p in {self.places(step, v) for v in range(self.vectors)})
        return sum(map(len, each)), sum(len(blocks) - 1 for blocks in each)

    def pack(self, weights: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Weights ``[O, ins, kernel...]`` as ``[panels, taps, steps, rotations, vectors, lanes]``, zeros in lanes
        behind the last column."""
        taps = math.prod(weights.shape[2:])
        panels = weights.shape[0] // self.columns
        split = weights.reshape(panels, self.columns, self.ins, taps)
        size, column = self.rotations, np.arange(self.columns)
        rotation = np.arange(size)[:, None]
        out = column - column % size + (column + rotation) % size  # [rotations, columns]
        inside = np.arange(self.steps)[:, None] * size + column % size  # [steps, columns]
        picked = split[:, out[None, :, :], inside[:, None, :], :]  # [panels, steps, rotations, columns, taps]
        wide = np.zeros((panels, taps, self.steps, size, self.vectors * self.lanes), weights.dtype)
        wide[..., : self.columns] = picked.transpose(0, 4, 1, 2, 3)
        return wide


@dataclass(frozen=True)
class Choice:
    """A panel, the rows of its tile, and cycles of a tile."""

    panel: Rotated
    rows: int
    cycles: float


@functools.lru_cache(maxsize=1024)
def choose_rotated(target: Target, ins: int, outs: int, groups: int, taps: int) -> Choice | None:
    """The best panel for ``groups`` of so many channels each, and windows of so many ``taps``; None where groups are
    large, or none fits. The same for all numbers of rows, so that open ones have one kernel."""
    lanes = target.lanes(DType.F32)
    if max(ins, outs) > MOST_CHANNELS or groups < 2 or lanes < 2:
        return None
    counts = [n for n in range(1, groups + 1) if groups % n == 0 and n * outs <= _MOST_VECTORS * lanes]
    sizes = [r for r in range(1, min(ins, outs) + 1) if math.gcd(ins, outs) % r == 0]
    found = []
    for count, size, rows in itertools.product(counts, sizes, range(1, _MOST_ROWS + 1)):
        panel = Rotated(ins, outs, count, size, lanes)
        if (panel.vectors == 1 or lanes % size == 0) and _fits(target, panel, rows):
            found.append(Choice(panel, rows, _cycles(target, panel, rows, taps)))
    return min(found, key=lambda c: c.cycles / (c.rows * c.panel.columns), default=None)


def _fits(target: Target, panel: Rotated, rows: int) -> bool:
    """Sums, what is multiplied, and one register that is left over."""
    sums = panel.vectors * panel.rotations
    held = min(rows * panel.vectors, sums) + 1 + (not target.has_fma)
    if panel.at_once and panel.steps > 1:
        held += 1
    return rows * sums + held <= target.vector_registers


def _cycles(target: Target, panel: Rotated, rows: int, taps: int) -> float:
    """Cycles of a tile."""
    sums = panel.vectors * panel.rotations
    work = [panel.work(step) for step in range(panel.steps)]
    shuffles = rows * sum(count for _, count in work)
    spilled = max(0, rows + 4 - target.general_registers)
    loads = rows * (panel.at_once + sum(count for count, _ in work)) + panel.steps * (sums + spilled)
    products = rows * sums * panel.steps
    separate = 0 if target.has_fma else products
    waits = max(1.0, target.fma_latency * target.fma_per_cycle / (rows * sums))
    arithmetic = (products + shuffles) / target.fma_per_cycle * waits  # they share a unit
    issue = (products + separate + loads + shuffles + 3 + rows) / _ISSUE_WIDTH
    loading = loads / target.loads_per_cycle
    each = max(arithmetic, loading, issue) + _HIDDEN * loading
    cut = 0 if panel.columns == panel.vectors * panel.lanes else 12.0 * rows * panel.vectors
    ends = 24.0 + 2 * rows + rows * panel.vectors * (panel.rotations + 1) + cut
    return taps * each * few_sums(target, rows, sums) + ends


__all__ = ["Choice", "Rotated", "choose_rotated"]
