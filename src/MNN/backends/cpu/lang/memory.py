"""Loads, stores and addresses of the kernel language, with bounds checks in checked builds.

A checked build (:func:`MNN.backends.cpu.lang.declarations.checked_build`) adds one argument slot after the kernel's
own: the address of ``i64 error, i64 count, (i64 first, i64 past)[count]``, the byte ranges the kernel may touch. An
access outside all of them writes its number (1, 2, ... in order of emission) to ``error`` and leaves the kernel at
once, without the access."""

from __future__ import annotations

from MNN.backends.cpu.lang.arithmetic import OpsMixin
from MNN.backends.cpu.lang.types import I1, I8, I32, I64, PTR, VOID, Type, Value, int_type
from MNN.backends.cpu.targets import emulation
from MNN.backends.cpu.targets.instructions import capability as can

CHECK_FUNCTION = """\
@mnn.table = internal global ptr null
define internal i1 @mnn.check(ptr %p, i64 %bytes, i64 %id) noinline nounwind {
  %table = load ptr, ptr @mnn.table
  %first = ptrtoint ptr %p to i64
  %past = add i64 %first, %bytes
  %countp = getelementptr i64, ptr %table, i64 1
  %count = load i64, ptr %countp
  %nothing = icmp eq i64 %bytes, 0
  br i1 %nothing, label %ok, label %head
head:
  %i = phi i64 [0, %0], [%next, %no]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %test, label %fail
test:
  %k = mul i64 %i, 2
  %k2 = add i64 %k, 2
  %k3 = add i64 %k, 3
  %lop = getelementptr i64, ptr %table, i64 %k2
  %hip = getelementptr i64, ptr %table, i64 %k3
  %lo = load i64, ptr %lop
  %hi = load i64, ptr %hip
  %above = icmp uge i64 %first, %lo
  %below = icmp ule i64 %past, %hi
  %in = and i1 %above, %below
  br i1 %in, label %ok, label %no
no:
  %next = add i64 %i, 1
  br label %head
ok:
  ret i1 true
fail:
  store i64 %id, ptr %table
  ret i1 false
}
"""


class MemoryMixin(OpsMixin):
    """Memory access. Pointers are opaque; ``gep`` counts in elements of the type it is given."""

    ret_type: Type = VOID

    def gep(self, pointer: Value, element: Type, index: Value | int) -> Value:
        """The address ``index`` elements of ``element`` (scalar or vector) after ``pointer``."""
        if isinstance(index, Value):
            if index.number == 0:
                return pointer
            return self.emit(PTR, f"getelementptr {element.text}, ptr {pointer.text}, {index.type.text} {index.text}")
        if index == 0:
            return pointer
        return self.emit(PTR, f"getelementptr {element.text}, ptr {pointer.text}, i64 {index}")

    def _check(self, pointer: Value, size: Value | int) -> None:
        """An access of no bytes is made nowhere, wherever it points."""
        module = self.module
        module.check_count += 1
        n = self.fresh()
        size_text = size.text if isinstance(size, Value) else str(size)
        self.lines.append(
            f"%ok{n} = call i1 @mnn.check(ptr {pointer.text}, i64 {size_text}, i64 {module.check_count})\n"
            f"br i1 %ok{n}, label %in{n}, label %out{n}\n"
            f"out{n}:\n" + ("ret void" if self.ret_type is VOID else f"ret {self.ret_type.text} zeroinitializer")
        )
        self.label(f"in{n}")

    def check(self, pointer: Value, size: Value | int) -> None:
        """In a checked build, tests an access that an instruction of its own kind is going to make."""
        if self.module.checked:
            self._check(pointer, size)

    def _mask_bytes(self, mask: Value, element_size: int) -> Value:
        """Bytes up to the last active lane."""
        n = mask.type.lanes
        bits = mask if n == 1 else self.bitcast(mask, Type(f"i{n}", "i", n, f"i{n}"))
        zeros = self.call(bits.type, f"llvm.ctlz.{bits.type.suffix}", bits, self.const(I1, 0))
        used = self.emit(bits.type, f"sub {bits.type.text} {n}, {zeros.text}") if n > 1 else bits
        return self.mul(self.convert("zext" if n < 64 else "bitcast", used, I64), element_size)

    def load(self, type_: Type, pointer: Value, align: int = 0, check: bool = True, note: str = "") -> Value:
        """Loads a scalar or a vector; ``align`` in bytes, default that of the element.

        ``note`` is appended to the instruction (metadata such as ``, !nontemporal !0``).
        """
        if check and self.module.checked:
            self._check(pointer, type_.size)
        return self.emit(type_, f"load {type_.text}, ptr {pointer.text}, align {align or type_.element.size}{note}")

    def store(self, value: Value, pointer: Value, align: int = 0, check: bool = True, note: str = "") -> None:
        """Stores a scalar or a vector."""
        t = value.type
        if check and self.module.checked:
            self._check(pointer, t.size)
        self.lines.append(f"store {t.text} {value.text}, ptr {pointer.text}, align {align or t.element.size}{note}")

    def prefetch(self, pointer: Value, near: int = 3) -> None:
        """Asks for the line at ``pointer`` in the first-level cache (``near`` 2: the second, 1: the third);
        any address will do."""
        level = [self.const(int_type(32), n) for n in (0, near, 1)]  # for reading, how near, data
        self.call(VOID, "llvm.prefetch.p0", pointer, *level)

    def entry(self, table: Value, index: Value | int) -> Value:
        """An entry of an i32 table, as an index (i64)."""
        return self.convert("sext", self.load(I32, self.gep(table, I32, index)), I64)

    def load_masked(self, type_: Type, pointer: Value, mask: Value, other: Value | None = None) -> Value:
        """Loads the lanes whose mask bit is set; the rest take ``other`` (default zero) and are not touched."""
        if self.module.checked:
            self._check(pointer, self._mask_bytes(mask, type_.element.size))
        return self._masked("load", type_, type_, [pointer], [mask, other or self.const(type_, 0)])

    def store_masked(self, value: Value, pointer: Value, mask: Value) -> None:
        """Stores the lanes whose mask bit is set."""
        if self.module.checked:
            self._check(pointer, self._mask_bytes(mask, value.type.element.size))
        self._masked("store", value.type, VOID, [value, pointer], [mask])

    def _masked(self, what: str, type_: Type, ret: Type, first: list[Value], last: list[Value]) -> Value:
        """LLVM's intrinsic. Where its instruction is only emulated LLVM makes it a branch for every lane: a module then
        holds it once, in a function, or kernels with many tails would take most of the time of those that try them."""
        name, align = f"llvm.masked.{what}.{type_.suffix}.p0", self.const(int_type(32), type_.element.size)
        if type_.element.size >= 4 or not self.module.emulates(can.MASKED_BYTES):
            return self.call(ret, name, *first, align, *last)
        apart = f"plain.{name}"
        if not self.module.defines(apart):
            self.module.declare(ret, name, [a.type for a in (*first, align, *last)])
            before, behind = ([a.type.text for a in some] for some in (first, last))
            self.module.define(apart, emulation.apart(apart, name, ret.text, before, align.text, behind))
        return self.call(ret, apart, *first, *last)

    def _check_lanes(self, pointers: Value, mask: Value | None, size: int) -> None:
        for lane in range(pointers.type.lanes):
            active: Value | int = size
            if mask is not None:
                active = self.select(self.extract(mask, lane), self.const(I64, size), 0)
            self._check(self.extract(pointers, lane), active)

    def load_gather(self, type_: Type, pointers: Value, mask: Value | None = None) -> Value:
        """One element per lane from a vector of addresses; inactive lanes give zero."""
        if type_.lanes == 1:
            return self.load(type_, pointers)
        if self.module.checked:
            self._check_lanes(pointers, mask, type_.element.size)
        on = mask or self.const(I1.vec(type_.lanes), 1)
        align = self.const(int_type(32), type_.element.size)
        name = f"llvm.masked.gather.{type_.suffix}.{pointers.type.suffix}"
        return self.call(type_, name, pointers, align, on, self.const(type_, 0))

    def in_order(self) -> None:
        """What is loaded behind this is not loaded before: LLVM's scheduler takes loads together, until registers that
        a kernel counts on are gone."""
        self.line('call void asm sideeffect "", "~{memory}"()')

    def alloca(self, type_: Type, count: int = 1, align: int = 64) -> Value:
        """Stack memory for ``count`` values, made in the entry block. Access it with ``check=False``."""
        n = self.fresh()
        self.entry_lines.append(f"%v{n} = alloca {type_.text}, i64 {count}, align {align}")
        return Value(self.const(I8, 0).b, f"%v{n}", PTR)

    def scratch_buffer(self, type_: Type) -> Value:
        """One shared piece of stack that holds a value of this type; its content lasts until the next use."""
        found = self._buffers.get(type_)
        if found is None:
            found = self._buffers[type_] = self.alloca(type_)
        return found

    entry_lines: list[str]
    _buffers: dict[Type, Value]
