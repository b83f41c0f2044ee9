"""Activations by the names that configurations have for them (those of transformers' ``ACT2FN``)."""

from __future__ import annotations

from collections.abc import Callable

from MNN.errors import FormatError
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.graph import Value

_UNARY = {
    "silu": "SILU", "swish": "SILU", "gelu": "GELU_STANDARD", "gelu_python": "GELU_STANDARD", "gelu_new": "GELU",
    "gelu_pytorch_tanh": "GELU", "gelu_python_tanh": "GELU", "gelu_accurate": "GELU", "gelu_fast": "GELU",
}  # fmt: skip
"""Those that are one operator."""


def _relu(net: GraphBuilder, x: Value) -> Value:
    return net.op("BinaryOp", x, net.const(0.0), opType="MAXIMUM")


def _relu2(net: GraphBuilder, x: Value) -> Value:
    """The square of what is above zero (So et al. 2021, arXiv:2109.08668)."""
    above = _relu(net, x)
    return net.op("BinaryOp", above, above, opType="MUL")


def _quick_gelu(net: GraphBuilder, x: Value) -> Value:
    """``x * sigmoid(1.702 x)`` (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""
    share = net.op("Sigmoid", net.op("BinaryOp", x, net.const(1.702), opType="MUL"))
    return net.op("BinaryOp", x, share, opType="MUL")


_COMPOSED: dict[str, Callable[[GraphBuilder, Value], Value]] = {
    "relu": _relu, "relu2": _relu2, "relu6": lambda net, x: net.op("ReLU6", x, minValue=0.0, maxValue=6.0),
    "quick_gelu": _quick_gelu, "sigmoid": lambda net, x: net.op("Sigmoid", x), "tanh": lambda net, x: net.op("TanH", x),
    "linear": lambda net, x: x,
}  # fmt: skip
ACTIVATIONS = (*_UNARY, *_COMPOSED)
"""All names that are known."""


def activated(net: GraphBuilder, name: str, x: Value) -> Value:
    """``x`` behind the activation of this name. Raises :class:`FormatError` for unknown names."""
    if name in _UNARY:
        return net.op("UnaryOp", x, opType=_UNARY[name])
    if name not in _COMPOSED:
        raise FormatError(f"the activation '{name}' is none of {', '.join(sorted(ACTIVATIONS))}")
    return _COMPOSED[name](net, x)


__all__ = ["ACTIVATIONS", "activated"]
