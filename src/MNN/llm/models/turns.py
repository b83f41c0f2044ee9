"""How far rotary positions turn each pair of numbers, where that depends on how long a text is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from MNN.frontends.common.expressions import binary, select
from MNN.ir.graph import Value
from MNN.llm.models.arithmetic import Arithmetic
from MNN.llm.models.rotary import Rotary


def turns(net: Arithmetic, rotary: Rotary, whole: Callable[[], Value]) -> Value:
    """How far one position turns each pair; of some models that depends on the length of the ``whole`` text, which is
    asked for then."""
    if rotary.long is None and not rotary.stretch:
        return net.const(rotary.turns)
    length = whole()
    if rotary.long is not None:
        beyond = binary(net, "GREATER", length, net.const(np.array([rotary.trained])))
        return select(net, beyond, net.const(rotary.long), net.const(rotary.turns))
    times = net.multiply(net.floating(length), rotary.stretch / rotary.trained)
    times = net.add(times, net.const(1.0 - rotary.stretch))
    more = net.unary("LOG", binary(net, "MAXIMUM", times, net.const(1.0)))
    share = np.arange(len(rotary.turns), dtype=np.float32) / np.float32(max(len(rotary.turns) - 1, 1))
    slower = net.unary("EXP", net.multiply(more, net.const(-share)))
    return net.multiply(slower, net.const(rotary.turns))


__all__ = ["turns"]
