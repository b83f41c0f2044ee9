"""Reductions over outer dimensions, with vectors along the innermost dimension, which is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import Tail, compute_type, lanes_for, load, make_tail, store
from MNN.backends.cpu.lang.module import I32, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows, minimum
from MNN.backends.cpu.math.reduction import Reducer
from MNN.backends.cpu.math.scalar_code import BodyCode, body_cost, emit_body
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body

_BLOCK = 64  # terms summed up before their sum joins the total: the error grows with n / 64 + 64, not n


@dataclass(frozen=True)
class FoldSpec(KernelSpec):
    """``out[o.., i] = post(op over r.. of pre(in[o.., r.., i]..), post operands..)``.

    ``op`` is sum, prod, max, min, or argmax, argmin, argmax_last, argmin_last (``reduce`` 1; the folded value is then
    the index along the reduced dimension in dtype ``index``). ``pre`` has one result. ``outer`` and ``reduce`` count
    dimensions. ``post`` (None: the folded value itself) takes it as argument 0 and further operands as arguments 1...
    ``inputs`` (of ``pre``), ``operands`` (of ``post``, arguments 1..) and ``outputs`` are innermost classes "0", "1",
    "s" (no "0" for outputs).

    Slots: ``outer0..``, ``reduce0..``, ``inner``, ``chunk``; ``in{i}`` and its strides ``in{i}_s{d}`` numbered through
    outer, reduced and, for class "s", the inner dimension; ``op{i}`` (i from 0 for argument 1) and ``out{j}`` with
    strides ``_s{d}`` of the outer and, for class "s", the inner dimension. Block index = outer linear index *
    ceil(inner / chunk) + chunk number.
    """

    shaped: ClassVar[bool] = True

    op: str
    pre: Body
    post: Body | None
    outer: int
    reduce: int
    inputs: tuple[str, ...]
    operands: tuple[str, ...]
    outputs: tuple[str, ...]
    index: DType = DType.I64

    @property
    def folded(self) -> DType:
        """The dtype of the folded value."""
        return self.index if self.op.startswith("arg") else self.pre.result_dtypes[0]

    def groups(self) -> tuple[list[Operand], list[Operand], list[Operand]]:
        ins = [Operand(f"in{i}", d, c) for i, (d, c) in enumerate(zip(self.pre.args, self.inputs, strict=True))]
        post_args = self.post.args[1:] if self.post else ()
        extra = [Operand(f"op{i}", d, c) for i, (d, c) in enumerate(zip(post_args, self.operands, strict=True))]
        results = self.post.result_dtypes if self.post else (self.folded,)
        return (
            ins,
            extra,
            [Operand(f"out{j}", d, c) for j, (d, c) in enumerate(zip(results, self.outputs, strict=True))],
        )

    def slots(self) -> tuple[str, ...]:
        ins, extra, outs = self.groups()
        names = [f"outer{d}" for d in range(self.outer)] + [f"reduce{d}" for d in range(self.reduce)]
        names += ["inner", "chunk"]
        for o in ins:
            names += o.slots(self.outer + self.reduce, self.outer + self.reduce)
        for o in (*extra, *outs):
            names += o.slots(self.outer, self.outer)
        return tuple(names)

    def traffic(self, args: Arguments) -> dict[str, int]:
        outer = [number(args, f"outer{d}") for d in range(self.outer)]
        reduced = [number(args, f"reduce{d}") for d in range(self.reduce)]
        ins, extra, outs = self.groups()
        found = {o.name: operand_bytes(o, args, [*outer, *reduced], number(args, "inner")) for o in ins}
        return found | {o.name: operand_bytes(o, args, outer, number(args, "inner")) for o in (*extra, *outs)}

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        fold = _Fold(k, self, target)
        inner, chunk = k.slot("inner"), k.slot("chunk")

        def row(pointers: list[Value], number: Value | None) -> None:
            assert number is not None
            start = number * chunk
            fold.row(pointers, start, minimum(k, chunk, inner - start))

        outer = [k.slot(f"outer{d}") for d in range(self.outer)]
        for_rows(k, outer, (inner + (chunk - 1)) // chunk, fold.all, row)
        return k.finish()


class _Fold:
    def __init__(self, k: Kernel, spec: FoldSpec, target: Target) -> None:
        self.k, self.b, self.spec = k, k.b, spec
        self.ins, self.extra, self.outs = spec.groups()
        self.all = [*self.ins, *self.extra, *self.outs]
        self.reducer = Reducer(spec.op, spec.pre.result_dtypes[0])
        self.code = BodyCode(spec.pre, [i for i, c in enumerate(spec.inputs) if c == "0"])
        dtypes = [i.dtype for i in (*spec.pre.code, *(spec.post.code if spec.post else ()))]
        if self.reducer.is_arg:
            dtypes.append(DType.I32)
        self.lanes = lanes_for(target.vector_bytes, dtypes)
        self.blocked = spec.op == "sum" and self.reducer.dtype.is_float
        dims = spec.outer + spec.reduce
        self.in_strides = [o.inner_stride(k, dims) for o in self.ins]

    def row(self, pointers: list[Value], start: Value, count: Value) -> None:
        b, lanes = self.b, self.lanes
        n_in, n_extra = len(self.ins), len(self.extra)
        inner = [o.inner_stride(self.k, self.spec.outer) for o in (*self.extra, *self.outs)]
        strides = [*self.in_strides, *inner]
        here = [
            p if o.inner == "0" else o.move(self.k, p, start, s)
            for o, p, s in zip(self.all, pointers, strides, strict=True)
        ]

        def group(at: Value, vectors: int, tail: Tail | None = None) -> None:
            firsts = [
                p if o.inner == "0" else o.move(self.k, p, at, s)
                for o, p, s in zip(self.ins, here, self.in_strides, strict=False)
            ]
            state = [v for _ in range(vectors) for v in self.reducer.initial(b, lanes)]
            state = self._nest(0, firsts, state, vectors, tail)
            size = len(state) // vectors
            for v in range(vectors):
                value = self._value(state[v * size : (v + 1) * size])
                index = at + v * lanes
                operands = []
                for o, p, s in zip(self.extra, here[n_in:], strides[n_in:], strict=False):
                    if o.inner == "0":
                        operands.append(b.splat(load(b, o.dtype, p, 1), lanes))
                    else:
                        operands.append(load(b, o.dtype, o.move(self.k, p, index, s), lanes, s, tail))
                results = emit_body(b, self.spec.post, [value, *operands], lanes) if self.spec.post else [value]
                places = zip(self.outs, here[n_in + n_extra :], strides[n_in + n_extra :], results, strict=True)
                for o, p, s, result in places:
                    store(b, o.dtype, result, o.move(self.k, p, index, s), s, tail)

        full = 4 if body_cost(self.spec.pre) <= 8 and not self.reducer.is_arg else 2
        wide = count - count % (full * lanes)
        with b.loop(0, wide, full * lanes) as main:
            group(main.index, full)
        whole = count - count % lanes if lanes > 1 else count
        with b.loop(wide, whole, lanes) as single:
            group(single.index, 1)
        if lanes > 1:
            left = count - whole
            b.if_(b.icmp("sgt", left, 0), lambda: group(whole, 1, make_tail(b, left, lanes)))

    def _value(self, state: Sequence[Value]) -> Value:
        if not self.reducer.is_arg:
            return state[0]
        return self.b.convert("zext", state[1], compute_type(self.spec.index, self.lanes))

    def _nest(self, d: int, pointers: list[Value], state: list[Value], vectors: int, tail: Tail | None) -> list[Value]:
        """The state after the loops over reduced dimensions ``d`` and further in."""
        b, spec = self.b, self.spec
        extent = self.k.slot(f"reduce{d}")
        strides = [o.stride(self.k, spec.outer + d) for o in self.ins]
        last = d == spec.reduce - 1
        n = len(pointers)

        def moved(now: Sequence[Value]) -> list[Value]:
            return [o.move(self.k, p, s) for o, p, s in zip(self.ins, now, strides, strict=True)]

        def fresh() -> list[Value]:
            return [v for _ in range(vectors) for v in self.reducer.initial(b, self.lanes)]

        def merged(x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
            return [v for i in range(len(x)) for v in self.reducer.merge(b, [x[i]], [y[i]])]

        if not last:
            with b.loop(0, extent, carry=[*pointers, *state]) as loop:
                now, total = loop.carried[:n], loop.carried[n:]
                inside = self._nest(d + 1, now, fresh() if self.blocked else total, vectors, tail)
                loop.next(*moved(now), *(merged(total, inside) if self.blocked else inside))
            return loop.results[n:]

        def step(now: Sequence[Value], total: list[Value], index: Value) -> list[Value]:
            return self._step(now, total, index, vectors, tail)

        if not self.blocked:
            with b.loop(0, extent, carry=[*pointers, *state]) as loop:
                now = loop.carried[:n]
                loop.next(*moved(now), *step(now, loop.carried[n:], loop.index))
            return loop.results[n:]
        with b.loop(0, extent, _BLOCK, carry=[*pointers, *state]) as outer:
            left = extent - outer.index
            terms = minimum(self.k, left, b.const(left.type, _BLOCK))
            with b.loop(0, terms, carry=[*outer.carried[:n], *fresh()], guard=False) as loop:
                now = loop.carried[:n]
                loop.next(*moved(now), *step(now, loop.carried[n:], loop.index))
            outer.next(*loop.results[:n], *merged(outer.carried[n:], loop.results[n:]))
        return outer.results[n:]

    def _step(
        self, pointers: Sequence[Value], state: list[Value], index: Value, vectors: int, tail: Tail | None
    ) -> list[Value]:
        """Takes in one element of the reduced dimensions."""
        b, lanes = self.b, self.lanes
        row_args = {i: load(b, o.dtype, pointers[i], 1) for i, o in enumerate(self.ins) if o.inner == "0"}
        self.code.row(b, row_args)
        roots = self.spec.pre.outputs
        self.code.broadcast(b, lanes, roots)
        number = b.splat(b.convert("trunc", index, I32), lanes) if self.reducer.is_arg else None
        size = len(state) // vectors
        after: list[Value] = []
        for v in range(vectors):
            args = {}
            for i, o in enumerate(self.ins):
                if o.inner != "0":
                    s = self.in_strides[i]
                    place = o.move(self.k, pointers[i], b.const(index.type, v * lanes), s)
                    args[i] = load(b, o.dtype, place, lanes, s, tail)
            (value,) = self.code.elements(b, args, lanes, roots)
            after += self.reducer.step(b, state[v * size : (v + 1) * size], value, number, None)
        return after
