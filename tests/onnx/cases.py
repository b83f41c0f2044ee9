"""onnx's own operator cases: collects them and runs one through load and a runner."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import sys
import tempfile
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from MNN.frontends.onnx import load
from tests import zoo
from tests.harness import Runner


@functools.cache
def node_cases() -> dict[str, Any]:
    """All generated cases by name: the same ones every time, as onnx seeds each.

    It makes them anew in eleven seconds, which every process that only lists tests would take."""
    versions = (
        f"onnx-{onnx.__version__}-numpy-{np.__version__}-python-{sys.version_info.major}.{sys.version_info.minor}"
    )
    path = zoo.cache_folder() / f"node-cases-{versions}.pickle"
    with contextlib.suppress(FileNotFoundError):
        found: dict[str, Any] = pickle.loads(path.read_bytes())
        return found
    import onnx.backend.test.case.node as node

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = {case.name: case for case in node.collect_testcases(None)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(pickle.dumps(found, 5))
    os.replace(file.name, path)  # two processes may do so at once
    return found


def run_case(case: Any, runner: Runner) -> None:
    """Raises for anything but the expected outputs."""
    run_model(case.model, case.data_sets, case.rtol, case.atol, runner)


def run_model(model: onnx.ModelProto, data_sets: Any, rtol: float, atol: float, runner: Runner) -> None:
    """Raises when a model does not give the expected outputs of (inputs, outputs) pairs."""
    given = {t.name for t in model.graph.initializer}
    names = [v.name for v in model.graph.input if v.name not in given]
    kinds = [v.type for v in model.graph.output]
    for inputs, outputs in data_sets:
        feeds = {name: _plain(value) for name, value in zip(names, inputs, strict=True)}
        found = runner(load(model.SerializeToString()), feeds)
        assert len(found) == len(outputs), f"{len(found)} outputs, expected {len(outputs)}"
        for k, (got, expected) in enumerate(zip(found, outputs, strict=True)):
            same(got, _plain(expected), rtol, atol, f"output {k}", random=_is_random(model), kind=kinds[k])


def _is_random(model: onnx.ModelProto) -> bool:
    return any(n.op_type in ("Bernoulli", "RandomUniformLike", "Multinomial") for n in model.graph.node)


def _plain(value: object) -> object:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None else np.asarray(value)


def same(got: Any, expected: Any, rtol: float, atol: float, where: str, random: bool, kind: Any) -> None:
    """Asserts dtype, shape and numbers (of random outputs only dtype and shape)."""
    if expected is None or isinstance(expected, list):
        assert (got is None) == (expected is None), f"{where}: {got!r}, expected {expected!r}"
        for i, (a, b) in enumerate(zip(got or (), expected or (), strict=True)):
            same(a, b, rtol, atol, f"{where}[{i}]", random, kind)
        return
    got = np.asarray(got)
    assert got.shape == expected.shape, f"{where}: shape {got.shape}, expected {expected.shape}"
    if expected.dtype.kind in "OSU":
        assert got.astype(str).tolist() == expected.astype(str).tolist(), f"{where}: strings differ"
        return
    assert got.dtype == expected.dtype, f"{where}: dtype {got.dtype}, expected {expected.dtype}"
    if random:
        return
    if got.dtype.kind in "iub":
        assert np.array_equal(got, expected), (
            f"{where}: integers differ: {got.reshape(-1)[:8]} {expected.reshape(-1)[:8]}"
        )
        return
    if got.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # as onnx's own runner allows it: two units in the last place
    if got.dtype.itemsize < 4:
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True, err_msg=where)
