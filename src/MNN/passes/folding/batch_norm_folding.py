"""Batch normalisation goes into the convolution before it; elsewhere it becomes a scale and a shift per channel."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.folding import affine
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, constants_type, rank
from MNN.passes.rewrite import Rewriter


def run(graph: Graph) -> int:
    """BatchNorm with constant statistics, and Scale, after a linear operator with constant weights."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        x = node.inputs[0] if node.inputs else None
        factors = _factors(node) if x is not None and node.op in ("BatchNorm", "Scale") else None
        if factors is None or x is None:
            continue
        scale, shift = factors
        target = affine.linear(rw, x)
        # a matrix product's channels are the last axis, a normalisation's the second
        fits = target is not None and target.axis == 1 and scale.size in (1, target.channels)
        if target is not None and fits:
            wide = (np.broadcast_to(v, (target.channels,)) for v in (scale, shift))
            if affine.fold(rw, node, x, *wide):
                continue
        if node.op == "BatchNorm":
            _as_scale(rw, node, x, scale, shift)
    return rw.finish()


def _factors(node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """Scale and shift in float64."""
    vectors = [affine.vector(v) for v in node.inputs[1:]]
    known = [v for v in vectors if v is not None]
    if len(known) < len(vectors) or not known:
        return None
    if node.op == "Scale":
        return known[0], known[1] if len(known) > 1 else np.zeros_like(known[0])
    if len(known) != 4:
        return None
    slope, bias, mean, var = known
    with np.errstate(all="ignore"):
        scale = slope / np.sqrt(var + float(attribute(node, "epsilon")))
        shift = bias - mean * scale
    finite = bool(np.all(np.isfinite(scale)) and np.all(np.isfinite(shift)))
    return (scale, shift) if finite else None


def _as_scale(rw: Rewriter, node: Node, x: Value, scale: np.ndarray, shift: np.ndarray) -> None:
    found = rank(x)
    numbers = [affine.rounded(v, constants_type(x)) for v in (scale, shift)]
    if found is None or found < 2 or scale.size != shift.size or any(v is None for v in numbers):
        return
    base = node.outputs[0].name
    roles = zip(("scale", "shift"), numbers, strict=True)
    made = [rw.constant(f"{base}/{role}", v) for role, v in roles if v is not None]
    attrs: dict[str, object] = {"channels": int(scale.size)}
    rw.swap(node, Node("Scale", node.name, [x, *made], node.outputs, attrs))


PASS = Pass("batch-norm-folding", run, rank=30)
