"""Convolutions of blocks that lie in the batch, as dilated convolutions.

TensorFlow's graphs have a dilated convolution as three operators: places within each block go to the batch, a
convolution with no dilation, and the way back (Yu and Koltun 2016, arXiv:1511.07122, has the equivalence).
"""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, ints, own_padding
from MNN.passes.rewrite import Rewriter

Geometry = tuple[list[int], list[int]]
"""The block (h, w), and borders: begins (h, w), then ends."""


def run(graph: Graph) -> int:
    """Blocks of known sizes between which there is nothing but a convolution with strides of 1. Borders before it count
    as padding, those of the way back as less of it."""
    rw = Rewriter(graph)
    for node in [n for n in rw.nodes() if n.op == "BatchToSpaceND"]:
        conv = rw.made_by(node.inputs[0], "Convolution", "ConvolutionDepthwise")
        blocks = None if conv is None else rw.made_by(conv.inputs[0], "SpaceToBatchND")
        if conv is None or blocks is None or not rw.used_once(conv.outputs[0]):
            continue
        attrs = _dilated(conv, _geometry(blocks), _geometry(node))
        if attrs is not None:
            operands = [blocks.inputs[0], *conv.inputs[1:]]
            rw.swap(node, Node(conv.op, conv.name, operands, [node.outputs[0]], attrs))
            rw.remove(conv)
            if not rw.users(blocks.outputs[0]) and not rw.is_output(blocks.outputs[0]):
                rw.remove(blocks)
    return rw.finish()


def _geometry(node: Node) -> Geometry | None:
    """None where it is computed."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        block, border = ints(node.inputs[1]), ints(node.inputs[2]) if len(node.inputs) > 2 else None
    else:
        given = [attribute(node, key) for key in ("blockShape", "padding")]
        block, border = ([] if v is None else [int(n) for n in np.asarray(v).reshape(-1)] for v in given)
    if not block or border is None or len(block) > 2 or len(border) != 2 * len(block):
        return None
    rest = 2 - len(block)  # a line of blocks is along the first axis
    block, border = [*block, *[1] * rest], [*border, *[0, 0] * rest]
    return block, border[::2] + border[1::2]


def _dilated(conv: Node, there: Geometry | None, back: Geometry | None) -> dict[str, object] | None:
    """The attributes of the convolution on the whole picture, if there is one."""
    own = own_padding(conv, "padMode", 2)
    strided = any(int(attribute(conv, key)) != 1 for key in ("strideX", "strideY"))
    if own is None or strided or there is None or back is None or there[0] != back[0]:
        return None
    block = there[0]
    sides = zip(own, there[1], back[1], block * 2, strict=True)
    pads = [before + step * inside - behind for inside, before, behind, step in sides]
    if min(pads) < 0:
        return None
    attrs = {key: value for key, value in conv.attrs.items() if key not in ("padX", "padY")}
    dilations = {key: int(attribute(conv, key)) * step for key, step in zip(("dilateY", "dilateX"), block, strict=True)}
    return attrs | dilations | {"pads": pads, "padMode": "CAFFE"}


PASS = Pass("dilation", run, rank=29)
