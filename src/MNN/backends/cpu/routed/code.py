"""Code generation of :class:`MNN.backends.cpu.routed.routing.RoutingSpec`."""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.gemm.routed_rows import WORDS
from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import I32, I64, Kernel, Value
from MNN.backends.cpu.routed.routing import RoutingSpec
from MNN.backends.cpu.targets.base import Target


@generates(RoutingSpec)
def emit_routing(spec: RoutingSpec, target: Target) -> str:
    """The module's text."""
    k = Kernel.of(spec.slots(), target)
    b = k.b

    def everything() -> None:
        _count(k, spec)
        _deal_out(k)
        _place(k, spec)

    b.if_(b.icmp("slt", k.begin, k.end), everything)
    return k.finish()


def _choice(k: Kernel, spec: RoutingSpec, row: Value) -> tuple[Value, Value]:
    """What a row chooses, 0 where that is nothing, and whether it is nothing."""
    b, type_ = k.b, storage_type(spec.index)
    raw = b.load(type_, b.gep(k.pointer("index"), type_, b.entry(k.pointer("rows_i"), row)))
    wide = raw if type_ is I64 else b.convert("sext", raw, I64)
    outside = b.icmp("uge", wide, k.slot("matrices"))
    return b.select(outside, b.const(I64, 0), wide), outside


def _counter(k: Kernel, matrix: Value) -> Value:
    return k.b.gep(k.scratch, I64, matrix)


def _count(k: Kernel, spec: RoutingSpec) -> None:
    """How many rows take each matrix."""
    b = k.b
    with b.loop(0, k.slot("matrices")) as matrix:
        b.store(b.const(I64, 0), _counter(k, matrix.index))
    with b.loop(0, k.slot("m")) as row:
        chosen, outside = _choice(k, spec, row.index)
        b.if_(outside, lambda: b.store(b.const(I64, 1), k.pointer("error")))
        place = _counter(k, chosen)
        b.store(b.load(I64, place) + 1, place)


def _deal_out(k: Kernel) -> None:
    """Units of the rows of every matrix; counters become the first row's place."""
    b, mb = k.b, k.slot("mb")
    none = b.const(I64, 0)

    def unit(number: Value, first: Value, past: Value, matrix: Value) -> None:
        for i, value in enumerate((first, past, matrix)):
            b.store(b.convert("trunc", value, I32), b.gep(k.pointer("units"), I32, number * WORDS + i))

    with b.loop(0, k.slot("matrices"), carry=[none, none]) as matrix:
        start, made = matrix.carried
        place = _counter(k, matrix.index)
        past = start + b.load(I64, place)
        b.store(start, place)
        with b.loop(start, past, mb, carry=[made]) as some:
            unit(some.carried[0], some.index, b.intrinsic("smin", some.index + mb, past), matrix.index)
            some.next(some.carried[0] + 1)
        matrix.next(past, some.results[0])
    with b.loop(matrix.results[1], k.slot("n_units")) as rest:
        unit(rest.index, none, none, none)


def _place(k: Kernel, spec: RoutingSpec) -> None:
    """Rows in the order of their matrices, each matrix's in their own."""
    b = k.b
    with b.loop(0, k.slot("m")) as row:
        place = _counter(k, _choice(k, spec, row.index)[0])
        at = b.load(I64, place)
        b.store(at + 1, place)
        for source, to in (("rows_x", "rows_a"), ("rows_y", "rows_c")):
            offset = b.load(I32, b.gep(k.pointer(source), I32, row.index))
            b.store(offset, b.gep(k.pointer(to), I32, at))
