"""A step's scalar program in two stages.

Where one long function follows another (the tangent of an LSTM's new cell, whose gates are exponentials), a vector of
units waits for itself: processors look some hundred instructions ahead, which is less than one vector takes. In two
stages, each for all vectors of a tile, several vectors are under way at once.
"""

from __future__ import annotations

import functools

from MNN.backends.cpu.math.scalar_code import COSTLY
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

_LONG = 12
"""Vector instructions of what has a level of its own."""


@functools.cache
def handed_on(body: Body, states: range, room: int) -> tuple[int, ...]:
    """The instructions of ``body`` whose results the first stage hands on to the second, which also has the operands
    ``states``: at most ``room``, all of the type of the operands. None at all where one stage does: where one long
    function does not follow another, or more would have to be handed on."""
    code, levels = body.code, list[int]()
    for instr in code:
        levels.append(max((levels[a] for a in instr.args), default=0) + (COSTLY.get(instr.op, 0) >= _LONG))
    top = max(levels)
    if top < 2:
        return ()
    late = {i for i, level in enumerate(levels) if level == top}
    for i in range(len(code) - 1, -1, -1):
        if i in late:
            # Conditions are not kept; a negation is part of the gate that it begins.
            late |= {a for a in code[i].args if code[a].dtype is DType.BOOL or code[a].op == "neg"}
    wanted = ({a for i in late for a in code[i].args} | set(body.outputs)) - late
    handed = tuple(
        i for i in sorted(wanted) if code[i].op != "const" and not (code[i].op == "arg" and code[i].value in states)
    )
    fits = len(handed) <= room and all(code[i].dtype is body.args[0] for i in handed)
    return handed if fits else ()
