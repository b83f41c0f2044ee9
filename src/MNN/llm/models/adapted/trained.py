"""Layers with matrices of low rank beside them that are trained (LoRA, Hu et al. 2021, arXiv:2106.09685)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.weights import Weights


@dataclass(frozen=True)
class TrainedAdapter:
    """What is put beside the layers whose names end with one of ``layers``: ``alpha / rank * up @ down``."""

    rank: int
    alpha: float
    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0 or not self.layers:
            raise MNNError(
                f"an adapter has a rank of at least 1, an alpha above 0 and layers, found rank {self.rank}, alpha "
                f"{self.alpha} and {list(self.layers)}"
            )

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def changes(self, name: str) -> bool:
        """Whether a layer of this name is one of those."""
        return name.split(".")[-1] in self.layers


class TrainedLayers(Layers):
    """Layers with pairs beside them, which are inputs of the graph; attention without a cache."""

    def __init__(self, weights: Weights, adapter: TrainedAdapter) -> None:
        super().__init__(weights, padded=True)
        self.first = None  # nothing is padded in front
        self._adapter = adapter
        self.pairs: dict[str, tuple[Value, Value]] = {}
        """``down [rank, in]`` and ``up [out, rank]`` by the names of layers."""

    def linear(self, x: Value, *names: str, bias: bool | None = None, order: np.ndarray | None = None) -> Value:
        if not any(self._adapter.changes(name) for name in names):
            return super().linear(x, *names, bias=bias, order=order)
        out = self.concat([self._changed(super(TrainedLayers, self).linear(x, n, bias=bias), x, n) for n in names])
        return out if order is None else self.gather(out, self.const(order), axis=2)

    def _changed(self, y: Value, x: Value, name: str) -> Value:
        if not self._adapter.changes(name):
            return y
        rows, columns = self.weights.shape(f"{name}.weight")
        down = self._input(f"{name}.lora_A", DType.F32, (self._adapter.rank, columns))
        up = self._input(f"{name}.lora_B", DType.F32, (rows, self._adapter.rank))
        self.pairs[name] = down, up
        return self.add(y, self.multiply(self._times(self._times(x, down), up), self._adapter.scale))

    def _times(self, x: Value, matrix: Value) -> Value:
        return self.op("MatMul", x, matrix, transposeB=True)

    def attention(self, q: Value, k: Value, v: Value, heads: Heads, layer: int, value_size: int = 0) -> Value:
        return self.attention_at_once(q, k, v, heads, True, value_size)

    def picked(self, x: Value) -> Value:
        """All of them."""
        return x


__all__ = ["TrainedAdapter", "TrainedLayers"]
