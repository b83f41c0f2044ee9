"""Calls of operators on variables: views, writing in place, and plain operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import ADVICE, COMPLEX, Complex, apply_complex, is_complex
from MNN.frontends.torch.registry import ATEN, MEANINGLESS, apply, written
from MNN.frontends.torch.views import PARTS, RESHAPED, fresh, parts, seen, way_of
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
    return _fresh("", x, [])


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
    if isinstance(kwargs.get("out"), Variable):
        return _placed(ctx, name, args, kwargs)
    if is_complex([*args, *kwargs.values()]) or (ATEN.find(plain) is None and COMPLEX.find(plain) is not None):
        return _complex_call(ctx, name, plain, args, kwargs)
    given = [values(ctx, a) for a in args]
    named = {k: values(ctx, v) for k, v in kwargs.items()}
    if plain != name and args and isinstance(args[0], Variable):
        if plain in ("detach", "requires_grad"):
            return args[0]
        if plain in RESHAPED:
            return _reshaped(ctx, plain, args[0], given, named)
        result = apply(ctx, plain, given, named)
        made = result[0] if isinstance(result, (list, tuple)) else result
        before = args[0].read(ctx)
        if before.dtype is not None:
            made = ctx.cast(made, before.dtype)
        args[0].write(ctx, made)
        return args[0]
    below = args[0] if args and isinstance(args[0], Variable) else None
    if plain == "as_strided" and below is not None:
        return _strided(ctx, below, given, named)
    result = apply(ctx, plain, given, named)
    for operand, after in written(ctx, plain, args, kwargs, lambda x: values(ctx, x)):
        operand.write(ctx, after)
    if below is not None and isinstance(result, Value):
        shared = seen(ctx, plain, below, given[1:], named, kwargs, result)
        if shared is not None:
            return shared
    if below is not None and plain in PARTS and isinstance(result, list):
        return parts(ctx, plain, below, given[1:], named, result)
    if plain in ("broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d") and isinstance(result, list):
        return _each(ctx, plain, args[0], result)
    return _fresh(plain, result, _operands(args))


def _placed(ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Variable:
    """The overload whose result goes into a tensor that is there: ``out``, which keeps its type."""
    out: Variable = kwargs["out"]
    result = call(ctx, name, args, {k: v for k, v in kwargs.items() if k != "out"})
    if not isinstance(result, Variable):
        raise ctx.unsupported("results of this kind in a tensor that is there (out=)", "take the result itself")
    found, before = result.read(ctx), out.read(ctx)
    if found.shape != before.shape and (out.is_view or 0 not in (before.shape or ())):
        raise ctx.unsupported("a result of other sizes than the tensor it goes into (out=)", "take the result itself")
    out.write(ctx, found if before.dtype is None else ctx.cast(found, before.dtype))
    return out


def _operands(args: Any) -> list[Variable]:
    if isinstance(args, Variable):
        return [args]
    return [v for a in args for v in _operands(a)] if isinstance(args, (list, tuple)) else []


def _fresh(name: str, x: Any, operands: list[Variable]) -> Any:
    """Results that share memory with nothing."""
    if isinstance(x, Value):
        return fresh(name, x, operands)
    return type(x)(_fresh(name, v, operands) for v in x) if isinstance(x, (list, tuple)) else x


def _each(ctx: TorchBuilder, name: str, operands: Sequence[Any], result: Sequence[Value]) -> list[Variable]:
    """Several tensors, each a view of one of several operands."""
    spread = name == "broadcast_tensors"
    args = [ctx.sizes(result[0])] if spread and result else []
    found = []
    for operand, value in zip(operands, result, strict=True):
        shared = seen(ctx, "expand" if spread else name, operand, args, {}, {}, value)
        assert shared is not None
        found.append(shared)
    return found


def _strided(ctx: TorchBuilder, x: Variable, given: list[Any], named: Mapping[str, Any]) -> Variable | None:
    """Sizes and steps count in the memory that a view shares."""
    placed = named.get("storage_offset", given[3] if len(given) > 3 else None) is not None
    below = x.root if placed else x
    if below.is_view or not below.in_order:
        raise ctx.unsupported("as_strided of a view that lies elsewhere in memory", "use slices, or x.clone() first")
    result = apply(ctx, "as_strided", [below.read(ctx), *given[1:]], named)
    return seen(ctx, "as_strided", below, given[1:], named, {}, result)


def _reshaped(ctx: TorchBuilder, plain: str, x: Variable, given: list[Any], named: Mapping[str, Any]) -> Variable:
    """In place, and no element is written (``t_``): the tensor becomes a view of what it was."""
    if plain == "resize" and not x.in_order:
        raise ctx.unsupported("resize_ of a tensor that lies in another order in memory", "use x.reshape(...)")
    result = apply(ctx, plain, given, named)
    way = way_of(ctx, plain, x, given[1:], named, {}, result)
    assert way is not None
    x.become(ctx, result, *way)
    return x


def _complex_call(ctx: TorchBuilder, name: str, plain: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The same where complex tensors come in or go out."""
    result = apply_complex(ctx, plain, args, {k: v for k, v in kwargs.items() if k not in MEANINGLESS})
    if plain == name:
        return result
    if not isinstance(args[0], Complex) or not isinstance(result, Complex):
        raise ctx.unsupported("writing complex numbers to a real tensor", ADVICE)
    args[0].pairs.write(ctx, result.numbers(ctx))
    return args[0]
