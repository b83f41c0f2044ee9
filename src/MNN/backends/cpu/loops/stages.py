"""Costly scalar programs in stages, each of which runs over a strip of elements before the next one begins.

A long chain of functions is bound by its latency: what a processor looks ahead holds little more than one vector's
instructions, so that hardly two vectors are computed at a time. A stage is short, and several vectors of it are under
way at once; what the next stages need lies in strips on the stack, within the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from MNN.backends.cpu.lang.element import compute_type
from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.math.scalar_code import COSTLY, BodyCode
from MNN.ir.dtype import DType

_LEAST = 24
"""Instructions of a stage: fewer are not worth their loads and stores."""
_MOST_KEPT = 4
"""Results that a stage hands on."""
_STRIP = 512
"""Elements."""
_KINDS = (DType.F32, DType.I32)
"""Element types that are handed on."""


class Stage(NamedTuple):
    """What is computed from what earlier stages kept."""

    known: tuple[int, ...]
    roots: tuple[int, ...]


def stages(code: BodyCode, roots: Sequence[int]) -> list[Stage]:
    """The stages of a body whose results are ``roots``; one where it is no better cut."""
    body = code.body.code
    inside = {j for part in code.parts.values() for j in part.inside}
    needed = sorted(i for i in code.needed(roots) if code.varies[i] and body[i].op != "arg")
    last_use = {a: i for i in needed for a in body[i].args}
    last_use.update(dict.fromkeys(roots, len(body)))
    left = {i: COSTLY.get(body[i].op, 1) for i in needed}
    total, spent = sum(left.values()), 0
    found: list[Stage] = []
    known: tuple[int, ...] = ()
    for i in needed:
        spent += left[i]
        total -= left[i]
        if body[i].op not in COSTLY or spent < _LEAST or total < _LEAST:
            continue
        kept = tuple(j for j in needed if j <= i and last_use.get(j, -1) > i)
        if len(kept) > _MOST_KEPT or any(j in inside or body[j].dtype not in _KINDS for j in kept):
            continue
        found.append(Stage(known, tuple(j for j in kept if j not in known)))
        known, spent = kept, 0
    return [*found, Stage(known, tuple(roots))]


def in_stages(
    b: Builder,
    code: BodyCode,
    steps: Sequence[Stage],
    lanes: int,
    count: Value,
    loaded: Callable[[Value, Collection[int]], dict[int, Value]],
    stored_at: Callable[[Value, Sequence[Value]], None],
) -> None:
    """``count`` elements, a multiple of ``lanes``: ``loaded`` gives some operands at an element, ``stored_at``
    takes the results of the last stage."""
    types = {i: compute_type(code.body.code[i].dtype, lanes) for step in steps[:-1] for i in step.roots}
    strips = {i: b.alloca(t, _STRIP // lanes) for i, t in types.items()}

    def place(i: int, offset: Value) -> Value:
        return b.gep(strips[i], types[i].element, offset)

    with b.loop(0, count, _STRIP) as strip:
        first = strip.index
        rest = count - first
        size = b.select(b.icmp("slt", rest, _STRIP), rest, b.const(rest.type, _STRIP))
        for step in steps:
            instrs = [code.body.code[i] for i in code.needed_until(step.roots, step.known)]
            wanted = {instr.value for instr in instrs if instr.op == "arg" and isinstance(instr.value, int)}
            with b.loop(0, size, lanes) as vector:
                at = vector.index
                known = {i: b.load(types[i], place(i, at), check=False) for i in step.known}
                values = code.elements(b, loaded(first + at, wanted), lanes, step.roots, known)
                if step is steps[-1]:
                    stored_at(first + at, values)
                else:
                    for i, value in zip(step.roots, values, strict=True):
                        b.store(value, place(i, at), check=False)


__all__ = ["Stage", "in_stages", "stages"]
