"""A product with constants in front of a convolution goes into its weights, and a sum into its bias where it can."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Dim
from MNN.ops.core.base import traits
from MNN.ops.linear.convolution import Convolution
from MNN.passes.folding import affine
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, binary, floats, own_padding, plain, with_constant
from MNN.passes.rewrite import Rewriter


def run(graph: Graph) -> int:
    """``conv(x * c)`` always; ``conv(x + c)`` only without padding, because padding is zero after the sum."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if not binary(node, "MUL", "DIV", "REALDIV", "ADD", "SUB"):
            continue
        found = with_constant(node)
        user = rw.only_user(node.outputs[0])
        if found is None or user is None or not _planar(user) or user.inputs[0] is not node.outputs[0]:
            continue
        if user.inputs.count(node.outputs[0]) != 1:
            continue
        x, constant, first = found
        if _fold(rw, node, user, x, constant, first):
            continue
    return rw.finish()


def _planar(node: Node) -> bool:
    kind = traits(node)
    return isinstance(kind, Convolution) and kind.spatial == 2


def _fold(rw: Rewriter, node: Node, user: Node, x: Value, constant: Value, first: bool) -> bool:
    weight = user.inputs[1]
    data = floats(weight)
    if weight is None or data is None or data.ndim != 4 or constant.dtype is not weight.dtype or x.shape is None:
        return False
    depthwise = user.op == "ConvolutionDepthwise"
    groups = data.shape[0] if depthwise else max(int(attribute(user, "group")), 1)
    channels = data.shape[0] if depthwise else data.shape[1] * groups
    numbers = _per_channel(constant, channels, x.shape[1]) if len(x.shape) == 4 else None
    if numbers is None or (depthwise and data.shape[1] != 1):
        return False
    kind = str(node.attrs.get("opType", "ADD"))
    # weights as [group, outputs, inputs, kernel...] beside numbers as [group, 1, inputs, 1, 1]
    split = data.astype(np.float64).reshape(groups, data.shape[0] // groups, *data.shape[1:])
    line = numbers.reshape(groups, 1, -1, 1, 1)
    base = user.outputs[0].name
    if kind in ("MUL", "DIV", "REALDIV"):
        if kind != "MUL" and (first or not bool(np.all(numbers))):
            return False
        wide = split * line if kind == "MUL" else split / line
        made = affine.rounded(wide.reshape(data.shape), data.dtype)
        if made is None or not rw.bypass(node, x):
            return False
        rw.set_input(user, 1, rw.constant(f"{base}/weight", made))
        return True
    if own_padding(user, "padMode", 2) != [0] * 4 or (kind == "SUB" and first):
        return False
    amount = (split * (line if kind == "ADD" else -line)).sum(axis=(2, 3, 4)).reshape(-1)
    bias = _bias(user, data.shape[0])
    found = None if bias is None else affine.rounded(bias + amount, data.dtype)
    if found is None or not rw.bypass(node, x):
        return False
    rw.set_input(user, affine.BIAS, rw.constant(f"{base}/bias", found))
    return True


def _per_channel(constant: Value, channels: int, given: Dim) -> np.ndarray | None:
    """The constant's number for each of the convolution's channels; None where there are others, or where the constant
    makes ``channels`` of the one that is ``given`` (a grey image, normalised as colours are)."""
    data = floats(constant)
    if data is None or data.ndim > 4:
        return None
    if data.size == 1:
        return np.full(channels, float(data.reshape(-1)[0]))
    if given != channels or data.ndim < 3 or data.shape[data.ndim - 3] != channels or data.size != channels:
        return None
    return data.reshape(-1).astype(np.float64)


def _bias(node: Node, channels: int) -> np.ndarray | None:
    value = node.inputs[affine.BIAS] if len(node.inputs) > affine.BIAS else None
    if value is None:
        return np.zeros(channels)
    data = plain(value)
    if data is None or floats(value) is None or data.size not in (1, channels):
        return None
    return np.broadcast_to(data.reshape(-1).astype(np.float64), (channels,))


PASS = Pass("input-scale-folding", run, rank=33)
