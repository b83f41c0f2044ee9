"""Language models that are trained on: their weights stay, pairs of matrices of low rank beside them learn (LoRA)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError
from MNN.expr import build
from MNN.expr.models import vars_of
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.llm.engine.opening import open_tensors
from MNN.llm.files.safetensors import write_safetensors
from MNN.llm.models.adapted.trained import TrainedAdapter, TrainedLayers
from MNN.llm.models.families import build_with, usual
from MNN.llm.models.weights import Weights
from MNN.nn.extracted import Extracted
from MNN.nn.module import Module
from MNN.nn.settings import count, not_negative
from MNN.schema.files import replacing

QUERIES_AND_VALUES = ("q_proj", "v_proj")
"""The layers that Hu et al. found to gain the most for their size."""


class AdaptedModel(Module):
    """A model that writes text, whose parameters are the pairs of an adapter: ``down`` at random, ``up`` zeros, so that
    it begins as the model that it was. :func:`load_adapted` makes one."""

    def __init__(self, config: Mapping[str, object], weights: Weights, adapter: TrainedAdapter, seed: int) -> None:
        super().__init__()
        net = TrainedLayers(weights, adapter)
        build_with(config, net)
        if not net.pairs:
            raise MNNError(f"the model has no layers called {' or '.join(adapter.layers)} to put an adapter beside")
        self._adapter, self.longest = adapter, usual(config).longest
        made = vars_of(net.graph)
        rng = np.random.default_rng(seed)
        self._takes_length = net.length is not None
        taken = [made[v] for v in (net.tokens, net.positions, net.length) if v is not None]
        for down, up in net.pairs.values():
            reach = 1 / math.sqrt(_sizes(down)[1])  # as torch's linear layers begin
            first = rng.uniform(-reach, reach, _sizes(down)).astype(np.float32)
            for value, array in ((down, first), (up, np.zeros(_sizes(up), np.float32))):
                self._vars[value.name] = build.leaf(array, op="Trainable")
                taken.append(made[value])
        self._network = Extracted(taken, [made[net.graph.outputs[0]]], constant=True)

    def forward(self, x: ArrayLike) -> Var:
        """Tokens ``[batch, length]`` to logits ``[batch, length, vocabulary]`` of what comes after each. What pads a
        text belongs behind it: no token sees those after it."""
        tokens = build.cast(build.to_var(x), DType.I64)
        if tokens.ndim != 2:
            raise MNNError(f"tokens are [batch, length], found {tokens.shape}")
        batch, length = tokens.shape
        if length > self.longest:
            raise MNNError(f"texts of {length} tokens; the model was made for {self.longest}")
        places = build.leaf(np.tile(np.arange(length), (batch, 1)))
        whole = [build.leaf(np.array([length]))] if self._takes_length else []
        logits: Var = self._network([tokens, places, *whole, *self._vars.values()])[0]
        return logits

    def save_adapter(self, folder: str | os.PathLike[str]) -> None:
        """Writes the adapter as PEFT does (``adapter_config.json``, ``adapter_model.safetensors``):
        ``mnn llm convert --lora FOLDER`` merges it into the model. Raises :class:`MNNError` where it cannot be written.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MNNError(f"cannot write the adapter to {place}: {error}") from error
        told = {
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": self._adapter.rank, "lora_alpha": self._adapter.alpha,
            "target_modules": list(self._adapter.layers), "bias": "none", "lora_dropout": 0.0,
        }  # fmt: skip
        arrays = {f"base_model.model.{name}.weight": v.read() for name, v in self._vars.items()}
        write_safetensors(place / "adapter_model.safetensors", arrays)
        with replacing(place / "adapter_config.json") as file:
            file.write(json.dumps(told, indent=2).encode())


def load_adapted(
    path: str | os.PathLike[str],
    rank: int = 8,
    alpha: float = 16,
    layers: Sequence[str] = QUERIES_AND_VALUES,
    seed: int = 0,
) -> AdaptedModel:
    """A model that writes text (a .gguf file, a folder of Hugging Face's) to be trained on, with an adapter of low rank
    (LoRA, Hu et al. 2021, arXiv:2106.09685) beside its ``layers``: ``W x + alpha / rank * up (down x)``. Its weights
    stay as they are, in 32 bits each while it is trained.

    Raises :class:`MNNError` where there is no model, or none that has such layers, and for settings of other kinds."""
    if isinstance(layers, str) or not isinstance(layers, Sequence) or not all(isinstance(n, str) for n in layers):
        raise MNNError(f"layers is a list of names, such as {list(QUERIES_AND_VALUES)}, found {layers!r}")
    adapter = TrainedAdapter(count("the rank", rank), not_negative("alpha", alpha), tuple(layers))
    if count("the seed", seed) < 0:
        raise MNNError(f"a seed must not be negative, found {seed}")
    opened = open_tensors(path)
    return AdaptedModel(opened.config, opened.weights(), adapter, seed)


def _sizes(value: Value) -> tuple[int, ...]:
    return tuple(n for n in value.shape or () if isinstance(n, int))


__all__ = ["AdaptedModel", "load_adapted"]
