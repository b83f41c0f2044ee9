"""The table from Caffe's layers to handlers, filled by the files of ``operators/``.

>>> from MNN.frontends.caffe.registry import caffe_layer
>>> @caffe_layer("AbsVal")                                          # doctest: +SKIP
... def absolute(ctx: Context, node: CaffeNode) -> Value:
...     return ctx.op("UnaryOp", node.input(0), opType="ABS")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from MNN.frontends.common.handlers import Handlers
from MNN.ir.graph import Value

if TYPE_CHECKING:
    from MNN.frontends.caffe.context import Context
    from MNN.frontends.caffe.node import CaffeNode

Handler = Callable[["Context", "CaffeNode"], "Value | Sequence[Value]"]
table: Handlers[Handler] = Handlers("MNN.frontends.caffe.operators", "Caffe")
caffe_layer = table.handles
WEIGHTED = frozenset({
    "BN", "Convolution", "ConvolutionDepthwise", "DeconvolutionDepthwise", "DepthwiseConv", "DepthwiseConvolution",
    "Embed", "InnerProduct", "LSTM", "Normalize", "NormalizeBBox", "PReLU", "Parameter", "RNN",
})  # fmt: skip
"""Layers that are nothing without weights."""
