"""Random graphs with named axes: the shapes inferred from names occur, and one session runs all sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from MNN.frontends.mnn.read import load as load_mnn
from MNN.frontends.mnn.write import write_mnn
from MNN.frontends.onnx.load import load
from MNN.ir.graph import Graph
from MNN.ir.symbolic import evaluate, names
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.onnx.dynamic_graphs import INPUTS, feeds, graph

faults = onnxruntime.capi.onnxruntime_pybind11_state
NAMES = ("batch", "seq", "height", "width")
SIZES = ((2, 24, 48, 44), (2, 6, 12, 14), (1, 1, 9, 11), (3, 5, 16, 13), (1, 8, 11, 16))
KNOWN = {d for s in INPUTS.values() for d in s if isinstance(d, str)}


def _agrees(made: Graph, sizes: dict[str, int], found: dict[str, np.ndarray], what: str) -> tuple[int, int]:
    """Compares every inferred size with the real one; gives how many followed from the inputs' names, of how many."""
    followed = total = 0
    for value in made.outputs:
        real = found[value.name].shape
        assert value.shape is None or len(value.shape) == len(real), f"{what}: {value} has the shape {real}"
        for size, number in zip(value.shape or (), real, strict=True) if value.shape is not None else ():
            total += 1
            if names(size) <= KNOWN:
                followed += 1
                assert evaluate(size, sizes) == number, f"{what}: {value} has the shape {real} with {sizes}"
    return followed, total


@pytest.mark.parametrize("seed", [s for s in range(20) if s != 16])  # 16 has a window that fits at no size
def test_inferred_shapes_and_results_hold_at_every_size(seed: int, tmp_path: Path) -> None:
    model = graph(seed)
    data = model.SerializeToString()
    remainders = any(n.op_type == "Mod" for n in model.graph.node)  # of differences: not followed
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    as_loaded, optimised = load(data), load(data)
    optimize(optimised, 1)
    write_mnn(optimised, tmp_path / "m.mnn")
    from_file = load_mnn(tmp_path / "m.mnn")
    session = Session(from_file, Config(precision="high"))
    ran = 0
    for i, numbers in enumerate(SIZES):
        sizes = dict(zip(NAMES, numbers, strict=True))
        given = feeds(i, sizes)
        try:
            wanted = dict(zip([o.name for o in peer.get_outputs()], peer.run(None, given), strict=True))
        except (faults.RuntimeException, faults.Fail, faults.InvalidArgument):
            continue  # a window that does not fit, or an axis of one to be split
        ran += 1
        for what, made in (("as loaded", as_loaded), ("optimised", optimised), ("from the file", from_file)):
            followed, total = _agrees(made, sizes, wanted, what)
            assert remainders or followed >= 0.9 * total, (
                f"{what}: {followed} of {total} sizes follow from the inputs' names"
            )
        for name, array in session.run(given).items():
            scale = max(1.0, float(np.abs(wanted[name]).max(initial=0)))
            np.testing.assert_allclose(array, wanted[name], rtol=0, atol=1e-4 * scale, err_msg=f"{name} with {sizes}")
    assert ran, "no size fits this graph"
