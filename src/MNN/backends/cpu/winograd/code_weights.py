"""Code generation of :class:`MNN.backends.cpu.winograd.spec.WinogradWeightsSpec`."""

from __future__ import annotations

from collections.abc import Callable

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, F64, I64, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.winograd.spec import WinogradWeightsSpec
from MNN.backends.cpu.winograd.transform import all_rows
from MNN.ir.dtype import DType


@generates(WinogradWeightsSpec)
def emit_weights(spec: WinogradWeightsSpec, target: Target) -> str:
    """The module's text: lanes are neighbouring filters, a register of f32 at a time, so that lines are written at
    once: those of all positions may share a cache set."""
    k = Kernel.of(spec.slots(), target)
    b = k.b
    f_h, f_w = spec.filterings
    lanes = max(1, min(target.lanes(DType.F32), spec.nr))
    while spec.nr % lanes:
        lanes //= 2
    c, n, step = k.slot("c"), k.slot("n"), k.slot("step")
    parts = b.udiv(c + step - 1, step)
    panels = b.udiv(n + (spec.nr - 1), b.const(I64, spec.nr))
    high = c + k.slot("head")
    position = panels * high * spec.nr
    with b.loop(k.begin, k.end) as block:
        panel = b.udiv(block.index, parts)
        first = (block.index - panel * parts) * step
        past = b.intrinsic("smin", first + step, c)
        with b.loop(first, past) as channel, b.loop(0, spec.nr, lanes) as part:
            first_column = panel * spec.nr + part.index
            lines = b.gep(k.pointer("w"), F32, channel.index * k.slot("w_c"))
            out = b.gep(k.pointer("u"), F32, (panel * high + k.slot("head") + channel.index) * spec.nr + part.index)

            def transform(weight: Callable[[int, int], Value], out: Value = out) -> tuple[()]:
                columns = [all_rows(b, f_h.g, f_h, [weight(i, j) for i in range(spec.rh)]) for j in range(spec.rw)]
                for i in range(f_h.factors):
                    for value in all_rows(b, f_w.g, f_w, [column[i] for column in columns])[: f_w.factors]:
                        b.store(b.convert("fptrunc", value, F32.vec(lanes)), out)
                        out = b.gep(out, F32, position)
                return ()

            def one_by_one(lines: Value = lines, first_column: Value = first_column) -> tuple[()]:
                at: list[Value] = []
                for lane in range(lanes):
                    column = b.intrinsic("smin", first_column + lane, n - 1)
                    at.append(b.gep(lines, F32, column * k.slot("w_n")))

                def weight(i: int, j: int) -> Value:
                    offset = k.slot("w_h") * i + k.slot("w_w") * j
                    raw = b.poison(F32.vec(lanes)) if lanes > 1 else b.const(F32, 0)
                    for lane, pointer in enumerate(at):
                        one = b.load(F32, b.gep(pointer, F32, offset))
                        raw = b.insert(raw, one, lane) if lanes > 1 else one
                    return b.convert("fpext", raw, F64.vec(lanes))

                return transform(weight)

            def in_rows(lines: Value = lines, first_column: Value = first_column) -> tuple[()]:
                at = b.gep(lines, F32, first_column)

                def weight(i: int, j: int) -> Value:
                    place = b.gep(at, F32, k.slot("w_h") * i + k.slot("w_w") * j)
                    return b.convert("fpext", b.load(F32.vec(lanes), place), F64.vec(lanes))

                return transform(weight)

            if spec.in_rows and lanes > 1:
                b.if_else(b.icmp("sle", first_column + lanes, n), in_rows, one_by_one, likely=True)
            else:
                one_by_one()
    return k.finish()
