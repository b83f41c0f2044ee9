"""com.microsoft's MatMulNBits against numpy and ONNX Runtime, from the ONNX file and again from the .mnn file."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.lowbit.int8 import Int8Spec, sums_bytes
from MNN.backends.cpu.lowbit.spec import CompressedSpec
from MNN.backends.cpu.lowbit.strips import StripTilesSpec
from MNN.backends.cpu.targets.base import host_target
from MNN.errors import MNNError
from MNN.frontends.mnn import load as load_mnn
from MNN.frontends.mnn import net_of
from MNN.frontends.onnx.load import load
from MNN.ir.graph import Graph
from MNN.ir.quant import QuantizedArray
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.schema import write_net

PRODUCTS = (CompressedSpec, AmxSpec, StripTilesSpec)
"""Kernels that multiply by weights in few bits."""

F = np.float32
BOUNDS = {"high": 1e-6, "normal": 2.0**-15, "low": 1e-2}
"""Of the sums of absolute products, what the precisions promise."""


@dataclass
class Case:
    """A model of one product, its input, and what it computes in float64, with the sum of absolute products."""

    model: onnx.ModelProto
    x: np.ndarray
    expected: np.ndarray
    bound: np.ndarray

    def check(self, found: np.ndarray, tolerance: float = BOUNDS["normal"]) -> None:
        assert found.shape == self.expected.shape
        assert (np.abs(found.astype(np.float64) - self.expected) / (self.bound + 1e-30)).max() <= tolerance


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """The last axis in bytes, low bits first."""
    per = 8 // bits
    *lead, count = numbers.shape
    wide = np.zeros((*lead, -(-count // per) * per), np.uint8)
    wide[..., :count] = numbers
    parts = wide.reshape(*lead, -1, per)
    return np.bitwise_or.reduce(parts << np.arange(0, 8, bits, dtype=np.uint8), axis=-1).astype(np.uint8)


def product(
    k: int, n: int, rows: tuple[int, ...], bits: int = 4, block: int = 32, zeros: str = "none", bias: bool = False,
    kind: type = np.float32, axes: tuple[str | int, ...] | None = None, seed: int = 0, **attrs: Any,
) -> Case:  # fmt: skip
    """``zeros``: "none", "packed" or "float"; ``axes``: the sizes that the model declares in front of K."""
    rng, blocks, half = np.random.default_rng(seed), -(-k // block), 1 << (bits - 1)
    codes = rng.integers(0, 2 * half, (n, blocks * block)).astype(np.uint8)
    scale = (rng.uniform(0.01, 0.1, (n, blocks)) * rng.choice([1, -1], (n, blocks))).astype(kind)
    zero = np.full((n, blocks), half, F)
    arrays = {"b": packed(codes.reshape(n, blocks, block), bits), "scales": scale.reshape(-1)}
    if zeros == "packed":
        points = rng.integers(0, 2 * half, (n, blocks)).astype(np.uint8)
        zero, arrays["zeros"] = points.astype(F), packed(points, bits).reshape(-1)
    elif zeros == "float":
        zero = rng.uniform(0, 2 * half, (n, blocks)).astype(kind)
        arrays["zeros"] = zero.reshape(-1)
    if bias:
        arrays["bias"] = rng.normal(size=n).astype(kind)
    spread = [np.repeat(a.astype(np.float64), block, axis=1) for a in (zero, scale)]
    wide = ((codes - spread[0]) * spread[1])[:, :k].T
    x = rng.normal(size=(*rows, k)).astype(kind)
    shift = arrays["bias"].astype(np.float64) if bias else 0.0
    expected = x.astype(np.float64) @ wide + shift
    bound = np.abs(x).astype(np.float64) @ np.abs(wide) + np.abs(shift)
    names = ["x", *(name if name in arrays else "" for name in ("b", "scales", "zeros", "", "bias"))]
    while not names[-1]:
        names.pop()
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block, **attrs}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", name="it", **attrs)
    dtype = TensorProto.FLOAT if kind is np.float32 else TensorProto.FLOAT16
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", dtype, [*(rows if axes is None else axes), k])],
        [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(a, name) for name, a in arrays.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return Case(helper.make_model(graph, opset_imports=opsets, ir_version=10), x, expected, bound)


def through_file(graph: Graph) -> Graph:
    data = write_net(net_of(graph))
    assert data is not None
    return load_mnn(data)


def compressed(graph: Graph) -> list[QuantizedArray]:
    return [v.data for v in graph.values() if isinstance(v.data, QuantizedArray)]


def kernels(session: Session) -> list[KernelSpec]:
    """The kernels of products in the last run's plans that take weights of few bits: as they are, or on tiles."""
    stages = [p.bound for p in session.plans_used() if isinstance(p.bound, BoundProgram)]
    return [c.kernel for s in stages for c in s.program.commands if isinstance(c.kernel, PRODUCTS)]


@pytest.mark.parametrize("seed", range(60))
def test_random_products(seed: int) -> None:
    pick = random.Random(seed)
    bits = (4, 4, 8, 2)[seed % 4]
    block, k = pick.choice((16, 32, 64, 128, 256)), pick.choice((16, 31, 32, 64, 96, 128, 200, 256, 512))
    zeros, bias = pick.choice(("none", "packed", "float")), pick.random() < 0.4
    rows = pick.choice(((1,), (3,), (1, 1), (2, 5), (40,), (2, 1, 7), (130,), (64,)))
    axes = None if pick.random() < 0.4 else tuple(f"d{i}" for i in range(len(rows)))
    case = product(k, pick.choice((1, 7, 16, 33, 64, 100, 130)), rows, bits, block, zeros, bias, axes=axes, seed=seed)
    graph = load(case.model.SerializeToString())
    optimize(graph)
    again = through_file(load(case.model.SerializeToString()))
    for model in (graph, again):
        (held,) = compressed(model)
        assert held.width == bits
        session = Session(model)
        case.check(session.run({"x": case.x})["y"])
        assert len(kernels(session)) == 1
        case.check(Session(model, Config(reference=True)).run({"x": case.x})["y"])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("zeros", ["none", "packed"])
@pytest.mark.parametrize("rows", [(1,), (9,)])
def test_as_onnxruntime(bits: int, block: int, zeros: str, rows: tuple[int, ...]) -> None:
    case = product(128, 48, rows, bits, block, zeros)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    data = case.model.SerializeToString()
    peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (want,) = peer.run(None, {"x": case.x})
    found = Session(load(data)).run({"x": case.x})["y"]
    assert (np.abs(found - want) / case.bound).max() < BOUNDS["normal"]


@pytest.mark.parametrize("precision", ["high", "normal", "low"])
@pytest.mark.parametrize("rows", [1, 5, 33, 200])
def test_precisions(precision: str, rows: int) -> None:
    case = product(256, 96, (rows,), zeros="packed")
    session = Session(load(case.model.SerializeToString()), Config(precision=precision))
    case.check(session.run({"x": case.x})["y"], BOUNDS[precision])


def test_half_precision_models() -> None:
    for rows in (1, 40):
        case = product(128, 70, (rows,), zeros="packed", kind=np.float16, bias=True)
        session = Session(load(case.model.SerializeToString()))
        found = session.run({"x": case.x})["y"]
        assert found.dtype == np.float16
        case.check(found, 2e-3)
        assert len(kernels(session)) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_sizes_of_one_session(threads: int) -> None:
    session: Session | None = None
    for rows in (1, 2, 7, 16, 33, 150):
        case = product(192, 300, (rows,), zeros="packed", axes=("rows",), seed=5)
        case.x = np.random.default_rng(rows).normal(size=(rows, 192)).astype(F)
        session = session or Session(load(case.model.SerializeToString()), Config(threads=threads))
        weight = compressed(load(case.model.SerializeToString()))[0].dequantize().T.astype(np.float64)
        case.expected, case.bound = case.x @ weight, np.abs(case.x) @ np.abs(weight)
        case.check(session.run({"x": case.x})["y"])


def test_a_file_holds_the_bits_only() -> None:
    case = product(512, 512, (1,), zeros="packed", axes=("batch", "time")[:1])
    two = product(512, 512, (1, 1), zeros="packed", axes=("batch", "time"))
    for model in (case.model, two.model):
        data = write_net(net_of(load(model.SerializeToString())))
        assert data is not None
        assert len(data) < 512 * 512 * (0.5 + 8 / 32) + 8192


def test_what_cannot_be_is_said() -> None:
    case = product(64, 8, (1,))
    case.model.graph.node[0].input.extend(["", "order"])
    case.model.graph.initializer.append(numpy_helper.from_array(np.zeros(64, np.int32), "order"))
    with pytest.raises(MNNError, match="g_idx"):
        load(case.model.SerializeToString())
    case = product(64, 8, (1,))
    case.model.graph.node[0].attribute[2].i = 3
    with pytest.raises(MNNError, match="3 bits"):
        load(case.model.SerializeToString())
    case = product(64, 8, (1,))
    case.model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((8, 1, 16), np.uint8), "b"))
    with pytest.raises(MNNError, match="MatMulNBits"):
        load(case.model.SerializeToString())


def test_scales_of_any_size_give_what_f32_gives() -> None:
    """Scales that kernels cannot multiply by a power of two are expanded."""
    case = product(64, 8, (3,))
    scales = numpy_helper.to_array(case.model.graph.initializer[1]).copy()
    scales[3] = 1e38
    scales[5] = np.inf
    case.model.graph.initializer[1].CopyFrom(numpy_helper.from_array(scales, "scales"))
    session = Session(load(case.model.SerializeToString()))
    found = session.run({"x": case.x})["y"]
    assert not kernels(session)
    assert np.isfinite(found[:, [0, 3, 4, 5, 6, 7]]).all()
    assert not np.isfinite(found[:, 2]).any()


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(
    ("bits", "block", "zeros"), [(4, 32, "none"), (4, 128, "packed"), (8, 64, "none"), (2, 32, "float")]
)
def test_rows_rounded_where_the_model_allows_it(rows: int, bits: int, block: int, zeros: str) -> None:
    """``accuracy_level`` 4, also in a plan for any number of rows; without it nothing is rounded."""
    for level in (4, 1):
        case = product(320, 200, (rows,), bits, block, zeros, bias=True, accuracy_level=level, axes=("n",))
        session = Session(load(case.model.SerializeToString()), Config())
        case.check(next(iter(session.run({"x": case.x}).values())), BOUNDS["low" if level == 4 else "normal"])
        kernels = [c.kernel for plan in session.plans_used() for c in plan.bound.program.commands]
        rounded = any(
            isinstance(kernel, Int8Spec) or (isinstance(kernel, StripTilesSpec) and kernel.parts == 1)
            for kernel in kernels
        )  # to bytes, or to the bf16 of matrix units
        assert rounded == (level == 4 and sums_bytes(host_target()))
