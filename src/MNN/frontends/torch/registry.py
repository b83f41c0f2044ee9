"""The table of ATen operators, filled by the files of ``aten``.

A handler's parameters are those of the operator's schema, in its order; overloads are told apart by what they are
given. Tensors are :class:`~MNN.ir.graph.Value`, numbers known only at run time
:class:`~MNN.frontends.torch.numbers.Number`, everything else is what Python has for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from MNN.frontends.common.handlers import Handlers
from MNN.frontends.torch.builder import TorchBuilder

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
    return handler(*bound.args, **bound.kwargs)


@cache
def _signature(handler: Handler) -> inspect.Signature:
    return inspect.signature(handler)
