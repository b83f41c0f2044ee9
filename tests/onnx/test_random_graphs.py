"""Random graphs against ONNX Runtime: as loaded, after the passes, and through the .mnn file.

``MNN_EXAMPLES`` sets how many are drawn (default 120).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, reject, settings

from MNN.frontends.mnn.read import load as load_mnn
from MNN.frontends.mnn.write import write_mnn
from MNN.frontends.onnx import load
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.onnx.random_graphs import Maker, graphs

EXAMPLES = int(os.environ.get("MNN_EXAMPLES", "120"))


def _same(found: dict[str, np.ndarray], want: dict[str, np.ndarray], what: str) -> None:
    for name, expected in want.items():
        got = found[name]
        assert got.dtype == expected.dtype, f"{what}: {name} is {got.dtype}, expected {expected.dtype}"
        assert got.shape == expected.shape, f"{what}: {name} is {got.shape}, expected {expected.shape}"
        if expected.dtype.kind in "iub":
            # a float that lies between two integers by its last digit may be rounded either way
            assert np.mean(got != expected) <= 0.1, f"{what}: {name} differs"
        else:
            scale = max(1.0, float(np.abs(np.where(np.isfinite(expected), expected, 0)).max(initial=0)))
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4 * scale, err_msg=f"{what}: {name}")


@pytest.mark.onnxruntime("1.32")
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(maker=graphs())
def test_random_graphs_like_onnxruntime(tmp_path_factory, maker: Maker) -> None:
    model, feeds = maker.model(), maker.feeds()
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        reject()  # of some operators it has no double form
    want = dict(zip([o.name for o in peer.get_outputs()], peer.run(None, feeds), strict=True))
    graph = load(data)
    high = Config(precision="high")
    _same(Session(graph, high).run(feeds), want, "as loaded")
    optimize(graph, 2)
    _same(Session(graph, high).run(feeds), want, "optimised")
    path = Path(tmp_path_factory.getbasetemp()) / "random.mnn"
    write_mnn(graph, path)
    _same(Session(load_mnn(path), high).run(feeds), want, "from the file")
