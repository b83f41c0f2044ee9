"""Recognises layer normalisation as TensorFlow and Keras spell it: ``x * s + (beta - mean * s)``, where ``s`` is the
scale over the root of the variance, and the variance a mean of squared differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.patterns import FLOATS, binary, keeps_rank, scalar, sides, unary, with_constant
from MNN.passes.recognising.layer_norm import trailing_mean, trailing_sizes, vector_of
from MNN.passes.rewrite import Rewriter


@dataclass
class Found:
    """``end`` gives the result; ``gamma`` and ``beta`` are None where there are none."""

    x: Value
    end: Node
    inside: list[Node]
    count: int
    epsilon: float
    gamma: np.ndarray | None
    beta: np.ndarray | None


def run(graph: Graph) -> int:
    rw = Rewriter(graph)
    for root in [n for n in rw.nodes() if unary(n, "RSQRT")]:
        found = _find(rw, root)
        if found is None:
            continue
        base, sizes = found.end.outputs[0].name, trailing_sizes(found.x, found.count)
        gamma = found.gamma
        if gamma is None and found.beta is not None and sizes is not None:
            gamma = np.ones(sizes, np.float32)
        operands: list[Value | None] = [found.x]
        operands += [
            rw.constant(f"{base}/{role}", v) for role, v in (("gamma", gamma), ("beta", found.beta)) if v is not None
        ]
        attrs: dict[str, object] = {"axis": list(range(-found.count, 0)), "epsilon": found.epsilon}
        rw.swap(found.end, Node("LayerNorm", found.end.name, operands, found.end.outputs, attrs))
        for node in found.inside:
            rw.remove(node)
    return rw.finish()


def _find(rw: Rewriter, root: Node) -> Found | None:
    add = rw.maker(root.inputs[0])
    parts = with_constant(add) if add is not None and binary(add, "ADD") else None
    epsilon = scalar(parts[1]) if parts is not None and keeps_rank(parts[1], parts[0]) else None
    variance = rw.made_by(parts[0], "Reduction") if parts is not None else None
    square = rw.maker(variance.inputs[0]) if variance is not None else None
    if add is None or variance is None or square is None or epsilon is None or epsilon < 0:
        return None
    if not binary(square, "SquaredDifference"):
        return None
    x, middle = sides(square)
    mean = rw.made_by(middle, "Reduction")
    count = trailing_mean(variance)
    if (
        mean is None
        or count is None
        or mean.inputs[0] is not x
        or trailing_mean(mean) != count
        or x.dtype not in FLOATS
    ):
        return None
    inside = [add, variance, square, mean, root]
    scale, gamma = root, None
    user = rw.only_user(root.outputs[0])
    if user is not None and (gamma := vector_of(user, root, x, count)) is not None and binary(user, "MUL"):
        scale = user
        inside.append(user)
    factor = scale.outputs[0]
    products = list(dict.fromkeys(rw.users(factor)))
    if len(products) != 2 or rw.is_output(factor) or not all(binary(p, "MUL") for p in products):
        return None
    scaled = next((p for p in products if set(sides(p)) == {x, factor}), None)
    shift = next((p for p in products if p is not scaled), None)
    if scaled is None or shift is None:
        return None
    inside += [scaled, shift]
    other = next((v for v in sides(shift) if v is not factor), factor)
    negated = rw.maker(other)
    less = negated is not None and unary(negated, "NEG") and negated.inputs[0] is middle
    if less and negated is not None:
        inside.append(negated)
    elif other is not middle:
        return None
    found = _end(rw, scaled, shift, less, x, count)
    if found is None:
        return None
    end, between, beta = found
    inside += between
    if any(not rw.within(n.outputs[0], [*inside, end]) for n in inside):
        return None
    return Found(x, end, inside, count, epsilon, gamma, beta)


def _end(
    rw: Rewriter, scaled: Node, shift: Node, less: bool, x: Value, count: int
) -> tuple[Node, list[Node], np.ndarray | None] | None:
    """The sum of both products, what lies in front of it, and what is added besides. ``less``: the mean is negative
    in ``shift`` already."""
    user = rw.only_user(shift.outputs[0])
    if user is None:
        return None
    made = {scaled.outputs[0], shift.outputs[0]}
    if set(sides(user)) == made and binary(user, "ADD" if less else "SUB"):
        if not less and sides(user)[0] is not scaled.outputs[0]:
            return None
        after = rw.only_user(user.outputs[0])
        beta = vector_of(after, user, x, count) if after is not None and binary(after, "ADD") else None
        return (user, [], None) if after is None or beta is None else (after, [user], beta)
    beta = vector_of(user, shift, x, count)
    if beta is None or not binary(user, "ADD" if less else "SUB"):
        return None
    if not less and sides(user)[1] is not shift.outputs[0]:
        return None
    end = rw.only_user(user.outputs[0])
    if end is None or not binary(end, "ADD") or set(sides(end)) != {scaled.outputs[0], user.outputs[0]}:
        return None
    return end, [user], beta


PASS = Pass("scaled-layer-norm", run, rank=41)
