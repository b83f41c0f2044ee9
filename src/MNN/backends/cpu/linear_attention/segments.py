"""What kernels over texts of a step have in common: one segment after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable

from MNN.backends.cpu.lang.module import I64, Kernel, Value
from MNN.backends.cpu.linear_attention.spec import SEGMENT


def each_segment(k: Kernel, run: Callable[[Value, Value, Value, Value], None]) -> None:
    """``run`` for each of the kernel's ``count`` records in ``segments`` that has tokens: the first of them, how many,
    and the slots before and behind them."""
    b = k.b
    with b.loop(0, k.slot("count")) as each:
        place = b.gep(k.pointer("segments"), I64, each.index * SEGMENT)
        first, count, source, to = (b.load(I64, b.gep(place, I64, i)) for i in range(SEGMENT))
        b.if_(b.icmp("sgt", count, 0), functools.partial(run, first, count, source, to))


__all__ = ["each_segment"]
