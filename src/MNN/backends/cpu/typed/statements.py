"""Statements of typed functions, as LLVM IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from MNN.backends.cpu.typed.expressions import Expressions
from MNN.backends.cpu.typed.values import NOTHING, Signature, TranslationError, Value, constant, llvm, refuse


class Function(Expressions):
    """One function: its statements one after the other."""

    def __init__(
        self,
        tree: ast.FunctionDef,
        signature: Signature,
        known: dict[str, Any],
        function: Callable[[Any], tuple[str, Signature]],
    ) -> None:
        super().__init__(known, function)
        self._tree, self._signature = tree, signature
        self._loops: list[tuple[str, str]] = []

    def text(self, name: str, exported: bool, body: str = "") -> str:
        """The function's definition; ``body``: what it is, if that is LLVM IR."""
        arguments = self._tree.args.args
        given = ", ".join(
            f"{llvm(kind)} %{a.arg}" for a, kind in zip(arguments, self._signature.parameters, strict=True)
        )
        head = f"define {'' if exported else 'internal '}{llvm(self._signature.result)} @{name}({given}) {{\nbegin:\n"
        return f"{head}{body.strip(chr(10)) if body else self._text()}\n}}\n"

    def _text(self) -> str:
        arguments = self._tree.args.args
        for argument, kind in zip(arguments, self._signature.parameters, strict=True):
            self._assign(argument, argument.arg, Value(f"%{argument.arg}", kind))
        self._run(self._tree.body)
        if not self.ended:
            if self._signature.result is not NOTHING:
                raise TranslationError("it may end without a result")
            self.line("ret void")
        return "\n".join([*self.entry, *self.lines])

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.ended:
                refuse(statement, "never reached")
            write = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if write is None:
                refuse(statement, "not part of the language")
            write(statement)

    # variables and memory

    def _assign(self, node: ast.AST, name: str, value: Value) -> None:
        if name not in self.variables:
            if value.kind is NOTHING:
                refuse(node, "there is no value")
            self.variables[name] = (self.place(value.kind), value.kind)
        place, kind = self.variables[name]
        self.line(f"store {self.fitting(node, value, kind).typed}, ptr {place}, align 8")

    def _put(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._assign(target, target.id, value)
        elif isinstance(target, ast.Subscript):
            place, view = self.element(target)
            self.store(self.fitting(target, value, view.element), place, view.memory)
        elif isinstance(target, ast.Attribute):
            place, field = self.field(target)
            self.store(self.fitting(target, value, field.kind), place, "i32" if field.narrow else llvm(field.kind))
        else:
            refuse(target, "nothing that is assigned to")

    def _do_assign(self, node: ast.Assign) -> None:
        targets, values = [node.targets[0]], [node.value]
        if isinstance(node.value, ast.Tuple) and isinstance(targets[0], ast.Tuple):
            targets, values = targets[0].elts, node.value.elts
        if len(node.targets) > 1 or len(targets) != len(values):
            refuse(node, "one value for each target")
        given = [self.value(v) for v in values]
        for target, value in zip(targets, given, strict=True):
            self._put(target, value)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        self._put(node.target, self.combined(node, node.op, self.value(node.target), self.value(node.value)))

    def _do_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    # where it goes on

    def _do_return(self, node: ast.Return) -> None:
        if node.value is None:
            if self._signature.result is not NOTHING:
                refuse(node, "there is no value")
            self.line("ret void")
        else:
            self.line(f"ret {self.of(node.value, self._signature.result).typed}")
        self.ended = True

    def _do_if(self, node: ast.If) -> None:
        then, otherwise = self.fresh("b"), self.fresh("b")
        out = self.fresh("b") if node.orelse else otherwise
        self.branch(node.test, then, otherwise)
        ends = []
        for label, body in ((then, node.body), (otherwise, node.orelse)):
            if label == out:
                continue
            self.begin(label)
            self._run(body)
            ends.append(self.ended)
            self.go(out)
        if not node.orelse or not all(ends):
            self.begin(out)

    def _do_while(self, node: ast.While) -> None:
        head = self.fresh("b")
        self.go(head)
        self.begin(head)
        forever = isinstance(node.test, ast.Constant) and node.test.value is True
        body, out = self.fresh("b"), self.fresh("b")
        if forever:
            self.go(body)
        else:
            self.branch(node.test, body, out)
        self.begin(body)
        left = self._body(node.body, head, out)
        self.go(head)
        if left or not forever:
            self.begin(out)

    def _do_for(self, node: ast.For) -> None:
        """Over a range with a step of one, whose end is computed once."""
        given = node.iter
        if not (isinstance(given, ast.Call) and ast.unparse(given.func) == "range" and len(given.args) in (1, 2)):
            refuse(node.iter, "only a range of one or two numbers is gone over")
        if not isinstance(node.target, ast.Name):
            refuse(node.target, "nothing that counts")
        first = self.of(given.args[0], int) if len(given.args) == 2 else constant(0)
        end = self.of(given.args[-1], int)
        counter = self.place(int)
        self.line(f"store {first.typed}, ptr {counter}, align 8")
        head, body, step, out = (self.fresh("b") for _ in range(4))
        self.go(head)
        self.begin(head)
        at = self.emit(int, f"load i64, ptr {counter}, align 8")
        self.fork(self.emit(bool, f"icmp slt {at.typed}, {end.text}"), body, out)
        self.begin(body)
        self._assign(node.target, node.target.id, at)
        self._body(node.body, step, out)
        self.go(step)
        self.begin(step)
        after = self.emit(int, f"add {at.typed}, 1")
        self.line(f"store {after.typed}, ptr {counter}, align 8")
        self.go(head)
        self.begin(out)

    def _body(self, statements: Sequence[ast.stmt], again: str, out: str) -> bool:
        """The body of a loop; whether it is left by a ``break``."""
        self._loops.append((again, out))
        self._run(statements)
        self._loops.pop()
        return any(line.endswith(f"label %{out}") for line in self.lines)

    def _do_break(self, node: ast.Break) -> None:
        del node
        self.go(self._loops[-1][1])

    def _do_continue(self, node: ast.Continue) -> None:
        del node
        self.go(self._loops[-1][0])

    def _do_pass(self, node: ast.Pass) -> None:
        del node


__all__ = ["Function"]
