"""Calls of operators on variables: views, writing in place, and plain operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from MNN.frontends.torch.aliases import PARTS, VIEWS, Again, Back, Variable, part_of
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import ADVICE, COMPLEX, Complex, apply_complex, is_complex
from MNN.frontends.torch.registry import ATEN, MEANINGLESS, apply
from MNN.ir.graph import Value

OTHERWISE = {"normal_": "normal_functional"}
"""Operators in place whose name means something else without the underscore."""


def values(ctx: TorchBuilder, x: Any) -> Any:
    """Variables, in lists too, as the values that they have now."""
    if isinstance(x, Variable):
        return x.read(ctx)
    if isinstance(x, (list, tuple)):
        return [values(ctx, v) for v in x]
    return x


def variables(x: Any) -> Any:
    """Values, in lists too, as variables."""
    if isinstance(x, Value):
        return Variable(x)
    if isinstance(x, (list, tuple)):
        return type(x)(variables(v) for v in x)
    return x


def base_name(name: str) -> str:
    """An operator that writes in place is named after the one that does not: ``add_``."""
    if name in OTHERWISE:
        return OTHERWISE[name]
    return name[:-1] if name.endswith("_") and not name.endswith("__") and ATEN.find(name) is None else name


def call(ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator on variables and plain data, as variables and plain data.

    Raises ``LookupError`` for an operator without a handler, :class:`~MNN.errors.UnsupportedError` for a form of it.
    """
    plain = base_name(name)
    if is_complex([*args, *kwargs.values()]) or (ATEN.find(plain) is None and COMPLEX.find(plain) is not None):
        return _complex_call(ctx, name, plain, args, kwargs)
    given = [values(ctx, a) for a in args]
    named = {k: values(ctx, v) for k, v in kwargs.items()}
    if plain != name and args and isinstance(args[0], Variable):
        result = apply(ctx, plain, given, named)
        made = result[0] if isinstance(result, (list, tuple)) else result
        before = args[0].read(ctx)
        if before.dtype is not None:
            made = ctx.cast(made, before.dtype)
        args[0].write(ctx, made)
        return args[0]
    result = apply(ctx, plain, given, named)
    if not args or not isinstance(args[0], Variable):
        return variables(result)
    below = args[0]
    if plain in VIEWS and isinstance(result, Value):
        way = VIEWS[plain]
        rest = given[1:]

        def again(c: TorchBuilder, value: Value) -> Value:
            return apply(c, plain, [value, *rest], named)  # type: ignore[no-any-return]

        def back(c: TorchBuilder, value: Value, new: Value) -> Value:
            return way(c, value, new, *rest, **named)

        return Variable(result, below, again, back)
    if plain in PARTS and isinstance(result, list):
        return _pieces(ctx, plain, below, given, named, result)
    return variables(result)


def _complex_call(ctx: TorchBuilder, name: str, plain: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The same where complex tensors come in or go out."""
    result = apply_complex(ctx, plain, args, {k: v for k, v in kwargs.items() if k not in MEANINGLESS})
    if plain == name:
        return result
    if not isinstance(args[0], Complex) or not isinstance(result, Complex):
        raise ctx.unsupported("writing complex numbers to a real tensor", ADVICE)
    args[0].pairs.write(ctx, result.numbers(ctx))
    return args[0]


def _pieces(
    ctx: TorchBuilder, name: str, below: Variable, given: list[Any], named: Mapping[str, Any], result: list[Value]
) -> list[Variable]:
    default = named.get("dim", 0)
    at = 1 if name == "unbind" else 2
    axis = ctx.axis(given[0], given[at] if len(given) > at else default)
    out, start = [], 0
    for i, piece in enumerate(result):
        size = piece.shape[axis] if name != "unbind" and piece.shape is not None else 1
        ways: tuple[Again, Back] | None = None
        if isinstance(size, int):
            ways = part_of(ctx, name, axis, i, start, size)
            start += size
        out.append(Variable(piece, below, *(ways or (None, None))))
    return out
