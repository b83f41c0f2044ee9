"""Decoders whose tokens see what is before and behind them: EmbeddingGemma (arXiv:2509.20354), GTE-Qwen2 and their
like, which give texts vectors and write none."""

from __future__ import annotations

from MNN.errors import UnsupportedError
from MNN.ir.graph import Value
from MNN.llm.models.encoders.blocks import near
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.weights import Weights


class EncodingLayers(Layers):
    """Layers of a decoder for texts that are read at once, padded on the left; nothing is kept of them. A window is how
    far a token sees on each side."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, padded=True, vectors=True)
        self._near: dict[int, Value] = {}

    def attention(self, q: Value, k: Value, v: Value, heads: Heads, layer: int, value_size: int = 0) -> Value:
        if heads.slopes or heads.sinks:
            raise UnsupportedError(f"attention of '{self.graph.name}' to both sides with ALiBi or sinks is not known")
        if heads.window and heads.window not in self._near:
            self._near[heads.window] = near(self, heads.window)
        return self.attention_at_once(q, k, v, heads, False, value_size, self._near.get(heads.window))

    def picked(self, x: Value) -> Value:
        """All of them."""
        return x


__all__ = ["EncodingLayers"]
