"""Lists whose length the data decide: what loops append, and what one branch appends and the other does not.

Items of one shape lie along the first axis of a tensor, a :class:`Run`, which stands in the list in their place. So
lists grow in loops and in branches, and are stacked, joined, indexed and cut by numbers known only at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.numbers import Int, Number, is_scalar
from MNN.frontends.torch.scalars import compute, known_number
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Dim

ADVICE = "items of one shape and type can be stacked, joined, indexed, cut, reversed, added and removed"


@dataclass(frozen=True, eq=False)
class Run:
    """Items of a list along axis 0 of a tensor; ``numbers``: they are numbers, else tensors."""

    items: Variable
    numbers: bool


@dataclass(frozen=True)
class Form:
    """What the items of a list are."""

    dtype: DType
    shape: tuple[Dim, ...]
    numbers: bool


Read = Callable[[Variable], Value]


def is_open(container: Any) -> bool:
    """Whether it is a list of a length that is not known."""
    return isinstance(container, list) and any(isinstance(item, Run) for item in container)


def form_of(ctx: TorchBuilder, items: Sequence[Any], read: Read | None = None) -> Form | None:
    """What all items of a list are; None for an empty list, and where they are of several shapes or kinds."""
    found: Form | None = None
    for item in items:
        form = _form(ctx, item, read or (lambda v: v.read(ctx)))
        if form is None or (found is not None and form != found):
            return None
        found = form
    return found


def _form(ctx: TorchBuilder, item: Any, read: Read) -> Form | None:
    if is_scalar(item):
        dtype = ctx.common(item)
        return Form(DType.F64 if dtype.is_float else dtype, (), True)
    if not isinstance(item, (Run, Variable)):
        return None
    value = read(item.items if isinstance(item, Run) else item)
    if value.shape is None:
        return None
    numbers = isinstance(item, Run) and item.numbers
    return Form(ctx.type_of(value), value.shape[1:] if isinstance(item, Run) else value.shape, numbers)


def packed(ctx: TorchBuilder, items: Sequence[Any], form: Form, read: Read | None = None) -> Value:
    """The items along the first axis of a tensor. ``form`` says what they are, of an empty list too."""
    read = read or (lambda v: v.read(ctx))
    parts = []
    for item in items:
        if isinstance(item, Run):
            parts.append(read(item.items))
        else:
            value = ctx.scalar(item, form.dtype) if form.numbers else read(item)
            parts.append(ctx.unsqueeze(value, 0))
    if not parts:
        sizes: list[Int] = [0, *(_size(ctx, n) for n in form.shape)]
        known = [n for n in sizes if isinstance(n, int)]
        if len(known) == len(sizes):
            return ctx.const(np.zeros(known, form.dtype.numpy))
        zero = ctx.const(np.zeros((), form.dtype.numpy))
        return ctx.expand(zero, ctx.ints(sizes))
    return parts[0] if len(parts) == 1 else ctx.op("Concat", *parts, axis=0)


def _size(ctx: TorchBuilder, size: Dim) -> Int:
    """An open size as a number: that of a tensor which has it."""
    if isinstance(size, int):
        return size
    at: Any = ctx
    while at is not None:
        for value in (*at.graph.inputs, *(v for node in reversed(at.graph.nodes) for v in node.outputs)):
            if value.shape is not None and size in value.shape:
                return ctx.size(value, value.shape.index(size))
        at = at.parent
    raise ctx.unsupported(f"a list of an open length that begins empty, with items of the size {size},", ADVICE)


def make_open(ctx: TorchBuilder, items: Sequence[Any], form: Form, read: Read | None = None) -> list[Any]:
    """The same list as one run."""
    return [as_run(Variable(packed(ctx, items, form, read)), items, form.numbers)]


def as_run(made: Variable, items: Iterable[Any], numbers: bool) -> Run:
    """Copies of the items, which cannot be read once an item was written in place."""
    _copies(made, items)
    return Run(made, numbers)


def _copies(made: Variable, items: Iterable[Any]) -> None:
    for item in items:
        held = item.items if isinstance(item, Run) else item
        if isinstance(held, Variable) and held is not made:
            made.copied_from(held)


def gathered(ctx: TorchBuilder, items: Sequence[Any], what: str) -> tuple[Variable, Form]:
    """All items along the first axis, and what they are. Raises :class:`UnsupportedError` naming ``what`` where they
    are of several shapes or kinds."""
    form = form_of(ctx, items)
    if form is None:
        raise ctx.unsupported(f"{what} whose items are of several shapes or kinds", ADVICE)
    return Variable(packed(ctx, items, form)), form


def runs_in(things: Iterable[Any]) -> Iterator[Run]:
    return (thing for thing in things if isinstance(thing, Run))


# -- what is done to such lists ---------------------------------------------------------------------------------------


def length(ctx: TorchBuilder, items: Sequence[Any]) -> Any:
    """How many items there are."""
    total: Any = sum(not isinstance(item, Run) for item in items)
    for run in runs_in(items):
        total = compute(ctx, "add", total, ctx.size(run.items.read(ctx), 0))
    return known_number(ctx, total)


def item(ctx: TorchBuilder, items: Sequence[Any], index: Int) -> Any:
    """One of the items, of any list: where index or length are known only at run time, these must be of one form."""
    if isinstance(index, int):
        near = items[: index + 1] if index >= 0 else items[index:]
        if len(near) == (index + 1 if index >= 0 else -index) and not is_open(list(near)):
            return near[-1] if index >= 0 else near[0]
    lines, form = gathered(ctx, items, "indexing a list")
    place = compute(ctx, "add", index, length(ctx, items)) if isinstance(index, int) and index < 0 else index
    if isinstance(place, Number):
        negative = compute(ctx, "lt", place, 0)
        place = compute(ctx, "ite", negative, compute(ctx, "add", place, length(ctx, items)), place)
    at = ctx.cast_known(ctx.scalar(place, DType.I64), DType.I32)
    found = ctx.op("GatherV2", lines.read(ctx), at, ctx.const(np.asarray(0, np.int32)))
    found.dtype = form.dtype
    if form.numbers:
        found.shape = ()
        return Number(found)
    made = Variable(found)
    _copies(made, items)
    return made


def replaced(ctx: TorchBuilder, items: Sequence[Any], index: Int, new: Any) -> list[Any]:
    """The list with another item at a place known only at run time."""
    lines, form = gathered(ctx, [*items, new], "setting an item of a list")
    count = length(ctx, items)
    given = lines.read(ctx)
    before = packed(ctx, items, form)
    place: Any = index
    if not isinstance(index, int) or index < 0:
        place = compute(ctx, "ite", compute(ctx, "lt", index, 0), compute(ctx, "add", index, count), index)
    places = call(ctx, "arange", [count], {}).read(ctx)
    here = ctx.op("BinaryOp", places, ctx.scalar(place, DType.I64), opType="EQUAL")
    here = ctx.unsqueeze(here, *range(1, len(form.shape) + 1))
    last = ctx.op("GatherV2", given, ctx.scalar(count, DType.I64), ctx.const(np.asarray(0, np.int32)))
    return [as_run(Variable(ctx.op("Select", here, last, before)), [*items, new], form.numbers)]


def part(ctx: TorchBuilder, items: Sequence[Any], start: Any, end: Any, step: Any) -> list[Any]:
    """A slice of such a list; backwards only of all of it."""
    step = 1 if step is None else step
    if isinstance(step, int) and step < 0:
        if start is not None or end is not None:
            raise ctx.unsupported(
                "a part of a list of an open length, backwards,", "use all of it, or reverse it before"
            )
        items, step = backwards(ctx, items), -step
    if step == 1 and start is None and end is None:
        return list(items)
    lines, form = gathered(ctx, items, "a slice of a list")
    cut = call(ctx, "slice", [lines, 0, start, end, step], {})
    return [as_run(cut, items, form.numbers)]


def taken_apart(ctx: TorchBuilder, x: Variable, axis: int = 0) -> list[Any] | None:
    """The parts of a tensor along an axis of an open size (``unbind``); None where the size is known."""
    shape = x.read(ctx).shape
    if shape is None or isinstance(shape[axis], int):
        return None
    return [as_run(Variable(call(ctx, "movedim", [x, axis, 0], {}).read(ctx)), [x], False)]


def numbers_of(ctx: TorchBuilder, x: Variable) -> Any:
    """``x.tolist()``: a number, a list of them, or lists of lists."""
    value = x.read(ctx)
    if ctx.rank_of(value) > 1:
        return [numbers_of(ctx, row) for row in call(ctx, "unbind", [x], {})]
    dtype = ctx.type_of(value)
    made = ctx.cast(value, dtype if dtype is DType.BOOL else DType.F64 if dtype.is_float else DType.I64)
    return known_number(ctx, Number(made)) if value.shape == () else [Run(Variable(made), True)]


def backwards(ctx: TorchBuilder, items: Sequence[Any]) -> list[Any]:
    """The items in reverse."""

    def turned(item: Any) -> Any:
        if not isinstance(item, Run):
            return item
        return as_run(call(ctx, "flip", [item.items, [0]], {}), [item], item.numbers)

    return [turned(item) for item in reversed(items)]


def inserted(ctx: TorchBuilder, items: Sequence[Any], index: Int, new: Any) -> list[Any]:
    """The list with an item more, before that at ``index``."""
    if index == 0:
        return [new, *items]
    return [*part(ctx, items, None, index, 1), new, *part(ctx, items, index, None, 1)]


def removed(ctx: TorchBuilder, items: Sequence[Any], index: Int) -> list[Any]:
    """The list without the item at ``index``."""
    place: Any = index
    if isinstance(index, Number):
        place = compute(ctx, "ite", compute(ctx, "lt", index, 0), compute(ctx, "add", index, length(ctx, items)), index)
    before = part(ctx, items, None, place, 1)
    return before if place == -1 else [*before, *part(ctx, items, compute(ctx, "add", place, 1), None, 1)]


def reduced(ctx: TorchBuilder, items: Sequence[Any], way: str) -> Number:
    """One number of a list of them: their ``sum``, ``amax`` or ``amin``."""
    lines, _ = gathered(ctx, items, f"'{way}' of a list")
    return Number(call(ctx, way, [lines], {}).read(ctx))


def in_order(ctx: TorchBuilder, items: Sequence[Any], descending: bool) -> list[Any]:
    """Numbers in order."""
    lines, form = gathered(ctx, items, "the order of a list")
    if not form.numbers:
        raise ctx.unsupported("the order of a list of tensors", "use torch.sort of a tensor")
    return [Run(call(ctx, "sort", [lines, 0, descending], {})[0], True)]


def as_tensor(ctx: TorchBuilder, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``stack``, ``cat`` and ``tensor`` of such a list."""
    lines, form = gathered(ctx, args[0], f"'{name}' of a list of an open length")
    if name in ("tensor", "as_tensor"):
        if form.dtype is DType.F64 and kwargs.get("dtype") is None:
            kwargs = {**kwargs, "dtype": DType.F32}
        return call(ctx, "to", [lines, kwargs["dtype"]], {}) if kwargs.get("dtype") is not None else lines
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    rank = len(form.shape) + (name == "stack")
    axis = ctx.known(dim, "a dimension") % max(rank, 1)
    if name == "stack":
        return call(ctx, "movedim", [lines, 0, axis], {})
    moved = call(ctx, "movedim", [lines, 0, axis], {})
    return call(ctx, "flatten", [moved, axis, axis + 1], {})


JOINING = frozenset(("stack", "cat", "concat", "concatenate", "tensor", "as_tensor"))
"""Operators that make a tensor of such a list."""
