"""Layers whose inputs are given out, to see what weights are multiplied by."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from MNN.ir.graph import Value
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.weights import Weights


class WatchedLayers(Layers):
    """Whole texts at once, without a cache: ``tokens`` and ``positions`` i64 ``[batch, sequence]``.

    ``seen``: what the layers of ``watched`` (names without ``.weight``) take, by the names of those that take it
    together; each is an output of the graph, ``[batch, sequence, columns]``.
    """

    def __init__(self, weights: Weights, watched: Collection[str]) -> None:
        super().__init__(weights, padded=True)
        self.graph.inputs = [value for value in self.graph.inputs if value is not self.first]
        self.first = None  # nothing is padded in front
        self._watched = frozenset(watched)
        self.seen: dict[tuple[str, ...], Value] = {}

    def linear(self, x: Value, *names: str, bias: bool | None = None, order: np.ndarray | None = None) -> Value:
        if self._watched.intersection(names):
            self.seen[names] = x
        return super().linear(x, *names, bias=bias, order=order)

    def attention(self, q: Value, k: Value, v: Value, heads: Heads, layer: int, value_size: int = 0) -> Value:
        return self.attention_at_once(q, k, v, heads, True, value_size)

    def picked(self, x: Value) -> Value:
        """All of them."""
        return x


__all__ = ["WatchedLayers"]
