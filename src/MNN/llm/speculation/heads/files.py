"""The files of heads that draft: of which kind they are, and what they want of the model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.llm.engine.kept import fingerprint
from MNN.llm.engine.loaded import LoadedWeights
from MNN.llm.files import open_weights
from MNN.llm.files.defaults import completed
from MNN.llm.files.mapped import read_json
from MNN.llm.files.pickled import read_pickled
from MNN.llm.files.tensors import WeightTensor
from MNN.llm.models.heads.features import FeatureForm
from MNN.llm.models.weights import as_number

_PICKLED = ("pytorch_model.bin", "medusa_lm_head.pt")
_MEDUSA = re.compile(r"\d{1,3}\.\d{1,3}\.(linear\.)?(weight|bias)")
_LAYER = re.compile(r"layers\.(\d{1,3})\.")
_IDS = "eagle_aux_hidden_state_layer_ids"
LAST = FeatureForm("what logits are made of")


@dataclass(frozen=True)
class HeadFiles:
    """``kind``: ``eagle``, ``eagle3`` or ``medusa``. ``config``: that of the heads; ``tensors``: their weights, by
    the names that :mod:`MNN.llm.models.heads` has; ``file``: where they are."""

    kind: str
    file: Path
    config: Mapping[str, object]
    tensors: Mapping[str, WeightTensor]

    @property
    def mark(self) -> str:
        """What tells these weights from others."""
        return fingerprint([self.file], self.kind)

    def wanted(self, layers: int) -> FeatureForm:
        """What a model of so many layers is to show. Raises :class:`FormatError` for layers that it does not have."""
        if self.kind != "eagle3":
            return LAST
        nested = self.config.get("eagle_config")
        told = self.config.get(_IDS) or (nested.get(_IDS) if isinstance(nested, Mapping) else None)
        ids = [2, layers // 2, layers - 3] if told is None else told
        if not isinstance(ids, list) or not all(isinstance(i, int) and 0 <= i < layers for i in ids):
            raise FormatError(
                f"{self.file}: the heads look at the layers {ids}; the model has those from 0 to {layers - 1}"
            )
        if "fc.weight" not in self.tensors:
            raise FormatError(f"{self.file} lacks the weight 'fc.weight', which EAGLE-3 has")
        return FeatureForm(f"{ids} {self.mark}", tuple(ids), LoadedWeights(self.tensors)["fc.weight"])

    def words(self, count: int) -> np.ndarray | None:
        """Which tokens of a model of ``count`` tokens the logits are of, i64 ``[logits]``; None where of all. Raises
        :class:`FormatError` for tokens that there are not."""
        if "d2t" not in self.tensors:
            return None
        steps = np.asarray(self.tensors["d2t"].numpy()).astype(np.int64).reshape(-1)
        found: np.ndarray = np.arange(len(steps)) + steps
        if len(found) and (found.min() < 0 or found.max() >= count):
            raise FormatError(f"{self.file}: its words lie beyond the {count} tokens of the model: they are another's")
        return found


def open_heads(path: str | os.PathLike[str]) -> HeadFiles:
    """The heads in a folder, or in a file of their weights. Raises :class:`MNNError` where there are none,
    :class:`FormatError` for what is no such checkpoint."""
    given = Path(path)
    folder = given if given.is_dir() else given.parent
    config: dict[str, Any] = completed(read_json(folder / "config.json")) if (folder / "config.json").is_file() else {}
    config |= config.get("transformer_layer_config", {})
    file, tensors = _tensors(given)
    tensors = {_renamed(name): tensor for name, tensor in tensors.items()}
    if all(map(_MEDUSA.fullmatch, tensors)):
        return HeadFiles("medusa", file, config, tensors)
    third = "layers.0.hidden_norm.weight" in tensors
    numbers = {int(m[1]) for m in map(_LAYER.match, tensors) if m is not None}
    if "fc.weight" not in tensors or numbers != set(range(len(numbers))) or (third and len(numbers) > 1):
        raise FormatError(f"{file} holds no heads that draft: known are those of EAGLE, EAGLE-3 and Medusa")
    if not config:
        raise MNNError(f"{folder} lacks config.json, which EAGLE's heads are described by")
    return HeadFiles("eagle3" if third else "eagle", file, config | {"num_hidden_layers": len(numbers)}, tensors)


def _tensors(given: Path) -> tuple[Path, Mapping[str, WeightTensor]]:
    if given.is_file() and given.suffix in (".bin", ".pt", ".pth"):
        return given, read_pickled(given)
    if given.is_dir():
        loose = sorted(given.glob("*.safetensors"))
        for name in _PICKLED if not loose else ():
            if (given / name).is_file():
                return given / name, read_pickled(given / name)
        if not loose:
            raise MNNError(f"{given} holds no heads: expected is model.safetensors, or {' or '.join(_PICKLED)}")
        return loose[0], open_weights(given)
    return given, open_weights(given)


def _renamed(name: str) -> str:
    name = name.removeprefix("model.").removeprefix("medusa_head.").removeprefix("medusa_heads.")
    return f"layers.0.{name.removeprefix('midlayer.')}" if name.startswith("midlayer.") else name


def number_of_words(config: Mapping[str, object]) -> int:
    """How many tokens a model has, by its configuration."""
    return int(as_number(config.get("vocab_size"), "vocab_size", 0.0))


__all__ = ["LAST", "HeadFiles", "number_of_words", "open_heads"]
