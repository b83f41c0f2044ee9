"""Control flow of the kernel language: counted loops with carried values, do-while loops, conditionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from MNN.backends.cpu.lang.memory import MemoryMixin
from MNN.backends.cpu.lang.types import I64, Operand, Value


class Loop:
    """An open loop. ``index`` counts; ``carried`` are this iteration's values; ``results`` those after the loop.

    Call :meth:`next` once in the body with the values for the next iteration (not needed without carried values).
    """

    def __init__(
        self, b: FlowMixin, lo: Operand, hi: Operand, step: Operand, carry: Sequence[Value], unroll: int, guard: bool
    ) -> None:
        self._b, self._carry, self._unroll, self._guard = b, list(carry), unroll, guard
        self._lo = lo if isinstance(lo, Value) else b.const(I64, lo)
        self._hi = hi if isinstance(hi, Value) else b.const(I64, hi)
        self._step = step
        self._next: list[Value] = []
        self.results: list[Value] = []
        self.index: Value
        self.carried: list[Value] = []

    def __enter__(self) -> Loop:
        b = self._b
        self._n = n = b.fresh()
        if self._guard:
            c = b.icmp("slt", self._lo, self._hi)
            b.line(f"br i1 {c.text}, label %body{n}, label %exit{n}")
        else:
            b.line(f"br label %body{n}")
        self._pre = b.block
        b.label(f"body{n}")
        self._phi_line = len(b.lines)
        b.line("")  # the phis, written when the loop closes
        me = self._lo.b
        self.index = Value(me, f"%i{n}", I64)
        self.carried = [Value(me, f"%c{n}_{k}", v.type) for k, v in enumerate(self._carry)]
        return self

    def next(self, *values: Value) -> None:
        """Sets the carried values of the next iteration."""
        if len(values) != len(self._carry) or any(v.type is not c.type for v, c in zip(values, self._carry)):  # noqa: B905
            raise TypeError(f"a loop carrying {self._carry} was given {values}")
        self._next = list(values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        b, n = self._b, self._n
        if len(self._next) != len(self._carry):
            raise TypeError("a loop with carried values was closed without next()")
        step = self._step.text if isinstance(self._step, Value) else str(self._step)
        b.line(f"%n{n} = add nsw i64 %i{n}, {step}")
        b.line(f"%t{n} = icmp slt i64 %n{n}, {self._hi.text}")
        b.line(f"br i1 %t{n}, label %body{n}, label %exit{n}, !llvm.loop !{b.module.loop_metadata(self._unroll)}")
        latch = b.block
        phis = [f"%i{n} = phi i64 [{self._lo.text}, %{self._pre}], [%n{n}, %{latch}]"]
        for k, (first, after) in enumerate(zip(self._carry, self._next)):  # noqa: B905
            t = first.type.text
            phis.append(f"%c{n}_{k} = phi {t} [{first.text}, %{self._pre}], [{after.text}, %{latch}]")
        b.lines[self._phi_line] = "\n".join(phis)
        b.label(f"exit{n}")
        if not self._guard:
            self.results = self._next
            return
        for first, after in zip(self._carry, self._next):  # noqa: B905
            at = first.type
            self.results.append(b.emit(at, f"phi {at.text} [{first.text}, %{self._pre}], [{after.text}, %{latch}]"))


class FlowMixin(MemoryMixin):
    """Structured control flow; the builder always stands at the end of one open block."""

    def loop(
        self,
        lo: Operand,
        hi: Operand,
        step: Operand = 1,
        carry: Sequence[Value] = (),
        unroll: int = 1,
        guard: bool = True,
    ) -> Loop:
        """``with b.loop(lo, hi, step, carry) as l:`` runs for l.index = lo, lo+step, ... while < hi (i64, signed).

        ``unroll``: 1 keeps LLVM from unrolling, k asks for k, 0 leaves it to LLVM. Without ``guard`` the body runs at
        least once.
        """
        return Loop(self, lo, hi, step, carry, unroll, guard)

    def do_while(self, carry: Sequence[Value], body: Callable[..., tuple[Value, Sequence[Value]]]) -> list[Value]:
        """Runs ``body(*carried) -> (continue: i1, next values)`` until it says no; gives the last next values."""
        n = self.fresh()
        pre = self.block
        self.line(f"br label %body{n}")
        self.label(f"body{n}")
        at = len(self.lines)
        self.line("")
        me = carry[0].b
        again, after = body(*[Value(me, f"%c{n}_{k}", v.type) for k, v in enumerate(carry)])
        self.line(f"br i1 {again.text}, label %body{n}, label %exit{n}, !llvm.loop !{self.module.loop_metadata(1)}")
        self.lines[at] = "\n".join(
            f"%c{n}_{k} = phi {a.type.text} [{a.text}, %{pre}], [{z.text}, %{self.block}]"
            for k, (a, z) in enumerate(zip(carry, after))  # noqa: B905
        )
        self.label(f"exit{n}")
        return list(after)

    def if_else(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]] = tuple,
        likely: bool = False,
    ) -> list[Value]:
        """Runs one of two emitters; their values (same types) are joined. ``likely``: the first is."""
        n = self.fresh()
        weights = f", !prof !{self.module.likely_metadata()}" if likely else ""
        self.line(f"br i1 {condition.text}, label %then{n}, label %else{n}{weights}")
        self.label(f"then{n}")
        first = list(then())
        first_end = self.block
        self.line(f"br label %join{n}")
        self.label(f"else{n}")
        second = list(otherwise())
        second_end = self.block
        self.line(f"br label %join{n}")
        self.label(f"join{n}")
        if len(first) != len(second) or any(x.type is not y.type for x, y in zip(first, second)):  # noqa: B905
            raise TypeError(f"branches give {first} and {second}")
        return [
            self.emit(x.type, f"phi {x.type.text} [{x.text}, %{first_end}], [{y.text}, %{second_end}]")
            for x, y in zip(first, second)  # noqa: B905
        ]

    def if_(self, condition: Value, then: Callable[[], object]) -> None:
        """Runs an emitter's code only when the condition holds."""
        self.choose(condition, then, tuple)

    def choose(
        self,
        condition: Value,
        then: Callable[[], object],
        otherwise: Callable[[], object],
        likely: bool = False,
    ) -> None:
        """Runs the code of one of two emitters. ``likely``: of the first."""

        def run(emit: Callable[[], object]) -> Callable[[], Sequence[Value]]:
            def emitted() -> Sequence[Value]:
                emit()
                return ()

            return emitted

        self.if_else(condition, run(then), run(otherwise), likely)
