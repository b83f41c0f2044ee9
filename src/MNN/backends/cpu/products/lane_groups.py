"""Small groups of channels side by side in the lanes of a vector, each lane with its own group's inputs.

With fewer channels out of a group than a vector has lanes, several groups fill it. An instruction that sums products of
a lane's bytes or pairs takes for each lane those of its group: they lie next to each other in memory, and a permutation
brings them there. So nothing is multiplied by zero, as it is where groups become one
(:mod:`MNN.backends.cpu.products.merged_groups`).
"""

from __future__ import annotations

from dataclasses import dataclass

from MNN.backends.cpu.lang.module import I8, I16, I32, Builder, Value
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.dot8 import DOT4, in_halves
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor

_WORD = 4
"""Bytes of a lane."""
_LINE = 64
_VECTORS = (4, 2, 1)
_MERGED_STEPS = 2
"""Groups are worth a permutation for every product where merging them takes so many times the products."""


@dataclass(frozen=True)
class Lanes:
    """Which groups the lanes of ``vectors`` neighbouring vectors belong to: ``groups`` of each, of ``ins`` and ``outs``
    channels."""

    ins: int
    outs: int
    groups: int
    vectors: int

    @property
    def at_once(self) -> int:
        """Groups of all vectors."""
        return self.groups * self.vectors


def groups_in_lanes(target: Target, a: DType, group: int, w: Tensor, groups: int) -> Lanes | None:
    """How groups of constant weights ``w`` ``[O, I / groups, kernel...]`` lie in lanes, for a left side of type ``a``
    and instructions that sum ``group`` products; None where they are better merged, or left as they are."""
    bytes_ = group == DOT4 and not in_halves(target)
    if not (bytes_ or (group == DOT2 and a is DType.I16)) or w.const is None or target.lane_operand:
        return None
    lanes, ins, outs = target.lanes(DType.I32), w.shape[1], w.shape[0] // groups
    count = lanes // max(outs, 1)
    size = count * ins * a.size
    if count < 2 or groups % count or lanes % outs or size & (size - 1) or not _WORD <= size <= _LINE:
        return None
    if -(-count * ins // group) < _MERGED_STEPS * -(-ins // group):
        return None
    vectors = next(v for v in _VECTORS if groups % (count * v) == 0)
    return Lanes(ins, outs, count, vectors)


def load_lanes(b: Builder, pointer: Value, lanes: Lanes, width: int, size: int) -> list[Value]:
    """What the groups from ``pointer`` on have for a vector of ``width`` lanes, one after the other: as many vectors as
    the channels in of a group, of ``size`` bytes, fill words. Behind the last channel come any numbers."""
    run = lanes.ins * size
    unit = next(n for n in (_WORD, 2, 1) if run % n == 0)
    element = {_WORD: I32, 2: I16, 1: I8}[unit]
    of_group, of_word = run // unit, _WORD // unit
    parts = b.load(element.vec(lanes.groups * of_group), pointer, align=size)
    found = []
    for word in range(-(-run // _WORD)):
        places = [
            lane // lanes.outs * of_group + min(word * of_word + i, of_group - 1)
            for lane in range(width)
            for i in range(of_word)
        ]
        found.append(b.bitcast(b.shuffle(parts, None, places), I32.vec(width)))
    return found


__all__ = ["Lanes", "groups_in_lanes", "load_lanes"]
