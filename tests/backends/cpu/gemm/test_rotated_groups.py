"""Convolutions of f32 in small groups whose sums are rotated, against float64 in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.rotated_groups import Rotated, choose_rotated
from MNN.backends.cpu.targets import Target, families, host_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import util

ROUNDING = 2.0**-24


def _convolution(rng: np.random.Generator) -> tuple[bytes, dict, np.ndarray]:
    """A convolution in small groups, the number of everything drawn, with a bias; its attributes and what it is fed."""
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([2, 3, 4, 6, 8, 16, 20]))
    ins = int(rng.integers(1, 17))
    outs = ins if rng.integers(2) else int(rng.integers(1, 17))
    kernel = rng.integers(1, 4, rank).tolist()
    attributes = {
        "group": groups, "pads": rng.integers(0, 3, 2 * rank).tolist(), "strides": rng.integers(1, 3, rank).tolist(),
        "dilations": rng.integers(1, 3, rank).tolist(),
    }  # fmt: skip
    full = [int(d * (k - 1) + 1 + rng.integers(0, 6)) for d, k in zip(attributes["dilations"], kernel, strict=True)]
    x = rng.standard_normal((int(rng.integers(1, 3)), groups * ins, *full)).astype(np.float32)
    w = rng.standard_normal((groups * outs, ins, *kernel)).astype(np.float32)
    bias = rng.standard_normal(groups * outs).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "bias"], ["y"], **attributes)], "grouped",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "bias")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString(), attributes | {"w": w, "bias": bias}, x


def _expected(x: np.ndarray, w: np.ndarray, bias: np.ndarray, given: dict) -> np.ndarray:
    groups, rank = given["group"], x.ndim - 2
    pads = zip(given["pads"][:rank], given["pads"][rank:], strict=True)
    wide = np.pad(x, [(0, 0), (0, 0), *pads])
    extents = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(wide.shape[2:], given["dilations"], w.shape[2:], given["strides"], strict=True)
    ]
    total = np.zeros((x.shape[0], groups, w.shape[0] // groups, *extents))
    split = w.reshape(groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, w.shape[2:])):
        places = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, given["dilations"], given["strides"], extents, strict=True)
        )
        part = wide[(slice(None), slice(None), *places)].reshape(x.shape[0], groups, -1, *extents)
        total += np.einsum("ngc...,goc->ngo...", part, split[(..., *tap)])
    return total.reshape(x.shape[0], -1, *extents) + bias.reshape(-1, *[1] * rank)


@pytest.mark.parametrize("target", ["", "sse4.1", "avx512,+avx512vnni"])
def test_convolutions(target: str, weaker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups, windows, steps and borders are drawn. No error is larger than that of sums in f32 in any order."""
    weaker(target)
    monkeypatch.setenv("MNN_POISON", "1")
    rng, used = np.random.default_rng(26), 0
    for _ in range(6):
        made, given, x = _convolution(rng)
        w, bias = given["w"].astype(np.float64), given["bias"].astype(np.float64)
        with restricted("rotated groups"):
            loaded = model.load(made, cache=False)
            (found,) = loaded.run({"x": x}).values()
        exact = _expected(x.astype(np.float64), w, bias, given)
        most = _expected(np.abs(x).astype(np.float64), np.abs(w), np.abs(bias), given)
        assert (np.abs(found - exact) <= (w[0].size + 2) * ROUNDING * most).all(), given
        commands = [c for p in loaded.plans_used() for c in p.bound.program.commands]
        used += sum(isinstance(c.kernel, ContractSpec) and c.kernel.rotated for c in commands)
    assert used >= 4


def test_infinities_stay_in_their_group() -> None:
    rng = np.random.default_rng(3)
    for channels, groups in ((4, 8), (3, 6), (2, 16)):
        x = rng.standard_normal((1, channels * groups, 9)).astype(np.float32)
        x[0, channels] = np.inf
        x[0, -1, 4] = np.nan
        w = rng.standard_normal((channels * groups, channels, 3)).astype(np.float32)
        given = {"group": groups, "pads": [1, 1], "strides": [1], "dilations": [1]}
        graph = helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=[1, 1])], "grouped",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")],
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with restricted("rotated groups"):
            (found,) = model.load(made.SerializeToString(), cache=False).run({"x": x}).values()
        with np.errstate(invalid="ignore"):
            exact = _expected(x.astype(np.float64), w.astype(np.float64), np.zeros(len(w)), given)
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)  # NaN and infinities where they are expected


def _panel(rng: np.random.Generator, target: Target, panel: Rotated, rows: int) -> None:
    """The kernel alone, some of whose panels and rows are not whole; A ends where its last row does."""
    taps, panels, m = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 2 * rows + 2))
    groups = panels * panel.groups
    ins, outs = groups * panel.ins, groups * panel.outs
    x = rng.standard_normal((m, taps, ins)).astype(np.float32)
    w = rng.standard_normal((outs, panel.ins, taps)).astype(np.float32)
    column, other = rng.standard_normal(outs).astype(np.float32), rng.standard_normal((m, outs)).astype(np.float32)
    body = body_of([DType.F32] * 3, lambda b, v, n, mn: b("add", b("add", v, n), mn))
    spec = ContractSpec(
        DType.F32, DType.F32, DType.F32, DType.F32, rows, panel.vectors, True, body, ("n", "mn"),
        channels=(panel.ins, panel.outs), rotations=(panel.groups, panel.rotations),
    )  # fmt: skip
    packed, c = panel.pack(w), np.full((m, outs + 3), 7, np.float32)
    lines = np.arange(m, dtype=np.int32)
    arrays = {
        "a": x, "b": packed, "c": c, "rows_a": lines * np.int32(taps * ins), "rows_c": lines * np.int32(outs + 3),
        "taps": np.arange(taps, dtype=np.int32) * np.int32(ins), "batch": np.zeros((1, 5), np.int64), "op0": column,
        "op1": other, "rows1": lines * np.int32(outs),
    }  # fmt: skip
    slots = {
        "n_taps": taps, "k": ins, "ldb": 0, "panel": packed[0].size, "m": m, "n": outs, "n_batch": 1, "mb": 2 * rows,
        "nb": panel.columns, "ub": rows,
    }  # fmt: skip
    slots |= {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, outs, 1, rows, panel.columns), list(arrays.values()), checked=True)
    assert (c[:, outs:] == 7).all(), "wrote past the columns"
    split = (x.astype(np.float64).reshape(m, taps, groups, panel.ins), w.reshape(groups, panel.outs, panel.ins, taps))
    exact = np.einsum("mtgi,goit->mgo", *split).reshape(m, outs) + column + other
    np.testing.assert_allclose(c[:, :outs], exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
def test_panels_read_and_write_nothing_else(target: Target) -> None:
    rng, lanes = np.random.default_rng(5), target.lanes(DType.F32)
    shapes = [(lanes // 2, lanes // 2), (3, 3), (6, 4), (12, 12)]
    for ins, outs in shapes:
        choice = choose_rotated(target, ins, outs, 24, 9)
        assert choice is not None
        _panel(rng, target, choice.panel, choice.rows)


def test_the_right_panels_are_chosen() -> None:
    """Vectors are filled, and where as many channels go in as out of few, nothing is permuted in the inner loop."""
    for target in (t for family in families().values() for t in family.targets.values()):
        lanes = target.lanes(DType.F32)
        for channels in (2, 4, 8, 16):
            choice = choose_rotated(target, channels, channels, 64, 9)
            assert choice is not None
            assert choice.panel.columns % lanes == 0
            if target.has_fma and not target.lane_operand and channels <= 4:
                assert [choice.panel.work(s)[1] for s in range(choice.panel.steps)] == [0]
    assert choose_rotated(host_target(), 17, 17, 64, 9) is None
    assert choose_rotated(host_target(), 4, 4, 1, 9) is None
