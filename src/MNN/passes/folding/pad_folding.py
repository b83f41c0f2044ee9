"""Padding with zeros, or what stands for zero, in front of a convolution or pooling becomes its own padding."""

from __future__ import annotations

from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.ops.linear.convolution import Convolution
from MNN.ops.quantized.convolution import QuantizedConvolution
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, ints, own_padding, plain, rank, scalar
from MNN.passes.rewrite import Rewriter


def run(graph: Graph) -> int:
    """A constant border of the spatial axes alone, used by nothing else.

    Pooling: averages that count the padding take zeros; maxima take minus infinity, or zeros where no element can be
    negative and every window reaches the picture.
    """
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        user = rw.only_user(node.outputs[0]) if node.op == "Padding" else None
        x = node.inputs[0] if node.inputs else None
        if user is None or x is None or [v is node.outputs[0] for v in user.inputs].index(True) != 0:
            continue
        if not rw.used_once(node.outputs[0]):
            continue
        kind = traits(user)
        spatial = _spatial(user)
        border = _border(node, spatial) if spatial else None
        value = _value(node)
        if border is None or value is None:
            continue
        key = "padType" if user.op == "Pooling" else "padMode"
        own = own_padding(user, key, spatial)
        if isinstance(kind, Convolution):
            fits = value == 0.0
        elif isinstance(kind, QuantizedConvolution):
            fits = value == _zero_point(user)
        else:
            fits = own is not None and _pools(rw, user, x, value, border, own)
        if own is None or not fits or not rw.bypass(node, x):
            continue
        total = [a + b for a, b in zip(own, border, strict=True)]
        user.attrs[key] = "CAFFE"
        user.attrs["pads"] = total
        for name in ("padX", "padY"):
            user.attrs.pop(name, None)
        if user.op == "Pooling" and attribute(user, "type") == "AVEPOOL":
            user.attrs["countType"] = "INCLUDE_PADDING"
    return rw.finish()


def _spatial(node: Node) -> int:
    """The spatial axes of a node that can pad by itself, 0 for others."""
    kind = traits(node)
    if isinstance(kind, QuantizedConvolution):
        known = [rank(v) for v in (node.inputs[0], node.outputs[0]) if v is not None]
        return max((found - 2 for found in known if found is not None), default=0)
    return kind.spatial if isinstance(kind, Convolution) else 2 if node.op == "Pooling" else 0


def _zero_point(node: Node) -> float | None:
    """What stands for zero in the left operand of a quantised node."""
    at = traits(node).zero_points[0]
    given = node.inputs[at] if at < len(node.inputs) else None
    return 0.0 if given is None else scalar(given)


def _border(node: Node, spatial: int) -> list[int] | None:
    """Begins, then ends of the spatial axes; None when other axes are padded, or something is cropped."""
    pads = ints(node.inputs[1]) if len(node.inputs) > 1 else None
    if attribute(node, "mode") != "CONSTANT" or pads is None or len(pads) != 2 * (spatial + 2):
        return None
    if any(pads[:4]) or any(p < 0 for p in pads):
        return None
    return pads[4::2] + pads[5::2]


def _value(node: Node) -> float | None:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return 0.0
    return scalar(node.inputs[2])


def _pools(rw: Rewriter, node: Node, x: Value, value: float, border: list[int], own: list[int]) -> bool:
    if attribute(node, "isGlobal") or attribute(node, "ceilModel"):
        return False
    if attribute(node, "type") == "AVEPOOL":
        # padding of its own that is left out of the average stays apart from this one, which counts
        counts = attribute(node, "countType")
        return value == 0.0 and (not any(own) or counts == "INCLUDE_PADDING")
    kernel = [int(attribute(node, "kernelY")), int(attribute(node, "kernelX"))]
    reaches = all(b + o < k for b, o, k in zip(border, own, [*kernel, *kernel], strict=True))
    if value == float("-inf"):
        return reaches
    return value == 0.0 and reaches and not any(own) and _not_negative(rw, x)


def _not_negative(rw: Rewriter, x: Value) -> bool:
    data = plain(x)
    if data is not None:
        return bool((data >= 0).all())
    node = rw.maker(x)
    if node is None:
        return False
    if isinstance(traits(node), Convolution):
        return bool(node.attrs.get("relu") or node.attrs.get("relu6"))
    bounds = traits(node).bounds(node)
    return node.op == "Sigmoid" or (bounds is not None and bounds[0] >= 0)


PASS = Pass("pad-folding", run, rank=34)
