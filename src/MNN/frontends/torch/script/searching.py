"""What lists are asked for: whether and where they hold something, and what is true of all or any of their numbers.

Numbers may be known only at run time; then so are the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number, is_scalar
from MNN.frontends.torch.scalars import compute, known_number
from MNN.frontends.torch.script import open_lists


def contains(ctx: TorchBuilder, container: Any, item: Any) -> Any:
    """Whether a list, a dictionary or a text holds it."""
    if any(isinstance(v, (Number, Variable)) for v in (item, *(container if not isinstance(container, str) else ()))):
        found: Any = False
        for equal in _are_equal(ctx, container, item):
            found = compute(ctx, "or", found, equal)
        return known_number(ctx, found)
    return item in container


def _are_equal(ctx: TorchBuilder, items: Sequence[Any], item: Any) -> list[Any]:
    """Whether each of the items is this one."""
    if any(isinstance(v, Variable) for v in (item, *items)):
        raise ctx.unsupported("looking for a tensor in a list")
    return [compute(ctx, "eq", v, item) if is_scalar(v) and is_scalar(item) else v == item for v in items]


def count(ctx: TorchBuilder, items: Any, item: Any) -> Any:
    """How often a list or a text holds it."""
    if isinstance(items, str):
        return items.count(item)
    return known_number(ctx, compute(ctx, "sum", *_are_equal(ctx, items, item)))


def place(ctx: TorchBuilder, items: Any, item: Any) -> Any:
    """Where the first such item is, None for none. Where the data decide there is one, or torch would raise an
    exception."""
    found: Any = None
    for at, equal in reversed(list(enumerate(_are_equal(ctx, items, item)))):
        if equal is not False:
            found = at if found is None else known_number(ctx, compute(ctx, "ite", equal, at, found))
    return found


def truths(way: str, joining: str) -> Callable[..., Any]:
    """Whether ``all`` or ``any`` of a list of numbers are not zero."""

    def found(ctx: TorchBuilder, numbers: Any) -> Any:
        if open_lists.is_open(numbers):
            return open_lists.reduced(ctx, numbers, way)
        result: Any = way == "all"
        for number in numbers:
            result = compute(ctx, joining, result, compute(ctx, "bool", number))
        return known_number(ctx, result)

    return found
