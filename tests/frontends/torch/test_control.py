"""Exported programs whose graphs hold graphs, masks that hide everything, sizes that become nothing, against torch."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from tests.frontends.torch.peer import written


@pytest.mark.parametrize(
    "name",
    ("while map scan attention autocast windows chunks empty gated masks rows ranked turns resized").split(),
)
def test_programs_with_graphs_inside(name: str) -> None:
    path = written("control_cases") / f"cases-{name}.pt2"
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    model = MNN.load(path, threads=1, precision="high")
    for run in range(1 + max(int(k.split("_")[0]) for k in arrays)):
        given = [arrays[f"{run}_in_{i}"] for i in range(len(model.inputs))]
        found = list(model.run(dict(zip(model.inputs, given, strict=True))).values())
        wanted = [v for k, v in arrays.items() if k.startswith(f"{run}_out")]
        assert [a.shape for a in found] == [a.shape for a in wanted]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.astype(np.float64), b, rtol=1e-4, atol=2e-2 if name == "autocast" else 1e-5)
    if name == "autocast":
        assert [a.dtype.name for a in found] == ["float32", "bfloat16"]
