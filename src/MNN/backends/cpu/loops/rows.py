"""Row programs: softmax, normalisations, inner reductions and argmax in as few passes over a row as they need."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import Arguments, KernelSpec
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.traffic import number, operand_bytes
from MNN.backends.cpu.lang.element import Tail, compute_type, lanes_for, load, make_tail, store
from MNN.backends.cpu.lang.module import I8, I32, Kernel, Value
from MNN.backends.cpu.lang.nest import Operand, for_rows, operands_of
from MNN.backends.cpu.math.reduction import Reducer
from MNN.backends.cpu.math.scalar_code import COSTLY, BodyCode, stored
from MNN.backends.cpu.math.softmax import maxima_of_numbers
from MNN.backends.cpu.targets.base import Target
from MNN.ir.scalar import Body

_KEEP_COST = 10  # values at least this costly are kept in scratch when a later pass needs them again
_STREAMS = 4


@dataclass(frozen=True)
class RowSpec(KernelSpec):
    """A scalar program with reductions along the innermost of ``rank`` dimensions.

    ``body`` may hold ``Instr("reduce.sum|prod|max|min|argmax|argmin|argmax_last|argmin_last", (i,), dtype)``: result i
    reduced over the row, a constant of the row for the instructions after it. ``inputs`` are classes "0" (one element
    per row), "1" contiguous, "s" any stride; ``outputs`` are "0" (one number per row), "1", "s".

    Slots: ``extent0..``, then per operand its address and strides as in ``MapSpec`` (``in{i}``, ``in{i}_s{d}``,
    ``out{j}``, ...). Block index = outer linear index; one block is one row. An output may be the same memory as an
    input with the same strides. The innermost extent is below 2^31. Float sums run in at least twice the lanes
    partial sums; a division by a row constant is a product with its reciprocal.
    """

    shaped: ClassVar[bool] = True

    body: Body
    rank: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def operands(self) -> tuple[list[Operand], list[Operand]]:
        """Those that it reads, and those that it writes."""
        return operands_of(self.body, self.inputs, self.outputs)

    def slots(self) -> tuple[str, ...]:
        names = [f"extent{d}" for d in range(self.rank)]
        for group in self.operands():
            for operand in group:
                names += operand.slots(self.rank - 1, self.rank - 1)
        return tuple(names)

    def scratch(self, target: Target, args: Mapping[str, int]) -> int:
        plan = _plan(self, target)
        padded = -(-args[f"extent{self.rank - 1}"] // plan.lanes) * plan.lanes
        return len(plan.kept) * padded * plan.kept_size

    def traffic(self, args: Arguments) -> dict[str, int]:
        outer = [number(args, f"extent{d}") for d in range(self.rank - 1)]
        inner = number(args, f"extent{self.rank - 1}")
        ins, outs = self.operands()
        return {o.name: operand_bytes(o, args, outer, inner) for o in (*ins, *outs)}

    def in_place(self, args: Arguments) -> overlay.Pairs:
        return overlay.of_nest(*self.operands(), args, self.rank - 1)

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        plan = _Plan(self, target)
        ins, outs = self.operands()
        outer = [k.slot(f"extent{d}") for d in range(self.rank - 1)]
        for_rows(k, outer, None, [*ins, *outs], lambda pointers, _: _Row(k, self, plan, pointers).emit())
        return k.finish()


@functools.lru_cache(maxsize=1024)
def _plan(spec: RowSpec, target: Target) -> _Plan:
    return _Plan(spec, target)


class _Plan:
    """Which pass computes what: reductions sorted into passes, and the costly values that pass on through scratch."""

    def __init__(self, spec: RowSpec, target: Target) -> None:
        body = self.body = spec.body
        code = body.code
        reductions = [i for i, instr in enumerate(code) if instr.op.startswith("reduce.")]
        row_args = [i for i, c in enumerate(spec.inputs) if c == "0"]
        self.code = BodyCode(body, row_args, reductions, scale_rows=True)
        self.numbers = maxima_of_numbers(body)
        level: dict[int, int] = {}
        depth = [0] * len(code)
        for i, instr in enumerate(code):
            depth[i] = max((depth[a] for a in instr.args), default=0)
            if i in reductions:
                level[i] = depth[i]
                depth[i] += 1
        self.reductions = [[i for i in reductions if level[i] == p] for p in range(max(level.values(), default=-1) + 1)]
        self.final = [o for o, c in zip(stored(body), spec.outputs, strict=True) if c != "0"]
        varying = [i for i, v in enumerate(self.code.varies) if v]
        self.lanes = lanes_for(target.vector_bytes, [code[i].dtype for i in varying])
        if any(code[i].op.startswith("reduce.arg") for i in reductions):
            self.lanes = min(self.lanes, target.vector_bytes // 4)  # indices are 32 bits wide
        self.kept_size = max((compute_type(code[i].dtype).size for i in varying), default=4)
        roots = [[code[r].args[0] for r in group] for group in self.reductions]
        if self.final:
            roots.append(self.final)
        self.roots = roots
        strided = [i for i, c in enumerate(spec.inputs) if c == "s"]
        self.kept: list[int] = []
        self.first: dict[int, int] = {}
        for i in reversed(varying):
            instr = code[i]
            costly = instr.value in strided if instr.op == "arg" else COSTLY.get(instr.op, 1) >= _KEEP_COST
            if costly:
                users = [p for p, r in enumerate(roots) if i in self._needs(r, p)]
                if len(users) > 1:
                    self.kept.append(i)
                    self.first[i] = users[0]

    def _needs(self, roots: list[int], p: int) -> set[int]:
        return self.code.needed_until(roots, [k for k in self.kept if self.first[k] < p])

    def produced(self, p: int) -> list[int]:
        """Kept values that pass ``p`` computes."""
        return [i for i in self.kept if self.first[i] == p]

    def known(self, p: int) -> list[int]:
        """Kept values that pass ``p`` loads."""
        candidates = [i for i in self.kept if self.first[i] < p]
        wanted = self.code.needed_until(self.roots[p], ())
        return [i for i in candidates if i in wanted]


class _Row:
    """Emits one row."""

    def __init__(self, k: Kernel, spec: RowSpec, plan: _Plan, pointers: list[Value]) -> None:
        self.k, self.b, self.spec, self.plan, self.pointers = k, k.b, spec, plan, pointers
        self.ins, self.outs = spec.operands()
        self.count = k.slot(f"extent{spec.rank - 1}")
        self.lanes = plan.lanes
        self.whole = self.count - self.count % self.lanes if self.lanes > 1 else self.count
        self.strides = [o.inner_stride(k, spec.rank - 1) for o in (*self.ins, *self.outs)]

    def emit(self) -> None:
        b, code = self.b, self.plan.code
        row_args = {i: load(b, o.dtype, self.pointers[i], 1) for i, o in enumerate(self.ins) if o.inner == "0"}
        code.row(b, row_args)
        for p, group in enumerate(self.plan.reductions):
            code.row(b, row_args, self._reduce(p, group), begin=False)
        n_in = len(self.ins)
        if self.plan.final:
            self._store(len(self.plan.reductions))
        for j, (o, i) in enumerate(zip(self.outs, stored(self.spec.body), strict=True)):
            if o.inner == "0":
                store(b, o.dtype, code.scalar(b, i), self.pointers[n_in + j])

    def _kept_place(self, i: int, at: Value) -> Value:
        """Where kept value ``i`` of the vector at element ``at`` lies in scratch."""
        padded = self.count + (self.lanes - 1)
        padded = padded - padded % self.lanes
        base = padded * (self.plan.kept.index(i) * self.plan.kept_size)
        return self.b.gep(self.b.gep(self.k.scratch, I8, base), compute_type(self.spec.body.code[i].dtype), at)

    def _vector(self, p: int, at: Value, tail: Tail | None) -> list[Value]:
        """The roots of pass ``p`` for the vector at ``at``; kept values are stored on the way."""
        b, plan = self.b, self.plan
        types = self.spec.body.code
        known = {
            i: b.load(compute_type(types[i].dtype, self.lanes), self._kept_place(i, at), check=self.lanes > 1)
            for i in plan.known(p)
        }
        roots, kept = plan.roots[p], plan.produced(p)
        wanted = plan.code.needed_until([*roots, *kept], known)
        args: dict[int, Value] = {}
        for i in sorted(wanted):
            instr = types[i]
            if instr.op == "arg":
                assert isinstance(instr.value, int)
                n = instr.value
                place = self.ins[n].move(self.k, self.pointers[n], at, self.strides[n])
                args[n] = load(b, self.ins[n].dtype, place, self.lanes, self.strides[n], tail)
        values = plan.code.elements(b, args, self.lanes, [*roots, *kept], known)
        for i, v in zip(kept, values[len(roots) :], strict=True):
            b.store(v, self._kept_place(i, at))
        return values[: len(roots)]

    def _reduce(self, p: int, group: list[int]) -> dict[int, Value]:
        """One pass of reductions; their results by instruction."""
        b, lanes = self.b, self.lanes
        code = self.spec.body.code
        reducers = [
            Reducer(code[r].op.removeprefix("reduce."), code[code[r].args[0]].dtype, r in self.plan.numbers)
            for r in group
        ]
        self.plan.code.broadcast(b, lanes, [*self.plan.roots[p], *self.plan.produced(p)])
        sizes = [len(r.initial(b, lanes)) for r in reducers]
        any_arg = any(r.is_arg for r in reducers)

        def take(flat: list[Value], at: Value, tail: Tail | None = None) -> list[Value]:
            index = None
            if any_arg:
                low = b.splat(b.convert("trunc", at, I32), lanes)
                index = b.add(low, b.lane_numbers(I32, lanes))
            values = self._vector(p, at, tail)
            after: list[Value] = []
            position = 0
            for r, size, v in zip(reducers, sizes, values, strict=True):
                state = flat[position : position + size]
                after += r.step(b, state, v, index, tail.mask if tail else None)
                position += size
            return after

        start = [v for r in reducers for v in r.initial(b, lanes)]
        costly = sum(COSTLY.get(code[i].op, 1) for i in self.plan.code.needed_until(self.plan.roots[p], ()))
        streams = _STREAMS if len(start) <= 3 and costly <= 12 else 2
        step = streams * lanes
        wide = self.count - self.count % step
        with b.loop(0, wide, step, carry=start * streams) as main:
            n = len(start)
            parts = [take(main.carried[s * n : (s + 1) * n], main.index + s * lanes) for s in range(streams)]
            main.next(*[v for part in parts for v in part])
        n = len(start)
        states = [main.results[s * n : (s + 1) * n] for s in range(streams)]
        with b.loop(wide, self.whole, lanes, carry=states[0]) as single:
            single.next(*take(single.carried, single.index))
        states[0] = single.results
        if lanes > 1:
            left = self.count - self.whole
            first = states[0]
            states[0] = b.if_else(
                b.icmp("sgt", left, 0), lambda: take(first, self.whole, make_tail(b, left, lanes)), lambda: first
            )
        results: dict[int, Value] = {}
        position = 0
        for r, size, i in zip(reducers, sizes, group, strict=True):
            results[i] = r.finish(b, [s[position : position + size] for s in states], code[i].dtype)
            position += size
        return results

    def _store(self, p: int) -> None:
        """The pass that writes the outputs along the row."""
        b, lanes = self.b, self.lanes
        self.plan.code.broadcast(b, lanes, [*self.plan.roots[p], *self.plan.produced(p)])
        targets = [j for j, o in enumerate(self.outs) if o.inner != "0"]
        n_in = len(self.ins)

        def put(at: Value, tail: Tail | None = None) -> None:
            for j, v in zip(targets, self._vector(p, at, tail), strict=True):
                o, stride = self.outs[j], self.strides[n_in + j]
                store(b, o.dtype, v, o.move(self.k, self.pointers[n_in + j], at, stride), stride, tail)

        wide = self.count - self.count % (2 * lanes)
        with b.loop(0, wide, 2 * lanes) as main:
            put(main.index)
            put(main.index + lanes)
        with b.loop(wide, self.whole, lanes) as single:
            put(single.index)
        if lanes > 1:
            left = self.count - self.whole
            b.if_(b.icmp("sgt", left, 0), lambda: put(self.whole, make_tail(b, left, lanes)))
