"""Rounds that several workers go through together, inside one kernel: no part of a round begins before all parts of the
round before it are done.

Nobody waits for a worker that has not come: every part of every round is claimed from memory that the workers share. A
worker claims its own part first, so that what it needs stays in its own cache; then those of workers that are not there
(or have been away for long). Whoever has claimed a part is running, or the system has it stand still for a moment.
"""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.lang.module import I1, I64, VOID, Builder, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can

LINE = 8
"""Numbers (i64) in a cache line: each lies in one of its own."""
PATIENCE = 4096
"""Pauses after which the part of a worker that has come is taken from it all the same."""


def words(parts: int) -> int:
    """The i64 that the workers of ``parts`` parts share: parts done, and for each how often it was claimed and whether
    its worker has come. All zero before the first round."""
    return LINE * (1 + 2 * parts)


def in_phases(
    k: Kernel,
    target: Target,
    shared: Value,
    parts: Value,
    part: Value,
    phases: Value,
    run: Callable[[Value, Value], None],
) -> None:
    """Takes part in ``phases`` rounds as the worker of ``part``; ``run(part, round)`` emits the work."""
    b = k.b
    done = shared

    def line(at: Value | int) -> Value:
        return b.gep(shared, I64, (at + 1) * LINE)

    def come(at: Value) -> Value:
        return line(parts + at)

    b.check(come(part), 8)
    b.line(f"store atomic i64 1, ptr {come(part).text} release, align 8")
    # Rounds before the last one that has been claimed are over.
    first = b.intrinsic("smax", _load(b, line(part)) - 1, b.const(I64, 0))
    with b.loop(first, phases) as each:
        number = each.index

        def attempt(turn: Value, number: Value = number) -> tuple[Value, list[Value]]:
            at = b.urem(part + turn, parts)
            alone = b.icmp("eq", _load(b, come(at)), 0)
            allowed = b.or_(b.or_(alone, b.icmp("eq", turn, 0)), b.icmp("sgt", turn, PATIENCE))
            free = b.icmp("eq", _load(b, line(at)), number)

            def claim() -> tuple[()]:
                place = line(at)
                b.check(place, 8)
                after = number + 1
                was = f"cmpxchg ptr {place.text}, i64 {number.text}, i64 {after.text} acq_rel acquire, align 8"
                name = f"%claim{b.fresh()}"
                b.line(f"{name} = {was}")
                won = b.emit(I1, f"extractvalue {{ i64, i1 }} {name}, 1")

                def work() -> None:
                    run(at, number)
                    b.check(done, 8)
                    b.line(f"%done{b.fresh()} = atomicrmw add ptr {done.text}, i64 1 acq_rel, align 8")

                b.if_(won, work)
                return ()

            def wait() -> tuple[()]:
                _pause(b, target)
                return ()

            b.if_else(b.and_(allowed, free), claim, wait)
            return b.icmp("slt", _load(b, done), (number + 1) * parts), [turn + 1]

        b.do_while([b.const(I64, 0)], attempt)


def _load(b: Builder, place: Value) -> Value:
    b.check(place, 8)
    return b.emit(I64, f"load atomic i64, ptr {place.text} acquire, align 8")


def _pause(b: Builder, target: Target) -> None:
    if target.can(can.PAUSE):
        b.perform(can.PAUSE, VOID)
