"""Windows as columns, against numpy, and through an official file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from MNN.errors import ShapeError
from MNN.frontends import load_graph
from MNN.frontends.mnn import write_mnn
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session


def columns(x: np.ndarray, attrs: dict[str, int | list[int]]) -> np.ndarray:
    """Window by window."""
    pads = attrs["pads"]
    assert isinstance(pads, list)
    padded = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    (ky, kx), (sy, sx), (dy, dx) = ((attrs[f"{n}Y"], attrs[f"{n}X"]) for n in ("kernel", "stride", "dilate"))
    sizes = zip(padded.shape[2:], (ky, kx), (dy, dx), (sy, sx), strict=True)
    height, width = ((n - (k - 1) * d - 1) // s + 1 for n, k, d, s in sizes)
    found = np.zeros((x.shape[1], ky, kx, x.shape[0], height, width), x.dtype)
    for i, j, row, column in np.ndindex(ky, kx, height, width):
        found[:, i, j, :, row, column] = padded[:, :, row * sy + i * dy, column * sx + j * dx].T
    return found.reshape(x.shape[1] * ky * kx, -1)


def graph(shape: tuple[int, ...], attrs: dict[str, int | list[int]]) -> Graph:
    x, y = Value("x", DType.F32, shape), Value("y", DType.F32)
    return Graph("columns", [x], [y], [Node("Im2Col", "columns", [x], [y], dict(attrs))])


@pytest.mark.parametrize("seed", range(12))
def test_columns(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    attrs: dict[str, int | list[int]] = {"pads": rng.integers(0, 3, 4).tolist()}
    for name, most in (("kernel", 4), ("stride", 4), ("dilate", 3)):
        attrs[f"{name}Y"], attrs[f"{name}X"] = rng.integers(1, most, 2).tolist()
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 6)), *rng.integers(5, 12, 2).tolist())
    x = rng.standard_normal(shape).astype(np.float32)
    made = graph(shape, attrs)
    np.testing.assert_array_equal(Session(made).run({"x": x})["y"], columns(x, attrs))
    path = tmp_path / "columns.mnn"
    write_mnn(made, path)
    np.testing.assert_array_equal(Session(load_graph(path)).run({"x": x})["y"], columns(x, attrs))


def test_a_window_larger_than_the_image_is_refused() -> None:
    attrs: dict[str, int | list[int]] = {"kernelY": 5, "kernelX": 1}
    with pytest.raises(ShapeError, match="larger than the padded input"):
        Session(graph((1, 1, 4, 4), attrs)).run({"x": np.zeros((1, 1, 4, 4), np.float32)})
