"""Activations: as layers, as operations, and as functions that other layers are configured with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from MNN.frontends.common.expressions import binary, clamp, select, unary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.part import Part, described, part_of
from MNN.frontends.keras.registry import Config, keras_layer, keras_op, table
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_Function = Callable[[KerasContext, Value], Value]


def hard_sigmoid(ctx: KerasContext, x: Value) -> Value:
    """That of Keras 3, ``relu6(x + 3) / 6``; Keras 2 has a steeper one, see :func:`hard_sigmoid_of_old`."""
    return binary(ctx, "MUL", clamp(ctx, binary(ctx, "ADD", x, 3), 0.0, 6.0), 1 / 6)


def hard_sigmoid_of_old(ctx: KerasContext, x: Value) -> Value:
    """That of Keras 2: ``clip(0.2 x + 0.5, 0, 1)``."""
    return clamp(ctx, binary(ctx, "ADD", binary(ctx, "MUL", x, 0.2), 0.5), 0.0, 1.0)


def _softplus(ctx: KerasContext, x: Value) -> Value:
    return unary(ctx, "BNLL", x)


def _softsign(ctx: KerasContext, x: Value) -> Value:
    return binary(ctx, "REALDIV", x, binary(ctx, "ADD", unary(ctx, "ABS", x), 1))


def _where_large(ctx: KerasContext, x: Value, threshold: float, inside: Value) -> Value:
    """``x`` where its size is above a threshold, else ``inside``."""
    large = ctx.op("BinaryOp", unary(ctx, "ABS", x), ctx.const_like(threshold, x), opType="GREATER")
    return ctx.op("Select", large, x, inside)


def soft_shrink(ctx: KerasContext, x: Value, threshold: float = 0.5) -> Value:
    return binary(ctx, "SUB", x, clamp(ctx, x, -threshold, threshold))


def hard_shrink(ctx: KerasContext, x: Value, threshold: float = 0.5) -> Value:
    return _where_large(ctx, x, threshold, ctx.const_like(0, x))


def gelu(ctx: KerasContext, x: Value, approximate: bool = False) -> Value:
    return unary(ctx, "GELU" if approximate else "GELU_STANDARD", x)


def softmax(ctx: KerasContext, x: Value, axis: int = -1) -> Value:
    return ctx.op("Softmax", x, axis=axis)


def celu(ctx: KerasContext, x: Value, alpha: float = 1.0) -> Value:
    below = binary(ctx, "MUL", unary(ctx, "EXPM1", binary(ctx, "MUL", binary(ctx, "MINIMUM", x, 0), 1 / alpha)), alpha)
    return binary(ctx, "ADD", binary(ctx, "MAXIMUM", x, 0), below)


def glu(ctx: KerasContext, x: Value, axis: int = -1) -> Value:
    first, second = ctx.emit("Slice", [x], 2, axis=axis, sourceType="TORCH")
    return binary(ctx, "MUL", first, ctx.op("Sigmoid", second))


def _mish(ctx: KerasContext, x: Value) -> Value:
    return binary(ctx, "MUL", x, ctx.op("TanH", _softplus(ctx, x)))


def squareplus(ctx: KerasContext, x: Value, b: float = 4) -> Value:
    root = unary(ctx, "SQRT", binary(ctx, "ADD", unary(ctx, "SQUARE", x), b))
    return binary(ctx, "MUL", binary(ctx, "ADD", x, root), 0.5)


def _sparse_plus(ctx: KerasContext, x: Value) -> Value:
    """0 below -1, x above 1, a parabola between."""
    inner = clamp(ctx, x, -1.0, 1.0)
    parabola = binary(ctx, "MUL", unary(ctx, "SQUARE", binary(ctx, "ADD", inner, 1)), 0.25)
    return binary(ctx, "ADD", parabola, binary(ctx, "MAXIMUM", binary(ctx, "SUB", x, 1), 0))


def _sparse_sigmoid(ctx: KerasContext, x: Value) -> Value:
    return binary(ctx, "MUL", binary(ctx, "ADD", clamp(ctx, x, -1.0, 1.0), 1), 0.5)


FUNCTIONS: dict[str, _Function] = {
    "linear": lambda ctx, x: x,
    "relu": lambda ctx, x: ctx.op("ReLU", x),
    "relu6": lambda ctx, x: clamp(ctx, x, 0.0, 6.0),
    "sigmoid": lambda ctx, x: ctx.op("Sigmoid", x),
    "tanh": lambda ctx, x: ctx.op("TanH", x),
    "softmax": softmax,
    "log_softmax": lambda ctx, x: ctx.op("LogSoftmax", x, axis=-1),
    "elu": lambda ctx, x: ctx.op("ELU", x, alpha=1.0),
    "selu": lambda ctx, x: ctx.tf("Selu", x),
    "celu": celu,
    "gelu": gelu,
    "glu": glu,
    "silu": lambda ctx, x: binary(ctx, "MUL", x, ctx.op("Sigmoid", x)),
    "leaky_relu": lambda ctx, x: ctx.op("ReLU", x, slope=0.2),
    "softplus": _softplus,
    "softsign": _softsign,
    "exponential": lambda ctx, x: unary(ctx, "EXP", x),
    "hard_sigmoid": hard_sigmoid,
    "hard_silu": lambda ctx, x: binary(ctx, "MUL", x, hard_sigmoid(ctx, x)),
    "hard_tanh": lambda ctx, x: clamp(ctx, x, -1.0, 1.0),
    "log_sigmoid": lambda ctx, x: unary(ctx, "NEG", _softplus(ctx, unary(ctx, "NEG", x))),
    "mish": _mish,
    "hard_shrink": hard_shrink,
    "soft_shrink": soft_shrink,
    "tanh_shrink": lambda ctx, x: binary(ctx, "SUB", x, ctx.op("TanH", x)),
    "squareplus": squareplus,
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": _sparse_sigmoid,
}
FUNCTIONS["swish"] = FUNCTIONS["silu"]
FUNCTIONS["hard_swish"] = FUNCTIONS["hard_silu"]
_OF_OLD = FUNCTIONS | {"hard_sigmoid": hard_sigmoid_of_old}


def named(ctx: KerasContext, node: KerasNode, spec: Any) -> str | Part:
    """What a configured activation is: a function's name, or a layer."""
    if spec is None:
        return "linear"
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping) and spec.get("class_name") == "function":
        config = spec.get("config")
        return str(config.get("name") if isinstance(config, Mapping) else config)
    kind, _ = described(spec)
    if table.find(kind) is None:
        return kind
    return part_of(spec)


def activated(ctx: KerasContext, node: KerasNode, x: Value, key: str = "activation") -> Value:
    """``x`` after the activation that a layer is configured with, a name, a function or a layer."""
    found = named(ctx, node, node.config.get(key))
    if isinstance(found, Part):
        return ctx.result(found, x)
    function = (_OF_OLD if ctx.of_old else FUNCTIONS).get(found)
    if function is None:
        raise node.unsupported(f"{key} '{found[:80]}'", "use one of Keras's own, or export a SavedModel")
    return function(ctx, x)


@keras_layer("Activation", masks=True)
def activation(ctx: KerasContext, node: KerasNode) -> Value:
    return activated(ctx, node, node.input(0))


@keras_layer("ReLU", masks=True)
def relu(ctx: KerasContext, node: KerasNode) -> Value:
    """Below ``threshold`` a line through it, above it ``x``, at most ``max_value``."""
    slope = node.float_attr("negative_slope", 0.0) if "negative_slope" in node.config else node.float_attr("alpha", 0.0)
    return leaky(ctx, node.input(0), slope, node.config.get("max_value"), node.float_attr("threshold", 0.0))


def leaky(ctx: KerasContext, x: Value, slope: float, most: Any = None, threshold: float = 0.0) -> Value:
    if threshold:
        below = binary(ctx, "MUL", binary(ctx, "SUB", x, threshold), slope)
        above = ctx.op("BinaryOp", x, ctx.const_like(threshold, x), opType="GREATER_EQUAL" if slope else "GREATER")
        y = ctx.op("Select", above, x, below)
    elif most is not None and not slope:
        return clamp(ctx, x, 0.0, float(most))
    else:
        y = ctx.op("ReLU", x, slope=slope) if slope else ctx.op("ReLU", x)
    y.dtype = x.dtype
    return y if most is None else binary(ctx, "MINIMUM", y, float(most))


@keras_layer("LeakyReLU", masks=True)
def leaky_relu(ctx: KerasContext, node: KerasNode) -> Value:
    key = "negative_slope" if "negative_slope" in node.config else "alpha"
    return leaky(ctx, node.input(0), node.float_attr(key, 0.3))


@keras_layer("ThresholdedReLU", masks=True)
def thresholded_relu(ctx: KerasContext, node: KerasNode) -> Value:
    x = node.input(0)
    above = ctx.op("BinaryOp", x, ctx.const_like(node.float_attr("theta", 1.0), x), opType="GREATER")
    return ctx.op("Select", above, x, ctx.const_like(0, x))


@keras_layer("ELU", masks=True)
def elu(ctx: KerasContext, node: KerasNode) -> Value:
    return ctx.op("ELU", node.input(0), alpha=node.float_attr("alpha", 1.0))


def _alpha(config: Config) -> list[str]:
    return ["alpha"]


@keras_layer("PReLU", variables=_alpha, masks=True)
def prelu(ctx: KerasContext, node: KerasNode) -> Value:
    return ctx.tf("Prelu", node.input(0), ctx.needed(node, "alpha"))


@keras_layer("Softmax", masks=True)
def softmax_layer(ctx: KerasContext, node: KerasNode) -> Value:
    """Masked places get next to nothing; of several axes, the sums are over all of them."""
    x, axis = node.input(0), node.get("axis", -1)
    mask = node.tensor_kwarg("mask") or (node.inputs[1] if len(node.inputs) > 1 else None)
    if mask is not None:
        if mask.dtype is not DType.BOOL:
            mask = ctx.op("BinaryOp", ctx.cast(mask, DType.F32), ctx.const(np.float32(0.5)), opType="GREATER")
            mask.dtype = DType.BOOL
        x = masked_scores(ctx, x, mask)
    axes = [axis] if isinstance(axis, int) else [int(a) for a in axis]
    y = ctx.op("Softmax", x, axis=axes[0]) if len(axes) == 1 else over_axes(ctx, x, axes)
    y.dtype = x.dtype
    if mask is None or ctx.of_old:
        return y
    return select(ctx, mask, y, ctx.const_like(0, y))  # also where all of an axis is masked


def over_axes(ctx: KerasContext, x: Value, axes: list[int]) -> Value:
    largest = ctx.op("Reduction", x, operation="MAXIMUM", dim=axes, keepDims=True)
    powers = unary(ctx, "EXP", binary(ctx, "SUB", x, largest))
    total = ctx.op("Reduction", powers, operation="SUM", dim=axes, keepDims=True)
    return binary(ctx, "REALDIV", powers, total)


def masked_scores(ctx: KerasContext, x: Value, mask: Value, large: float = 1e9) -> Value:
    """Scores made very low where a mask (that broadcasts) is false."""
    y = ctx.op("Select", mask, x, binary(ctx, "SUB", x, large))
    y.dtype = x.dtype
    return y


# -- as operations -----------------------------------------------------------------------------------------------------

_OPERATIONS = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Selu": "selu", "Silu": "silu",
    "Softplus": "softplus", "Softsign": "softsign", "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu",
    "HardTanh": "hard_tanh", "LogSigmoid": "log_sigmoid", "TanhShrink": "tanh_shrink", "SparsePlus": "sparse_plus",
    "SparseSigmoid": "sparse_sigmoid", "Mish": "mish",
}  # fmt: skip


@keras_op(*_OPERATIONS)
def plain(ctx: KerasContext, node: KerasNode) -> Value:
    return FUNCTIONS[_OPERATIONS[node.op.removeprefix("ops.")]](ctx, node.input(0))


@keras_op("Gelu")
def gelu_op(ctx: KerasContext, node: KerasNode) -> Value:
    return gelu(ctx, node.input(0), bool(node.argument(1, "approximate", node.get("approximate", True))))


@keras_op("LeakyRelu")
def leaky_relu_op(ctx: KerasContext, node: KerasNode) -> Value:
    return leaky(ctx, node.input(0), float(node.argument(1, "negative_slope", node.get("negative_slope", 0.2))))


@keras_op("Elu", "Celu")
def elu_op(ctx: KerasContext, node: KerasNode) -> Value:
    alpha = float(node.argument(1, "alpha", node.get("alpha", 1.0)))
    x = node.input(0)
    return celu(ctx, x, alpha) if node.op.endswith("Celu") else ctx.op("ELU", x, alpha=alpha)


@keras_op("Softmax", "LogSoftmax")
def softmax_op(ctx: KerasContext, node: KerasNode) -> Value:
    axis = node.argument(1, "axis", node.get("axis", -1))
    kind = node.op.removeprefix("ops.")
    if not isinstance(axis, int):
        raise node.unsupported("a softmax over several axes", "use one axis")
    return ctx.op(kind, node.input(0), axis=axis)


@keras_op("ReLU")
def relu_op(ctx: KerasContext, node: KerasNode) -> Value:
    slope, most, threshold = (node.get(k, d) for k, d in (("negative_slope", 0), ("max_value", None), ("threshold", 0)))
    return leaky(ctx, node.input(0), float(slope), most, float(threshold))
