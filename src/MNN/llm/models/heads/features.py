"""Layers of a model that also shows what it makes of every token, for heads that draft by it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from MNN.errors import FormatError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Array, Weights

FEATURES = "features"
"""The output with a row for each token of a run, f32 ``[1, sequence, width]``."""
_ENTRY = re.compile(r"model\.layers\.(\d+)\.input_layernorm")


@dataclass(frozen=True)
class FeatureForm:
    """What is shown. ``layers``: what goes into these, side by side (empty: what logits are made of); ``shrink``: a
    matrix ``[out, in]`` that this is multiplied by, where there is one. ``name`` tells forms apart."""

    name: str
    layers: Sequence[int] = ()
    shrink: Array | None = None


class FeatureLayers(Layers):
    """The graph has the output :data:`FEATURES` beside the logits."""

    def __init__(self, weights: Weights, cache: CacheForm, form: FeatureForm) -> None:
        super().__init__(weights, cache=cache)
        self._form = form
        self._entries: dict[int, Value] = {}
        self._last: Value | None = None

    def rms_norm(self, x: Value, name: str, epsilon: float, plus: float = 0.0) -> Value:
        self._note(x, name)
        return super().rms_norm(x, name, epsilon, plus)

    def layer_norm(self, x: Value, name: str, epsilon: float, plus: float = 0.0) -> Value:
        self._note(x, name)
        return super().layer_norm(x, name, epsilon, plus)

    def slots(self, kind: str, layer: int, shape: Sequence[int]) -> tuple[Value, Value]:
        raise UnsupportedError(
            f"models of the kind '{self.graph.name}' have recurrent layers; heads do not draft for them"
        )

    def _note(self, x: Value, name: str) -> None:
        """Layers begin with a norm of what goes into them."""
        found = _ENTRY.fullmatch(name)
        if found is not None:
            self._entries[int(found[1])] = x

    def picked(self, x: Value) -> Value:
        return super().picked(x) if self._form.layers else x

    def before_logits(self, x: Value) -> Value:
        if self._form.layers:
            return x
        self._last = x
        return super().picked(x)

    def finish(self, logits: Value, name: str = "logits") -> Graph:
        """See :meth:`MNN.llm.models.layers.Layers.finish`. UnsupportedError for families whose layers begin otherwise,
        FormatError for layers that there are not."""
        shown = [self._entries.get(i) for i in self._form.layers] if self._form.layers else [self._last]
        kept = [value for value in shown if value is not None]
        if len(kept) < len(shown):
            if self._entries and any(i > max(self._entries) for i in self._form.layers):
                raise FormatError(
                    f"the heads look at the layers {list(self._form.layers)}, which the model does not have"
                )
            raise UnsupportedError(f"models of the kind '{self.graph.name}' cannot show their layers to heads")
        out = self.concat(kept)
        if self._form.shrink is not None:
            if out.shape is None or out.shape[-1] != self._form.shrink.shape[1]:
                raise FormatError(
                    f"the heads take {self._form.shrink.shape[1]} numbers of each token; the model shows "
                    f"{out.shape[-1] if out.shape else 'none'}: they are heads of another model"
                )
            out = self.product(out, self._form.shrink)
        elif out.name == logits.name:
            raise UnsupportedError(f"models of the kind '{self.graph.name}' cannot show what their logits are made of")
        graph = super().finish(logits, name)
        out.name, out.dtype = FEATURES, DType.F32
        graph.outputs.append(out)
        return graph


__all__ = ["FEATURES", "FeatureForm", "FeatureLayers"]
