"""Gradients of single functions with drawn settings, compiled, against torch's in float64.

``MNN_FUNCTION_SEED=5000 MNN_FUNCTION_COUNT=600 python -m pytest tests/autodiff/test_random_functions.py`` tries others.
"""

from __future__ import annotations

import os

from tests.autodiff.test_random_networks import check
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_FUNCTION_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "12")))


def test_gradients() -> None:
    folder = written("tests.autodiff.random_functions", str(FIRST), str(COUNT))
    found = list(folder.glob("*.pt2"))
    assert len(found) > COUNT * 3 // 4
    for path in found:
        check(path, int(path.stem.split("-")[1]))
