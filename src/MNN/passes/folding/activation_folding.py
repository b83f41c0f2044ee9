"""ReLU and ReLU6 become flags of the convolution before them."""

from __future__ import annotations

from MNN.ir.graph import Graph, Node
from MNN.ops.core.base import traits
from MNN.ops.linear.convolution import BaseConvolution
from MNN.passes.folding.affine import attribute_true
from MNN.passes.manager import Pass
from MNN.passes.rewrite import Rewriter

_FLAGS = {(0.0, float("inf")): "relu", (0.0, 6.0): "relu6"}


def run(graph: Graph) -> int:
    """Only where nothing else uses the convolution's result, and for the plain forms that the flags stand for."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        flag = _flag(node)
        x = node.inputs[0] if node.inputs else None
        conv = rw.maker(x)
        if (
            flag is None
            or x is None
            or conv is None
            or not isinstance(traits(conv), BaseConvolution)
            or not rw.used_once(x)
        ):
            continue
        rw.absorb(node, x)
        if not attribute_true(conv, "relu6"):
            # ReLU6 after ReLU is ReLU6; any of them after ReLU6 changes nothing
            conv.attrs.pop("relu", None)
            conv.attrs[flag] = True
    return rw.finish()


def _flag(node: Node) -> str | None:
    bounds = traits(node).bounds(node)
    return None if bounds is None else _FLAGS.get(bounds)


PASS = Pass("activation-folding", run, rank=46)
