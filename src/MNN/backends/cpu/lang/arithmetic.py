"""Arithmetic, comparisons, conversions, shuffles and intrinsics of the kernel language."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.lang.declarations import Declarations
from MNN.backends.cpu.lang.types import I1, I32, I64, VOID, Operand, Type, Value, int_type, literal, scalar_literal
from MNN.backends.cpu.targets.instructions.capability import Capability


class OpsMixin:
    """The state of one function under construction (lines of text, fresh names, the current block) and operations on
    values. Where one operand is a Python number it takes the other's type."""

    def __init__(self, module: Declarations) -> None:
        self.module = module
        self.lines: list[str] = []
        self.block = "entry"
        self._count = 0

    def fresh(self) -> int:
        """A number unused in this function."""
        self._count += 1
        return self._count

    def emit(self, type_: Type, text: str) -> Value:
        """Appends an instruction that gives a value of ``type_``."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"{name} = {text}")
        return Value(self, name, type_)

    def line(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(text)

    def label(self, name: str) -> None:
        """Starts a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def const(self, type_: Type, number: float | int) -> Value:
        """A constant; vectors get the number in every lane."""
        return Value(self, literal(type_, number), type_, number)

    def const_vector(self, element: Type, numbers: Sequence[float | int]) -> Value:
        """A vector constant with one number per lane."""
        body = ", ".join(f"{element.text} {scalar_literal(element, n)}" for n in numbers)
        return Value(self, f"<{body}>", element.vec(len(numbers)))

    def poison(self, type_: Type) -> Value:
        return Value(self, "poison", type_)

    def _pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        if isinstance(x, Value):
            if not isinstance(y, Value):
                return x, self.const(x.type, y)
            if x.type is not y.type:
                raise TypeError(f"operand types differ: {x!r} and {y!r}")
            return x, y
        if isinstance(y, Value):
            return self.const(y.type, x), y
        raise TypeError("at least one operand must be a Value")

    def _binary(self, int_op: str, float_op: str, x: Operand, y: Operand) -> Value:
        x, y = self._pair(x, y)
        t = x.type
        return self.emit(t, f"{float_op if t.kind == 'f' else int_op} {t.text} {x.text}, {y.text}")

    # Index arithmetic (also used by Value's operators): folds trivial cases so that the text stays short.

    def index_add(self, x: Operand, y: Operand) -> Value:
        x, y = self._pair(x, y)
        if x.type is I64:
            if x.number is not None and y.number is not None:
                return self.const(I64, x.number + y.number)
            if y.number == 0:
                return x
            if x.number == 0:
                return y
            return self.emit(I64, f"add nsw i64 {x.text}, {y.text}")
        return self._binary("add", "fadd", x, y)

    def index_sub(self, x: Operand, y: Operand) -> Value:
        x, y = self._pair(x, y)
        if x.type is I64:
            if x.number is not None and y.number is not None:
                return self.const(I64, x.number - y.number)
            if y.number == 0:
                return x
            return self.emit(I64, f"sub nsw i64 {x.text}, {y.text}")
        return self._binary("sub", "fsub", x, y)

    def index_mul(self, x: Operand, y: Operand) -> Value:
        x, y = self._pair(x, y)
        if x.type is I64:
            if x.number is not None and y.number is not None:
                return self.const(I64, x.number * y.number)
            if x.number == 0 or y.number == 1:
                return x
            if y.number == 0 or x.number == 1:
                return y
            return self.emit(I64, f"mul nsw i64 {x.text}, {y.text}")
        return self._binary("mul", "fmul", x, y)

    def add(self, x: Operand, y: Operand) -> Value:
        return self._binary("add", "fadd", x, y)

    def sub(self, x: Operand, y: Operand) -> Value:
        return self._binary("sub", "fsub", x, y)

    def mul(self, x: Operand, y: Operand) -> Value:
        return self._binary("mul", "fmul", x, y)

    def fdiv(self, x: Operand, y: Operand) -> Value:
        return self._binary("fdiv", "fdiv", x, y)

    def sdiv(self, x: Operand, y: Operand) -> Value:
        return self._binary("sdiv", "fdiv", x, y)

    def udiv(self, x: Operand, y: Operand) -> Value:
        return self._binary("udiv", "fdiv", x, y)

    def srem(self, x: Operand, y: Operand) -> Value:
        return self._binary("srem", "frem", x, y)

    def urem(self, x: Operand, y: Operand) -> Value:
        return self._binary("urem", "frem", x, y)

    def and_(self, x: Operand, y: Operand) -> Value:
        return self._binary("and", "", x, y)

    def or_(self, x: Operand, y: Operand) -> Value:
        return self._binary("or", "", x, y)

    def xor(self, x: Operand, y: Operand) -> Value:
        return self._binary("xor", "", x, y)

    def shl(self, x: Operand, y: Operand) -> Value:
        return self._binary("shl", "", x, y)

    def lshr(self, x: Operand, y: Operand) -> Value:
        return self._binary("lshr", "", x, y)

    def ashr(self, x: Operand, y: Operand) -> Value:
        return self._binary("ashr", "", x, y)

    def fneg(self, x: Value) -> Value:
        return self.emit(x.type, f"fneg {x.type.text} {x.text}")

    def not_(self, x: Value) -> Value:
        """Bitwise complement (logical on i1)."""
        return self.xor(x, -1)

    def icmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """``predicate``: eq ne slt sle sgt sge ult ule ugt uge."""
        x, y = self._pair(x, y)
        return self.emit(I1.vec(x.type.lanes), f"icmp {predicate} {x.type.text} {x.text}, {y.text}")

    def fcmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """``predicate``: oeq one olt ole ogt oge (false on NaN), ueq une ult ule ugt uge uno (true on NaN), ord."""
        x, y = self._pair(x, y)
        return self.emit(I1.vec(x.type.lanes), f"fcmp {predicate} {x.type.text} {x.text}, {y.text}")

    def select(self, condition: Value, x: Operand, y: Operand) -> Value:
        """``x`` where the i1 (scalar or one per lane) is set, else ``y``."""
        x, y = self._pair(x, y)
        t = x.type.text
        return self.emit(x.type, f"select {condition.type.text} {condition.text}, {t} {x.text}, {t} {y.text}")

    def convert(self, op: str, x: Value, to: Type) -> Value:
        """A conversion instruction: trunc zext sext fptrunc fpext sitofp uitofp fptosi fptoui bitcast ptrtoint."""
        return x if x.type is to else self.emit(to, f"{op} {x.type.text} {x.text} to {to.text}")

    def bitcast(self, x: Value, to: Type) -> Value:
        return self.convert("bitcast", x, to)

    # Vectors

    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in every lane; the value itself when it already has that many lanes."""
        if x.type.lanes == lanes:
            return x
        if x.number is not None:
            return self.const(x.type.vec(lanes), x.number)
        t = x.type.vec(lanes)
        one = self.emit(t, f"insertelement {t.text} poison, {x.type.text} {x.text}, i64 0")
        return self.emit(t, f"shufflevector {t.text} {one.text}, {t.text} poison, <{lanes} x i32> zeroinitializer")

    def extract(self, x: Value, lane: int | Value) -> Value:
        if x.type.lanes == 1:
            return x
        index = lane.text if isinstance(lane, Value) else str(lane)
        return self.emit(x.type.element, f"extractelement {x.type.text} {x.text}, i64 {index}")

    def insert(self, x: Value, element: Value, lane: int | Value) -> Value:
        index = lane.text if isinstance(lane, Value) else str(lane)
        return self.emit(x.type, f"insertelement {x.type.text} {x.text}, {element!r}, i64 {index}")

    def shuffle(self, x: Value, y: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes picked from the concatenation of x and y; -1 leaves a lane undefined. One lane gives a scalar."""
        if len(lanes) == 1:
            return self.extract(x, lanes[0]) if y is None or lanes[0] < x.type.lanes else self._upper(x, y, lanes[0])
        t = x.type.text
        mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in lanes)
        other = y.text if y is not None else "poison"
        return self.emit(
            x.type.vec(len(lanes)), f"shufflevector {t} {x.text}, {t} {other}, <{len(lanes)} x i32> <{mask}>"
        )

    def _upper(self, x: Value, y: Value, lane: int) -> Value:
        return self.extract(y, lane - x.type.lanes)

    def lane_numbers(self, element: Type, lanes: int) -> Value:
        """The constant 0, 1, 2, ..."""
        return self.const_vector(element, range(lanes)) if lanes > 1 else self.const(element, 0)

    def prefix_mask(self, count: Value, lanes: int) -> Value:
        """i1 per lane, set in the first ``count`` (i64) lanes."""
        bits = I32  # 32-bit lanes compare fastest and every vector has fewer than 2^31 lanes
        wide = self.splat(self.convert("trunc", count, bits), lanes)
        return self.icmp("ult", self.lane_numbers(bits, lanes), wide)

    # Calls

    def call(self, ret: Type, name: str, *args: Value) -> Value:
        """Calls a function or intrinsic; declares it on first use. The result is meaningless for void."""
        self.module.declare(ret, name, [a.type for a in args])
        text = f"call {ret.text} @{name}({', '.join([f'{a.type.text} {a.text}' for a in args])})"
        if ret is VOID:
            self.lines.append(text)
            return Value(self, "", VOID)
        return self.emit(ret, text)

    def can(self, does: Capability, bits: int | None = None) -> bool:
        """Whether the processor itself has an instruction for this (not an emulated one), for vectors of ``bits``: the
        module's width."""
        return self.module.can(does, self.module.vector_bits if bits is None else bits)

    def perform(self, does: Capability, ret: Type, *args: Value) -> Value:
        """The result of the instruction that does this with operands of such a width; there must be one."""
        found = self.module.instruction(does, args[0].type.bits * args[0].type.lanes if args else 0)
        if found.is_conversion:
            return self.convert(found.text, args[0], ret)
        given = [args[i] for i in found.order] if found.order else args
        fixed = [self.const(int_type(bits) if bits else ret, n if bits else float(n)) for bits, n in found.fixed]
        return self.call(ret, self.module.callee(found), *given, *fixed)

    def intrinsic(self, name: str, *args: Value) -> Value:
        """``llvm.<name>.<type of the first argument>`` with the first argument's type as result."""
        t = args[0].type
        return self.call(t, f"llvm.{name}.{t.suffix}", *args)

    def fma(self, x: Value, y: Operand, z: Operand) -> Value:
        """x*y + z: fused where ``module.has_fma``, else a product and a sum (never a library call)."""
        t = x.type
        y = y if isinstance(y, Value) else self.const(t, y)
        z = z if isinstance(z, Value) else self.const(t, z)
        if self.module.has_fma:
            return self.intrinsic("fma", x, y, z)
        return self.add(self.mul(x, y), z)
