"""Layers in the official engine's form: families build graphs of its operators from the same few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import UnsupportedError
from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.models.layers import Heads, Layers
from MNN.llm.models.weights import Array, Weights

_END = 1 << 30
"""An end that is beyond every text."""


class OfficialLayers(Layers):
    """Inputs of the graph: ``input_ids`` f32 ``[sequence, 1, width]`` (embeddings, whatever the name says),
    ``attention_mask`` f32 ``[1, 1, sequence, sequence]`` (with windows ``[2, 1, 1, sequence, all]``: full, then near),
    ``position_ids`` i32 ``[1, sequence]``, and ``logits_index`` i32 ``[1]``, from which place on logits are wanted."""

    def __init__(self, weights: Weights, width: int, windows: bool, name: str = "") -> None:
        GraphBuilder.__init__(self, ModelState(), Graph(name))
        self.weights, self.width, self.states = weights, width, dict[str, str]()
        self._embedded, self.tokens = self._input("input_ids", DType.F32, ("sequence", 1, width)), None
        mask = (2, 1, 1, "sequence", "seen") if windows else (1, 1, "sequence", "sequence")
        self._mask = self._input("attention_mask", DType.F32, mask)
        self.positions = self._input("position_ids", DType.I32, (1, "sequence"))
        self._index = self._input("logits_index", DType.I32, (1,))
        self.first, self._batch, self.length, self._seen = None, 1, None, None
        self.vectors, self.types, self.caches = False, None, dict[int, list[str]]()
        self.recurrent = list[str]()
        self._label, self._masks = "", dict[int, Value]()
        self.embeddings, self.window = "", 0

    def embed(self, *names: str) -> Value:
        if len(names) > 1:
            raise UnsupportedError(
                f"tables beside that of the tokens ('{names[1]}') have no place in the official engine"
            )
        self.embeddings = names[0]
        return self.reshape(self._embedded, 1, -1, self.width)

    def rows_of(self, table: Array, indices: Value) -> Value:
        raise UnsupportedError("tables other than that of the tokens have no place in the official engine's models")

    def slots(self, kind: str, layer: int, shape: Sequence[int]) -> tuple[Value, Value]:
        raise UnsupportedError(f"recurrent layers of '{self.graph.name}' have no place in the official engine's models")

    def _length(self) -> Value:
        raise UnsupportedError("positions that depend on the length of the text have no form in the official engine")

    def begin_experts(self) -> None:
        raise UnsupportedError(
            f"models of the kind '{self.graph.name}' have experts, for which the official engine lacks the operator "
            "RoutedMatMul"
        )

    def linear(self, x: Value, *names: str, bias: bool | None = None, order: np.ndarray | None = None) -> Value:
        self._label = "/".join(
            ["", *names[0].removeprefix("model.").split("."), *(n.split(".")[-1] for n in names[1:])]
        )
        return super().linear(x, *names, bias=bias, order=order)

    def product(self, x: Value, weight: Array, bias: np.ndarray | None = None) -> Value:
        """A convolution over images of one pixel, which is what the official engine quantises."""
        name, self._label = self.unique(f"{self._label or '/lm/lm_head'}/Linear"), ""
        rows, cols = weight.shape
        pixel = (rows, cols, 1, 1)
        if isinstance(weight, QuantizedArray):
            held = self.quantized(
                QuantizedArray(weight.codes, weight.scale, weight.offset, weight.bits, pixel, weight.width)
            )
        else:
            held = self.const(np.ascontiguousarray(weight, np.float32).reshape(pixel))
        shift = self.const(np.zeros(rows, np.float32) if bias is None else bias)
        out = self.op("Convolution", self.reshape(x, -1, cols, 1, 1), held, shift)
        self.graph.nodes[-1].name = out.name = name
        return self.reshape(out, 1, -1, rows)

    def attention(self, q: Value, k: Value, v: Value, heads: Heads, layer: int, value_size: int = 0) -> Value:
        if heads.softcap:
            raise UnsupportedError("the official engine's attention cannot cap its scores, as this model does")
        if heads.slopes or heads.sinks:
            raise UnsupportedError("the official engine's attention knows neither ALiBi nor sinks, as this model has")
        if heads.scale:
            q = self.multiply(q, heads.scale * heads.size**0.5)
        if heads.window:
            if len(self._mask.shape or ()) < 5:
                raise UnsupportedError(f"the configuration tells of no windows, but layer {layer} has one")
            if self.window not in (0, heads.window):
                raise UnsupportedError(f"the official engine has one window, not those of {self.window, heads.window}")
            self.window = heads.window
        mask = self._mask_of(heads.window > 0)
        return self.emit("Attention", [q, k, v, mask], 1, kv_cache=True, layer_index=layer)[0]

    def _mask_of(self, near: bool) -> Value:
        if len(self._mask.shape or ()) < 5:
            return self._mask
        if near not in self._masks:
            index = self.const(np.array(int(near), np.int32))
            self._masks[near] = self.gather(self._mask, index)
        return self._masks[near]

    def picked(self, x: Value) -> Value:
        ends, axis, step = (self.const(np.array([n], np.int32)) for n in (_END, 1, 1))
        return self.op("StridedSlice", x, self._index, ends, axis, step, fromType=1)

    def finish(self, logits: Value, name: str = "logits") -> Graph:
        out = self.reshape(logits, 1, -1, int((logits.shape or (0,))[-1]))
        return super().finish(out, name)


def has_windows(config: Mapping[str, object]) -> bool:
    """Whether some layers may see a window alone."""
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return "sliding_attention" in kinds
    switched = config.get("use_sliding_window", True)
    return bool(config.get("sliding_window")) and bool(switched)


__all__ = ["OfficialLayers", "has_windows"]
