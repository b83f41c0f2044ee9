"""Writing elements at places, in forms that are made of others."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.frontends.torch.aten.reshaping import strided_places
from MNN.frontends.torch.aten.slicing import cut
from MNN.frontends.torch.builder import Operand, TorchBuilder
from MNN.frontends.torch.numbers import Number, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


@aten("put")
def put(ctx: TorchBuilder, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """At places of the tensor as one line."""
    flat, at, values = (ctx.reshape(v, [-1]) for v in (x, index, source))
    return ctx.reshape(apply(ctx, "index_put", [flat, [at], values, accumulate], {}), ctx.sizes(x))


@aten("index_reduce")
def index_reduce(
    ctx: TorchBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Slices of ``source`` combined with those that the index names."""
    rank = ctx.rank_of(x)
    if rank == 0:
        lines = [ctx.reshape(v, [1]) for v in (x, index, source)]
        return ctx.squeeze(index_reduce(ctx, lines[0], 0, lines[1], lines[2], reduce, include_self=include_self), 0)
    axis = ctx.axis(x, dim)
    raised = ctx.unsqueeze(ctx.reshape(index, [-1]), *[a for a in range(rank) if a != axis])
    places = apply(ctx, "expand_as", [raised, source], {})
    return apply(ctx, "scatter_reduce", [x, axis, places, source, reduce], {"include_self": include_self})  # type: ignore[no-any-return]


@aten("diagonal_scatter")
def diagonal_scatter(
    ctx: TorchBuilder, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """The diagonal replaced."""
    a, b = ctx.axis(x, dim1), ctx.axis(x, dim2)
    rest = [i for i in range(ctx.rank_of(x)) if i not in (a, b)]
    order = [a, b, *rest]
    steps = apply(ctx, "arange", [ctx.size(source, -1)], {})
    rows, columns = ctx.binary("ADD", steps, max(-offset, 0)), ctx.binary("ADD", steps, max(offset, 0))
    values = apply(ctx, "movedim", [source, -1, 0], {})
    out = apply(ctx, "index_put", [ctx.rows(x, order), [rows, columns], values], {})
    return ctx.rows(out, [order.index(i) for i in range(len(order))])


@aten("fill_diagonal")
def fill_diagonal(ctx: TorchBuilder, x: Value, fill_value: Scalar, wrap: bool = False) -> Value:
    """The main diagonal, of all axes at once, full of a number."""
    rank = ctx.rank_of(x)
    sizes = [ctx.known(n, "a size") for n in ctx.sizes(x)]
    if wrap and rank == 2 and sizes[0] > sizes[1] + 1:
        raise ctx.unsupported("diagonals that begin again below the last column (wrap)", "leave out wrap=True")
    steps = apply(ctx, "arange", [min(sizes)], {})
    return apply(ctx, "index_put", [x, [steps] * rank, ctx.scalar(fill_value, ctx.type_of(x))], {})  # type: ignore[no-any-return]


@aten("as_strided_scatter")
def as_strided_scatter(
    ctx: TorchBuilder, x: Value, source: Value, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Value:
    """Of a tensor whose elements lie in memory in their order."""
    places = ctx.const(strided_places(ctx, size, stride, storage_offset).reshape(-1))
    return put(ctx, x, places, source)


@aten("_unsafe_masked_index")
def masked_index(ctx: TorchBuilder, x: Value, mask: Value, indices: Sequence[Value | None], fill: Scalar) -> Value:
    """Indexing where the mask is true, a number elsewhere, where indices may lie outside."""
    inside = _within(ctx, x, indices)
    return apply(ctx, "where", [mask, apply(ctx, "index", [x, inside], {}), ctx.scalar(fill, ctx.type_of(x))], {})  # type: ignore[no-any-return]


@aten("_unsafe_masked_index_put_accumulate")
def masked_index_put(ctx: TorchBuilder, x: Value, mask: Value, indices: Sequence[Value | None], values: Value) -> Value:
    """Adds values where the mask is true."""
    added = apply(ctx, "where", [mask, values, ctx.scalar(0, ctx.type_of(values))], {})
    return apply(ctx, "index_put", [x, _within(ctx, x, indices), added, True], {})  # type: ignore[no-any-return]


def _within(ctx: TorchBuilder, x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices brought into their axes."""
    out: list[Value | None] = []
    for axis, given in enumerate(indices):
        if given is None or given.dtype is DType.BOOL:
            out.append(given)
            continue
        size = ctx.scalar(ctx.size(x, axis), DType.I64)
        low = ctx.unary("NEG", size) if isinstance(ctx.size(x, axis), Number) else -ctx.known(ctx.size(x, axis), "size")
        out.append(apply(ctx, "clamp", [given], {"min": low, "max": ctx.binary("SUB", size, 1)}))
    return out


@aten("nonzero_static")
def nonzero_static(ctx: TorchBuilder, x: Value, *, size: int, fill_value: int = -1) -> Value:
    """Places of what is not zero, in so many rows; those left over hold ``fill_value``."""
    rank = ctx.rank_of(x)
    found = apply(ctx, "nonzero", [x], {})
    blank = apply(ctx, "full", [[size, rank], fill_value], {"dtype": DType.I64})
    return cut(ctx, apply(ctx, "cat", [[found, blank], 0], {}), 0, 0, size)


@aten("block_diag")
def block_diag(ctx: TorchBuilder, tensors: list[Value]) -> Value:
    """Matrices along the diagonal of one; others are rows."""
    blocks = [ctx.reshape(t, [*[1] * (2 - ctx.rank_of(t)), *ctx.sizes(t)]) for t in tensors]
    kind = ctx.common(*blocks)
    widths = [ctx.size(b, 1) for b in blocks]
    rows = []
    for i, block in enumerate(blocks):
        parts: list[Operand] = [
            ctx.cast(block, kind) if i == j else apply(ctx, "zeros", [[ctx.size(block, 0), width]], {"dtype": kind})
            for j, width in enumerate(widths)
        ]
        rows.append(apply(ctx, "cat", [parts, 1], {}))
    return apply(ctx, "cat", [rows, 0], {})  # type: ignore[no-any-return]
