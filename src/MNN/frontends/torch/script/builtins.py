"""What TorchScript's operators do on plain data: lists, dictionaries, texts, numbers and None."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import Complex
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.scalars import NAMES, compute, known_number, same
from MNN.frontends.torch.script import open_lists
from MNN.frontends.torch.script.journal import check_merged, note_container, refill
from MNN.frontends.torch.script.mathematics import FUNCTIONS, function
from MNN.frontends.torch.script.optional import Maybe, is_none, unwrapped
from MNN.frontends.torch.script.searching import contains, count, place, truths
from MNN.ir.dtype import DType

MAX_LENGTH = 1 << 16
"""Elements of a list, characters of a text."""
NOT_PLAIN = object()
"""What :func:`plain` gives for calls on tensors."""
_SPELLED = {
    "div": "truediv", "floor_divide": "floordiv", "__and__": "and", "__or__": "or", "__xor__": "xor", "__not__": "not",
    "rsub": "sub", "bitwise_and": "and", "bitwise_or": "or",
    "remainder": "mod", "numel": "numel",
}  # fmt: skip


class RaisedError(Exception):
    """The program raises an exception here."""


def on_plain(name: str) -> bool:
    """Whether an operator may do something to plain data."""
    return name in _ANY or name in _CONTAINERS or name in FUNCTIONS or _SPELLED.get(name, name) in NAMES


def plain(ctx: TorchBuilder, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator that needs no tensor; :data:`NOT_PLAIN` where the operands are tensors."""
    if name in _ANY:
        return _ANY[name](ctx, *args)
    check_merged(args)
    if args and isinstance(args[0], (list, tuple, dict, str)) and name in _CONTAINERS:
        if name in _CHANGING:
            note_container(ctx, args[0])
        if isinstance(args[0], dict) and len(args) > 1:
            _check_key(ctx, args[1])
        if open_lists.is_open(args[0]) and name not in _ON_OPEN:
            raise ctx.unsupported(f"'{name}' of a list of a length known only at run time", open_lists.ADVICE)
        found = _CONTAINERS[name](ctx, *args, **kwargs)
        if isinstance(found, (list, str)) and len(found) > MAX_LENGTH:
            raise ctx.unsupported(f"a list or text of {len(found)} elements")
        return found
    numbers = [a for a in args if is_scalar(a)]
    if args and len(numbers) == len(args):
        spelled = _SPELLED.get(name, name)
        try:
            if name in FUNCTIONS:
                return function(ctx, name, args)
            if spelled in NAMES:
                given = [args[1], args[0]] if name == "rsub" else args
                if name == "pow":  # of two integers too it is a float here
                    given = [compute(ctx, "float", a) for a in given]
                return known_number(ctx, compute(ctx, spelled, *given))
        except (ArithmeticError, ValueError) as error:
            raise RaisedError(f"{type(error).__name__}: {error}") from error
    if len(args) == 2 and name in ("eq", "ne") and not any(isinstance(a, (Variable, Complex)) for a in args):
        lists = all(isinstance(a, (list, tuple)) and not open_lists.is_open(a) for a in args)
        equal = same(ctx, *args) if lists else args[0] == args[1]
        return equal if name == "eq" else known_number(ctx, compute(ctx, "not", equal))
    return NOT_PLAIN


_KINDS: dict[str, tuple[type, ...]] = {
    "Tensor": (Variable, Complex), "int": (int,), "float": (float,), "bool": (bool,), "str": (str,),
    "List": (list,), "list": (list,), "Tuple": (tuple,), "tuple": (tuple,), "Dict": (dict,), "dict": (dict,),
}  # fmt: skip


def is_instance(value: Any, kinds: ast.expr) -> bool:
    """Whether a value is of a kind, or of one of several, as they are written there; of a container that is not empty,
    what it holds counts too."""
    if isinstance(kinds, (ast.Tuple, ast.List)):
        return any(is_instance(value, k) for k in kinds.elts)
    if value is None or (isinstance(kinds, ast.Constant) and kinds.value is None):
        return value is None and ("None" in ast.unparse(kinds) or "Optional" in ast.unparse(kinds))
    inner = kinds.slice if isinstance(kinds, ast.Subscript) else None
    name = ast.unparse(kinds.value if isinstance(kinds, ast.Subscript) else kinds).rsplit(".", 1)[-1]
    if inner is not None and name in ("Optional", "Union"):
        return is_instance(value, inner)
    if isinstance(value, Number):
        return name == {DType.I64: "int", DType.BOOL: "bool"}.get(value.dtype, "float")
    if not isinstance(value, _KINDS.get(name, ())) or (name == "int" and isinstance(value, bool)):
        return False
    if inner is None or open_lists.is_open(value) or not value:
        return True
    held: list[Any] = list(value) if isinstance(value, (list, tuple, dict)) else []
    if isinstance(value, dict) and isinstance(inner, ast.Tuple):
        key, item = next(iter(value.items()))
        return all(is_instance(v, k) for v, k in zip((key, item), inner.elts, strict=True))
    if isinstance(value, tuple) and isinstance(inner, ast.Tuple):
        return len(held) == len(inner.elts) and all(is_instance(v, k) for v, k in zip(held, inner.elts, strict=True))
    return not held or is_instance(held[0], inner)


def instance_of(ctx: TorchBuilder, value: Any, kinds: ast.expr) -> bool | Number:
    """:func:`is_instance` also of what may be None, as the data decide."""
    if not isinstance(value, Maybe):
        return is_instance(value, kinds)
    held, nothing = is_instance(value.value, kinds), is_instance(None, kinds)
    if held == nothing:
        return held
    absent = is_none(ctx, value)
    return absent if nothing else compute(ctx, "not", absent)  # type: ignore[return-value]


def _place(ctx: TorchBuilder, items: Any, item: Any) -> Any:
    found = items.index(item) if isinstance(items, str) else place(ctx, items, item)
    if found is None:
        raise RaisedError(f"{item!r} is not in a list")
    return found


def dictionary(ctx: TorchBuilder, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
    """A dictionary of its keys and values."""
    for key in keys:
        _check_key(ctx, key)
    return dict(zip(keys, values, strict=True))


def _check_key(ctx: TorchBuilder, key: Any) -> None:
    """Keys are looked up while converting, so that they have to be known."""
    if isinstance(key, (Number, Variable)):
        raise ctx.unsupported("a dictionary's key that is known only at run time", "use a list, or a tensor")


def _format(ctx: TorchBuilder, text: str, *args: Any) -> str:
    """The text of a message; numbers known only at run time show as a question mark."""
    out = str(text)
    for a in args:
        out = out.replace("{}", "?" if isinstance(a, (Number, Variable)) else str(a)[:200], 1)
    return out[:2000]


def _index(ctx: TorchBuilder, index: Any, length: int) -> int:
    at = ctx.known(index, "a place in a list")
    if not -length <= at < length:
        raise RaisedError(f"list index {at} out of range")
    return at


def _get(ctx: TorchBuilder, container: Any, index: Any) -> Any:
    if isinstance(container, dict):
        if index not in container:
            raise RaisedError(f"key {index!r} is missing")
        return container[index]
    if isinstance(container, (list, tuple)) and (isinstance(index, Number) or open_lists.is_open(container)):
        return open_lists.item(ctx, container, index)
    return container[_index(ctx, index, len(container))]


def _set(ctx: TorchBuilder, container: Any, index: Any, value: Any) -> Any:
    if isinstance(container, list) and (isinstance(index, Number) or open_lists.is_open(container)):
        refill(container, open_lists.replaced(ctx, container, index, value))
        return container
    container[index if isinstance(container, dict) else _index(ctx, index, len(container))] = value
    return container


def _append(ctx: TorchBuilder, container: list[Any], item: Any) -> Any:
    container.append(item)
    return container


def _extend(ctx: TorchBuilder, container: list[Any], items: list[Any]) -> list[Any]:
    container.extend(items)
    return container


def _slice(ctx: TorchBuilder, container: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    if open_lists.is_open(container):
        return open_lists.part(ctx, container, start, end, step)
    bounds = [None if n is None else ctx.known(n, "a bound of a slice") for n in (start, end, step)]
    return container[slice(*bounds)]


def _add(ctx: TorchBuilder, x: Any, y: Any) -> Any:
    return x + type(x)(y)


def _mul(ctx: TorchBuilder, x: Any, y: Any) -> Any:
    count = ctx.known(y, "how often a list is repeated")
    if count > MAX_LENGTH or count * len(x) > MAX_LENGTH:
        raise ctx.unsupported(f"a list of {count * len(x)} elements")
    return x * count


def _pop(ctx: TorchBuilder, container: Any, index: Any = -1) -> Any:
    if isinstance(container, dict):
        return container.pop(index)
    found = _get(ctx, container, index)
    _delete(ctx, container, index)
    return found


def _insert(ctx: TorchBuilder, container: list[Any], index: Any, item: Any) -> None:
    if isinstance(index, Number) or open_lists.is_open(container):
        refill(container, open_lists.inserted(ctx, container, index, item))
    else:
        container.insert(index, item)


def _delete(ctx: TorchBuilder, container: Any, index: Any) -> None:
    if isinstance(container, list) and (isinstance(index, Number) or open_lists.is_open(container)):
        refill(container, open_lists.removed(ctx, container, index))
    else:
        del container[index if isinstance(container, dict) else _index(ctx, index, len(container))]


def _reverse(ctx: TorchBuilder, container: list[Any]) -> None:
    refill(container, open_lists.backwards(ctx, container))


def _extreme(way: str) -> Callable[..., Any]:
    def found(ctx: TorchBuilder, numbers: Any, *more: Any) -> Any:
        if open_lists.is_open(numbers) and not more:
            return open_lists.reduced(ctx, numbers, f"a{way}")
        return known_number(ctx, compute(ctx, way, *numbers)) if not more else NOT_PLAIN

    return found


def _sum(ctx: TorchBuilder, numbers: Any, *more: Any) -> Any:
    if open_lists.is_open(numbers):
        return open_lists.reduced(ctx, numbers, "sum")
    return known_number(ctx, compute(ctx, "sum", *numbers))


def _sorted(ctx: TorchBuilder, items: list[Any], *reverse: Any) -> list[Any]:
    descending = bool(reverse and reverse[0])
    if open_lists.is_open(items) or any(isinstance(item, (Number, Variable)) for item in items):
        return open_lists.in_order(ctx, items, descending)
    return sorted(items, reverse=descending)


def _sort(ctx: TorchBuilder, items: list[Any], *reverse: Any) -> None:
    refill(items, _sorted(ctx, items, *reverse))


def _range_length(ctx: TorchBuilder, start: Any, end: Any, step: Any) -> Any:
    span = compute(ctx, "sub", end, start)
    up = compute(ctx, "floordiv", compute(ctx, "add", span, compute(ctx, "sub", step, 1)), step)
    if isinstance(step, int) and step < 0:
        up = compute(ctx, "neg", compute(ctx, "floordiv", span, -step))
    return known_number(ctx, compute(ctx, "max", up, 0))


def _derive_index(ctx: TorchBuilder, turn: Any, start: Any, step: Any) -> Any:
    return known_number(ctx, compute(ctx, "add", start, compute(ctx, "mul", turn, step)))


def _raise(ctx: TorchBuilder, message: Any = "", *_: Any) -> Any:
    raise RaisedError(str(message)[:500])


def _join(ctx: TorchBuilder, text: str, items: list[Any]) -> str:
    return text.join(str(i) for i in items)


def _is(ctx: TorchBuilder, x: Any, y: Any) -> Any:
    if isinstance(x, Maybe) and y is None:
        return is_none(ctx, x)
    return x is y if x is None or y is None or not is_scalar(x) else x == y


def _is_not(ctx: TorchBuilder, x: Any, y: Any) -> Any:
    found = _is(ctx, x, y)
    return compute(ctx, "not", found) if isinstance(found, Number) else not found


_CHANGING = frozenset(
    ("_set_item", "append", "extend", "add_", "pop", "insert", "Delete", "__delitem__", "clear", "reverse", "update",
     "setdefault", "sort")
)  # fmt: skip
_ON_OPEN = frozenset(
    ("len", "__getitem__", "select", "_set_item", "append", "extend", "add", "add_", "slice", "clear", "copy", "list",
     "pop", "insert", "Delete", "__delitem__", "reverse", "sort", "sorted", "sum", "min", "max", "all", "any")
)  # fmt: skip
_ANY: dict[str, Callable[..., Any]] = {
    "__is__": _is,
    "__isnot__": _is_not,
    "format": _format,
    "RaiseException": _raise,
    "__range_length": _range_length,
    "__derive_index": _derive_index,
    "warn": lambda ctx, *a: None,
    "wait": lambda ctx, task: task,
    "Print": lambda ctx, *a: None,
    "is_grad_enabled": lambda ctx: False,
    "set_grad_enabled": lambda ctx, *a: None,
    "is_scripting": lambda ctx: True,
    "is_autocast_enabled": lambda ctx, *a: False,
    "rangelist": lambda ctx, n: list(range(min(ctx.known(n, "the length of a list"), MAX_LENGTH))),
    "device": lambda ctx, *a: "cpu",
    "layout": lambda ctx, *a: None,
    "type": lambda ctx, device: device,
    "dict": lambda ctx, items=(): dict(items),
    "is_cuda": lambda ctx, *a: False,
    "is_mkldnn": lambda ctx, *a: False,
    "is_quantized": lambda ctx, x: not isinstance(x, Variable),
    "is_nested": lambda ctx, *a: False,
    "is_tracing": lambda ctx, *a: False,
    "_get_tracing_state": lambda ctx, *a: False,
    "unchecked_unwrap_optional": lambda ctx, x: unwrapped(x),
    "_unwrap_optional": lambda ctx, x: unwrapped(x),
    "_get_cpu_capability": lambda ctx: "DEFAULT",
    "_detect_is_causal_mask": lambda ctx, mask, is_causal, size: is_causal is True,
}
_CONTAINERS: dict[str, Callable[..., Any]] = {
    "len": lambda ctx, x: open_lists.length(ctx, x) if isinstance(x, list) else len(x),
    "__contains__": contains,
    "__getitem__": _get,
    "select": _get,
    "_set_item": _set,
    "append": _append,
    "extend": _extend,
    "slice": _slice,
    "add": _add,
    "add_": _extend,
    "mul": _mul,
    "pop": _pop,
    "insert": _insert,
    "Delete": _delete,
    "__delitem__": _delete,
    "clear": lambda ctx, x: x.clear(),
    "copy": lambda ctx, x: x.copy(),
    "list": lambda ctx, x: list(x),
    "reverse": _reverse,
    "keys": lambda ctx, x: list(x.keys()),
    "values": lambda ctx, x: list(x.values()),
    "items": lambda ctx, x: [tuple(i) for i in x.items()],
    "get": lambda ctx, x, k, d=None: x.get(k, d),
    "setdefault": lambda ctx, x, k, d: x.setdefault(k, d),
    "update": lambda ctx, x, y: x.update(y),
    "index": _place,
    "count": count,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "sum": _sum,
    "sorted": _sorted,
    "sort": _sort,
    "join": _join,
    "startswith": lambda ctx, x, y: x.startswith(y),
    "endswith": lambda ctx, x, y: x.endswith(y),
    "lower": lambda ctx, x: x.lower(),
    "upper": lambda ctx, x: x.upper(),
    "strip": lambda ctx, x, *a: x.strip(*a),
    "split": lambda ctx, x, *a: x.split(*a) if isinstance(x, str) else NOT_PLAIN,
    "replace": lambda ctx, x, a, b: x.replace(a, b),
    "numel": lambda ctx, x: len(x),
    "all": truths("all", "and"),
    "any": truths("any", "or"),
    "TupleUnpack": lambda ctx, x: list(x),
    "tolist": lambda ctx, x: x,
}
