"""What a program may not have: results that are None as the data say, names that a branch leaves without a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.scalars import compute
from MNN.frontends.torch.script.open_lists import Form, Read, Run, packed
from MNN.ir.graph import Value


class _Uninitialized:
    """What TorchScript's code calls ``uninitialized``: what is left of a return or a break that was not taken."""


UNINITIALIZED = _Uninitialized()


@dataclass(frozen=True, eq=False)
class Maybe:
    """``value`` where ``present`` is true, else None. Where it is None, ``value`` is of the same kind, and unused."""

    present: bool | Number
    value: Any


def is_none(ctx: TorchBuilder, x: Any) -> bool | Number:
    """Whether it is None, which the data may decide."""
    if not isinstance(x, Maybe):
        return x is None
    return compute(ctx, "not", x.present) if isinstance(x.present, Number) else not x.present  # type: ignore[return-value]


def unwrapped(x: Any) -> Any:
    """What it is where it is not None."""
    return x.value if isinstance(x, Maybe) else x


def placeholder(ctx: TorchBuilder, like: Any, read: Read) -> Any:
    """Something of the same kind that stands where there is nothing: zeros, without elements where sizes are open."""
    if isinstance(like, Variable):
        value = read(like)
        return Variable(_zeros(ctx, value))
    if isinstance(like, Run):
        value = read(like.items)
        form = Form(ctx.type_of(value), tuple((value.shape or (0,))[1:]), like.numbers)
        return Run(Variable(packed(ctx, [], form)), like.numbers)
    if isinstance(like, Maybe):
        return Maybe(False, placeholder(ctx, like.value, read))
    if is_scalar(like):
        dtype = ctx.common(like)
        return 0.0 if dtype.is_float else False if dtype.size == 1 else 0
    if isinstance(like, dict):
        return {k: placeholder(ctx, v, read) for k, v in like.items()}
    if isinstance(like, (list, tuple)):
        return type(like)([placeholder(ctx, v, read) for v in like])
    return like


def _zeros(ctx: TorchBuilder, value: Value) -> Value:
    if value.shape is None:
        raise ctx.unsupported("a tensor of unknown rank that one branch alone has", "give shapes to the inputs")
    return ctx.const(np.zeros([n if isinstance(n, int) else 0 for n in value.shape], ctx.type_of(value).numpy))
