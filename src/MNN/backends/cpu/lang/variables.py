"""Scalar code that walks: variables, loops that ask before each turn, and functions of a kernel.

Variables are places on the stack, which LLVM keeps in registers where their addresses are given to nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.backends.cpu.lang.module import I64, PTR, VOID, Builder, Kernel, Operand, Type, Value


class Variable:
    """A value that changes."""

    def __init__(self, b: Builder, value: Value | int, type_: Type = I64) -> None:
        self._b, self._type = b, type_
        self._place = b.alloca(type_, align=8)
        self.set(value)

    def get(self) -> Value:
        return self._b.load(self._type, self._place, check=False)

    def set(self, value: Value | int) -> None:
        self._b.store(value if isinstance(value, Value) else self._b.const(self._type, value), self._place, check=False)

    def add(self, number: Operand) -> None:
        self.set(self.get() + number)


class Record:
    """Some i64 that lie side by side on the stack, whose address functions may be given."""

    def __init__(self, b: Builder, *values: Value) -> None:
        self._b, self.place = b, b.alloca(I64, len(values), 8)
        for i, value in enumerate(values):
            b.store(value, b.gep(self.place, I64, i), check=False)

    def get(self, index: int) -> Value:
        return self._b.load(I64, self._b.gep(self.place, I64, index), check=False)


def repeat(b: Builder, condition: Callable[[], Value], body: Callable[[], object]) -> None:
    """Runs ``body`` while the condition holds."""

    def turn(_: Value) -> tuple[Value, list[Value]]:
        body()
        return condition(), [b.const(I64, 0)]

    b.if_(condition(), lambda: b.do_while([b.const(I64, 0)], turn))


class Function(Kernel):
    """A function of a kernel that sees its slots, and takes values of its own (``params``)."""

    def __init__(self, kernel: Kernel, name: str, params: Sequence[tuple[Type, str]], ret: Type = VOID) -> None:
        self.module, self._ret = kernel.module, ret
        own = [(PTR, "noalias readonly args"), (PTR, "scratch"), *params]
        self.b = self.module.function(name, own, ret)
        self.args, self.scratch, *self.params = self.b.params
        self._slots, self._loaded = kernel._slots, {}

    def call(self, caller: Kernel, *values: Value | int) -> Value:
        """Calls it and gives what it returns; what is no Value is an i64."""
        given = [v if isinstance(v, Value) else caller.b.const(I64, v) for v in values]
        return caller.b.call(self._ret, self.b.name, caller.args, caller.scratch, *given)


__all__ = ["Function", "Record", "Variable", "repeat"]
