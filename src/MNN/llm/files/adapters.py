"""Adapters of low rank (LoRA, Hu et al. 2021, arXiv:2106.09685), as PEFT saves them: read, and merged into a model's
weights."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.files.halves import text_name
from MNN.llm.files.mapped import read_json
from MNN.llm.files.safetensors import read_safetensors
from MNN.llm.files.tensors import Array, Rows, Weights, WeightTensor

_PREFIX = "base_model.model."
_REFUSED = ("use_dora", "fan_in_fan_out", "modules_to_save", "lora_bias", "alora_invocation_tokens")
"""What a configuration may ask for and nothing is known about here."""


_ROOMS = ("model", "backbone")
"""Where layers may be."""


class MergedTensor(WeightTensor):
    """A matrix ``[out, in]`` plus ``scale * up @ down`` with ``up [out, rank]`` and ``down [rank, in]``."""

    def __init__(self, base: WeightTensor, up: Array, down: Array, scale: float) -> None:
        self.shape, self.dtype, self.format = base.shape, np.dtype(np.float32), f"{base.format} with LoRA"
        self._base, self._up, self._down, self._scale = base, up, down, np.float32(scale)

    def numpy(self) -> Array:
        return np.asarray(self._base.float32() + self._scale * (self._up @ self._down))

    def take(self, rows: Rows, shape: tuple[int, ...]) -> MergedTensor:
        return MergedTensor(self._base.take(rows, shape), self._up[rows], self._down, float(self._scale))


@dataclass(frozen=True)
class Change:
    """What an adapter adds to a matrix ``[out, in]``: ``scale * up @ down`` with ``up [out, rank]`` and
    ``down [rank, in]``."""

    up: WeightTensor
    down: WeightTensor
    scale: float

    @property
    def rank(self) -> int:
        """How many rows ``down`` has."""
        return self.down.shape[0]


Changes = Mapping[str, Change]
"""What an adapter changes, by the name of the layer without ``.weight``."""


def read_adapter(tensors: Weights, folder: str | os.PathLike[str]) -> dict[str, Change]:
    """The adapter in a folder (``adapter_config.json``, ``adapter_model.safetensors``) for the model with these
    ``tensors``; nothing but the names and sizes is read.

    Raises UnsupportedError for adapters of other kinds (DoRA, trained biases or whole modules) and for layers that a
    file has otherwise than the checkpoint, FormatError for one that was made for another model.
    """
    place = Path(folder)
    config = read_json(_held(place, "adapter_config.json"))
    if config.get("peft_type") != "LORA":
        raise UnsupportedError(f"{place}: adapters of the kind {config.get('peft_type')!r} are not known, only LORA")
    asked = [name for name in _REFUSED if config.get(name)]
    if asked or config.get("bias", "none") != "none":
        raise UnsupportedError(f"{place}: adapters with {', '.join(asked) or 'trained biases'} are not known")
    parts = read_safetensors(_held(place, "adapter_model.safetensors"))
    found: dict[str, Change] = {}
    for key, down in parts.items():
        if not key.endswith(".lora_A.weight"):
            continue
        own = text_name(key.removeprefix(_PREFIX).removesuffix(".lora_A.weight"))
        module = _stored(tensors, own)
        up = parts.get(key.replace(".lora_A.", ".lora_B."))
        name = f"{module}.weight"
        if name not in tensors:
            raise FormatError(f"{place} changes the layer '{module}', which {tensors.source} lacks: another model's")
        if tensors.altered and re.fullmatch(tensors.altered, name):
            raise UnsupportedError(
                f"{place} changes the layer '{module}', which {tensors.source} has with other factors or in another "
                "order than the checkpoint that adapters are made for; take the Hugging Face folder of the model"
            )
        rank, base = down.shape[0], tensors[name]
        fits = len(base.shape) == 2 and down.shape == (rank, base.shape[-1])
        if up is None or not fits or up.shape != (base.shape[0], rank):
            told = None if up is None else list(up.shape)
            raise FormatError(
                f"{place}: '{module}' has the parts {told} and {list(down.shape)}, which do not fit the matrix "
                f"{list(base.shape)} of {tensors.source}; is it another model's?"
            )
        found[module] = Change(up, down, _scale(config, own, rank, place))
    if 2 * len(found) != len(parts) or not found:
        strange = next((key for key in parts if not re.search(r"\.lora_[AB]\.weight$", key)), "nothing")
        raise UnsupportedError(f"{place} holds {strange!r}, which is no pair of lora_A and lora_B")
    return found


def _stored(tensors: Weights, module: str) -> str:
    """What files call a module: some families' have another word in front of ``layers`` than transformers has in
    memory, which PEFT names adapters after."""
    _, layers, rest = module.partition(".layers.")
    if f"{module}.weight" in tensors or not layers:
        return module
    return next((name for name in (f"{room}.layers.{rest}" for room in _ROOMS) if f"{name}.weight" in tensors), module)


def _held(place: Path, name: str) -> Path:
    """A file of an adapter. Raises :class:`MNNError` where it is not there."""
    if (place / name).is_file():
        return place / name
    if name.endswith(".safetensors") and (place / "adapter_model.bin").is_file():
        raise UnsupportedError(
            f"{place} holds pickled weights, which can run programs when they are read; save the adapter as "
            "safetensors: save_pretrained(folder)"
        )
    raise MNNError(f"there is no adapter in {place}: it has no {name}; expected is a folder as PEFT saves it")


def merged(tensors: Weights, folder: str | os.PathLike[str]) -> Weights:
    """``tensors`` with the adapter in a folder added to them. Errors are those of :func:`read_adapter`."""
    found = {name: tensors[name] for name in tensors}
    for module, change in read_adapter(tensors, folder).items():
        name = f"{module}.weight"
        found[name] = MergedTensor(found[name], change.up.float32(), change.down.float32(), change.scale)
    return Weights(found, tensors.source, tensors.altered)


def _scale(config: Mapping[str, Any], module: str, rank: int, place: Path) -> float:
    """What the product is multiplied by: alpha over the rank, or over its root (rsLoRA, arXiv:2312.03732)."""
    wanted = _of_pattern(config.get("rank_pattern"), module, config.get("r"))
    alpha = _of_pattern(config.get("alpha_pattern"), module, config.get("lora_alpha"))
    if wanted != rank or not isinstance(alpha, (int, float)):
        raise FormatError(
            f"{place}: '{module}' has rank {rank}; the configuration says {wanted!r}, and alpha {alpha!r}"
        )
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _of_pattern(patterns: object, module: str, default: object) -> object:
    """The value of the first pattern that the end of a module's name matches."""
    for pattern, value in (patterns if isinstance(patterns, Mapping) else {}).items():
        try:
            if re.match(rf"(.*\.)?({pattern})$", module):
                return value
        except re.error:
            continue
    return default


__all__ = ["Change", "Changes", "MergedTensor", "merged", "read_adapter"]
