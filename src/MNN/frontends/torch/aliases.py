"""Tensors that programs write to in place: variables, and views of others.

A variable holds the value that it has now. Views remember what they are views of: reading one after the tensor below
was written gives its new elements, writing one changes the tensor below. So programs with ``add_``, ``copy_`` and
assignments to slices become graphs, in which nothing is written twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from MNN.frontends.torch.aten.slicing import END, select, select_scatter, slice_, slice_scatter
from MNN.frontends.torch.builder import TorchBuilder
from MNN.ir.graph import Value

Again = Callable[[TorchBuilder, Value], Value]
Back = Callable[[TorchBuilder, Value, Value], Value]


_BIRTHS = itertools.count(1)


class Variable:
    """``again`` makes the view from the value below; ``back`` gives that value with the view's elements replaced.

    ``born`` says which of two began earlier; what a model stores is always there (0), whenever it is first read.
    """

    def __init__(
        self,
        value: Value,
        below: Variable | None = None,
        again: Again | None = None,
        back: Back | None = None,
        stored: bool = False,
    ) -> None:
        self.born = 0 if stored else next(_BIRTHS)
        self._value = value
        self._below = below
        self._again = again
        self._back = back
        self._version = 0
        self._seen = 0 if below is None else below.version

    @staticmethod
    def count() -> int:
        """A number that is larger than those of all variables until now."""
        return next(_BIRTHS)

    @property
    def version(self) -> int:
        """How often this, or what it is a view of, was written."""
        return self._version + (0 if self._below is None else self._below.version)

    def read(self, ctx: TorchBuilder) -> Value:
        """The value that it has now."""
        if self._below is not None and self._below.version != self._seen:
            assert self._again is not None
            self._value = self._again(ctx, self._below.read(ctx))
            self._seen = self._below.version
        return self._value

    def write(self, ctx: TorchBuilder, value: Value) -> None:
        """Gives it another value. Raises :class:`UnsupportedError` for views that cannot be written through."""
        if self._below is not None:
            if self._back is None:
                raise ctx.unsupported("writing to a view of this kind", "write to a copy: x.clone()")
            self._below.write(ctx, self._back(ctx, self._below.read(ctx), value))
            self._seen = self._below.version
        else:
            ctx.note_written(self, self._value)
            self._version += 1
        self._value = value

    def restore(self, value: Value) -> None:
        """Takes back what was written, or says what it became elsewhere (branches)."""
        self._value = value
        self._version += 1

    def named(self, value: Value) -> None:
        """The same value under its name in the file."""
        self._value = value

    @property
    def is_view(self) -> bool:
        return self._below is not None


def _as_below(ctx: TorchBuilder, below: Value, new: Value, *_: Any, **__: Any) -> Value:
    """Views that keep the order of elements."""
    return ctx.op("Reshape", new, ctx.shape_like(below))


def _same(ctx: TorchBuilder, below: Value, new: Value, *_: Any, **__: Any) -> Value:
    return new


def _permuted(ctx: TorchBuilder, below: Value, new: Value, dims: list[int]) -> Value:
    order = [d % len(dims) for d in dims]
    return ctx.rows(new, [order.index(i) for i in range(len(order))])


def _swapped(ctx: TorchBuilder, below: Value, new: Value, dim0: int = -2, dim1: int = -1) -> Value:
    order = list(range(ctx.rank_of(new)))
    if len(order) < 2:
        return new
    a, b = ctx.axis(new, dim0), ctx.axis(new, dim1)
    order[a], order[b] = order[b], order[a]
    return ctx.rows(new, order)


def _sliced(
    ctx: TorchBuilder, below: Value, new: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    return slice_scatter(ctx, below, new, dim, start, end, step)


def _selected(ctx: TorchBuilder, below: Value, new: Value, dim: int, index: Any) -> Value:
    return select_scatter(ctx, below, new, dim, index)


def _narrowed(ctx: TorchBuilder, below: Value, new: Value, dim: int, start: Any, length: Any) -> Value:
    if not isinstance(start, int) or not isinstance(length, int):
        raise ctx.unsupported("writing to a part whose place is known only when the model runs")
    return slice_scatter(ctx, below, new, dim, start, start + length or END)


def _expanded(ctx: TorchBuilder, below: Value, new: Value, *_: Any, **__: Any) -> Value:
    if below.shape is not None and below.shape == new.shape:
        return new
    raise ctx.unsupported("writing to an expanded tensor", "write to a copy: x.clone()")


VIEWS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as"),
        _as_below,
    ),
    **dict.fromkeys(("alias", "detach", "contiguous", "data", "lift_fresh", "cpu"), _same),
    "permute": _permuted, "transpose": _swapped, "swapaxes": _swapped, "t": _swapped, "mT": _swapped,
    "slice": _sliced, "select": _selected, "narrow": _narrowed, "expand": _expanded,
}  # fmt: skip
"""Operators that give a view of their first operand, with the way back."""
PARTS = frozenset(("split", "chunk", "split_with_sizes", "unbind", "tensor_split"))
"""Operators that give several views, pieces one after the other along an axis."""


def part_of(ctx: TorchBuilder, name: str, axis: int, index: int, start: int, size: int) -> tuple[Again, Back]:
    """How piece ``index``, at ``start`` of an axis, is read again and written back."""
    if name == "unbind":
        return (
            lambda c, below: select(c, below, axis, index),
            lambda c, below, new: select_scatter(c, below, new, axis, index),
        )
    return (
        lambda c, below: slice_(c, below, axis, start, start + size),
        lambda c, below, new: slice_scatter(c, below, new, axis, start, start + size),
    )
