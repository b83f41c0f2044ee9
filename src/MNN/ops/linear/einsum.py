"""Einstein summation as permutations, matrix products and sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, wide
from MNN.ops.inference import infer


@register("Einsum")
class Einsum(Operator):
    """``equation`` as in numpy, with ellipses; the output is sorted by label when it is not written."""

    in_mnn = False
    attributes = {"equation": ""}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        operands = [operand(b, inputs, i) for i in range(len(inputs))]
        terms, out = parse(b.where, self.str_attr(node, "equation"), [t.rank for t in operands])
        dtype = operands[0].dtype
        sizes: dict[str, int] = {}
        for term, t in zip(terms, operands, strict=True):
            for label, size in zip(term, t.shape, strict=True):
                if sizes.setdefault(label, size) != size and 1 not in (size, sizes[label]):
                    raise ShapeError(f"{b.where}: label '{label}' has sizes {sizes[label]} and {size}")
                sizes[label] = max(sizes[label], size) if size != 0 else 0
        done = [_diagonal(b, wide(b, t), term) for term, t in zip(terms, operands, strict=True)]
        while len(done) > 1:
            (x, a), (y, z), rest = done[0], done[1], done[2:]
            later = set(out).union(*(term for _, term in rest))
            done = [_contract(b, x, a, y, z, later, sizes), *rest]
        x, term = done[0]
        x, term = _sum_out(b, x, term, set(out))
        x = b.permute(x, [term.index(label) for label in out])
        x = b.expand(x, [sizes[label] for label in out])
        return [b.cast(x, dtype)]


def parse(where: str, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Labels per operand and of the result; the axes of an ellipsis become labels of their own."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise ShapeError(f"{where}: equation '{equation}' has {len(parts)} operands, the node {len(ranks)}")
    spare = max([r - len(p.replace("...", "")) for p, r in zip(parts, ranks, strict=True) if "..." in p], default=0)
    dots = [chr(0x391 + i) for i in range(max(spare, 0))]  # Greek letters: they cannot be in the equation
    terms = []
    for part, rank in zip(parts, ranks, strict=True):
        named = part.replace("...", "", 1)
        count = rank - len(named) if "..." in part else 0
        term = part.replace("...", "".join(dots[len(dots) - count :]) if count > 0 else "", 1)
        if count < 0 or len(term) != rank or any(not ("a" <= c.lower() <= "z") for c in named):
            raise ShapeError(f"{where}: '{part}' of equation '{equation}' does not fit an operand of rank {rank}")
        terms.append(term)
    if arrow:
        out = right.replace("...", "".join(dots), 1)
    else:
        joined = "".join(terms)
        out = "".join(dots) + "".join(sorted(c for c in set(joined) - set(dots) if joined.count(c) == 1))
    if len(set(out)) != len(out) or any(c not in "".join(terms) for c in out):
        raise ShapeError(f"{where}: '{right}' is no result of equation '{equation}'")
    return terms, out


def _diagonal(b: Builder, x: Tensor, term: str) -> tuple[Tensor, str]:
    """Labels that occur twice in one operand select its diagonal."""
    for label in dict.fromkeys(term):
        while term.count(label) > 1:
            first = term.index(label)
            second = term.index(label, first + 1)
            size = x.shape[first]
            if x.shape[second] != size:
                raise ShapeError(f"{b.where}: label '{label}' has sizes {size} and {x.shape[second]}")
            shape = [d for i, d in enumerate(x.shape) if i != second]
            line = b.const(np.arange(size).reshape([size if i == first else 1 for i in range(len(shape))]), DType.I64)
            walk = [-1 if d in (first, second) else d if d < second else d - 1 for d in range(x.rank)]
            x = b.gather(x, [line, line], [first, second], walk, shape)
            term = term[:second] + term[second + 1 :]
    return x, term


def _sum_out(b: Builder, x: Tensor, term: str, kept: set[str]) -> tuple[Tensor, str]:
    axes = [i for i, label in enumerate(term) if label not in kept]
    return b.reduce("sum", x, axes, keepdims=False), "".join(label for label in term if label in kept)


def _contract(
    b: Builder, x: Tensor, a: str, y: Tensor, z: str, later: set[str], sizes: dict[str, int]
) -> tuple[Tensor, str]:
    """One matrix product of two operands; labels that nothing later needs are summed over."""
    x, a = _sum_out(b, x, a, later | set(z))
    y, z = _sum_out(b, y, z, later | set(a))
    batch = [c for c in a if c in z and c in later]
    inner = [c for c in a if c in z and c not in later]
    rows, columns = [c for c in a if c not in z], [c for c in z if c not in a]

    def arrange(t: Tensor, term: str, order: Sequence[str], groups: Sequence[Sequence[str]]) -> Tensor:
        t = b.permute(t, [term.index(c) for c in order])
        t = b.expand(t, [sizes[c] for c in order])
        return b.reshape(t, [elements([sizes[c] for c in g]) for g in groups])

    left = arrange(x, a, [*batch, *rows, *inner], [batch, rows, inner])
    right = arrange(y, z, [*batch, *inner, *columns], [batch, inner, columns])
    if not inner and not rows:
        product = b.op("mul", b.reshape(left, (left.shape[0], 1, 1)), right)
    elif not inner and not columns:
        product = b.op("mul", left, b.reshape(right, (right.shape[0], 1, 1)))
    else:
        product = b.cast(b.matmul(left, right), x.dtype)
    order = [*batch, *rows, *columns]
    return b.reshape(product, [sizes[c] for c in order]), "".join(order)


@register("Det")
class Det(Operator):
    """The determinant of the matrices in the last two axes."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        if x.rank < 2 or x.shape[-1] != x.shape[-2] or not x.dtype.is_float:
            raise ShapeError(f"{b.where}: needs square matrices of floats, found {x}")
        w = wide(b, x)
        out = b.host("det", lambda a: [np.linalg.det(a[0])], [w], (w.dtype, x.shape[:-2]))[0]
        return [b.cast(out, x.dtype)]


@infer.rule(Einsum)
def _infer_einsum(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    equation = str(node.attrs.get("equation", ""))
    shapes = [infer.sizes(infer.operand(node, i)) for i in range(len(node.inputs))]
    dtype = infer.operand(node, 0).dtype
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return [(dtype, None)]
    try:
        terms, out = parse(node.name, equation, [len(s) for s in known])
    except ShapeError:
        return [(dtype, None)]  # lowering says what is wrong
    found: dict[str, symbolic.Size | None] = {}
    for term, shape in zip(terms, known, strict=True):
        for label, size in zip(term, shape, strict=True):
            if found.get(label, 1) == 1:  # others are broadcast
                found[label] = size
    return [(dtype, tuple(found[label] for label in out))]
