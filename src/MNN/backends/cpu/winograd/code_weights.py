"""Code generation of :class:`MNN.backends.cpu.winograd.spec.WinogradWeightsSpec`."""

from __future__ import annotations

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.module import F32, F64, I64, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.winograd.spec import WinogradWeightsSpec
from MNN.backends.cpu.winograd.transform import all_rows


@generates(WinogradWeightsSpec)
def emit_weights(spec: WinogradWeightsSpec, target: Target) -> str:
    """The module's text: lanes are neighbouring filters, a register of f64 at a time."""
    k = Kernel.of(spec.slots(), target)
    b = k.b
    f_h, f_w = spec.filterings
    lanes = max(1, min(target.vector_bytes // 8, spec.nr))
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
        # Channel by channel, so that whole cache lines are written once: the positions' lines may share a cache set.
        with b.loop(first, past) as channel, b.loop(0, spec.nr, lanes) as part:
            at: list[Value] = []
            for lane in range(lanes):
                column = b.intrinsic("smin", panel * spec.nr + part.index + lane, n - 1)
                at.append(b.gep(k.pointer("w"), F32, column * k.slot("w_n") + channel.index * k.slot("w_c")))

            def weight(i: int, j: int, at: list[Value] = at) -> Value:
                offset = k.slot("w_h") * i + k.slot("w_w") * j
                raw = b.poison(F32.vec(lanes)) if lanes > 1 else b.const(F32, 0)
                for lane, pointer in enumerate(at):
                    one = b.load(F32, b.gep(pointer, F32, offset))
                    raw = b.insert(raw, one, lane) if lanes > 1 else one
                return b.convert("fpext", raw, F64.vec(lanes))

            columns = [all_rows(b, f_h.g, f_h, [weight(i, j) for i in range(spec.rh)]) for j in range(spec.rw)]
            out = b.gep(k.pointer("u"), F32, (panel * high + k.slot("head") + channel.index) * spec.nr + part.index)
            for i in range(f_h.factors):
                for value in all_rows(b, f_w.g, f_w, [column[i] for column in columns])[: f_w.factors]:
                    b.store(b.convert("fptrunc", value, F32.vec(lanes)), out)
                    out = b.gep(out, F32, position)
    return k.finish()
