"""Walks TorchScript's code: what is known is computed, tensors become nodes of the graph."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.scalars import compute, known_number
from MNN.frontends.torch.script.branches import if_
from MNN.frontends.torch.script.builtins import RaisedError, dictionary, instance_of
from MNN.frontends.torch.script.code import Code, ScriptClass, complex_number, dotted
from MNN.frontends.torch.script.journal import Unmerged, check_merged, note_attribute
from MNN.frontends.torch.script.loops import loop
from MNN.frontends.torch.script.objects import Objects
from MNN.frontends.torch.script.open_lists import is_open, item
from MNN.frontends.torch.script.operators import operate
from MNN.frontends.torch.script.optional import UNINITIALIZED, unwrapped
from MNN.frontends.torch.script.outcomes import Returned
from MNN.frontends.torch.unpickle import EnumMember, ScriptObject
from MNN.ir.dtype import DType

MAX_STEPS = 1 << 20
"""Statements that are walked, turns of loops counted each."""
MAX_CALLS = 60
"""How deeply functions may call each other."""
_HINTS = frozenset(("__torch__.torch.nn.modules.transformer._detect_is_causal_mask",))
"""Functions of torch that compare tensors to find a faster way to the same: the arguments alone say what is safe."""
_CASTS = {"int": "int", "float": "float", "bool": "bool"}


class NamedTuple(tuple[Any, ...]):
    """A tuple whose elements have names too."""

    names: Sequence[str] = ()


class Method:
    """A function of an object, or of none. ``around`` are the names that one within a function sees."""

    def __init__(
        self, tree: ast.FunctionDef, owner: ScriptObject | None, path: str, around: dict[str, Any] | None = None
    ) -> None:
        self.tree, self.owner, self.path, self.around = tree, owner, path, around or {}


class Interpreter:
    """``ctx`` is the builder that nodes go to at the moment: that of a branch while one is walked."""

    def __init__(self, ctx: TorchBuilder, code: Code, objects: Objects, constants: Sequence[Any]) -> None:
        self.ctx = ctx
        self.objects = objects
        self._code = code
        self._constants = constants
        self._steps = 0
        self._calls = 0
        self._paths: dict[int, str] = {}
        self._path = ""
        self.attributes: Callable[[ScriptObject, str, str], None] = lambda owner, name, key: None
        """Told of attributes before they are read."""

    # -- functions --------------------------------------------------------------------------------------------------

    def call(self, method: Method, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a function. Raises :class:`RaisedError` where it raises an exception."""
        given = ([method.owner] if method.owner is not None else []) + list(args)
        names = [a.arg for a in method.tree.args.args]
        if len(given) > len(names):
            raise FormatError(f"'{method.tree.name}' takes {len(names)} arguments, {len(given)} are given")
        scope = method.around | dict(zip(names, given, strict=False)) | kwargs
        defaults = method.tree.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in scope:
                scope[name] = self.evaluate(default, {})
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise FormatError(f"functions call each other more than {MAX_CALLS} deep")
        outer, self._path = self._path, method.path or self._path
        try:
            self.walk(method.tree.body, scope)
        except Returned as result:
            return result.value
        finally:
            self._calls -= 1
            self._path = outer
        return None

    def method(self, owner: ScriptObject, name: str) -> Method:
        """A method of an object of the code. Raises :class:`FormatError` for one that it does not have."""
        kind = self._code.find(owner.kind)
        tree = kind.methods.get(name) if isinstance(kind, ScriptClass) else None
        if tree is None:
            raise FormatError(f"the class '{owner.kind}' has no method '{name}'; is the file damaged?")
        return Method(tree, owner, self._paths.get(id(owner), ""))

    # -- statements -------------------------------------------------------------------------------------------------

    def walk(self, body: Sequence[ast.stmt], scope: dict[str, Any]) -> None:
        """Statements one after the other."""
        left = list(reversed(body))
        while left:
            statement = left.pop()
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise UnsupportedError(f"the program has more than {MAX_STEPS} steps (loops are unrolled)")
            if not isinstance(statement, ast.If):
                self._statement(statement, scope)
                continue
            self.ctx.at(self._path)
            condition = self._truth(statement.test, scope)
            if not isinstance(condition, Number):
                left += reversed(statement.body if condition else statement.orelse)
            elif if_(self, condition, statement.body, statement.orelse, scope, left[::-1]):
                return

    def _statement(self, node: ast.stmt, scope: dict[str, Any]) -> None:
        self.ctx.at(self._path)
        if isinstance(node, ast.Assign):
            value = self.evaluate(node.value, scope)
            for target in node.targets:
                self._assign(target, value, scope)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, self.evaluate(node.value, scope), scope)
        elif isinstance(node, ast.Expr):
            self.evaluate(node.value, scope)
        elif isinstance(node, ast.Return):
            raise Returned(None if node.value is None else self.evaluate(node.value, scope))
        elif isinstance(node, ast.For):
            self._for(node, scope)
        elif isinstance(node, ast.While):
            self._while(node, scope)
        elif isinstance(node, ast.With):
            self.walk(node.body, scope)
        elif isinstance(node, ast.Assert):
            if known_number(self.ctx, self._truth(node.test, scope)) is False:
                raise RaisedError("an assertion fails")
        elif isinstance(node, ast.FunctionDef):  # what a task of its own would compute, started by the next statement
            scope[node.name] = Method(node, None, "", dict(scope))
        elif not isinstance(node, ast.Pass):
            raise UnsupportedError(f"statements of the kind {type(node).__name__} in TorchScript are not supported")

    def _assign(self, target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = list(value) if isinstance(value, (list, tuple)) else None
            if is_open(value):  # of this length, or torch would raise an exception
                items = [item(self.ctx, value, i) for i in range(len(target.elts))]
            if items is None or len(items) != len(target.elts):
                raise FormatError(f"{len(target.elts)} names for what is no list of so many")
            for one, part in zip(target.elts, items, strict=True):
                self._assign(one, part, scope)
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value, scope)
            if not isinstance(owner, ScriptObject):
                raise FormatError(f"an attribute '{target.attr}' of what is no object is set")
            note_attribute(self.ctx, owner, target.attr)
            if not isinstance(owner.state, dict):
                owner.state = {}
            owner.state[target.attr] = value
        elif isinstance(target, ast.Subscript):
            container, index = self.evaluate(target.value, scope), self.evaluate(target.slice, scope)
            operate(self.ctx, "_set_item", [container, index, value], {})
        else:
            raise UnsupportedError(f"assigning to {type(target).__name__} in TorchScript is not supported")

    def _truth(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        return self.as_truth(self.evaluate(node, scope))

    def as_truth(self, found: Any) -> Any:
        """A boolean, or a number of the graph that is one."""
        if isinstance(found, Variable):
            found = operate(self.ctx, "Bool", [found], {})
        return known_number(self.ctx, found) if isinstance(found, Number) else found

    def _for(self, node: ast.For, scope: dict[str, Any]) -> None:
        """``for i in range(n)``, or over a list."""
        source = node.iter
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "range":
            count = self.evaluate(source.args[-1], scope)
            if isinstance(count, Number):
                loop(self, count, True, node.body, scope, node.target)
                return
            if count > MAX_STEPS:
                raise UnsupportedError(f"a loop of {count} turns is not supported")
            items: Any = range(int(count))
        else:
            items = self.evaluate(source, scope)
            check_merged([items])
        for one in list(items):
            self._assign(node.target, one, scope)
            self.walk(node.body, scope)

    def _while(self, node: ast.While, scope: dict[str, Any]) -> None:
        turns = 0
        while True:
            condition = self._truth(node.test, scope)
            if isinstance(condition, Number):
                loop(self, None, condition, node.body, scope, None, node.test)
                return
            if not condition:
                return
            turns += 1
            self._steps += 1
            if turns > MAX_STEPS:
                raise UnsupportedError("a loop that does not end is not supported")
            self.walk(node.body, scope)

    # -- expressions ------------------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        """The value of an expression."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.Tuple):
            return tuple(self.evaluate(e, scope) for e in node.elts)
        if isinstance(node, ast.List):
            return [self.evaluate(e, scope) for e in node.elts]
        if isinstance(node, ast.Dict):
            keys = [self.evaluate(k, scope) for k in node.keys if k]
            return dictionary(self.ctx, keys, [self.evaluate(v, scope) for v in node.values])
        if isinstance(node, ast.Subscript):
            container, index = self.evaluate(node.value, scope), self.evaluate(node.slice, scope)
            return operate(self.ctx, "__getitem__", [container, index], {})
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            kind = "neg" if isinstance(node.op, ast.USub) else "__not__"
            return operate(self.ctx, kind, [self.evaluate(node.operand, scope)], {})
        if isinstance(node, ast.IfExp):
            return self._choice(node, scope)
        if isinstance(node, ast.BinOp) and (number := complex_number(node)) is not None:
            return number
        raise UnsupportedError(f"expressions of the kind {type(node).__name__} in TorchScript are not supported")

    def _choice(self, node: ast.IfExp, scope: dict[str, Any]) -> Any:
        condition = self._truth(node.test, scope)
        if not isinstance(condition, Number):
            return self.evaluate(node.body if condition else node.orelse, scope)
        target = ast.Name("(choice)", ast.Store())
        then, other = (ast.Assign([target], e) for e in (node.body, node.orelse))
        if_(self, condition, [then], [other], scope)
        return scope["(choice)"]

    def _name(self, name: str, scope: dict[str, Any]) -> Any:
        if name in scope:
            found = scope[name]
            if isinstance(found, Unmerged):
                raise UnsupportedError(f"'{name}' is {found.reason}, which is not supported")
            return found
        if name in ("inf", "nan"):
            return math.inf if name == "inf" else math.nan
        raise FormatError(f"the code uses '{name}', which it does not define; is the file damaged?")

    def _attribute(self, node: ast.Attribute, scope: dict[str, Any]) -> Any:
        name = dotted(node)
        first = name.split(".", 1)[0]
        if first == "CONSTANTS" and node.attr[:1] == "c" and node.attr[1:].isdecimal():
            at = int(node.attr[1:])
            if at >= len(self._constants):
                raise FormatError(f"the code uses the constant {at} of {len(self._constants)}")
            found = self.objects.of(self._constants[at], f"constant.{at}")
            if isinstance(found, Variable):
                value = found.read(self.ctx)
                if value.shape == () and value.dtype in (DType.F64, DType.I64):  # tracing has them for numbers
                    self.ctx.wrapped.add(value)
            return found
        if first == "__torch__" and first not in scope:
            return self._global(name)
        if first in ("torch", "ops") and first not in scope:
            return name
        owner = self.evaluate(node.value, scope)
        if isinstance(owner, ScriptObject):
            return self.attribute(owner, node.attr)
        if isinstance(owner, NamedTuple) and node.attr in owner.names:
            return owner[owner.names.index(node.attr)]
        if isinstance(owner, EnumMember) and node.attr in ("name", "value"):
            return owner.value if node.attr == "value" else self._code.name_of(owner)
        return operate(self.ctx, node.attr, [owner], {})

    def attribute(self, owner: ScriptObject, name: str) -> Any:
        """An attribute of an object, constants of its class too."""
        path = self._paths.get(id(owner), "")
        kind = self._code.find(owner.kind)
        if isinstance(kind, ScriptClass) and isinstance(owner.state, tuple) and "__setstate__" in kind.methods:
            self._restore(owner, kind.methods["__setstate__"], path)
        if (
            isinstance(owner.state, dict)
            and name not in owner.state
            and isinstance(kind, ScriptClass)
            and name in kind.constants
        ):
            return self.evaluate(kind.constants[name], {})
        self.attributes(owner, name, self.path_of(owner, name))
        found = self.objects.attribute(owner, name, path)
        if isinstance(found, ScriptObject):
            self._paths.setdefault(id(found), f"{path}.{name}" if path else name)
        return found

    def _restore(self, owner: ScriptObject, tree: ast.FunctionDef, path: str) -> None:
        """An object that was stored in a form of its own: what its class makes of that is no change."""
        stored, owner.state = self.objects.of(owner.state, path), {}
        journal, self.ctx.journal = self.ctx.journal, None
        self.call(Method(tree, owner, path), [stored], {})
        self.ctx.journal = journal

    def path_of(self, owner: ScriptObject, name: str) -> str:
        """The name of an attribute within the module."""
        path = self._paths.get(id(owner), "")
        return f"{path}.{name}" if path else name

    def _global(self, name: str) -> Any:
        if name in _HINTS:
            return name.rsplit(".", 1)[-1]
        found = self._code.find(name) or self._code.member(name)
        if found is None:
            raise FormatError(f"the code uses '{name}', which it does not define; is the file damaged?")
        return Method(found, None, "") if isinstance(found, ast.FunctionDef) else found

    def _call(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        target = node.func
        name = dotted(target)
        if isinstance(target, ast.Name) and target.id not in scope:
            return self._special(target.id, node, scope)
        args = [self.evaluate(a, scope) for a in node.args]
        kwargs = {k.arg: self.evaluate(k.value, scope) for k in node.keywords if k.arg}
        first = name.split(".", 1)[0]
        if first in ("torch", "ops") and first not in scope:
            return operate(self.ctx, name, args, kwargs)
        if isinstance(target, ast.Attribute) and first != "__torch__":
            owner = self.evaluate(target.value, scope)
            if isinstance(owner, ScriptObject):
                return self._method_call(owner, target.attr, args, kwargs)
            return operate(self.ctx, target.attr, [owner, *args], kwargs)
        if name.endswith(".__new__") and len(args) == 1 and isinstance(args[0], ScriptClass):
            return ScriptObject(args[0].name, made=True)  # its __init__ is called next
        return self._invoke(self.evaluate(target, scope), args, kwargs)

    def _method_call(self, owner: ScriptObject, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self._code.find(owner.kind) is None:
            return operate(self.ctx, f"{owner.kind}.{name}", [owner, *args], kwargs)
        return self.call(self.method(owner, name), args, kwargs)

    def _invoke(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, Method):
            return self.call(target, args, kwargs)
        if isinstance(target, ScriptClass):
            if target.is_tuple:
                made = NamedTuple(args)
                made.names = target.fields
                return made
            fresh = ScriptObject(target.name, made=True)
            if "__init__" in target.methods:
                self.call(Method(target.methods["__init__"], fresh, ""), args, kwargs)
            return fresh
        if isinstance(target, str):
            return operate(self.ctx, target, args, kwargs)
        raise FormatError(f"the code calls {type(target).__name__}, which is no function; is the file damaged?")

    def _special(self, name: str, node: ast.Call, scope: dict[str, Any]) -> Any:
        """Functions of the language itself."""
        if name in ("annotate", "unchecked_cast"):
            found = self.evaluate(node.args[-1], scope)
            found = unwrapped(found) if name == "unchecked_cast" else found
            kind = dotted(node.args[0])
            if not isinstance(found, Variable) or kind not in _CASTS:
                return found
            return known_number(self.ctx, operate(self.ctx, kind.capitalize(), [found], {}))
        if name == "uninitialized":
            return UNINITIALIZED
        args = [self.evaluate(a, scope) for a in node.args[:2]] if name != "isinstance" else []
        if name == "getattr" and isinstance(args[0], ScriptObject):
            return self.attribute(args[0], str(args[1]))
        if name in _CASTS:
            if isinstance(args[0], Variable):
                kind = {"int": "Int", "float": "Float", "bool": "Bool"}[name]
                return known_number(self.ctx, operate(self.ctx, kind, args, {}))
            if is_scalar(args[0]):
                return known_number(self.ctx, compute(self.ctx, name, args[0]))
            if isinstance(args[0], str):
                return {"int": int, "float": float, "bool": bool}[name](args[0])
        if name == "str":
            return str(args[0])[:1000]
        if name in ("fork", "wait"):
            return self._invoke(args[0], args[1:], {}) if name == "fork" else args[0]
        if name == "isinstance":
            return instance_of(self.ctx, self.evaluate(node.args[0], scope), node.args[1])
        return operate(self.ctx, name, args, {})
