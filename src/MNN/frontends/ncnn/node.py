"""One layer as a handler sees it: operands, parameters and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.format_node import OperandNode
from MNN.frontends.ncnn.file import Layer
from MNN.ir.graph import Value


class NcnnNode(OperandNode):
    """``inputs`` have an axis of size 1 in front of those that ncnn counts, see :class:`Context`."""

    def __init__(self, layer: Layer, inputs: Sequence[Value], weights: Mapping[str, np.ndarray]) -> None:
        self.op = layer.type
        self.name = layer.name
        self.inputs: list[Value] = list(inputs)
        self.outputs = layer.outputs
        self.params = layer.params
        self._weights = weights

    def weight(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """Weights in a shape. Raises :class:`FormatError` when they are too few or too many for it."""
        found = self._weights[name]
        if int(np.prod(shape)) != found.size or min(shape, default=1) < 1:
            raise FormatError(f"{self.where}: {found.size} weights do not fit the shape {list(shape)}")
        return found.reshape(tuple(shape))

    def weights(self, name: str) -> np.ndarray:
        """All weights of a name, in a line."""
        return self._weights[name].reshape(-1)

    def has_weight(self, name: str) -> bool:
        return name in self._weights

    def malformed(self, problem: str) -> FormatError:
        """The error for what makes no sense; raise it."""
        return FormatError(f"{self.where}: {problem}; is the model damaged?")
