"""Networks of drawn blocks against torch in float64: precisions and numbers of threads in turn, sizes open or not.

``MNN_TORCH_SEED=5000 MNN_TORCH_COUNT=300 python -m pytest tests/frontends/torch/test_random_modules.py`` tries others.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import MNN
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "21")))
TOLERANCE = {"high": 1e-4, "normal": 2e-3, "low": 0.1}
"""Of the largest number; of ``low``, whose single numbers may be anything behind a normalisation, in the mean."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_module(seed: int) -> None:
    folder = written("random_modules", str(FIRST), str(COUNT))
    path = folder / f"cases-{seed}.pt2"
    if not path.exists():
        return  # no network of use, see ``random_modules``; most are
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    precision = list(TOLERANCE)[seed % 3]
    model = MNN.load(path, precision=precision, threads=1 + seed // 3 % 2)
    for key in [k for k in arrays if k.startswith("x")]:
        wanted, error = arrays[f"y{key[1:]}"], float(arrays[f"e{key[1:]}"])
        (found,) = model.run({next(iter(model.inputs)): arrays[key]}).values()
        assert found.shape == wanted.shape
        apart = np.abs(found - wanted)
        off = apart.mean() / np.abs(wanted).mean() if precision == "low" else apart.max() / np.abs(wanted).max()
        assert off <= max(TOLERANCE[precision], 30 * error), f"{off:.1e} at {arrays[key].shape}, {precision}"


def test_most_are_of_use() -> None:
    assert len(list(written("random_modules", str(FIRST), str(COUNT)).glob("*.pt2"))) > COUNT // 2
