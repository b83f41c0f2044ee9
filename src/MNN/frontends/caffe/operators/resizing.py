"""Linear interpolation between corners (DeepLab's and PSPNet's Interp)."""

from __future__ import annotations

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.operators.convolution import MAX_WINDOW
from MNN.frontends.caffe.registry import caffe_layer
from MNN.ir.graph import Value


@caffe_layer("Interp")
def interp(ctx: Context, node: CaffeNode) -> Value:
    """To given sizes, to those of a second blob, or by whole factors of the distances between pixels; pads of zero or
    less crop the blob before."""
    param, x = node.params("interp_param"), node.input(0)
    begin, end = param.integer("pad_beg", 0), param.integer("pad_end", 0)
    sizes = [node.size(2) + begin + end, node.size(3) + begin + end]
    if begin > 0 or end > 0 or min(sizes) < 1:
        raise node.malformed(f"pads {begin} and {end}, expected numbers of 0 or less that leave something")
    shrink, zoom = param.integer("shrink_factor", 1), param.integer("zoom_factor", 1)
    height, width = param.integer("height", 0), param.integer("width", 0)
    if begin or end:
        x = ctx.op("SliceTf", x, ctx.const([0, 0, -begin, -begin]), ctx.const([-1, -1, *sizes]))
    if len(node.inputs) > 1:
        wanted = [node.size(2, 1), node.size(3, 1)]
    elif height or width:
        wanted = [height, width]
    else:
        if min(shrink, zoom) < 1 or max(shrink, zoom) > MAX_WINDOW:
            raise node.malformed(f"a shrink factor of {shrink} and a zoom factor of {zoom}")
        wanted = [(n - 1) // shrink + 1 for n in sizes]
        wanted = [n + (n - 1) * (zoom - 1) for n in wanted]
    if min(wanted) < 1:
        raise node.malformed(f"sizes {wanted}")
    return ctx.op(
        "Interp", x, outputHeight=wanted[0], outputWidth=wanted[1], resizeType=2, alignCorners=True, ctm="AlignCorners"
    )
