"""Weights as ``torch.save`` writes them, read without running anything that the file names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.unpickle import StoredTensor, load
from MNN.llm.files.tensors import PlainTensor, WeightTensor


def read_pickled(path: Path) -> dict[str, WeightTensor]:
    """The tensors of a dictionary of weights. FormatError for what is none, and for files of before PyTorch 1.6."""
    found = load(Archive(path), "data.pkl", "data")
    if isinstance(found, Mapping) and isinstance(found.get("state_dict"), Mapping):
        found = found["state_dict"]
    tensors = {n: t for n, t in found.items() if isinstance(t, StoredTensor)} if isinstance(found, Mapping) else {}
    if not tensors:
        raise FormatError(f"{path} holds no weights by name; save model.state_dict() with torch.save")
    return {str(name): _plain(tensor) for name, tensor in tensors.items()}


def _plain(tensor: StoredTensor) -> WeightTensor:
    data = np.ascontiguousarray(tensor.array())
    return PlainTensor.of(data.reshape(-1).view(np.uint8), data.dtype, data.shape, str(data.dtype))


__all__ = ["read_pickled"]
