"""Operators whose results share memory with their first operand: how a view is read again, and written back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from MNN.frontends.torch.aliases import Again, Back, Variable
from MNN.frontends.torch.aten.reshaping import view
from MNN.frontends.torch.aten.slicing import END, select_scatter, slice_scatter
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.layout import Layout
from MNN.frontends.torch.registry import apply
from MNN.ir.graph import Value

Way = Callable[..., Value]
"""Takes the builder, the value below, the view's new value and the operator's arguments; gives the new value below."""
Named = Mapping[str, Any]


def _as_below(ctx: TorchBuilder, below: Value, new: Value, *_: Any, **__: Any) -> Value:
    """Views that keep the order of elements, or their bits."""
    if below.dtype is not None and new.dtype is not below.dtype and new.dtype is not None:
        return view(ctx, new, below.dtype)
    return ctx.op("Reshape", new, ctx.shape_like(below))


def _same(ctx: TorchBuilder, below: Value, new: Value, *_: Any, **__: Any) -> Value:
    return new


def _ordered(ctx: TorchBuilder, below: Value, new: Value, *args: Any, **named: Any) -> Value:
    """Axes in another order: the operator tells which, of places as few as axes."""
    order = _order(ctx, ctx.rank_of(below), args, named)
    return ctx.rows(new, [order.index(i) for i in range(len(order))])


def _order(ctx: TorchBuilder, rank: int, args: Sequence[Any], named: Named) -> list[int]:
    """The order of axes that the current operator makes."""
    axes = list(range(rank))
    name = ctx.name
    if rank == 0:
        return axes
    if name == "permute":
        dims = args[0] if args else named["dims"]
        return [d % max(rank, 1) for d in dims]
    if name in ("movedim", "moveaxis"):
        given = [*args, *named.values()]
        before, after = ([d % rank for d in ([g] if isinstance(g, int) else g)] for g in given)
        placed = dict(zip(after, before, strict=True))
        left = iter(a for a in axes if a not in before)
        return [placed[i] if i in placed else next(left) for i in axes]
    if name == "numpy_T":
        return axes[::-1]
    if rank > 1:
        a, b = [d % rank for d in (*args, *named.values())] or (-2, -1)
        axes[a], axes[b] = axes[b], axes[a]
    return axes


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


def _diagonal(ctx: TorchBuilder, below: Value, new: Value, *args: Any, **named: Any) -> Value:
    return apply(ctx, "diagonal_scatter", [below, new, *args], named)  # type: ignore[no-any-return]


def _placed(ctx: TorchBuilder, below: Value, new: Value, *args: Any, **named: Any) -> Value:
    """Any view: the operator tells of numbered elements which ones it shows."""
    return _put_back(ctx, below, new, lambda places: apply(ctx, name, [places, *args], named), name := ctx.name)


def _put_back(ctx: TorchBuilder, below: Value, new: Value, shown: Callable[[Value], Value], name: str) -> Value:
    count = ctx.op("Size", below, outputDataType="DT_INT64")
    line = apply(ctx, "arange", [_number(ctx, below, count)], {})
    places = shown(ctx.op("Reshape", line, ctx.shape_like(below)))
    ctx.name = name
    return apply(ctx, "put", [below, places, new], {})  # type: ignore[no-any-return]


def _number(ctx: TorchBuilder, below: Value, count: Value) -> Any:
    static = ctx.static_shape(below)
    if static is None:
        return apply(ctx, "item", [count], {})
    total = 1
    for n in static:
        total *= n
    return total


VIEWS: dict[str, Way] = {
    **dict.fromkeys(
        ("view", "_unsafe_view", "unflatten", "squeeze", "unsqueeze", "view_as", "_reshape_alias", "reshape",
         "reshape_as", "flatten", "ravel", "atleast_1d", "atleast_2d", "atleast_3d"), _as_below,
    ),
    **dict.fromkeys(
        ("alias", "detach", "data", "lift_fresh", "lift", "cpu", "cuda", "positive", "resolve_conj", "resolve_neg",
         "real", "conj", "_conj", "contiguous", "requires_grad"), _same,
    ),
    **dict.fromkeys(
        ("permute", "transpose", "swapaxes", "swapdims", "t", "numpy_T", "mT", "mH", "matrix_H", "adjoint", "movedim",
         "moveaxis"), _ordered,
    ),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to", "broadcast_as"), _expanded),
    **dict.fromkeys(("unfold", "as_strided", "resize"), _placed),
    "slice": _sliced, "select": _selected, "narrow": _narrowed, "diagonal": _diagonal, "linalg_diagonal": _placed,
}  # fmt: skip
"""Operators that give a view of their first operand, with the way back."""
_IF_IN_ORDER = frozenset(("contiguous", "reshape", "reshape_as", "flatten", "ravel"))
"""Those that give a copy where elements do not lie so that a view is possible."""
_SAME_TYPE = frozenset(
    ("to", "type_as", "__type_as", "as_tensor", "float", "double", "half", "bfloat16", "long", "int", "short", "char",
     "byte", "bool")
)  # fmt: skip
"""Those that give their operand where it is of the type already."""
_DROPOUT = frozenset(("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"))
"""Those that give their operand outside of training."""
_SAME_RANK = frozenset(("atleast_1d", "atleast_2d", "atleast_3d", "flatten"))
"""Those that give their operand itself where it has so many axes already."""
_OPERAND = frozenset(
    (*_SAME_TYPE, *_DROPOUT, "contiguous", "cpu", "cuda", "positive", "resolve_conj", "resolve_neg", "real", "conj")
)
"""Those that give their operand itself, if they give no copy."""
PARTS = frozenset(
    ("split", "chunk", "split_with_sizes", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "unsafe_split",
     "unsafe_chunk", "unsafe_split_with_sizes")
)  # fmt: skip
"""Operators that give several views, pieces one after the other along an axis."""
RESHAPED = frozenset(("unsqueeze", "squeeze", "transpose", "swapaxes", "swapdims", "t", "resize"))
"""Operators that in place change how a tensor is seen, and not its elements."""
_IN_ORDER = frozenset(
    ("matmul", "mm", "bmm", "addmm", "baddbmm", "linear", "layer_norm", "embedding", "zeros", "ones", "full", "arange")
)
"""Operators whose results lie in order, however their operands do."""


Seen = tuple[Layout | None, Again, Back]
"""How the elements of a view lie in memory, how it is read again, and how it is written back."""


def seen(
    ctx: TorchBuilder, name: str, below: Variable, args: Sequence[Any], named: Named, given: Named, result: Value
) -> Variable | None:
    """The result of an operator on ``below`` where it shares memory with that; else None. ``given``: named arguments,
    those too that handlers are not told of."""
    way = way_of(ctx, name, below, args, named, given, result)
    if way is None:
        return None
    layout, again, back = way
    possible: bool | None = True
    kept = name in _SAME_RANK and len(result.shape or ()) == below.rank
    if _other_order(name, args, given):
        possible, layout = _channels_last(below, layout)
    elif name in _IF_IN_ORDER and not kept:
        possible = below.in_order if name in ("contiguous", "ravel") else _possible(below, result)
    if possible:
        view = Variable(result, below, again, back).lies(layout)
        view.is_operand = name in _OPERAND or kept
        return view
    copy = Variable(result).lies(layout)
    if possible is None:
        copy.copied_from(below)
    return copy


def way_of(
    ctx: TorchBuilder, name: str, below: Variable, args: Sequence[Any], named: Named, given: Named, result: Value
) -> Seen | None:
    """How the result of an operator is seen in ``below``; None where it is no view."""
    way = _way(ctx, name, below, args, named, given, result)
    if way is None:
        return None

    def again(c: TorchBuilder, value: Value) -> Value:
        return apply(c, name, [value, *args], named)  # type: ignore[no-any-return]

    def back(c: TorchBuilder, value: Value, new: Value) -> Value:
        before, c.name = c.name, name
        found = way(c, value, new, *args, **named)
        c.name = before
        return found

    return _layout(ctx, name, below, args, named, result), again, back


def _way(
    ctx: TorchBuilder, name: str, below: Variable, args: Sequence[Any], named: Named, given: Named, result: Value
) -> Way | None:
    if name in _SAME_TYPE:
        flags = [a for a in args if isinstance(a, bool)]
        copies = bool(given.get("copy")) or (name == "to" and len(flags) > 1 and flags[1])
        return None if copies or result.dtype is not below.read(ctx).dtype else _same
    if name in _DROPOUT:
        return _same  # in training there is none
    return VIEWS.get(name)


def _other_order(name: str, args: Sequence[Any], given: Named) -> bool:
    """Whether an order of elements in memory is asked for: channels last."""
    numbers = [a for a in args if isinstance(a, int) and not isinstance(a, bool)]
    at = {"contiguous": 0, "to": 1}.get(name, len(numbers))
    return given.get("memory_format", numbers[-1] if numbers[at:] else None) in (2, 3)


def _channels_last(below: Variable, layout: Layout | None) -> tuple[bool | None, Layout | None]:
    """Whether elements lie so already that channels are behind all other axes; and how they lie then."""
    if layout is None or below.layout is None or len(layout.sizes) < 3:
        return None, None
    order = [0, *range(2, len(layout.sizes)), 1]
    back = [order.index(i) for i in range(len(order))]
    return below.layout.permuted(order).in_order, Layout.plain([layout.sizes[i] for i in order]).permuted(back)


def _possible(below: Variable, result: Value) -> bool | None:
    """Whether elements lie so that they can be seen in the sizes of ``result``."""
    if below.in_order:
        return True
    layout = below.layout
    if layout is None or result.shape is None:
        return None
    found = layout.viewed(result.shape)
    return bool(found) if found is not None else None


def fresh(name: str, result: Value, operands: Sequence[Variable]) -> Variable:
    """A tensor of its own. Its elements often lie as those of its operands do."""
    made = Variable(result)
    in_order = name in _IN_ORDER or all(o.in_order for o in operands)
    return made if in_order else made.lies(None)


def _layout(
    ctx: TorchBuilder, name: str, below: Variable, args: Sequence[Any], named: Named, result: Value
) -> Layout | None:
    """How the elements of a view lie in memory."""
    layout, sizes = below.layout, result.shape
    if layout is None or sizes is None:
        return None
    way = VIEWS.get(name)
    if name in ("contiguous", "ravel", "resize"):
        return Layout.plain(sizes)
    if name == "flatten" and len(sizes) == len(layout.sizes):
        return layout
    if way is _as_below:
        found = layout.viewed(sizes)
        return found if isinstance(found, Layout) else Layout.plain(sizes) if found is False else None
    if way is _ordered:
        ctx.name = name
        return layout.permuted(_order(ctx, len(layout.sizes), args, named)).resized(sizes)
    if way is _expanded:
        return layout.expanded(sizes)
    if name in ("slice", "narrow", "select"):
        axis = ctx.axis(below.read(ctx), int(args[0] if args else named.get("dim", 0)))
        if name == "select":
            return layout.without(axis).resized(sizes)
        step = named.get("step", args[3] if len(args) > 3 else 1) if name == "slice" else 1
        return layout.stepping(axis, step if isinstance(step, int) else None).resized(sizes)
    if name == "as_strided":
        return Layout(sizes, tuple(args[1] if len(args) > 1 else named["stride"]))
    return None if way in (_placed, _diagonal) else layout


def parts(
    ctx: TorchBuilder, name: str, below: Variable, args: Sequence[Any], named: Named, result: Sequence[Value]
) -> list[Variable]:
    """Pieces of a tensor, each a view of it."""
    axis = _axis_of_parts(ctx, name, below, args, named)
    out, start, known = [], 0, True
    for i, piece in enumerate(result):
        size = piece.shape[axis] if name != "unbind" and piece.shape is not None else 1
        known = known and isinstance(size, int)
        ways = _part(ctx, name, axis, i, start, int(size)) if known else _any_part(name, i, args, named)
        start += int(size) if known else 0
        layout = below.layout
        if layout is not None and piece.shape is not None:
            layout = (layout.without(axis) if name == "unbind" else layout).resized(piece.shape)
        out.append(Variable(piece, below, *ways).lies(layout))
    return out


def _axis_of_parts(ctx: TorchBuilder, name: str, below: Variable, args: Sequence[Any], named: Named) -> int:
    value = below.read(ctx)
    if name in ("hsplit", "vsplit", "dsplit"):
        return {"hsplit": min(1, ctx.rank_of(value) - 1), "vsplit": 0, "dsplit": 2}[name]
    at = 0 if name == "unbind" else 1
    return ctx.axis(value, args[at] if len(args) > at else named.get("dim", 0))


def _part(ctx: TorchBuilder, name: str, axis: int, index: int, start: int, size: int) -> tuple[Again, Back]:
    """How piece ``index``, at ``start`` of an axis, is read again and written back."""
    if name == "unbind":
        return (
            lambda c, below: apply(c, "select", [below, axis, index], {}),
            lambda c, below, new: select_scatter(c, below, new, axis, index),
        )
    return (
        lambda c, below: apply(c, "slice", [below, axis, start, start + size], {}),
        lambda c, below, new: slice_scatter(c, below, new, axis, start, start + size),
    )


def _any_part(name: str, index: int, args: Sequence[Any], named: Named) -> tuple[Again, Back]:
    """The same where sizes are known only when the model runs."""

    def again(c: TorchBuilder, below: Value) -> Value:
        return apply(c, name, [below, *args], named)[index]  # type: ignore[no-any-return]

    return again, lambda c, below, new: _put_back(c, below, new, lambda places: again(c, places), name)
