"""Tensors that GGUF files have in another form, or as metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.llm.files.gguf.fading import ROOMS
from MNN.llm.files.gguf.mixtures import outputs_apart
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.files.tensors import Array, PlainTensor, Rows, WeightTensor


class LogarithmTensor(WeightTensor):
    """The logarithm of another tensor times ``sign``, in float32."""

    def __init__(self, base: WeightTensor, sign: float = -1.0) -> None:
        self.shape, self.dtype, self.format, self._base = base.shape, np.dtype(np.float32), base.format, base
        self._sign = np.float32(sign)

    def numpy(self) -> Array:
        with np.errstate(all="ignore"):  # a file may hold any number
            return np.asarray(np.log(self._base.float32() * self._sign))

    def take(self, rows: Rows, shape: tuple[int, ...]) -> LogarithmTensor:
        return LogarithmTensor(self._base.take(rows, shape), float(self._sign))


class KeysAndValues(WeightTensor):
    """What makes keys and values of few numbers (multi-head latent attention), head by head: of ``keys [heads, rank,
    size]``, which files have turned, and ``values [heads, value size, rank]``. In float32."""

    def __init__(self, keys: WeightTensor, values: WeightTensor) -> None:
        heads, rank, size = keys.shape
        self.shape, self.dtype, self.format = (heads * (size + values.shape[1]), rank), np.dtype(np.float32), "F32"
        self._keys, self._values = keys, values

    def numpy(self) -> Array:
        both = [self._keys.float32().swapaxes(1, 2), self._values.float32()]
        return np.ascontiguousarray(np.concatenate(both, axis=1).reshape(self.shape))

    def take(self, rows: Rows, shape: tuple[int, ...]) -> WeightTensor:
        return held(self.numpy()[rows].reshape(shape))


def held(array: Array) -> PlainTensor:
    """Numbers at hand."""
    data = np.ascontiguousarray(array, np.float32)
    return PlainTensor.of(data.reshape(-1).view(np.uint8), data.dtype, data.shape, "F32")


def completed(tensors: dict[str, WeightTensor], file: GGUF, config: dict[str, Any]) -> dict[str, WeightTensor]:
    """The tensors of a model with those that its file has otherwise. Raises :class:`FormatError` where parts do not
    fit."""
    kind, layers = config["model_type"], config["num_hidden_layers"]
    if kind == "apertus":
        return tensors | _activations(file, layers)
    if kind == "minimax":
        return outputs_apart(tensors, layers)
    if kind in ROOMS:
        for i in range(layers):
            at = f"model.layers.{i}.{ROOMS[kind]}"
            keys, values = (tensors.pop(f"{at}.{part}_b.weight", None) for part in "kv")
            if keys is None and values is None:
                continue
            shapes = [list(part.shape) for part in (keys, values) if part is not None]
            if keys is None or values is None or len(keys.shape) != 3 or len(values.shape) != 3:
                raise FormatError(f"{file.path}: attn_k_b and attn_v_b of layer {i} have the shapes {shapes}")
            if (keys.shape[0], keys.shape[1]) != (values.shape[0], values.shape[2]):
                raise FormatError(f"{file.path}: attn_k_b and attn_v_b of layer {i} do not fit; shapes {shapes}")
            tensors[f"{at}.kv_b_proj.weight"] = KeysAndValues(keys, values)
    return tensors


def _activations(file: GGUF, layers: int) -> dict[str, WeightTensor]:
    """The numbers of xIELU in each layer."""
    found: dict[str, WeightTensor] = {}
    for name in ("alpha_n", "alpha_p", "beta", "eps"):
        told = file.metadata.get(f"xielu.{name}")
        one = told if isinstance(told, (int, float)) else np.nan
        numbers = told if isinstance(told, np.ndarray) else np.full(layers, one, np.float64)
        if numbers.shape != (layers,) or not np.isfinite(numbers).all():
            raise FormatError(f"{file.path}: xielu.{name} is {told!r:.60}; expected is a number for each layer")
        for i, number in enumerate(numbers):
            found[f"model.layers.{i}.mlp.act_fn.{name}"] = held(np.array([number]))
    return found


__all__ = ["KeysAndValues", "LogarithmTensor", "completed", "held"]
