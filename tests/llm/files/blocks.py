"""Random blocks of GGUF's kinds, and how results are compared with recorded ones."""

from __future__ import annotations

import hashlib

import numpy as np

from MNN.llm.files.gguf.blocks import BlockKind
from MNN.llm.files.gguf.tensor import BlockTensor

ROWS, BLOCKS = 5, 3


def random_blocks(kind: BlockKind, seed: int) -> np.ndarray:
    """uint8 ``[ROWS, bytes of BLOCKS blocks]``: any bits, so scales that are infinite or no numbers too."""
    return np.random.default_rng([seed, kind.code]).integers(0, 256, (ROWS, BLOCKS * kind.bytes), np.uint8)


def read(kind: BlockKind, raw: np.ndarray) -> BlockTensor:
    return BlockTensor(raw, kind, (len(raw), raw.shape[1] // kind.bytes * kind.size), "blocks")


def digest(numbers: np.ndarray) -> str:
    """Of floats, where NaNs are all the same, and both zeros."""
    plain = np.ascontiguousarray(np.where(np.isnan(numbers), np.float32(np.nan), numbers + np.float32(0)), np.float32)
    return hashlib.sha256(plain.tobytes()).hexdigest()[:24]
