"""Whole networks in bfloat16 and float16: no further from float64 than torch's own answers, by much.

``MNN_TORCH_SEED=5000 MNN_TORCH_COUNT=300 python -m pytest tests/frontends/torch/test_halves.py`` tries others.
"""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest

import MNN
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "12")))
TYPES = (ml_dtypes.bfloat16, np.float16)
STEP = (2.0**-8, 2.0**-11)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_network_in_sixteen_bits(seed: int) -> None:
    held = written("random_halves", str(FIRST), str(COUNT)) / f"cases-{seed}"
    path = next(p for p in (held.with_suffix(".pt2"), held.with_suffix(".pt")) if p.exists())
    with np.load(held.with_suffix(".npz")) as file:
        arrays = dict(file)
    precision = ("high", "normal", "low")[seed // 2 % 3]  # the last one may multiply in bfloat16
    model = MNN.load(path, precision=precision)
    ((name, _),) = model.inputs.items()
    (found,) = model.run({name: arrays["x"].astype(TYPES[seed % 2])}).values()
    assert found.dtype == TYPES[seed % 2]
    off = np.abs(found.astype(np.float64) - arrays["exact"]).max() / np.abs(arrays["exact"]).max()
    theirs, step = float(arrays["error"]), STEP[0] if precision == "low" else STEP[seed % 2]
    assert off <= 2 * theirs + 2 * step, f"{off:.1e}, torch {theirs:.1e}, {precision}"
