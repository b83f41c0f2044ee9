"""Recognises layer normalisation (Ba et al. 2016, arXiv:1607.06450), also without the mean (Zhang & Sennrich 2019,
arXiv:1910.07467)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import elements, static
from MNN.passes.manager import Pass
from MNN.passes.patterns import (
    FLOATS,
    attribute,
    binary,
    floats,
    ints,
    keeps_rank,
    rank,
    scalar,
    sides,
    unary,
    with_constant,
)
from MNN.passes.rewrite import Rewriter


@dataclass
class Found:
    """The parts of a normalisation: ``y = x' / root`` or ``x' * root``, x' being x or x minus its mean."""

    x: Value
    end: Node
    inside: list[Node]
    count: int
    epsilon: float
    centred: bool


def run(graph: Graph) -> int:
    """Over the last axes, with the mean of squares taken of what is normalised; a scale and shift after it go along."""
    rw = Rewriter(graph)
    for root in [n for n in rw.nodes() if unary(n, "SQRT", "RSQRT")]:
        if rw.maker(root.outputs[0]) is not root:
            continue
        found = _find(rw, root)
        if found is not None:
            _replace(rw, found)
    return rw.finish()


def _find(rw: Rewriter, root: Node) -> Found | None:
    add = rw.maker(root.inputs[0])
    if add is None or not binary(add, "ADD"):
        return None
    parts = with_constant(add)
    epsilon = scalar(parts[1]) if parts is not None and keeps_rank(parts[1], parts[0]) else None
    variance = rw.made_by(parts[0], "Reduction") if parts is not None else None
    if variance is None or epsilon is None or epsilon < 0:
        return None
    square = rw.maker(variance.inputs[0])
    base = _squared(square)
    count = trailing_mean(variance)
    end, between = _end(rw, root)
    if square is None or base is None or count is None or end is None:
        return None
    inside = [add, variance, square, root, *between, end]
    centre = rw.maker(base)
    x, centred = base, False
    if centre is not None and binary(centre, "SUB"):
        first, mean = sides(centre)
        averaging = rw.made_by(mean, "Reduction")
        if averaging is not None and averaging.inputs[0] is first and trailing_mean(averaging) == count:
            x, centred = first, True
            inside += [centre, averaging]
    if not _divides(end, base, root, between) or x.dtype not in FLOATS:
        return None
    if any(not rw.within(n.outputs[0], inside) for n in inside if n is not end):
        return None
    return Found(x, end, inside, count, epsilon, centred)


def _squared(node: Node | None) -> Value | None:
    """What a node squares."""
    if node is None:
        return None
    if unary(node, "SQUARE"):
        return node.inputs[0]
    if binary(node, "MUL") and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    if binary(node, "POW") and scalar(node.inputs[1]) == 2.0:
        x, two = sides(node)
        return x if keeps_rank(two, x) else None
    return None


def trailing_mean(node: Node) -> int | None:
    """Over how many of the last axes a Reduction averages, keeping them as sizes of 1."""
    x = node.inputs[0]
    found = rank(x) if x is not None else None
    dims = ints(node.inputs[1]) if len(node.inputs) > 1 else node.attrs.get("dim")
    if (
        attribute(node, "operation") != "MEAN"
        or not attribute(node, "keepDims")
        or not isinstance(dims, list)
        or not dims
    ):
        return None
    if found is None:
        return len(dims) if sorted(int(d) for d in dims) == list(range(-len(dims), 0)) else None
    axes = sorted({int(d) + found if int(d) < 0 else int(d) for d in dims})
    return len(axes) if axes == list(range(found - len(axes), found)) else None


def _end(rw: Rewriter, root: Node) -> tuple[Node | None, list[Node]]:
    """The product or quotient that uses the root, and what inverts it in between."""
    user = rw.only_user(root.outputs[0])
    if user is not None and unary(root, "SQRT") and unary(user, "RECIPROCAL"):
        return rw.only_user(user.outputs[0]), [user]
    if user is not None and unary(root, "SQRT") and binary(user, "DIV", "REALDIV"):
        top, below = sides(user)
        if scalar(top) == 1.0 and below is root.outputs[0]:
            return rw.only_user(user.outputs[0]), [user]
    return user, []


def _divides(end: Node, base: Value, root: Node, between: list[Node]) -> bool:
    factor = between[-1].outputs[0] if between else root.outputs[0]
    if between or unary(root, "RSQRT"):
        return binary(end, "MUL") and set(sides(end)) == {base, factor}
    return binary(end, "DIV", "REALDIV") and sides(end) == (base, factor)


def _replace(rw: Rewriter, found: Found) -> None:
    sizes = trailing_sizes(found.x, found.count)
    gamma, beta, end, inside = None, None, found.end, list(found.inside)
    after = rw.only_user(end.outputs[0])
    if after is not None and binary(after, "MUL") and (gamma := _vector(after, end, sizes)) is not None:
        inside.append(after)
        end = after
        after = rw.only_user(end.outputs[0])
    if after is not None and binary(after, "ADD") and (beta := _vector(after, end, sizes)) is not None:
        inside.append(after)
        end = after
    base = end.outputs[0].name
    operands: list[Value | None] = [found.x]
    if gamma is None and beta is not None:
        gamma = np.ones_like(beta)
    operands += [rw.constant(f"{base}/{r}", v) for r, v in (("gamma", gamma), ("beta", beta)) if v is not None]
    attrs: dict[str, object] = {"axis": list(range(-found.count, 0)), "epsilon": found.epsilon}
    if not found.centred:
        attrs["useRMSNorm"] = True
    rw.swap(end, Node("LayerNorm", end.name, operands, end.outputs, attrs))
    for node in inside:
        if node is not end:
            rw.remove(node)


def trailing_sizes(x: Value, count: int) -> tuple[int, ...] | None:
    """The sizes of the last axes, where they are known."""
    return static(None if x.shape is None else x.shape[len(x.shape) - count :])


def vector_of(node: Node, before: Node, x: Value, count: int) -> np.ndarray | None:
    """What a node takes besides ``before``, where that is one constant number for each element of ``x``'s last axes."""
    parts, sizes = with_constant(node), trailing_sizes(x, count)
    if parts is None or parts[0] is not before.outputs[0] or sizes is None or not keeps_rank(parts[1], x):
        return None
    return _fitting(floats(parts[1]), sizes)


def _fitting(data: np.ndarray | None, sizes: tuple[int, ...]) -> np.ndarray | None:
    if data is None or data.size != elements(sizes):
        return None
    padded = (1,) * (len(sizes) - data.ndim) + data.shape
    return data.reshape(sizes) if padded[len(padded) - len(sizes) :] == sizes else None


def _vector(node: Node, before: Node, sizes: tuple[int, ...] | None) -> np.ndarray | None:
    """The constant operand, when it has one number per normalised element."""
    parts = with_constant(node)
    if parts is None or parts[0] is not before.outputs[0] or sizes is None:
        return None
    return _fitting(floats(parts[1]), sizes) if keeps_rank(parts[1], parts[0]) else None


PASS = Pass("layer-norm", run, rank=40)
