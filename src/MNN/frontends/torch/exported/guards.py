"""What torch found of the sizes of inputs while it exported a program, and took for granted from there on.

``if x.shape[1] > 10`` leaves one branch in the program and ``L['x'].size()[1] >= 11`` in its list ``guards_code``,
which torch checks before each run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from MNN.frontends.torch.parsing import parse_expression
from MNN.ir.graph import Value
from MNN.ops.arranging.size_conditions import MAX_TEXT, UnknownConditionError, holds

_NAMES = {"torch.sym_float": "float", "torch.sym_max": "max", "torch.sym_min": "min", "torch.sym_int": "trunc"}


class _Other(Exception):  # noqa: N818
    """A condition on something else than sizes of inputs."""


class _Sizes(ast.NodeTransformer):
    """``L['x'][0].size()[1]`` becomes ``s2[1]``, where the third input is called ``x_0``."""

    def __init__(self, inputs: Mapping[str, int]) -> None:
        self._inputs = inputs

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "size"):
            raise _Other
        keys: list[str] = []
        place = call.func.value
        while isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
            keys.append(str(place.slice.value))
            place = place.value
        name = "_".join(reversed(keys))
        if not isinstance(place, ast.Name) or place.id != "L" or name not in self._inputs:
            raise _Other
        return ast.Subscript(ast.Name(f"s{self._inputs[name]}", ast.Load()), node.slice, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = ast.unparse(node.func)
        known = _NAMES.get(name) or name.removeprefix("math.")
        return ast.Call(ast.Name(known, ast.Load()), [self.visit(a) for a in node.args], [])


def _keeps_apart(condition: ast.expr) -> bool:
    """Whether something is said not to be 0 or 1. So torch keeps open sizes apart from those that broadcast or have no
    elements, which are computed like all others here."""
    if not isinstance(condition, ast.Compare) or not isinstance(condition.ops[0], ast.NotEq):
        return False
    sides = [condition.left, *condition.comparators]
    return any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in sides)


def _example(inputs: Sequence[Value]) -> Callable[[int, int], int]:
    """Sizes that inputs may have."""

    def size(at: int, axis: int) -> int:
        found = (inputs[at].shape or ())[axis]
        return found if isinstance(found, int) else 8

    return size


def conditions(guards: object, inputs: Sequence[Value], names: Sequence[str]) -> list[str]:
    """Those of the guards that are about sizes of inputs, of which one is open, in the syntax of
    :class:`~MNN.ops.arranging.size_conditions.SizeConditions`. ``names`` are what the file calls the inputs."""
    places = {name: at for at, name in enumerate(names)}
    found: list[str] = []
    if not any(isinstance(n, str) for v in inputs for n in v.shape or ()):
        return found
    for guard in guards if isinstance(guards, list) else []:
        if not isinstance(guard, str) or len(guard) > MAX_TEXT:
            continue
        try:
            condition = _Sizes(places).visit(parse_expression(guard))
            if _keeps_apart(condition):
                continue
            text = ast.unparse(condition)
            holds(text, _example(inputs))  # what cannot be read is left out
        except (_Other, SyntaxError, ValueError, RecursionError, MemoryError, UnknownConditionError):
            continue
        found.append(text)
    return found
