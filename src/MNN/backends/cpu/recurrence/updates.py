"""What follows from a step's products: the new states of a vector of units of one sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.backends.cpu.lang.element import Tail, compute_type, load, make_tail, narrow, storage_type, store
from MNN.backends.cpu.lang.module import I64, Kernel, Value
from MNN.backends.cpu.math.scalar_code import BodyCode, emit_body, stored
from MNN.backends.cpu.recurrence.spec import RecurrenceSpec
from MNN.backends.cpu.recurrence.stages import handed_on
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType


class Updates:
    """The state of one emission: the kernel, and the values that hold for the current block and step."""

    def __init__(self, spec: RecurrenceSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes, self.width = spec.lanes(target), spec.width(target)
        self.one = compute_type(spec.dtype, 1)
        self.vector = self.total = self.one.vec(self.lanes)
        self.pairs = spec.weights is DType.BF16
        self.source, self.held = storage_type(spec.weights), storage_type(spec.held)
        self.plane: Value
        self.work: Value
        self.d: Value
        self.row0: Value
        self.row1: Value
        self.at: Value
        """The time that the current step reads and writes."""
        self.now: Value
        """The number of the current step."""
        self.code = BodyCode(spec.body, ())
        self.code.row(self.b, {})  # what follows from constants alone
        room = spec.gates - (spec.direct if spec.first is not None else 0)
        states = range(2 * spec.gates, 2 * spec.gates + spec.states)
        # The few vectors of a tile of one sequence are in a processor's sight anyway.
        self.handed = handed_on(spec.body, states, room) if spec.rows > 1 else ()
        """Instructions of the body whose results lie where the last phase's products were, for a second stage."""

    def stages(self, phase: int) -> int:
        """In how many stages the results of a phase are computed."""
        last = self.spec.first is None or phase == 1
        return 2 if last and self.handed else 1

    # -- memory -----------------------------------------------------------------------------------------------------

    def _plane(self, number: Value | int, row: Value) -> Value:
        """Where a row of a plane of numbers begins."""
        b = self.b
        start = self.plane * number if isinstance(number, int) else number * self.plane
        return b.gep(self.work, self.one, start + row * self.k.slot("pitch"))

    def factor(self, step: Value, row: Value) -> Value:
        """What is multiplied in a step: in the weights' type."""
        return self._plane(self.b.and_(step, 1) + self.spec.states, row)

    def _given(self, row: Value) -> Value:
        """Where the given numbers of a sequence in the current step begin."""
        k = self.k
        return self.at * k.slot("given_t") + row * k.slot("given_b") + self.d * k.slot("given_d")

    # -- stages -----------------------------------------------------------------------------------------------------

    def first(self, phase: int, row: Value, column: Value, sums: list[Value], kept: Sequence[Value]) -> None:
        """What follows from the products of one vector of units of one sequence: their new states; or, where there is
        a second stage, what it takes, in ``kept``."""
        k, b, spec = self.k, self.b, self.spec
        left = k.slot("hidden") - column
        given = self._given(row) + column
        places = [
            b.gep(k.pointer("given"), self.one, given + k.slot("hidden") * g) for g in range(spec.gates)
        ] + [
            b.gep(k.pointer(f"param{i}"), self.one, self.d * k.slot(f"param{i}_d") + column)
            for i in range(spec.parameters)
        ]  # fmt: skip
        outside = b.if_else(
            b.icmp("sge", left, self.lanes),
            lambda: [load(b, spec.dtype, p, self.lanes) for p in places],
            lambda: [load(b, spec.dtype, p, self.lanes, None, make_tail(b, left, self.lanes)) for p in places],
            likely=True,
        )
        x, parameters = outside[: spec.gates], outside[spec.gates :]
        old = [b.load(self.vector, p) for p in self._states(row, column)]
        held = [b.gep(self._plane(spec.states + 3 + g, row), self.one, column) for g in range(spec.direct)]
        if spec.first is not None and phase == 0:
            factor = emit_body(b, spec.first, [*x, *sums, *old, *parameters], self.lanes)[0]
            to = b.gep(self._plane(spec.states + 2, row), self.held, column)
            b.store(narrow(b, spec.held, factor), to, align=self.held.size)
            for value, place in zip(sums, held, strict=True):
                b.store(value, place)
            return
        if phase:
            sums = [*(b.load(self.vector, place) for place in held), *sums]
        operands = dict(enumerate([*x, *sums, *old, *parameters]))
        if not self.handed:
            self._put(row, column, self.code.elements(b, operands, self.lanes, stored(spec.body)), old)
            return
        for value, place in zip(self.code.elements(b, operands, self.lanes, self.handed), kept, strict=False):
            b.store(value, place)

    def second(self, row: Value, column: Value, kept: Sequence[Value]) -> None:
        """The new states from what the first stage has kept."""
        b, spec = self.b, self.spec
        found = {i: b.load(self.vector, place) for i, place in zip(self.handed, kept, strict=False)}
        old = [b.load(self.vector, p) for p in self._states(row, column)]
        operands = dict(enumerate(old, 2 * spec.gates))
        self._put(row, column, self.code.elements(b, operands, self.lanes, stored(spec.body), found), old)

    def _states(self, row: Value, column: Value) -> list[Value]:
        return [self.b.gep(self._plane(i, row), self.one, column) for i in range(self.spec.states)]

    def _put(self, row: Value, column: Value, new: list[Value], old: list[Value]) -> None:
        """Stores the new states of a vector of units of one sequence."""
        k, b, spec = self.k, self.b, self.spec
        left = k.slot("hidden") - column
        whole = b.icmp("sge", left, self.lanes)

        def cut() -> Tail:
            return make_tail(b, left, self.lanes)

        out = new[0]
        if spec.limited:
            inside = b.icmp("slt", self.at, b.load(I64, b.gep(k.pointer("lengths"), I64, row)))
            out = b.select(inside, out, b.const(self.vector, 0))
            new = [b.select(inside, after, before) for after, before in zip(new, old, strict=True)]
        for value, place in zip(new, self._states(row, column), strict=True):
            b.store(value, place)
        factor = b.gep(self.factor(self.now + 1, row), self.held, column)
        b.store(narrow(b, spec.held, new[0]), factor, align=self.held.size)
        y = self.at * k.slot("y_t") + row * k.slot("y_b") + self.d * k.slot("y_d") + column
        self._store(out, b.gep(k.pointer("y"), self.one, y), whole, cut)

        def last() -> None:
            for i, value in enumerate(new):
                to = self.d * k.slot(f"to{i}_d") + row * k.slot(f"to{i}_b") + column
                self._store(value, b.gep(k.pointer(f"to{i}"), self.one, to), whole, cut)

        b.if_(b.icmp("eq", self.now, k.slot("steps") - 1), last)

    def _store(self, value: Value, place: Value, whole: Value, cut: Callable[[], Tail]) -> None:
        b, dtype = self.b, self.spec.dtype

        def all_lanes() -> tuple[()]:
            store(b, dtype, value, place)
            return ()

        def some() -> tuple[()]:
            store(b, dtype, value, place, None, cut())
            return ()

        b.if_else(whole, all_lanes, some, likely=True)
