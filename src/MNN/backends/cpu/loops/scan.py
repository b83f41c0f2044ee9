"""Running sums, products, maxima and minima along one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import covered, number
from MNN.backends.cpu.lang.element import Tail, compute_type, lanes_for, load, make_tail, store
from MNN.backends.cpu.lang.module import I64, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows
from MNN.backends.cpu.math.reduction import combine, neutral
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_REDUCTION = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


@dataclass(frozen=True)
class ScanSpec(KernelSpec):
    """``out[o, t] = op of x[o, 0..t]`` (``exclusive``: 0..t-1, the first result neutral) along a dimension of ``n``.

    ``op`` is add, mul, max or min; ``reverse`` runs from the end. The other dimensions are the ``rank`` (at least 1)
    extents; with ``contiguous`` both operands have stride 1 along the last of them, which then takes vectors. f16 and
    bf16 accumulate in f32. In and out may be the same memory with the same strides.

    Slots: ``extent0..``, ``n``; ``in``, ``in_s0..s{rank-1}``, ``in_step`` (stride along the scanned dimension); the
    same for ``out``. One block is one index of all extents but the last.
    """

    shaped: ClassVar[bool] = True

    op: str
    dtype: DType
    exclusive: bool
    reverse: bool
    rank: int
    contiguous: bool

    def slots(self) -> tuple[str, ...]:
        names = [f"extent{d}" for d in range(self.rank)] + ["n"]
        for name in ("in", "out"):
            names += [name, *[f"{name}_s{d}" for d in range(self.rank)], f"{name}_step"]
        return tuple(names)

    def traffic(self, args: Arguments) -> dict[str, int]:
        extents = [number(args, slot) for slot in (*(f"extent{d}" for d in range(self.rank)), "n")]
        steps = {name: [*(f"{name}_s{d}" for d in range(self.rank)), f"{name}_step"] for name in ("in", "out")}
        return {
            name: covered(extents, [number(args, slot) for slot in slots]) * self.dtype.size
            for name, slots in steps.items()
        }

    def in_place(self, args: Arguments) -> tuple[tuple[str, str], ...]:
        steps = [*(f"s{d}" for d in range(self.rank)), "step"]
        return (("out", "in"),) if all(args[f"in_{s}"] == args[f"out_{s}"] for s in steps) else ()

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        inner = "1" if self.contiguous else "s"
        operands = [Operand("in", self.dtype, inner), Operand("out", self.dtype, inner)]
        lanes = lanes_for(target.vector_bytes, [self.dtype]) if self.contiguous else 1

        def row(pointers: list[Value], number: Value | None) -> None:
            del number
            _row(k, self, operands, pointers, lanes)

        for_rows(k, [k.slot(f"extent{d}") for d in range(self.rank - 1)], None, operands, row)
        return k.finish()


def _row(k: Kernel, spec: ScanSpec, operands: list[Operand], pointers: list[Value], lanes: int) -> None:
    """All scans of one index of the outer dimensions."""
    b = k.b
    n, width = k.slot("n"), k.slot(f"extent{spec.rank - 1}")
    steps = [k.slot("in_step"), k.slot("out_step")]
    if spec.reverse:
        pointers = [o.move(k, p, n - 1, s) for o, p, s in zip(operands, pointers, steps, strict=True)]
        steps = [0 - s for s in steps]
    inner = [None if spec.contiguous else k.slot(f"{o.name}_s{spec.rank - 1}") for o in operands]
    reduction = _REDUCTION[spec.op]

    def scan(at: Value, count: int, tail: Tail | None = None) -> None:
        """``count`` vectors side by side, through the whole dimension."""
        starts = [o.move(k, p, at, s) for o, p, s in zip(operands, pointers, inner, strict=True)]
        zero = b.const(compute_type(spec.dtype, lanes), neutral(reduction, spec.dtype))
        with b.loop(0, n, carry=[*starts, *[zero] * count]) as loop:
            source, place = loop.carried[:2]
            offsets = [b.const(I64, v * lanes) for v in range(count)]
            values = [load(b, spec.dtype, operands[0].move(k, source, o), lanes, None, tail) for o in offsets]
            old = loop.carried[2:]
            new = [combine(b, reduction, spec.dtype, a, v) for a, v in zip(old, values, strict=True)]
            for o, v in zip(offsets, old if spec.exclusive else new, strict=True):
                store(b, spec.dtype, v, operands[1].move(k, place, o), None, tail)
            loop.next(operands[0].move(k, source, 1, steps[0]), operands[1].move(k, place, 1, steps[1]), *new)

    if lanes == 1:
        with b.loop(0, width) as each:
            scan(each.index, 1)
        return
    wide = width - width % (4 * lanes)
    with b.loop(0, wide, 4 * lanes) as main:
        scan(main.index, 4)
    whole = width - width % lanes
    with b.loop(wide, whole, lanes) as single:
        scan(single.index, 1)
    b.if_(b.icmp("slt", whole, width), lambda: scan(whole, 1, make_tail(b, width - whole, lanes)))
