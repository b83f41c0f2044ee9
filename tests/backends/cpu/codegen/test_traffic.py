"""Bytes that kernels say they touch, against sets of addresses counted one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from MNN.backends.cpu.amx.layout import joined_layout, rows_layout, window_layout
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.codegen.traffic import covered, union
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.loops.gather import GatherSpec
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.loops.rows import RowSpec
from MNN.backends.cpu.loops.scan import ScanSpec
from MNN.backends.cpu.loops.scatter import ScatterSpec
from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of

ADD = body_of([DType.F32, DType.F32], lambda b, x, y: b("add", x, y))


@pytest.mark.parametrize(
    ("extents", "strides"),
    [((3, 4), (4, 1)), ((3, 4), (0, 1)), ((5, 2), (10, 5)), ((2, 3, 4), (1, 2, 6)), ((3, 3), (1, 1)), ((0, 4), (4, 1))],
)
def test_covered(extents, strides):
    seen = {sum(i * s for i, s in zip(at, strides, strict=True)) for at in itertools.product(*map(range, extents))}
    assert covered(extents, strides) == len(seen)


def test_union():
    starts = np.array([10, 0, 3, 3, 12], np.int64)
    assert union(starts, 4) == len({s + i for s in starts.tolist() for i in range(4)})
    assert union(starts[:0], 4) == 0


def test_map_with_broadcast_and_stride():
    spec = MapSpec(body=ADD, rank=2, inputs=("1", "0"), outputs=("s",))
    args = {"extent0": 6, "extent1": 10, "chunk": 10, "in0": 0, "in0_s0": 10, "in1": 0, "in1_s0": 1}
    args |= {"out0": 0, "out0_s0": 1, "out0_s1": 6}
    assert set(args) == set(spec.slots())
    assert spec.traffic(args) == {"in0": 240, "in1": 24, "out0": 240}


def test_rows_count_a_number_per_row():
    spec = RowSpec(body=ADD, rank=2, inputs=("1", "1"), outputs=("1",))
    args = {"extent0": 3, "extent1": 5, "in0": 0, "in0_s0": 5, "in1": 0, "in1_s0": 0, "out0": 0, "out0_s0": 5}
    assert spec.traffic(args) == {"in0": 60, "in1": 20, "out0": 60}


def test_convolution_counts_shared_pixels_once():
    """3x3 windows over a padded 6x6 picture of 8 channels, 4x4 results of 5 channels."""
    size, channels, outputs = 6, 8, 5
    rows = np.array([(y * size + x) * channels for y in range(4) for x in range(4)], np.int32)
    taps = np.array([ky * size * channels for ky in range(3)], np.int32)
    body = body_of([DType.F32, DType.F32], lambda b, x, y: b("add", x, y))
    spec = ContractSpec(DType.F32, DType.F32, DType.F32, DType.F32, 8, 3, True, body, ("n",))
    numbers = {"n_taps": 3, "k": 3 * channels, "m": 16, "n": outputs, "n_batch": 1}
    args = dict.fromkeys(spec.slots(), 0) | numbers
    args |= {"rows_a": rows, "taps": taps, "batch": np.zeros((1, 4), np.int64)}
    touched = {r + t + i for r in rows.tolist() for t in taps.tolist() for i in range(3 * channels)}
    assert len(touched) == size * size * channels
    weights, result = 9 * channels * outputs * 4, 16 * outputs * 4
    assert spec.traffic(args) == {"a": len(touched) * 4, "b": weights, "c": result, "op0": outputs * 4}


def test_batched_product_counts_a_shared_side_once():
    spec = ContractSpec(DType.F32, DType.F32, DType.F32, DType.F32, 8, 3)
    batch = np.array([[0, 0, 0], [600, 0, 300]], np.int64)
    args = dict.fromkeys(spec.slots(), 0) | {"n_taps": 1, "k": 20, "m": 30, "n": 10, "n_batch": 2}
    args |= {"rows_a": np.arange(0, 600, 20, dtype=np.int32), "taps": np.zeros(1, np.int32), "batch": batch}
    assert spec.traffic(args) == {"a": 2 * 600 * 4, "b": 200 * 4, "c": 2 * 300 * 4}


def test_depthwise_window():
    """Stride 2 over a 9x9 picture of 16 channels: every pixel is read, each once."""
    spec = WindowSpec(DType.F32, DType.F32, DType.F32, "dot", 3, 2, 1, 4)
    lines = np.array([y * 2 * 9 * 16 for y in range(4)], np.int32)
    args = dict.fromkeys(spec.slots(), 0)
    args |= {"n_lines": 4, "kh": 3, "ow": 4, "c": 16, "row_x": 9 * 16, "step_x": 16, "step_y": 16, "lines_x": lines}
    assert spec.traffic(args) == {"x": 81 * 16 * 4, "y": 16 * 16 * 4, "w": 9 * 16 * 4}


def test_transposition_and_scan():
    args = {"batch0": 2, "rows": 30, "cols": 20, "band": 16, "in": 0, "in_s0": 600, "in_row": 20}
    args |= {"out": 0, "out_s0": 600, "out_row": 30}
    assert TransposeSpec(size=4, batch=1).traffic(args) == {"in": 4800, "out": 4800}
    spec = ScanSpec(op="add", dtype=DType.F32, exclusive=False, reverse=False, rank=1, contiguous=True)
    args = {"extent0": 7, "n": 5, "in": 0, "in_s0": 1, "in_step": 7, "out": 0, "out_s0": 1, "out_step": 7}
    assert spec.traffic(args) == {"in": 140, "out": 140}


def test_gather_and_scatter():
    spec = GatherSpec(dtype=DType.F32, index_dtypes=(DType.I64,), rank=2, data="1", indices=("0",), out="1")
    args = dict.fromkeys(spec.slots(), 0) | {"extent0": 4, "extent1": 8, "idx0_s0": 1, "out_s0": 8}
    assert spec.traffic(args) == {"idx0": 32, "out": 128, "data": 128}
    scatter = ScatterSpec(
        dtype=DType.F32, op="set", index_dtypes=(DType.I32,), rank=2, data="1", indices=("0",), updates="1"
    )
    args = dict.fromkeys(scatter.slots(), 0) | {"extent0": 4, "extent1": 8, "idx0_s0": 1, "updates_s0": 8}
    assert scatter.traffic(args) == {"idx0": 16, "updates": 128, "data": 128}


@pytest.mark.parametrize("kind", ["rows", "chunks", "joined", "pixels"])
def test_products_of_tiles(kind):
    """A 6x6 picture of 64 channels (joined: 4) under 3x3 windows; its 4x4 inner pixels as rows of a product."""
    size, channels, n = 6, 4 if kind == "joined" else 64, 40
    rows = np.array([(y * size + x) * channels for y in range(4) for x in range(4)])
    taps = np.arange(3) * size * channels
    if kind == "pixels":
        steps = size * channels, channels
        window = Window(1, (4, 4), (size, size), (3, 3), (1, 1), (1, 1), size * size * channels, steps, channels)
        layout, seen = window_layout(window, 2), size * size * channels
    elif kind == "joined":
        found = joined_layout(rows, taps, 3 * channels, 8)
        assert found is not None
        layout, seen = found, size * size * channels
    else:
        layout, seen = rows_layout(rows, np.zeros(1, np.int64), channels, 8, 32 * (kind == "chunks")), 16 * channels
    body = body_of([DType.F32, DType.F32], lambda b, x, y: b("add", x, y))
    spec = AmxSpec(DType.F32, DType.F32, 2, body, ("n",))
    args = dict.fromkeys(spec.slots(), 0) | {"n": n, "n_batch": 2, "panel": 1000}
    args |= {name: getattr(layout, name) for name in ("chunks", "step", "m_blocks", "pairs")}
    tables = {name: getattr(layout, name).astype(np.int32) for name in ("items", "regions", "first")}
    tables["batch"] = np.array([[0, 0, 0, 0], [size * size * channels, 0, 640, 0]], np.int64)
    assert spec.traffic(args | tables) == {"a": 2 * seen * 4, "b": 2000, "c": 2 * 16 * n * 4, "op0": n * 4}
