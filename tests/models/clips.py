"""Networks for video at small clips: those of the benchmarks have ten times the arithmetic, and ONNX Runtime, whose
answers tests compare with, is slow at them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from benchmarks.architectures.catalog import ARCHITECTURES
from tests.models.task import Feeds

CLIP = (1, 3, 8, 72, 72)


def is_video(name: str) -> bool:
    """Whether the architecture takes a clip ``[batch, 3, frames, height, width]``."""
    return len(ARCHITECTURES[name].inputs[0].shape) == len(CLIP)


def clip(seed: int) -> Feeds:
    """Noise."""
    return {"input": np.random.default_rng(seed).standard_normal(CLIP).astype(np.float32)}


def with_clip(path: Path, folder: Path) -> Path:
    """A copy of the network in ``folder`` that takes such clips."""
    model = onnx.load(str(path))
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim[1:], CLIP[1:], strict=True):
        dim.dim_value = size
    del model.graph.value_info[:]
    target = folder / path.name
    onnx.save(model, str(target))
    return target
