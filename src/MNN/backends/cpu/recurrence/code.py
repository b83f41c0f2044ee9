"""Code generation of :class:`MNN.backends.cpu.recurrence.spec.RecurrenceSpec`."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.codegen.generators import generates
from MNN.backends.cpu.lang.element import narrow
from MNN.backends.cpu.lang.module import I8, I32, I64, Loop, Value
from MNN.backends.cpu.products import register_steps
from MNN.backends.cpu.products.dot import dot, load_group
from MNN.backends.cpu.products.register_steps import fills_registers
from MNN.backends.cpu.recurrence.phases import in_phases, words
from MNN.backends.cpu.recurrence.spec import RecurrenceSpec, group_size, parts_of
from MNN.backends.cpu.recurrence.updates import Updates
from MNN.backends.cpu.targets.base import Target

_LINE = 64
_SMALL = 16
"""Sums of a tile up to which four steps are written out, not two."""


@generates(RecurrenceSpec)
def emit_recurrence(spec: RecurrenceSpec, target: Target) -> str:
    """The module's text."""
    return Recurrent(spec, target).emit()


class Recurrent(Updates):
    """The products of the steps, and the order of all work."""

    def emit(self) -> str:
        k, b, spec = self.k, self.b, self.spec
        batch, hidden = k.slot("batch"), k.slot("hidden")
        tiles = b.udiv(hidden + self.width - 1, self.width)
        phases = 1 if spec.first is None else 2
        self.plane = batch * k.slot("pitch")
        parts = k.slot("parts") if spec.shared else b.udiv(batch + k.slot("span") - 1, k.slot("span"))
        with b.loop(k.begin, k.end) as block:
            self.d = b.udiv(block.index, parts)
            part = block.index - self.d * parts
            self.work = b.gep(k.pointer("work"), self.one, self.d * self.plane * spec.planes())
            if spec.shared:
                self._shared(part, parts, tiles, phases)
            else:
                self._alone(part, tiles, phases)
        return k.finish()

    def _alone(self, part: Value, tiles: Value, phases: int) -> None:
        """All steps of some sequences."""
        k, b, none = self.k, self.b, self.b.const(I64, 0)
        self.row0 = part * k.slot("span")
        self.row1 = b.intrinsic("smin", self.row0 + k.slot("span"), k.slot("batch"))
        self._begin(none, tiles)
        with b.loop(0, k.slot("steps")) as step:
            self._enter(step.index)
            for phase in range(phases):
                self._phase(phase, none, tiles)

    def _shared(self, part: Value, parts: Value, tiles: Value, phases: int) -> None:
        """Some tiles of all sequences, step by step with the other parts."""
        k, b = self.k, self.b
        self.row0, self.row1 = b.const(I64, 0), k.slot("batch")

        def run(mine: Value, number: Value) -> None:
            first = mine * k.slot("share")
            past = b.intrinsic("smin", first + k.slot("share"), tiles)

            def phase(index: int) -> tuple[()]:
                self._phase(index, first, past)
                return ()

            def begin() -> tuple[()]:
                self._begin(first, past)
                return ()

            def later() -> tuple[()]:
                self._enter(b.udiv(number - 1, phases))
                if phases == 1:
                    return phase(0)
                second = b.icmp("eq", b.urem(number, phases), 0)
                b.if_else(second, lambda: phase(1), lambda: phase(0))
                return ()

            b.if_else(b.icmp("eq", number, 0), begin, later)

        shared = b.gep(k.pointer("sync"), I64, self.d * (parts * (words(1) - words(0)) + words(0)))
        in_phases(k, self.target, shared, parts, part, k.slot("steps") * phases + 1, run)

    def _enter(self, step: Value) -> None:
        k, b = self.k, self.b
        self.now = step
        back = b.and_(b.lshr(k.slot("backward"), self.d), 1)
        self.at = b.select(b.icmp("ne", back, 0), k.slot("steps") - 1 - step, step)

    def _begin(self, first: Value, past: Value) -> None:
        """The first states of tiles ``first`` up to ``past``, zeros past the last unit."""
        k, b, spec = self.k, self.b, self.spec
        hidden, zero = k.slot("hidden"), b.const(I64, 0)
        c0, c1 = first * self.width, past * self.width
        real = b.intrinsic("smin", c1, hidden)
        with b.loop(self.row0, self.row1) as row:
            for i in range(spec.states):
                start = self.d * k.slot(f"from{i}_d") + row.index * k.slot(f"from{i}_b")
                source, to = b.gep(k.pointer(f"from{i}"), self.one, start), self._plane(i, row.index)
                factor = self.factor(zero, row.index)

                def put(value: Value, c: Value, to: Value = to, factor: Value = factor, i: int = i) -> None:
                    b.store(value, b.gep(to, self.one, c))
                    if i == 0:
                        b.store(narrow(b, spec.held, value), b.gep(factor, self.held, c))

                with b.loop(c0, real) as each:
                    put(b.load(self.one, b.gep(source, self.one, each.index * k.slot(f"from{i}_h"))), each.index)
                with b.loop(real, c1) as rest:
                    put(b.const(self.one, 0), rest.index)

    # -- steps ------------------------------------------------------------------------------------------------------

    def _phase(self, phase: int, first: Value, past: Value) -> None:
        """Tiles ``first`` up to ``past`` of one product of the current step, and what follows from them."""
        k, b, spec = self.k, self.b, self.spec
        gates = spec.gates - spec.direct if phase else spec.direct
        name = "q" if phase else "r"
        matrix = b.gep(k.pointer(name), self.source, self.d * k.slot(f"{name}_d"))
        group = group_size(spec.weights)
        depth = b.udiv(k.slot("hidden") + (group - 1), group) if group > 1 else k.slot("hidden")
        panel = depth * (self.width * gates * group) + self.head()
        self.prepare()
        # Every second step goes backward: what it begins with is still in the first-level cache.
        transposed = b.icmp("ne", b.and_(self.now, 1), 0)
        with b.loop(first, past) as each:
            tile = b.select(transposed, first + past - 1 - each.index, each.index)
            column = tile * self.width
            weights = b.gep(matrix, self.source, tile * panel)
            vectors = b.udiv(k.slot("hidden") - column + self.lanes - 1, self.lanes)
            vectors = b.intrinsic("smin", vectors, b.const(I64, spec.vectors))
            with b.loop(self.row0, self.row1, spec.most_rows) as some:
                end = b.intrinsic("smin", some.index + spec.most_rows, self.row1)
                self._ask(phase, some.index, end, column, gates)
                self._multiply(phase, b.gep(weights, self.source, self.head()), some.index, end, gates, depth)
                self._conclude(phase, some.index, end, column, vectors, weights, gates)

    def _conclude(
        self, phase: int, row0: Value, row1: Value, column: Value, vectors: Value, weights: Value, gates: int
    ) -> None:
        """What follows from a tile's products: stage by stage, each for all of them."""
        k, b, spec = self.k, self.b, self.spec
        for stage in range(self.stages(phase)):
            with b.loop(row0, row1) as row, b.loop(0, vectors) as v:
                first = ((row.index - row0) * spec.vectors + v.index) * gates
                places = [b.gep(k.scratch, self.total, first + g) for g in range(gates)]
                at = column + v.index * self.lanes
                if stage:
                    self.second(row.index, at, places)
                    continue
                totals = [b.load(self.total, place) for place in places]
                found = [
                    self.meant(row.index, weights, v.index * gates + g, gates, total) for g, total in enumerate(totals)
                ]
                self.first(phase, row.index, at, found, places)

    def _ask(self, phase: int, row0: Value, row1: Value, column: Value, gates: int) -> None:
        """Asks for what is added to a tile's products: it comes from far away, in pieces no processor foresees."""
        k, b, first = self.k, self.b, self.spec.direct if phase else 0
        width = self.width * self.one.size
        with b.loop(row0, row1) as row, b.loop(first, first + gates) as gate:
            place = b.gep(k.pointer("given"), self.one, self._given(row.index) + k.slot("hidden") * gate.index + column)
            for at in [*range(0, width - 1, _LINE), width - 1]:
                b.prefetch(b.gep(place, I8, at))

    def head(self) -> int:
        """Elements of the weights' type in front of a tile's numbers."""
        return 0

    def prepare(self) -> None:
        """What is done with the states before a product of the current step."""

    def row(self, phase: int, row: Value) -> Value:
        """Where what is multiplied for a sequence begins."""
        return self._plane(self.spec.states + 2, row) if phase else self.factor(self.now, row)

    def meant(self, row: Value, weights: Value, place: Value, gates: int, total: Value) -> Value:
        """The product of a sequence with a vector of a tile, of which ``total`` is the sum."""
        del row, weights, place, gates
        return total

    def _multiply(self, phase: int, numbers: Value, row0: Value, row1: Value, gates: int, depth: Value) -> None:
        """The products of some sequences with one tile of weights, in scratch: ``[row, vector, gate]``.

        A block of weights that several register tiles multiply stays in the first-level cache.
        """
        k, b, spec = self.k, self.b, self.spec
        columns, width = spec.columns, spec.vectors * gates
        step = columns * self.lanes * group_size(spec.weights)
        deep = b.select(b.icmp("sgt", row1 - row0, spec.rows), b.const(I64, spec.deep), depth)
        with b.loop(0, width // columns) as part, b.loop(0, depth, deep) as block:
            k0, k1 = block.index, b.intrinsic("smin", block.index + deep, depth)
            panel = b.gep(numbers, self.source, (part.index * depth + k0) * step)
            with b.loop(row0, row1, spec.rows) as row:
                rows, places = [], []
                for r in range(spec.rows):
                    at = b.intrinsic("smin", row.index + r, row1 - 1) if r else row.index
                    rows.append(self.row(phase, at))
                    place = (row.index - row0 + r) * width + part.index * columns
                    places += [b.gep(k.scratch, self.total, place + j) for j in range(columns)]

                def later(places: list[Value] = places) -> list[Value]:
                    return [b.load(self.total, p) for p in places]

                def begin(count: int = len(places)) -> list[Value]:
                    return [b.const(self.total, 0)] * count

                sums = b.if_else(b.icmp("eq", k0, 0), begin, later)
                for place, total in zip(places, self._sums(rows, panel, sums, k0, k1), strict=True):
                    b.store(total, place)

    def _sums(self, rows: Sequence[Value], panel: Value, sums: Sequence[Value], k0: Value, k1: Value) -> list[Value]:
        """``sums`` of a register tile (row by row) and the products ``k0`` up to ``k1`` of its rows with a panel."""
        b, size = self.b, len(sums)
        parts = parts_of(size)
        run = self.lane_operands()
        unroll = self.lanes if run else max(parts, 4 if size <= _SMALL else 2)
        carry = [*sums, *[b.const(self.total, 0)] * (size * (parts - 1)), panel]
        whole = k0 + b.and_(k1 - k0, -unroll)
        with b.loop(k0, whole, unroll, carry=carry) as main:
            self.products(main, rows, unroll, parts, run)
        with b.loop(whole, k1, carry=main.results) as rest:
            self.products(rest, rows, 1, parts, False)
        found = rest.results[:-1]
        while len(found) > size:
            half = len(found) // 2
            found = [b.add(x, y) for x, y in zip(found[:half], found[half:], strict=True)]
        return found

    def lane_operands(self) -> bool:
        """Whether a multiply-add takes one lane of a vector of the state."""
        return self.target.lane_operand and not self.pairs and self.lanes > 1

    def products(self, loop: Loop, rows: Sequence[Value], count: int, parts: int, run: bool) -> None:
        """``count`` steps of a register tile's sums."""
        b, columns = self.b, self.spec.columns
        sums, panel = list(loop.carried[:-1]), loop.carried[-1]
        step = I32 if self.pairs else self.one
        right_type = step.vec(self.lanes)
        places = [b.gep(r, step, loop.index) for r in rows]
        runs = [b.load(self.vector, p) for p in places] if run else []
        full = fills_registers(self.target, len(rows), columns, [self.spec.dtype, self.spec.weights])
        for u in range(count):
            if full:
                lefts = [b.gep(place, step, u) for place in places]
                sums = register_steps.step(b, sums, lefts, b.gep(panel, right_type, u * columns))
                continue
            right = [
                b.load(right_type, b.gep(panel, right_type, u * columns + j), align=self.source.size)
                for j in range(columns)
            ]
            for r, place in enumerate(places):
                if runs:
                    left = b.shuffle(runs[r], None, [u] * self.lanes)
                elif self.pairs:
                    left = load_group(b, b.gep(place, step, u), self.lanes)
                else:
                    left = b.splat(b.load(self.one, b.gep(place, step, u)), self.lanes)
                for j in range(columns):
                    i = (u % parts * len(rows) + r) * columns + j
                    sums[i] = dot(b, sums[i], left, right[j]) if self.pairs else b.fma(left, right[j], sums[i])
        loop.next(*sums, b.gep(panel, right_type, count * columns))
