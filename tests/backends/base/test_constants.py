"""What packed constants are called in the store: by their numbers and the type of these, whatever type numpy has."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.cache.packed import SMALLEST, PackedStore
from MNN.ir.dtype import DType

TYPES = (
    np.float32, np.float16, np.int8, np.uint8, np.int32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
)  # fmt: skip


def _name(store: PackedStore, source: np.ndarray) -> str:
    buffer, fresh = ConstantPool(store, "target").reserve(("packed", id(source)), SMALLEST, DType.F32, source)
    assert fresh
    assert buffer.draft is not None
    return buffer.draft.name


@pytest.mark.parametrize("seed", range(6))
def test_names_tell_types_shapes_and_numbers(seed: int, tmp_path: Path) -> None:
    """Types of as many bits hold the same bytes here, which mean other numbers."""
    rng, store = np.random.default_rng(seed), PackedStore(tmp_path)
    held = rng.integers(0, 256, 16 * int(rng.integers(1, 40)), dtype=np.uint8)
    other = held.copy()
    other[rng.integers(held.size)] ^= 1
    arrays = [bytes_.view(t).reshape(shape) for t in TYPES for bytes_ in (held, other) for shape in ((-1,), (2, -1))]
    arrays += [np.asfortranarray(a) for a in arrays if a.ndim == 2 and 1 not in a.shape]
    names = [_name(store, a) for a in arrays]
    assert len(set(names)) == len(arrays)
    assert names == [_name(store, a.copy(order="K")) for a in arrays]
