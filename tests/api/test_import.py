"""What importing costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = str(Path(__file__).parents[2] / "src")


def python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_import_brings_nothing_heavy() -> None:
    loaded = python("import MNN, sys; print(*sys.modules)").split()
    assert not {"numpy", "llvmlite", "onnx", "ml_dtypes", "PIL"} & set(loaded)


def test_expressions_bring_no_compiler() -> None:
    code = "import MNN, sys; v = MNN.numpy.ones([2]) + 1; print(v.read().tolist(), *sys.modules)"
    first, *rest = python(code).split("] ")
    assert first == "[2, 2"
    assert not {"llvmlite", "onnx"} & set(rest[0].split())


def test_parts_are_there_after_import() -> None:
    code = """
import MNN
print(MNN.version(), MNN.expr.NC4HW4, MNN.numpy.float32, MNN.nn.Module.__name__, MNN.cv.INTER_LINEAR)
print(MNN.Tensor_DimensionType_Caffe, MNN.Halide_Type_Float, MNN.Interpreter.__name__, "load" in dir(MNN))
"""
    assert python(code).split() == [
        "3.6.1", "data_format.NC4HW4", "dtype.float", "Module", "1", "1", "Halide_Type_Float", "Interpreter", "True",
    ]  # fmt: skip
