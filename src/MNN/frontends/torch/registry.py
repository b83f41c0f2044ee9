"""The table of ATen operators, filled by the files of ``aten``.

A handler's parameters are those of the operator's schema, in its order; overloads are told apart by what they are
given. Tensors are :class:`~MNN.ir.graph.Value`, numbers known only at run time
:class:`~MNN.frontends.torch.numbers.Number`, everything else is what Python has for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np

from MNN.frontends.common.handlers import Handlers
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

Handler = Callable[..., Any]
ATEN: Handlers[Handler] = Handlers("MNN.frontends.torch.aten", "ATen")
_Form = TypeVar("_Form", bound=Handler)
MEANINGLESS = frozenset(
    ("layout", "device", "pin_memory", "memory_format", "non_blocking", "requires_grad", "generator", "names", "copy")
)
"""Arguments that change nothing of what comes out."""


def aten(*names: str) -> Callable[[_Form], _Form]:
    """Decorator that enters a handler for operators; those of other libraries are named ``library.operator``."""

    def enter(handler: _Form) -> _Form:
        ATEN.handles(*names)(handler)
        return handler

    return enter


HALVES = (DType.F16, DType.BF16)


def in_f32(handler: _Form) -> _Form:
    """Decorator of what is several operators here and one in PyTorch: of numbers of 16 bits it is computed in f32, and
    rounded once. So squares and sums may be larger than f16 has, and differences keep their digits."""

    @wraps(handler)
    def widened(ctx: TorchBuilder, *args: Any, **named: Any) -> Any:
        kind = ctx.common(*(v for v in _tensors([args, list(named.values())]) if ctx.type_of(v).is_float))
        if kind not in HALVES or named.get("dtype") is not None:
            return handler(ctx, *args, **named)
        given = _cast(ctx, args, HALVES, DType.F32), _cast(ctx, list(named.values()), HALVES, DType.F32)
        return _cast(ctx, handler(ctx, *given[0], **dict(zip(named, given[1], strict=True))), (DType.F32,), kind)

    return widened  # type: ignore[return-value]


def _tensors(x: Any) -> Iterator[Value]:
    if isinstance(x, Value):
        yield x
    elif isinstance(x, (list, tuple)):
        for one in x:
            yield from _tensors(one)


def _cast(ctx: TorchBuilder, x: Any, kinds: Sequence[DType], dtype: DType) -> Any:
    """Tensors of these types, in lists too, in another one; all else as it is."""
    if isinstance(x, (list, tuple)):
        return type(x)(_cast(ctx, one, kinds, dtype) for one in x)
    return ctx.cast(x, dtype) if isinstance(x, Value) and x.dtype in kinds else x


_WRITES: dict[str, tuple[Handler, tuple[str, ...]]] = {}


def writes(*names: str, into: Sequence[str]) -> Callable[[_Form], _Form]:
    """Decorator for what operators write beside their result: a handler of the same parameters, which gives the new
    values of those named ``into``, or none."""

    def enter(handler: _Form) -> _Form:
        _WRITES.update(dict.fromkeys(names, (handler, tuple(into))))
        return handler

    return enter


def written(
    ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], value: Callable[[Any], Any]
) -> list[tuple[Any, Value]]:
    """The operands that an operator writes beside its result, with their new values; ``value`` reads one."""
    if ATEN.find(name) is None or name not in _WRITES:
        return []
    handler, into = _WRITES[name]
    try:
        bound = _signature(handler).bind(ctx, *args, **{k: v for k, v in kwargs.items() if k not in MEANINGLESS})
    except TypeError as error:
        raise ctx.unsupported(f"this form of the operator ({error})") from error
    given = {k: value(v) if k != "ctx" else v for k, v in bound.arguments.items()}
    operands = [bound.arguments[k] for k in into]
    bound.arguments.update(given)
    return list(zip(operands, handler(*bound.args, **bound.kwargs), strict=False))


def apply(ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives: a Value, a number, or a list of those. Raises ``LookupError`` for one without a handler,
    :class:`~MNN.errors.UnsupportedError` for arguments that it does not take."""
    handler = ATEN.find(name)
    ctx.name = name
    if handler is None:
        raise LookupError(name)
    kept = {k: v for k, v in kwargs.items() if k not in MEANINGLESS}
    try:
        bound = _signature(handler).bind(ctx, *args, **kept)
    except TypeError as error:
        raise ctx.unsupported(f"this form of the operator ({error})") from error
    for key, given in bound.arguments.items():
        if isinstance(given, (Value, list, tuple)) and _signature(handler).parameters[key].annotation in _NUMBERS:
            bound.arguments[key] = _number(ctx, given)
    return handler(*bound.args, **bound.kwargs)


_NUMBERS = frozenset(
    f"{kind}{ending}"
    for kind in ("Int", "Ints", "Scalar", "Sizes", "Sequence[Int]", "int", "float", "int | Ints")
    for ending in ("", " | None")
)
"""Annotations of parameters that are numbers, or lists of them."""


def _number(ctx: TorchBuilder, given: Any) -> Any:
    """TorchScript lets tensors of one element stand for numbers."""
    if isinstance(given, (list, tuple)):
        return type(given)(_number(ctx, one) for one in given) if any(isinstance(v, Value) for v in given) else given
    if not isinstance(given, Value):
        return given
    known = ctx.constant(given)
    if known is not None and known.size == 1:
        return known.reshape(-1)[0].item()
    kind = ctx.type_of(given)
    number = ctx.cast(given, DType.F64 if kind.is_float else kind if kind is DType.BOOL else DType.I64)
    return Number(number if number.shape == () else ctx.op("Reshape", number, ctx.const(np.zeros(0, np.int64))))


@cache
def _signature(handler: Handler) -> inspect.Signature:
    return inspect.signature(handler)
