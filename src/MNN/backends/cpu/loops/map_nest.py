"""Fused elementwise loops: any scalar program over any broadcast or strided operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import Tail, compute_type, lanes_for, load, make_tail, masked_at_once, store
from MNN.backends.cpu.lang.module import Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum, operands_of
from MNN.backends.cpu.loops.stages import in_stages, stages
from MNN.backends.cpu.math.scalar_code import BodyCode, body_cost, stored
from MNN.backends.cpu.targets.base import Target
from MNN.ir.scalar import Body

_FEW_VECTORS = 4


@dataclass(frozen=True)
class MapSpec(KernelSpec):
    """``out[i] = body(in0[i], in1[i], ...)`` over ``rank`` dimensions (at least 1).

    ``inputs`` and ``outputs`` are the classes of the operands along the innermost dimension: "0" (inputs only) the same
    element, "1" contiguous, "s" any stride.

    Slots: ``extent0..``, outermost first; ``chunk``, innermost elements per block; per input i ``in{i}``, its strides
    ``in{i}_s{d}`` of the outer dimensions, and of the innermost only for class "s"; per output j the same with
    ``out{j}``. Block index = outer linear index * ceil(inner / chunk) + chunk number. An output may be the same memory
    as an input with the same strides. ``whole``: where not 0, the innermost extent, and the chunk, which is so many
    whole vectors that they are written out (:func:`whole_vectors`).
    """

    shaped: ClassVar[bool] = True

    body: Body
    rank: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    whole: int = 0

    def operands(self) -> tuple[list[Operand], list[Operand]]:
        """Those that it reads, and those that it writes."""
        return operands_of(self.body, self.inputs, self.outputs)

    def slots(self) -> tuple[str, ...]:
        names = [f"extent{d}" for d in range(self.rank)] + ["chunk"]
        for group in self.operands():
            for operand in group:
                names += operand.slots(self.rank - 1, self.rank - 1)
        return tuple(names)

    def traffic(self, args: Arguments) -> dict[str, int]:
        outer = [number(args, f"extent{d}") for d in range(self.rank - 1)]
        inner = number(args, f"extent{self.rank - 1}")
        ins, outs = self.operands()
        return {o.name: operand_bytes(o, args, outer, inner) for o in (*ins, *outs)}

    def in_place(self, args: Arguments) -> overlay.Pairs:
        return overlay.of_nest(*self.operands(), args, self.rank - 1)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        inner = k.slot(f"extent{self.rank - 1}")
        chunk = k.slot("chunk")
        chunks = (inner + (chunk - 1)) // chunk
        ins, outs = self.operands()
        code = BodyCode(self.body, [i for i, c in enumerate(self.inputs) if c == "0"])
        lanes = lanes_for(target.vector_bytes, [i.dtype for i in self.body.code])

        def row(pointers: list[Value], number: Value | None) -> None:
            assert number is not None
            start = number * chunk
            count = minimum(k, chunk, inner - start)
            _row(k, self, code, pointers, start, count, lanes)

        outer = [k.slot(f"extent{d}") for d in range(self.rank - 1)]
        for_rows(k, outer, chunks, [*ins, *outs], row)
        return k.finish()


def _unroll(body: Body, lanes: int) -> int:
    """Vectors per iteration of the main loop: enough bytes in flight for cheap bodies, little code for costly ones."""
    cost = body_cost(body)
    return 1 if lanes == 1 or cost > 10 else 4


def _row(
    k: Kernel, spec: MapSpec, code: BodyCode, pointers: list[Value], start: Value, count: Value, lanes: int
) -> None:
    """``count`` elements of one row from element ``start`` on."""
    b = k.b
    ins, outs = spec.operands()
    inner_dim = spec.rank - 1
    operands = [*ins, *outs]
    strides = [o.inner_stride(k, inner_dim) for o in operands]
    firsts = [
        p if o.inner == "0" else o.move(k, p, start, s) for o, p, s in zip(operands, pointers, strides, strict=True)
    ]
    row_args = {i: load(b, o.dtype, firsts[i], 1) for i, o in enumerate(ins) if o.inner == "0"}
    code.row(b, row_args)
    roots = stored(spec.body)
    code.broadcast(b, lanes, roots)

    elementwise = [i for i, o in enumerate(ins) if o.inner != "0"]

    def loaded(index: Value, wanted: Collection[int], tail: Tail | None = None) -> dict[int, Value]:
        places = {i: ins[i].move(k, firsts[i], index, strides[i]) for i in elementwise if i in wanted}
        return {i: load(b, ins[i].dtype, p, lanes, strides[i], tail) for i, p in places.items()}

    def computed(indices: list[Value], tail: Tail | None = None) -> list[list[Value]]:
        return [
            code.elements(b, args, lanes, roots) for args in [loaded(index, elementwise, tail) for index in indices]
        ]

    def stored_at(index: Value, values: Sequence[Value], tail: Tail | None = None) -> None:
        for j, (o, v) in enumerate(zip(outs, values, strict=True), start=len(ins)):
            store(b, o.dtype, v, o.move(k, firsts[j], index, strides[j]), strides[j], tail)

    def vectors(at: Value, n: int, tail: Tail | None = None) -> None:
        indices = [at + v * lanes for v in range(n)]
        for index, values in zip(indices, computed(indices, tail), strict=True):
            stored_at(index, values, tail)

    if spec.whole:
        vectors(b.const(count.type, 0), spec.whole // lanes)
        return
    full = _unroll(spec.body, lanes)
    whole = count - count % lanes if lanes > 1 else count
    left = count - whole
    overlapping = lanes > 1 and all(o.inner == "1" and masked_at_once(b, o.dtype) for o in operands if o.inner != "0")
    if overlapping:
        at, tail = _last(k, count, lanes)
        last = b.if_else(
            b.icmp("sgt", left, 0),
            lambda: computed([at], tail)[0],
            lambda: [b.const(compute_type(o.dtype, lanes), 0) for o in outs],
        )
    done: Value = b.const(count.type, 0)
    if full > 1:
        wide = count - count % (full * lanes)
        with b.loop(0, wide, full * lanes) as main:
            vectors(main.index, full)
        done = wide
    steps = stages(code, roots)
    if len(steps) > 1 and lanes > 1:
        in_stages(b, code, steps, lanes, whole, loaded, stored_at)
    else:
        with b.loop(done, whole, lanes) as single:
            vectors(single.index, 1)
    if overlapping:
        b.if_(b.icmp("sgt", left, 0), lambda: stored_at(at, last, tail))
    elif lanes > 1:
        b.if_(b.icmp("sgt", left, 0), lambda: vectors(whole, 1, make_tail(b, left, lanes)))


def whole_vectors(target: Target, body: Body, rank: int, inner: int) -> int:
    """``inner`` where rows of so many elements are a few whole vectors that are only moved, such as the rows of a
    panel: what decides how a row of any length is walked takes longer than moving a short one. Otherwise 0."""
    lanes = lanes_for(target.vector_bytes, [i.dtype for i in body.code])
    short = type(inner) is int and 0 < inner <= _FEW_VECTORS * lanes and inner % lanes == 0
    return inner if short and rank > 1 and len(body.code) == 1 else 0


def _last(k: Kernel, count: Value, lanes: int) -> tuple[Value, Tail]:
    """Where the last vector of a row begins, which ends where the row does, and which of its elements are the row's.

    A partial vector would reach into the next row, whose loads then wait for this row's masked store to be done
    where a result lies in the memory of its operand: processors look at the whole width. So it overlaps the vector
    before it, and what it reads is read before anything of the row is written.
    """
    b = k.b
    short = b.icmp("slt", count, lanes)
    return b.select(short, 0, count - lanes), make_tail(b, b.select(short, count, lanes), lanes)
