"""The kernel language: a small, typed emitter of textual LLVM IR.

A kernel is a :class:`Kernel`; its :class:`Builder` ``k.b`` appends instructions. Everything is structured: loops and
conditionals are ``with`` blocks or callbacks, values are typed, and the result is one module of text that
``MNN.backends.cpu.codegen.toolchain`` compiles. See :mod:`.types`, :mod:`.arithmetic`, :mod:`.memory`, :mod:`.flow`.

>>> k = Kernel(("x", "y", "n"), vector_bits=512, has_fma=True)
>>> x, y = k.pointer("x"), k.pointer("y")
>>> with k.b.loop(0, k.slot("n"), 16) as l:
...     v = k.b.load(F32.vec(16), k.b.gep(x, F32, l.index))
...     k.b.store(v + v, k.b.gep(y, F32, l.index))
>>> "fadd <16 x float>" in k.finish()
True
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from MNN.backends.cpu.lang.declarations import Declarations
from MNN.backends.cpu.lang.flow import FlowMixin, Loop
from MNN.backends.cpu.lang.memory import CHECK_FUNCTION
from MNN.backends.cpu.lang.types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    PTR,
    VOID,
    Operand,
    Type,
    Value,
    int_type,
    literal,
    memory_type,
)
from MNN.backends.cpu.targets.base import Target

__all__ = [
    "BF16", "F16", "F32", "F64", "I1", "I8", "I16", "I32", "I64", "I128", "PTR", "VOID",
    "Builder", "Kernel", "Loop", "Module", "Operand", "OutOfLine", "Type", "Value",
    "int_type", "literal", "memory_type",
]  # fmt: skip


class Builder(FlowMixin):
    """Builds one function. See the mixins for the operations."""

    module: Module

    def __init__(self, module: Module, name: str, ret: Type, params: Sequence[tuple[Type, str]], head: str) -> None:
        super().__init__(module)
        self.entry_lines: list[str] = []
        self._buffers = {}
        self.ret_type = ret
        self._head = head
        self.params = [Value(self, f"%{p}", t) for t, p in params]
        self.name = name

    def ret(self, value: Value | None = None) -> None:
        self.line(f"ret {value.type.text} {value.text}" if value is not None else "ret void")

    def text(self) -> str:
        entry = "\n".join(self.entry_lines)
        return f"{self._head} {{\nentry:\n{entry}\n" + "\n".join(self.lines) + "\n}\n"


class Module(Declarations):
    """A module of text: functions, declarations made on use, metadata, raw globals (``add``)."""

    def __init__(
        self,
        vector_bits: int = 256,
        has_fma: bool = True,
        features: Collection[str] = (),
        tune: str = "",
        emulated: Collection[str] = (),
    ) -> None:
        """``features`` are those whose instructions there are; plain code stands in for the
        instructions of ``emulated`` ones."""
        self._tune = f' "tune-cpu"="{tune}"' if tune else ""
        super().__init__(vector_bits, has_fma, features, emulated)
        self._functions: list[Builder] = []

    def function(
        self,
        name: str,
        params: Sequence[tuple[Type, str]],
        ret: Type = VOID,
        internal: bool = True,
        attributes: str = "",
    ) -> Builder:
        """A new function. A parameter's name may carry attributes before it: ``(PTR, "noalias readonly p")``."""
        split = [(t, p.rpartition(" ")) for t, p in params]
        text = ", ".join(f"{t.text} {attrs + ' ' if attrs else ''}%{p}" for t, (attrs, _, p) in split)
        head = f"define {'internal ' if internal else ''}{ret.text} @{name}({text}) #0 {attributes}"
        b = Builder(self, name, ret, [(t, p[2]) for t, p in split], head)
        self._functions.append(b)
        self._defined.add(name)
        return b

    def text(self) -> str:
        parts = list(self._raw)
        if self.checked:
            parts.append(CHECK_FUNCTION)
        parts += [f.text() for f in self._functions]
        parts += [text for name, text in self._declared.items() if name not in self._defined]
        width = f'"prefer-vector-width"="{self.vector_bits}"'
        parts.append(f'attributes #0 = {{ nounwind "no-builtins" {width}{self._tune} }}')
        return "\n".join([*parts, *self.metadata()]) + "\n"


class Kernel:
    """A module with the one function every kernel exports: ``void @kernel(ptr args, i64 begin, i64 end, ptr scratch)``.

    ``args`` is an i64 array with the named ``slots``. ``k.begin``, ``k.end``, ``k.scratch`` are its other parameters.
    """

    def __init__(
        self,
        slots: Sequence[str],
        vector_bits: int = 256,
        has_fma: bool = True,
        features: Collection[str] = (),
        tune: str = "",
        emulated: Collection[str] = (),
    ) -> None:
        self.module = Module(vector_bits, has_fma, features, tune, emulated)
        params = [(PTR, "noalias readonly args"), (I64, "begin"), (I64, "end"), (PTR, "scratch")]
        self.b = self.module.function("kernel", params, internal=False)
        self.args, self.begin, self.end, self.scratch = self.b.params
        self._slots = {slot: i for i, slot in enumerate(slots)}
        self._loaded: dict[tuple[str, Type], Value] = {}
        if self.module.checked:
            n = len(slots)
            self.b.entry_lines.append(
                f"%checkp = getelementptr i64, ptr %args, i64 {n}\n"
                "%check = load ptr, ptr %checkp, align 8\nstore ptr %check, ptr @mnn.table"
            )

    @classmethod
    def of(cls, slots: Sequence[str], target: Target) -> Kernel:
        """A kernel for a target."""
        bits = target.vector_bytes * 8
        return cls(slots, bits, target.has_fma, target.instructions, target.tune, target.emulated)

    def slot(self, name: str, type_: Type = I64) -> Value:
        """The value of a slot, loaded once in the entry block."""
        key = (name, type_)
        if key not in self._loaded:
            i = self._slots[name]
            n = self.b.fresh()
            self.b.entry_lines.append(
                f"%p{n} = getelementptr i64, ptr %args, i64 {i}\n%v{n} = load {type_.text}, ptr %p{n}, align 8"
            )
            self._loaded[key] = Value(self.b, f"%v{n}", type_)
        return self._loaded[key]

    def pointer(self, name: str) -> Value:
        """A slot as an address."""
        return self.slot(name, PTR)

    def finish(self) -> str:
        """Ends the function and gives the module's text."""
        self.b.ret()
        return self.module.text()


class OutOfLine(Kernel):
    """A second function of a kernel, called with numbers of its own, which are its ``params``.

    LLVM moves constants out of every loop, also out of the loops around one that needs all registers, whose sums then
    go to the stack and back in every step. Out of a function they cannot be moved.
    """

    def __init__(self, kernel: Kernel, name: str, params: Sequence[str]) -> None:
        self.module, self._kernel = kernel.module, kernel
        own = [(PTR, "noalias readonly args"), (PTR, "scratch"), *((I64, p) for p in params)]
        self.b = self.module.function(name, own, attributes="noinline")
        self.args, self.scratch, *self.params = self.b.params
        self._slots, self._loaded = kernel._slots, {}

    def call(self, *values: Value) -> None:
        """Ends the function; the kernel calls it."""
        self.b.ret()
        self._kernel.b.call(VOID, self.b.name, self._kernel.args, self._kernel.scratch, *values)
