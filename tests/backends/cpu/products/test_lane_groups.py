"""Integer convolutions whose small groups lie side by side in lanes, against whole numbers in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.lane_groups import groups_in_lanes
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from tests.backends.cpu import util

KINDS = {"u8": (np.uint8, TensorProto.UINT8), "i8": (np.int8, TensorProto.INT8)}
SHAPES = [(32, 4, 4), (8, 8, 8), (16, 2, 2), (6, 8, 4), (24, 4, 2), (40, 1, 2), (4, 16, 4), (12, 6, 6), (8, 32, 8)]
"""Groups, and channels in and out of each."""


def _model(rng: np.random.Generator, kind: str, shape: tuple[int, int, int], rank: int) -> tuple[bytes, dict, dict]:
    """A convolution whose results are quantised again, its numbers, and what it is fed."""
    groups, ins, outs = shape
    dtype, code = KINDS[kind]
    kernel = rng.integers(1, 4, rank).tolist()
    steps, spread = rng.integers(1, 3, rank).tolist(), rng.integers(1, 3, rank).tolist()
    pads = rng.integers(0, 3, 2 * rank).tolist()
    full = [int(s * (k - 1) + 1 + rng.integers(0, 9)) for s, k in zip(spread, kernel, strict=True)]
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, (int(rng.integers(1, 3)), groups * ins, *full)).astype(dtype)
    w = rng.integers(-128, 128, (groups * outs, ins, *kernel)).astype(np.int8)
    w[0], x[:, 0] = 127, info.max
    scale = rng.uniform(1e-4, 1e-3, groups * outs).astype(np.float32)
    numbers = {
        "xs": np.float32(0.5), "xz": dtype(rng.integers(info.min, info.max + 1)), "w": w, "ws": scale,
        "wz": np.zeros(groups * outs, np.int8), "ys": np.float32(rng.choice([0.5, 1e-9])),
        "yz": dtype(rng.integers(info.min, info.max + 1)),
        "bias": rng.integers(-5000, 5000, groups * outs).astype(np.int32),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "bias"]
    attributes = {"group": groups, "pads": pads, "strides": steps, "dilations": spread}
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", names, ["y"], **attributes)], "grouped",
        [helper.make_tensor_value_info("x", code, x.shape)], [helper.make_tensor_value_info("y", code, None)],
        [numpy_helper.from_array(np.array(a), n) for n, a in numbers.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString(), numbers | attributes, {"x": x}


def _expected(x: np.ndarray, given: dict) -> np.ndarray:
    w, groups, rank = given["w"].astype(np.int64), given["group"], x.ndim - 2
    wide = x.astype(np.int64) - int(given["xz"])
    wide = np.pad(wide, [(0, 0), (0, 0), *zip(given["pads"][:rank], given["pads"][rank:], strict=True)])
    extents = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(wide.shape[2:], given["dilations"], w.shape[2:], given["strides"], strict=True)
    ]
    total = np.zeros((x.shape[0], groups, w.shape[0] // groups, *extents), np.int64)
    split = w.reshape(groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, w.shape[2:])):
        places = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, given["dilations"], given["strides"], extents, strict=True)
        )
        part = wide[(slice(None), slice(None), *places)].reshape(x.shape[0], groups, -1, *extents)
        total += np.einsum("ngc...,goc->ngo...", part, split[(..., *tap)])
    line = (-1, *[1] * rank)
    sums = total.reshape(x.shape[0], -1, *extents) + given["bias"].reshape(line)
    factor = given["xs"] * given["ws"] / given["ys"]
    info = np.iinfo(x.dtype)
    scaled = np.rint(sums.astype(np.float32) * factor.astype(np.float32).reshape(line)).astype(np.float64)
    return np.clip(scaled + int(given["yz"]), info.min, info.max).astype(x.dtype)


@pytest.mark.parametrize("target", ["", "avx2", "avx2 -avxvnni -avxvnniint8"])
@pytest.mark.parametrize("seed", range(2))
def test_convolutions(seed: int, target: str, weaker: Callable[[str], None]) -> None:
    """Windows, steps, borders, types and zero points are drawn; scales may be too large for what i32 holds."""
    weaker(target)
    rng = np.random.default_rng(26 + seed)
    used = 0
    for shape in SHAPES:
        kind = str(rng.choice(list(KINDS)))
        made, given, feed = _model(rng, kind, shape, int(rng.integers(1, 3)))
        with restricted("groups in lanes"):
            loaded = model.load(made, cache=False)
            (found,) = loaded.run(feed).values()
        away = np.abs(found.astype(int) - _expected(feed["x"], given))
        assert away.max() <= 1, (shape, kind)
        assert (away > 0).mean() < 1e-3  # where factors are rounded to f32 otherwise, beside a tie
        commands = [c for p in loaded.plans_used() for c in p.bound.program.commands]
        used += sum(isinstance(c.kernel, ContractSpec) and c.kernel.in_lanes for c in commands)
    assert used >= len(SHAPES) // 2


@pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
def test_nothing_is_multiplied_by_zero(target: Target) -> None:
    """Groups fill a vector exactly, and their channels in lie in one read of memory."""
    lanes = target.lanes(DType.I32)
    for ins, outs, groups in itertools.product((1, 2, 3, 4, 8, 12), (1, 2, 3, 4, 8, 16), (1, 3, 8, 12, 64)):
        w = Tensor(DType.I8, (groups * outs, ins, 3), const=np.ones((groups * outs, ins, 3), np.int8))
        found = groups_in_lanes(target, DType.U8, 4, w, groups)
        if found is not None:
            assert found.groups * outs == lanes
            assert groups % found.at_once == 0
            assert found.groups * ins <= 64
        assert groups_in_lanes(target, DType.F32, 1, w, groups) is None
