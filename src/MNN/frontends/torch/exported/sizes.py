"""Sizes in programs of torch.export: sympy's expressions as it writes them out, ``Add(Symbol('s77'), Integer(1))``."""

from __future__ import annotations

import ast
from collections.abc import Callable

from MNN.frontends.torch.exported.json_access import Record
from MNN.frontends.torch.layout import Layout
from MNN.frontends.torch.parsing import parse_expression
from MNN.ir import symbolic
from MNN.ir.shape import Dim
from MNN.ir.symbolic import Size

MAX_TEXT = 4000
_MANY: dict[str, Callable[..., Size]] = {"Add": symbolic.add, "Mul": symbolic.multiply}
_TWO: dict[str, Callable[[Size, Size], Size]] = {
    "FloorDiv": symbolic.floor_divide, "CleanDiv": symbolic.floor_divide, "Mod": symbolic.modulo,
    "PythonMod": symbolic.modulo, "Max": symbolic.maximum, "Min": symbolic.minimum,
}  # fmt: skip


def dim_of(size: Record, fallback: str) -> Dim:
    """A size: a number, a name, an expression of names such as ``2*s77 + 1``, or ``fallback``."""
    kind, value = size.union()
    if kind == "as_int" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if kind == "as_expr":
        found = expression(Record(value, size.where).text("expr_str"))
        return fallback if found is None else found
    return fallback


def layout_of(meta: Record) -> Layout:
    """Sizes and strides that the file has of a tensor."""
    sizes, strides = (
        [_size_or_none(r) for r in meta.records(key)] if isinstance(meta.data.get(key), list) else []
        for key in ("sizes", "strides")
    )
    return Layout(tuple(sizes), tuple(strides if len(strides) == len(sizes) else [None] * len(sizes)))


def _size_or_none(size: Record) -> Size:
    found = dim_of(size, "?")
    return None if found == "?" else found


def expression(text: str) -> Size:
    """The size that sympy's text writes; None for what sizes here cannot say."""
    if len(text) > MAX_TEXT:
        return None
    try:
        return _size(parse_expression(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _size(node: ast.expr) -> Size:
    if isinstance(node, ast.Name):  # older files write plain text
        return node.id
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and abs(node.value) < 1 << 48 else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return symbolic.multiply(-1, _size(node.operand))
    if isinstance(node, ast.BinOp):
        named: dict[type[ast.operator], Callable[[Size, Size], Size]] = {
            ast.Add: symbolic.add,
            ast.Sub: symbolic.subtract,
            ast.Mult: symbolic.multiply,
            ast.FloorDiv: symbolic.floor_divide,
        }
        way = next((f for kind, f in named.items() if isinstance(node.op, kind)), None)
        return None if way is None else way(_size(node.left), _size(node.right))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    name, args = node.func.id, node.args
    if name in ("Symbol", "Integer") and args:
        given = args[0]
        if name == "Integer":
            return _size(given)
        return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None
    sizes = [_size(a) for a in args]
    if name in _MANY:
        return _MANY[name](*sizes)
    return _TWO[name](*sizes) if name in _TWO and len(sizes) == 2 else None
