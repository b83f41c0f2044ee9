"""Expressions of typed functions, as LLVM IR."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from MNN.backends.cpu.typed import language
from MNN.backends.cpu.typed.code import Code
from MNN.backends.cpu.typed.language import Pointer, Record, View
from MNN.backends.cpu.typed.values import (
    NOTHING,
    Field,
    Kind,
    Signature,
    TranslationError,
    Value,
    constant,
    fields,
    is_constant,
    llvm,
    refuse,
)

_OPERATORS: dict[type[ast.operator], dict[Kind, str]] = {
    ast.Add: {int: "add", float: "fadd"}, ast.Sub: {int: "sub", float: "fsub"}, ast.Mult: {int: "mul", float: "fmul"},
    ast.Div: {float: "fdiv"}, ast.LShift: {int: "shl"}, ast.RShift: {int: "ashr"},
    ast.BitAnd: {int: "and", bool: "and"}, ast.BitOr: {int: "or", bool: "or"}, ast.BitXor: {int: "xor", bool: "xor"},
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("eq", "oeq"), ast.NotEq: ("ne", "une"), ast.Lt: ("slt", "olt"), ast.LtE: ("sle", "ole"),
    ast.Gt: ("sgt", "ogt"), ast.GtE: ("sge", "oge"), ast.Is: ("eq", ""), ast.IsNot: ("ne", ""),
}  # fmt: skip


class Expressions(Code):
    """Writes what expressions compute. ``known`` are the names around the function; ``variables`` its own."""

    def __init__(self, known: dict[str, Any], function: Callable[[Any], tuple[str, Signature]]) -> None:
        super().__init__()
        self._known, self._function = known, function
        self.variables: dict[str, tuple[str, Kind]] = {}

    # what is known beforehand

    def _fact(self, node: ast.expr) -> tuple[bool, Any]:
        """Whether an expression has nothing but numbers and names around the function, and what it stands for."""
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.Name):
            there = node.id not in self.variables and node.id in self._known
            return there, self._known[node.id] if there else None
        if isinstance(node, ast.Attribute):
            there, owner = self._fact(node.value)
            there = there and hasattr(owner, node.attr)
            return there, getattr(owner, node.attr) if there else None
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        if isinstance(node, (ast.BinOp, ast.UnaryOp)) and all(is_constant(v) for there, v in map(self._fact, parts)):
            return True, eval(compile(ast.Expression(node), "<known>", "eval"), self._known)
        return False, None

    # expressions

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        there, found = self._fact(node)
        if there and is_constant(found):
            return constant(found)
        write = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if write is None:
            refuse(node, "not part of the language")
        value: Value = write(node)
        return value

    def of(self, node: ast.expr, kind: Kind) -> Value:
        """The value of an expression that must be of a kind."""
        return self.fitting(node, self.value(node), kind)

    def fitting(self, node: ast.AST, value: Value, kind: Kind) -> Value:
        """A value where one of a kind is wanted: an address may be seen as one of a base, nothing as any."""
        if kind is float and value.kind is int and not value.text.startswith("%"):
            return constant(float(int(value.text)))
        fits = value.kind is kind or (llvm(kind) == "ptr" and (value.text == "null" or issubclass(value.kind, kind)))
        if not fits:
            refuse(node, f"this is {value.kind.__name__}, not {kind.__name__}")
        return Value(value.text, kind)

    def _of_name(self, node: ast.Name) -> Value:
        if node.id not in self.variables:
            refuse(node, "no variable, number or address")
        place, kind = self.variables[node.id]
        return self.emit(kind, f"load {llvm(kind)}, ptr {place}, align 8")

    def _of_binop(self, node: ast.BinOp) -> Value:
        return self.combined(node, node.op, self.value(node.left), self.value(node.right))

    def combined(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        kind = float if float in (left.kind, right.kind) else left.kind
        names = _OPERATORS.get(type(op), {})
        if kind not in names:
            refuse(node, f"not done with {left.kind.__name__} and {right.kind.__name__}")
        left, right = self.fitting(node, left, kind), self.fitting(node, right, kind)
        return self.emit(kind, f"{names[kind]} {left.typed}, {right.text}")

    def _of_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.emit(bool, f"xor i1 {self.condition(node.operand).text}, true")
        if isinstance(node.op, ast.USub):
            value = self.value(node.operand)
            if value.kind is float:
                return self.emit(float, f"fneg double {value.text}")
            return self.emit(int, f"sub i64 0, {self.fitting(node, value, int).text}")
        refuse(node, "not part of the language")

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        then, otherwise, out = (self.fresh("b") for _ in range(3))
        self.branch(node.test, then, otherwise)
        ways: list[tuple[Value, str]] = []
        for label, part in ((then, node.body), (otherwise, node.orelse)):
            self.begin(label)
            value = self.value(part)
            ways.append((value, self.block))
            self.go(out)
        self.begin(out)
        kind = ways[0][0].kind if ways[0][0].text != "null" else ways[1][0].kind
        return self.joined(kind, [(self.fitting(node, v, kind), block) for v, block in ways])

    def _of_subscript(self, node: ast.Subscript) -> Value:
        place, view = self.element(node)
        return Value(self._loaded(place, view.memory, view.signed).text, view.element)

    def element(self, node: ast.Subscript) -> tuple[str, type[View]]:
        """Where an element is, and the view that it is one of."""
        view = self.value(node.value)
        if not issubclass(view.kind, View):
            refuse(node, f"{view.kind.__name__} has no elements")
        index = self.of(node.slice, int)
        return self.register(f"getelementptr {view.kind.memory}, ptr {view.text}, i64 {index.text}"), view.kind

    def _loaded(self, place: str, memory: str, signed: bool = True) -> Value:
        size = {"i8": 1, "i32": 4, "float": 4}.get(memory, 8)
        found = self.register(f"load {memory}, ptr {place}, align {size}")
        if memory in ("i8", "i32"):
            return self.emit(int, f"{'sext' if signed else 'zext'} {memory} {found} to i64")
        if memory == "float":
            return self.emit(float, f"fpext float {found} to double")
        return Value(found, {"i64": int, "double": float, "ptr": Pointer}[memory])

    def store(self, value: Value, place: str, memory: str) -> None:
        """A value into memory, narrowed to what is kept there."""
        text = value.text
        if memory in ("i8", "i32"):
            text = self.register(f"trunc i64 {text} to {memory}")
        elif memory == "float":
            text = self.register(f"fptrunc double {text} to float")
        self.line(f"store {memory} {text}, ptr {place}, align { {'i8': 1, 'i32': 4, 'float': 4}.get(memory, 8) }")

    def field(self, node: ast.Attribute) -> tuple[str, Field]:
        """Where a field of a record is, and what it is."""
        owner = self.value(node.value)
        if not issubclass(owner.kind, Record):
            refuse(node, f"{owner.kind.__name__} has no fields")
        record: Any = owner.kind
        found = fields(record).get(node.attr)
        if found is None:
            refuse(node, f"{owner.kind.__name__} has no such field")
        return self.register(f"getelementptr i8, ptr {owner.text}, i64 {found.offset}"), found

    def _of_attribute(self, node: ast.Attribute) -> Value:
        place, found = self.field(node)
        value = self._loaded(place, "i32" if found.narrow else llvm(found.kind))
        return Value(value.text, found.kind)

    # calls

    def _of_call(self, node: ast.Call) -> Value:
        if node.keywords:
            refuse(node, "arguments are given by their places")
        there, what = self._fact(node.func)
        if not there and isinstance(node.func, ast.Name):
            what = {"int": int, "float": float, "min": min, "max": max}.get(node.func.id)
        if getattr(what, "is_typed", False):
            name, signature = self._function(what)
            return self._called(node, f"@{name}", signature)
        if isinstance(what, type) and issubclass(what, Pointer):
            value = self.value(node.args[0])
            if value.kind is int:
                return self.emit(what, f"inttoptr {value.typed} to ptr")
            return Value(self.fitting(node, value, Pointer).text, what)
        if what in language.ROOMS:
            view, alignment = language.ROOMS[what]
            there, count = self._fact(node.args[0])
            if there:
                return Value(self.room(view.memory, count, alignment), view)
            size = self.of(node.args[0], int).text
            return self.emit(view, f"alloca {view.memory}, i64 {size}, align {alignment}")
        if what is language.address:
            return self.emit(int, f"ptrtoint {self.of(node.args[0], Pointer).typed} to i64")
        if what is language.shifted:
            number, by = (self.of(a, int) for a in node.args)
            return self.emit(int, f"lshr {number.typed}, {by.text}")
        if what in (int, float):
            return self._converted(node, what)
        if what in (min, max):
            left, right = (self.of(a, int) for a in node.args)
            which = self.emit(bool, f"icmp {'slt' if what is min else 'sgt'} {left.typed}, {right.text}")
            return self.emit(int, f"select i1 {which.text}, {left.typed}, {right.typed}")
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        refuse(node, "no typed function")

    def _method(self, node: ast.Call, function: ast.Attribute) -> Value:
        """What a field of a record points to, or the address some elements behind."""
        owner = self.value(function.value)
        if function.attr == "after":
            memory = owner.kind.memory if issubclass(owner.kind, View) else "i8"
            count = self.of(node.args[0], int)
            return self.emit(owner.kind, f"getelementptr {memory}, {owner.typed}, i64 {count.text}")
        place, found = self.field(function)
        if found.function is None:
            refuse(node, "this field is no function")
        return self._called(node, self.register(f"load ptr, ptr {place}, align 8"), found.function)

    def _called(self, node: ast.Call, function: str, signature: Signature) -> Value:
        if len(node.args) != len(signature.parameters):
            refuse(node, f"takes {len(signature.parameters)} arguments")
        given = [self.of(a, kind).typed for a, kind in zip(node.args, signature.parameters, strict=True)]
        for i in signature.narrowed:
            given[i] = f"i32 {self.register(f'trunc {given[i]} to i32')}"
        result = "i32" if signature.narrow else llvm(signature.result)
        text = f"call {result} {function}({', '.join(given)})"
        if signature.result is NOTHING:
            self.line(text)
            return Value("", NOTHING)
        if signature.narrow:
            return self.emit(int, f"sext i32 {self.register(text)} to i64")
        return self.emit(signature.result, text)

    def _converted(self, node: ast.Call, kind: Kind) -> Value:
        value = self.value(node.args[0])
        how = {(bool, int): "zext i1", (float, int): "fptosi double", (int, float): "sitofp i64"}.get(
            (value.kind, kind)
        )
        if how is None:
            refuse(node, f"{value.kind.__name__} is not converted to {kind.__name__}")
        return self.emit(kind, f"{how} {value.text} to {llvm(kind)}")

    # conditions

    def condition(self, node: ast.expr) -> Value:
        """An expression as a condition: an address is one, too."""
        value = self.value(node)
        if llvm(value.kind) == "ptr":
            return self.emit(bool, f"icmp ne ptr {value.text}, null")
        return self.fitting(node, value, bool)

    def branch(self, node: ast.expr, then: str, otherwise: str) -> None:
        """To one of two blocks; what decides is computed no further than it must be."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.branch(node.operand, otherwise, then)
        elif isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                on = self.fresh("b")
                self.branch(part, *((on, otherwise) if isinstance(node.op, ast.And) else (then, on)))
                self.begin(on)
            self.branch(node.values[-1], then, otherwise)
        else:
            self.fork(self.condition(node), then, otherwise)

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        then, otherwise, out = (self.fresh("b") for _ in range(3))
        self.branch(node, then, otherwise)
        for label in (then, otherwise):
            self.begin(label)
            self.go(out)
        self.begin(out)
        return self.joined(bool, [(constant(True), then), (constant(False), otherwise)])

    def _of_compare(self, node: ast.Compare) -> Value:
        found: Value | None = None
        left = self.value(node.left)
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            one = self._compared(node, op, left, right)
            found = one if found is None else self.emit(bool, f"and i1 {found.text}, {one.text}")
            left = right
        if found is None:
            raise TranslationError("nothing is compared")
        return found

    def _compared(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        names = _COMPARISONS.get(type(op))
        if names is None:
            refuse(node, "not part of the language")
        if float in (left.kind, right.kind):
            left, right = self.fitting(node, left, float), self.fitting(node, right, float)
            return self.emit(bool, f"fcmp {names[1]} double {left.text}, {right.text}")
        if llvm(left.kind) != llvm(right.kind) or (llvm(left.kind) == "ptr" and names[0] not in ("eq", "ne")):
            refuse(node, f"{left.kind.__name__} and {right.kind.__name__} are not compared")
        return self.emit(bool, f"icmp {names[0]} {left.typed}, {right.text}")


__all__ = ["Expressions"]
