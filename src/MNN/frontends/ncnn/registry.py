"""The table from ncnn's layers to handlers, filled by the files of ``operators/``.

>>> from MNN.frontends.ncnn.registry import ncnn_layer
>>> @ncnn_layer("Sigmoid")                                           # doctest: +SKIP
... def sigmoid(ctx: Context, node: NcnnNode) -> Value:
...     return ctx.op("Sigmoid", node.input(0))

A handler returns the values of the layer's outputs in order (one value, or a list). Layers with weights say how they
lie in the file: ``weights(params, reader)`` gives them by name, and is called for all layers in order before any
handler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from MNN.frontends.common.handlers import Handlers
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

if TYPE_CHECKING:
    from MNN.frontends.ncnn.context import Context
    from MNN.frontends.ncnn.node import NcnnNode

Handler = Callable[["Context", "NcnnNode"], "Value | Sequence[Value]"]
Weights = Callable[[Params, WeightReader], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Entry:
    handler: Handler
    weights: Weights | None


TABLE: Handlers[Entry] = Handlers("MNN.frontends.ncnn.operators", "ncnn")


def ncnn_layer(*types: str, weights: Weights | None = None) -> Callable[[Handler], Handler]:
    """Decorator that enters a handler for one or more types of layers."""

    def add(handler: Handler) -> Handler:
        TABLE.handles(*types)(Entry(handler, weights))
        return handler

    return add
