"""Code generation of :class:`MNN.backends.cpu.attention.spec.PartsMergeSpec`."""

from __future__ import annotations

from MNN.backends.cpu.attention.parts import greater, lanes_of
from MNN.backends.cpu.attention.spec import PartsMergeSpec, partial_row
from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, I64, Kernel, Value
from MNN.backends.cpu.math.functions import exp2
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_LOWEST = float("-inf")


@generates(PartsMergeSpec)
def emit_parts_merge(spec: PartsMergeSpec, target: Target) -> str:
    """The module's text."""
    k = Kernel.of(spec.slots(), target)
    b = k.b
    most = spec.tile * spec.share
    with b.loop(k.begin, k.end) as block:
        number = b.udiv(block.index, spec.groups)
        group = block.index - number * spec.groups
        record = b.gep(k.pointer("tiles"), I64, number * 4)
        first, tokens, position = (b.load(I64, b.gep(record, I64, i)) for i in (0, 1, 3))
        fits = b.icmp("ule", tokens, spec.tile)  # as in the kernel that has left the parts
        fits = b.and_(fits, b.icmp("ule", first, k.slot("tokens") - tokens))
        fits = b.and_(fits, b.icmp("sge", position, 0))

        def rows(block: Value = block.index, group: Value = group, first: Value = first, n: Value = tokens) -> None:
            with b.loop(0, n * spec.share) as row:
                token = b.udiv(row.index, spec.share)
                head = group * spec.share + (row.index - token * spec.share)
                to = (first + token) * k.slot("out_t") + head * k.slot("out_h")
                start = (block * (spec.parts * most) + row.index) * partial_row(spec.padded)
                _row(k, spec, b.gep(k.pointer("partial"), F32, start), b.gep(k.pointer("out"), F32, to), target)

        b.if_(fits, rows)
    return k.finish()


def _row(k: Kernel, spec: PartsMergeSpec, source: Value, to: Value, target: Target) -> None:
    b, lanes = k.b, target.lanes(DType.F32)
    step = spec.tile * spec.share * partial_row(spec.padded)
    highest, zero = b.gep(source, F32, spec.padded), b.const(F32, 0.0)
    with b.loop(0, spec.parts, carry=[b.const(F32, _LOWEST)]) as each:
        each.next(greater(b, b.load(F32, b.gep(highest, F32, each.index * step)), each.carried[0]))
    top = b.select(b.fcmp("oeq", each.results[0], _LOWEST), zero, each.results[0])  # nothing is seen
    with b.loop(0, spec.parts, carry=[zero]) as each:
        place = b.gep(highest, F32, each.index * step)
        share = exp2(b, b.splat(b.sub(b.load(F32, place), top), lanes))
        share = b.extract(share, 0) if lanes > 1 else share
        b.store(share, b.gep(k.scratch, F32, each.index))
        each.next(b.fma(share, b.load(F32, b.gep(place, F32, 1)), each.carried[0]))
    total = each.results[0]
    whole = b.select(b.fcmp("oeq", total, 0.0), zero, b.fdiv(b.const(F32, 1.0), total))
    lanes = lanes_of(spec.value_size, lanes)
    vector = F32.vec(lanes)
    with b.loop(0, spec.value_size, lanes) as column:
        with b.loop(0, spec.parts, carry=[b.const(vector, 0.0)]) as each:
            x = b.load(vector, b.gep(source, F32, each.index * step + column.index))
            share = b.splat(b.load(F32, b.gep(k.scratch, F32, each.index)), lanes)
            each.next(b.fma(x, share, each.carried[0]))
        b.store(b.mul(each.results[0], b.splat(whole, lanes)), b.gep(to, F32, column.index))
