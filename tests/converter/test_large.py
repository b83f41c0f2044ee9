"""Models over 2 GB: one file can neither hold them as ONNX nor as .mnn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.test_process import ENVIRONMENT, POSIX, shell

SIZE, COUNT = 8192, 9
WEIGHT_BYTES = SIZE * SIZE * 4
MEMORY = 3 << 30
"""What converting may take beside the mapped file, whose pages the system can drop."""


def _large_model(folder: Path) -> Path:
    """Products with nine diagonal matrices of 256 MB, k + 2 on the diagonal of the k-th; holes are zeros on disk."""
    nodes, weights, x = [], [], "x"
    with (folder / "large.bin").open("wb") as file:
        for k in range(COUNT):
            tensor = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE])
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": "large.bin", "offset": k * WEIGHT_BYTES, "length": WEIGHT_BYTES}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            for i in range(SIZE):
                file.seek(k * WEIGHT_BYTES + (i * SIZE + i) * 4)
                file.write(np.float32(k + 2).tobytes())
            nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"y{k}"], name=f"product{k}"))
            x = f"y{k}"
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, SIZE]) for n in ("x", x)]
    graph = helper.make_graph(nodes, "large", value[:1], value[1:], weights)
    path = folder / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


@POSIX
@pytest.mark.slow
def test_a_model_over_two_gigabytes(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert free > 4 << 30, f"this test writes 2.4 GB; {tmp_path} has {free / 1e9:.1f} GB"
    model = _large_model(tmp_path)
    total = COUNT * WEIGHT_BYTES
    assert (tmp_path / "large.bin").stat().st_size == total > 1 << 31
    try:
        done = shell("convert", model, "large.mnn", cwd=tmp_path, timeout=600)
        assert done.returncode == 0, done.stderr
        assert "large.mnn.weight" in done.stdout
        assert (tmp_path / "large.mnn").stat().st_size < 100_000
        assert total <= (tmp_path / "large.mnn.weight").stat().st_size < total + 100_000
        os.unlink(tmp_path / "large.bin")

        x = np.linspace(-1, 1, SIZE, dtype=np.float32)[None]
        np.save(tmp_path / "x.npy", x)
        arguments = ["-i", "x.npy", "--fetch", "y2", "-o", "out", "--precision", "high"]
        done = shell("run", "large.mnn", *arguments, cwd=tmp_path, timeout=600)
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(np.load(tmp_path / "out" / "y2.npy"), x * 2 * 3 * 4, rtol=1e-5)
        assert _anonymous_memory(tmp_path) < MEMORY
    finally:
        for file in tmp_path.glob("large.*"):
            file.unlink()


def _anonymous_memory(folder: Path) -> int:
    """Bytes that opening the converted model takes beside mapped files, at most."""
    script = (
        "import json, MNN\n"
        "MNN.load('large.mnn')\n"
        "status = open('/proc/self/status').read()\n"
        "print(json.dumps({k: int(v.split()[0]) << 10 for k, _, v in (l.partition(':') for l in status.splitlines())\n"
        "                  if k == 'RssAnon'}))\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, check=True)
    return int(json.loads(done.stdout)["RssAnon"])
