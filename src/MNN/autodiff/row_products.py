"""Products over rows, which gradients of matrices are."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder

ROWS = 2048
"""Rows of a product over rows that are added up at a time."""


def transposed(b: Builder, x: Tensor) -> Tensor:
    """The last two axes exchanged."""
    return b.permute(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def row_product(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """``x.T @ y`` of matrices with as many rows. Of very many rows, a few thousand at a time: panels of all of them
    would not stay in cache."""
    rows = x.shape[0]
    parts = next((n for n in range(max(-(-rows // ROWS), 1), 129) if rows % n == 0), 1) if type(rows) is int else 1
    if parts <= 1:
        return b.matmul(transposed(b, x), y)
    split = [b.reshape(t, (parts, rows // parts, t.shape[1])) for t in (x, y)]
    return b.reduce("sum", b.matmul(transposed(b, split[0]), split[1]), [0], keepdims=False)


def joined_products(b: Builder, parts: Sequence[Tensor]) -> list[Tensor]:
    """The same sum of fewer tensors: products over few rows, such as steps of a sequence give for the matrix that all
    of them are multiplied with, are one product over all rows. Apart, what is found so far is read and written for
    each."""
    others: list[Tensor] = []
    alike: dict[tuple[object, ...], list[Tensor]] = {}
    for part in parts:
        kind = _few_rows(part)
        (others if kind is None else alike.setdefault(kind, [])).append(part)
    return [*others, *(_one_product(b, some) if len(some) > 1 else some[0] for some in alike.values())]


def _few_rows(part: Tensor) -> tuple[object, ...] | None:
    """What products that may be joined have in common: the views behind them, and their sizes; None where a tensor is
    none, or has so many rows that to copy them takes longer than to add products up."""
    maker = part.producer
    if isinstance(maker, (p.Reshape, p.Permute)):
        inner = _few_rows(maker.inputs[0])
        return None if inner is None else (getattr(maker, "perm", None), part.shape, part.dtype, *inner)
    if not isinstance(maker, p.MatMul) or not all(type(n) is int for t in maker.inputs for n in t.shape):
        return None
    (*outer, m, k), (*others, _, n) = (t.shape for t in maker.inputs)
    return (part.dtype, *outer, m, n) if outer == others and k * (m + n) < m * n else None


def _one_product(b: Builder, parts: Sequence[Tensor]) -> Tensor:
    """The sum of products that have :func:`_few_rows` in common."""
    makers, view = [t.producer for t in parts], parts[0].producer
    if isinstance(view, (p.Reshape, p.Permute)):
        whole = _one_product(b, [m.inputs[0] for m in makers if m is not None])
        return b.reshape(whole, parts[0].shape) if isinstance(view, p.Reshape) else b.permute(whole, view.perm)
    rows = [transposed(b, m.inputs[0]) for m in makers if m is not None]
    x, y = (b.concat(some, parts[0].rank - 2) for some in (rows, [m.inputs[1] for m in makers if m is not None]))
    return row_product(b, x, y) if x.rank == 2 else b.matmul(transposed(b, x), y)


__all__ = ["ROWS", "joined_products", "row_product", "transposed"]
