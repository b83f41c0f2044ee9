"""Chains of layers and tensor methods with drawn options, scripted, traced and exported: files answer as in torch.

``MNN_TORCH_SEED=500 MNN_TORCH_COUNT=300 python -m pytest tests/frontends/torch/test_random_chains.py`` tries others.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import UnsupportedError
from MNN.frontends.torch import exported, script
from MNN.frontends.torch.script.load import Given
from MNN.ir.graph import Graph
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "8")))
TOLERANCE = 1e-4
"""Of the largest number, or of 1."""


def load(path: Path, sizes: tuple[int, ...]) -> Graph | None:
    """With open sizes, else with those that it was written with; None where that is refused by name too."""
    if path.suffix == ".pt2":
        try:
            return exported.load(path)
        except UnsupportedError:
            return None
    names = ("n", sizes[1], "h", "w", "d")[: len(sizes)]
    for shape in (names, sizes):
        try:
            return script.load(path, {"0": Given(shape)})
        except UnsupportedError:
            continue
    return None


def answers(seed: int, way: str) -> int:
    """At how many sizes the answers were right; -1 where the file was refused, 0 where there is none."""
    stem = written("random_chains", str(FIRST), str(COUNT)) / f"cases-{seed}"
    path = Path(f"{stem}-{way}.pt{'2' if way == 'export' else ''}")
    if not path.exists():
        return 0
    with np.load(f"{stem}.npz") as file:
        arrays = dict(file)
    graph = load(path, arrays["x_0"].shape)
    if graph is None:
        return -1
    # the reference implementation for most, as what is tested is how files are read; kernels for the rest
    session, right = Session(graph, Config(reference=seed % 4 != 0, precision="high")), 0
    (value,) = graph.inputs
    for i in range(3):
        x, wanted = arrays[f"x_{i}"], arrays.get(f"{way}_{i}")
        fits = all(not isinstance(n, int) or n == m for n, m in zip(value.shape or (), x.shape, strict=True))
        if wanted is None or not fits:
            continue
        (found,) = session.run({value.name: x}).values()
        assert found.shape == wanted.shape, f"{seed}, {way}: {found.shape} for {wanted.shape}"
        assert np.array_equal(np.isnan(found), np.isnan(wanted)), f"{seed}, {way}"
        apart = np.abs(np.nan_to_num(found) - np.nan_to_num(wanted)).max(initial=0)
        assert apart <= TOLERANCE * max(np.abs(np.nan_to_num(wanted)).max(initial=0), 1), f"{seed}, {way}: {apart}"
        right += 1
    return right


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_chain(seed: int) -> None:
    for way in ("script", "trace", "export"):
        answers(seed, way)


def test_most_files_are_read_and_take_other_sizes() -> None:
    found = [
        answers(seed, way) for seed in range(FIRST, FIRST + min(COUNT, 6)) for way in ("script", "trace", "export")
    ]
    assert found.count(-1) <= len(found) // 4
    assert sum(n > 1 for n in found) > len(found) // 3
