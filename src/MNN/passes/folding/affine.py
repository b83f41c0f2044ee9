"""What lets a scale and a shift per output channel disappear into the weights of the operator before it.

``(W x + b) * s + t = (s W) x + (s b + t)``, computed in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import traits
from MNN.ops.linear.convolution import BaseConvolution, Deconvolution
from MNN.ops.linear.matmul import MatMul
from MNN.passes.patterns import attribute, floats, plain, rank
from MNN.passes.rewrite import Rewriter

BIAS = 2
"""The operand that is the bias."""


@dataclass(frozen=True)
class Linear:
    """A linear operator with constant weights, and the axis of its result that holds its output channels."""

    node: Node
    channels: int
    axis: int
    rank: int


def linear(rw: Rewriter, value: Value | None) -> Linear | None:
    """The linear operator that makes a value, when its weights are constant and no activation follows inside it."""
    node = rw.maker(value)
    kind = traits(node)
    if (
        node is None
        or not isinstance(kind, (BaseConvolution, MatMul))
        or len(node.inputs) < 2
        or attribute_true(node, "relu")
        or attribute_true(node, "relu6")
    ):
        return None
    weight = node.inputs[1]
    if weight is None or weight.data is None or (isinstance(weight.data, np.ndarray) and floats(weight) is None):
        return None
    sizes = weight.data.shape
    if isinstance(kind, MatMul):
        x = node.inputs[0]
        found = rank(x) if x is not None else None
        transposed = bool(attribute(node, "transposeB"))
        if (
            found is None
            or found < 2
            or len(sizes) != 2
            or (isinstance(weight.data, QuantizedArray) and not transposed)
        ):
            return None  # compressed weights hold one output channel a row
        return Linear(node, sizes[0] if transposed else sizes[1], found - 1, found)
    if len(sizes) != 2 + kind.spatial:
        return None
    x = node.inputs[0]
    found = rank(x) if x is not None else None
    if found is not None and found != len(sizes):
        return None  # pictures without a width, as files of the official engine have them
    channels = sizes[0]
    if isinstance(kind, Deconvolution):
        if attribute_true(node, "hasOutputShape") and len(node.inputs) != 4:
            return None  # the third operand is not the bias
        group = sizes[0] if node.op == "DeconvolutionDepthwise" else max(int(attribute(node, "group")), 1)
        channels = sizes[1] * group
    return Linear(node, channels, 1, len(sizes))


def attribute_true(node: Node, key: str) -> bool:
    return bool(node.attrs.get(key))


def per_channel(constant: Value, target: Linear) -> np.ndarray | None:
    """A constant that combines with the operator's result channel by channel, as one number per channel (float64).

    None when it varies along another axis, or would widen the result.
    """
    data = floats(constant)
    if data is None or data.ndim > target.rank:
        return None
    if data.size == 1:
        return np.full(target.channels, float(data.reshape(-1)[0]))
    axis = target.axis - target.rank + data.ndim
    if axis < 0 or data.shape[axis] != target.channels or data.size != target.channels:
        return None
    return data.reshape(-1).astype(np.float64)


def bias_of(target: Linear) -> np.ndarray | None:
    """The bias in float64, zeros when there is none; None when it is not constant."""
    value = target.node.inputs[BIAS] if len(target.node.inputs) > BIAS else None
    if value is None:
        return np.zeros(target.channels)
    data = floats(value)
    if (
        data is None
        or data.size not in (1, target.channels)
        or (data.ndim > 1 and isinstance(traits(target.node), MatMul))
    ):
        return None
    found: np.ndarray = np.broadcast_to(data.reshape(-1).astype(np.float64), (target.channels,))
    return found


@np.errstate(over="ignore", invalid="ignore")
def scaled_weight(target: Linear, scale: np.ndarray) -> np.ndarray | QuantizedArray | None:
    """The weights with every output channel multiplied; None when that leaves the range of their type."""
    weight = target.node.inputs[1]
    assert weight is not None
    data = weight.data
    if isinstance(data, QuantizedArray):
        return _scaled_rows(data, scale)
    assert data is not None
    wide = data.astype(np.float64)
    if isinstance(traits(target.node), MatMul):
        line = scale[:, None] if attribute(target.node, "transposeB") else scale[None, :]
        wide = wide * line
    elif isinstance(traits(target.node), Deconvolution):
        per = data.shape[1]
        group = target.channels // per if per else 1
        split = wide.reshape(group, data.shape[0] // group, *data.shape[1:])
        ones = (1,) * (data.ndim - 2)
        wide = (split * scale.reshape(group, 1, per, *ones)).reshape(data.shape)
    else:
        wide = wide * scale.reshape(-1, *(1,) * (data.ndim - 1))
    return rounded(wide, data.dtype)


def _scaled_rows(data: QuantizedArray, scale: np.ndarray) -> QuantizedArray | None:
    """Compressed weights have scales of their own to multiply."""
    if data.scale.shape[0] != scale.size:
        return None
    line: np.ndarray = scale[:, None]
    factors = rounded(data.scale.astype(np.float64) * line, data.scale.dtype)
    offset = None if data.offset is None else rounded(data.offset.astype(np.float64) * line, data.offset.dtype)
    if factors is None or (offset is None and data.offset is not None):
        return None
    return replace(data, scale=factors, offset=offset)


def rounded(wide: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray | None:
    """``wide`` in ``dtype``; None when a number becomes infinite or not a number on the way."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = wide.astype(dtype)
    return out if bool(np.all(np.isfinite(out.astype(np.float64)))) else None


def fold(rw: Rewriter, node: Node, x: Value, scale: np.ndarray | None, shift: np.ndarray | None) -> bool:
    """Gives the linear operator that makes ``x`` other weights so that ``node`` (on its result) can go.

    Nothing else may use the result. False, with nothing done, when it cannot be.
    """
    target = linear(rw, x)
    if target is None or not rw.used_once(x):
        return False
    bias, weight = bias_of(target), target.node.inputs[1]
    if bias is None or weight is None or weight.data is None:
        return False
    data: np.ndarray | QuantizedArray | None = weight.data
    if scale is not None:
        data, bias = scaled_weight(target, scale), bias * scale
    if shift is not None:
        bias = bias + shift
    found = rounded(bias, _bias_type(data))
    if data is None or found is None:
        return False
    base = target.node.outputs[0].name
    rw.absorb(node, x)
    if scale is not None:
        rw.set_input(target.node, 1, _weight_value(rw, f"{base}/weight", data))
    rw.set_input(target.node, BIAS, rw.constant(f"{base}/bias", found))
    return True


def _bias_type(data: np.ndarray | QuantizedArray | None) -> np.dtype[np.generic]:
    return data.dtype if isinstance(data, np.ndarray) else np.dtype(np.float32)


def _weight_value(rw: Rewriter, base: str, data: np.ndarray | QuantizedArray) -> Value:
    if isinstance(data, QuantizedArray):
        return Value(rw.unique(base), DType.F32, data.shape, data)
    return rw.constant(base, data)


def vector(value: Value | None) -> np.ndarray | None:
    """A constant vector in float64."""
    data = plain(value)
    return None if data is None or floats(value) is None else data.reshape(-1).astype(np.float64)
