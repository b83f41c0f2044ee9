"""Low-bit products of an open number of rows: few are not computed as many are, nor planned one by one."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import MNN
from MNN.backends.base import poison
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.targets import host_target
from MNN.compiler.open.plan import SMALL

DEPTH, COLUMNS, BLOCK = 64, 48, 32
SIZES = (7, 5, 12, SMALL.most, 3, 40, 33, 60, 9, 127, SMALL.most + 1, 300, 200)
"""The first one has a plan of its own, and so has the first in every range."""


def source(rng: np.random.Generator) -> bytes:
    codes = rng.integers(0, 256, (COLUMNS, DEPTH // BLOCK, BLOCK // 2)).astype(np.uint8)
    scales = (0.02 * rng.random(COLUMNS * DEPTH // BLOCK)).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft",
        K=DEPTH, N=COLUMNS, bits=4, block_size=BLOCK,
    )  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", c]) for n, c in (("x", DEPTH), ("y", COLUMNS)))
    constants = [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")]
    graph = helper.make_graph([node], "rows", [x], [y], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return model


@pytest.mark.parametrize("precision", ["normal", "low"])
def test_ranges_of_few_rows_and_of_many(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(poison.VARIABLE, "1")
    rng = np.random.default_rng(5)
    model = source(rng)
    reference = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    ours = MNN.load(model, precision=precision)
    for number, rows in enumerate(SIZES):
        x = rng.standard_normal((rows, DEPTH)).astype(np.float32)
        (wanted,) = reference.run(None, {"x": x})
        found = ours.run({"x": x})["y"]
        assert np.abs(found - wanted).max() < (1e-5 if precision == "normal" else 3e-2) * np.abs(wanted).max()
        program = ours.plans_used()[0].bound.program
        assert number == 0 or program.open_sizes is not None, f"{rows} rows are planned alone"
        kernel = program.commands[-1].kernel
        if type(kernel) is CompressedSpec and host_target().broadcast_operand:  # others have no way for so many rows
            assert kernel.few == (rows <= SMALL.most), f"{rows} rows"
