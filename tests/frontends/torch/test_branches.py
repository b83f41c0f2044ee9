"""Branches and loops of TorchScript that the data decide, against torch: by name, and in random programs.

``MNN_TORCH_SEED=5000 MNN_TORCH_PROGRAMS=300 python -m pytest tests/frontends/torch/test_branches.py`` tries other ones.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import UnsupportedError
from MNN.frontends.torch import script
from MNN.frontends.torch.script.load import Given
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{k}", given)) for k, given in (("SEED", "1"), ("PROGRAMS", "24")))
NAMES = (
    "BeganInside AnotherName View Dictionary Nested Shared Attribute Swapped LoopInPlace LoopAnew LoopOfItsOwn "
    "LoopWrites LoopWritesNested OwnClass HalfKnown Numbers"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_branch_changes(name: str) -> None:
    path = written("branch_cases") / f"cases-{name}.pt"
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    session = Session(script.load(path, {"x": Given((3,))}), Config(reference=True))
    for run in range(2):
        (found,) = session.run({"x": arrays[f"x{run}"]}).values()
        np.testing.assert_allclose(found, arrays[f"y{run}"], rtol=1e-6)
        assert found.dtype == arrays[f"y{run}"].dtype


def outcome(path: Path, seed: int) -> str:
    """``right``, ``refused``, or what is wrong. Every other one goes through the passes, one in eight is compiled."""
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    try:
        graph = script.load(path, {name: Given((3, 4)) for name in "xy"})
    except UnsupportedError:
        return "refused"  # lists of an open length, and the like
    if seed % 2:
        optimize(graph)
    session = Session(graph, Config(precision="high", reference=seed % 8 != 0))
    for run in range(2):
        wanted = [arrays[f"{run}_out_{i}"] for i in range(sum(k.startswith(f"{run}_out") for k in arrays))]
        feeds = {name: arrays[f"{run}_in_{i}"] for i, name in enumerate("xy") if name in session.inputs}
        found = list(session.run(feeds).values())
        if [a.shape for a in found] != [a.shape for a in wanted]:
            return f"run {run}: {len(found)} results for {len(wanted)}"
        for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if not np.allclose(a, b, rtol=1e-4, atol=1e-4 * max(1, np.abs(b).max()), equal_nan=True):
                return f"run {run}, result {i} is {np.abs(a - b).max():.1e} off"
    return "right"


def test_random_programs() -> None:
    files = sorted(written("random_programs", str(FIRST), str(COUNT)).glob("*.pt"))
    found = {path.stem: outcome(path, int(path.stem.split("-")[-1])) for path in files}
    counts = Counter(found.values())
    wrong = {k: v for k, v in found.items() if v not in ("right", "refused")}
    assert not wrong
    assert len(files) > 0.8 * COUNT
    assert counts["refused"] < 0.35 * len(files), counts
