"""Models from ONNX Runtime's quantiser: what becomes of their graphs, and that they give its numbers."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from MNN import model
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.frontends.registry import load_graph
from MNN.ir.dtype import DType
from MNN.passes.manager import optimize
from tests.passes.build import Maker, fires, ops

RNG = np.random.default_rng(7)
STEPS = 1
"""By so many steps of the result's scale two ways of rounding may differ, a sum of several by as much each."""


class _Data(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)


def _weights(name: str, *shape: int, scale: float = 0.3) -> onnx.TensorProto:
    return numpy_helper.from_array((RNG.standard_normal(shape) * scale).astype(np.float32), name)


def _net() -> onnx.ModelProto:
    """Convolutions of all kinds with odd sizes, a sum, a pool, a concatenation, an average and a Gemm."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], kernel_shape=[3, 3], group=19, pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c2", "low", "high"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3"], ["c3"], kernel_shape=[1, 1]),
        helper.make_node("Add", ["c3", "r1"], ["s"]),
        helper.make_node("MaxPool", ["s"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["p", "w4"], ["c4"], kernel_shape=[3, 1], dilations=[2, 1], pads=[2, 0, 2, 0]),
        helper.make_node("Concat", ["p", "c4"], ["j"], axis=1),
        helper.make_node("GlobalAveragePool", ["j"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w5", "b5"], ["y"], transB=1),
    ]
    constants = [
        _weights("w1", 19, 3, 3, 3), _weights("b1", 19), _weights("w2", 19, 1, 3, 3), _weights("b2", 19),
        _weights("w3", 19, 19, 1, 1), _weights("w4", 6, 19, 3, 1), _weights("w5", 11, 25), _weights("b5", 11),
        numpy_helper.from_array(np.array(0, np.float32), "low"),
        numpy_helper.from_array(np.array(1.5, np.float32), "high"),
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [info("x", TensorProto.FLOAT, ["n", 3, 21, 17])], [info("y", TensorProto.FLOAT, ["n", 11])],
        constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _feeds(count: int = 4) -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.standard_normal((1, 3, 21, 17)).astype(np.float32)} for _ in range(count)]


def _agree(path: pathlib.Path, feeds: list[dict[str, np.ndarray]], tolerance: float) -> None:
    theirs, ours = ort.InferenceSession(path, providers=["CPUExecutionProvider"]), model.load(str(path))
    for feed in feeds:
        wanted = theirs.run(None, feed)
        for found, want in zip(ours.run(feed).values(), wanted, strict=True):
            assert np.abs(found - want).max() <= tolerance * np.abs(want).max()


def _ops(path: pathlib.Path) -> Counter[str]:
    graph = load_graph(str(path))
    optimize(graph, 1)
    return Counter(n.op for n in graph.nodes)


@pytest.mark.parametrize("target", ["", "avx2", "avx2 -avxvnni -avxvnniint8"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("kinds", ["u8 i8", "i8 i8", "u8 u8"])
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator], ids=["QDQ", "QOperator"])
def test_static(
    form: QuantFormat, kinds: str, per_channel: bool, target: str, tmp_path: pathlib.Path,
    weaker: Callable[[str], None],
) -> None:  # fmt: skip
    weaker(target)
    of = {"u8": QuantType.QUInt8, "i8": QuantType.QInt8}
    activations, weights = (of[k] for k in kinds.split())
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    onnx.save(_net(), plain)
    quantize_static(
        plain, path, _Data(_feeds()), quant_format=form, activation_type=activations, weight_type=weights,
        per_channel=per_channel,
    )  # fmt: skip
    found = _ops(path)
    assert found["QLinearConv"] == 4
    assert not any(found[op] for op in ("Convolution", "ConvolutionDepthwise", "MatMul"))
    _agree(path, _feeds(3), 0.02)


@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("kinds", ["u8 channel", "i8 tensor"])
def test_lines_and_volumes(kinds: str, axes: int, tmp_path: pathlib.Path) -> None:
    """Windows with strides, borders, dilations and groups, behind and before other activations, and a float result."""
    kind, weights = kinds.split()
    strided, wide = {"strides": [2] * axes, "pads": [1, 0, 2][:axes] * 2}, {"dilations": [2] * axes, "group": 3}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], **strided),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], **wide),
        helper.make_node("LeakyRelu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"], group=18),
        helper.make_node("Conv", ["c3", "w4", "b4"], ["y"]),
    ]
    constants = [
        _weights("w1", 12, 5, *[3] * axes), _weights("b1", 12), _weights("w2", 18, 4, *[2] * axes),
        _weights("w3", 18, 1, *[2] * axes), _weights("b3", 18), _weights("w4", 7, 18, *[1] * axes), _weights("b4", 7),
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    sizes = [13, 11, 12][:axes]
    graph = helper.make_graph(
        nodes, "net", [info("x", TensorProto.FLOAT, ["n", 5, *sizes])], [info("y", TensorProto.FLOAT, None)], constants
    )
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)
    feeds = [{"x": RNG.standard_normal((1, 5, *sizes)).astype(np.float32)} for _ in range(4)]
    quantize_static(
        plain, path, _Data(feeds), per_channel=weights == "channel", weight_type=QuantType.QInt8,
        activation_type=QuantType.QUInt8 if kind == "u8" else QuantType.QInt8,
        extra_options={"OpTypesToExcludeOutputQuantization": ["LeakyRelu"]} if axes == 1 else {},
    )  # fmt: skip
    found = _ops(path)
    assert found["QLinearConv"] + found["ConvInteger"] == 4
    assert not any(n.startswith("Convolution") for n in found)
    _agree(path, feeds[:2], 0.02)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_is_made_larger_as_it_is_stays_bytes(mode: str, tmp_path: pathlib.Path) -> None:
    """Images of 8 bits are repeated as such; interpolation needs numbers."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["c1", "", "scales"], ["r"], mode=mode, coordinate_transformation_mode="asymmetric"),
        helper.make_node("Conv", ["r", "w2"], ["y"], kernel_shape=[1, 1]),
    ]
    constants = [
        _weights("w1", 8, 3, 3, 3), _weights("w2", 5, 8, 1, 1),
        numpy_helper.from_array(np.array([1, 1, 2, 3], np.float32), "scales"),
    ]  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "larger", [info("x", TensorProto.FLOAT, ["n", 3, 21, 17])],
        [info("y", TensorProto.FLOAT, ["n", 5, 42, 51])], constants,
    )  # fmt: skip
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)
    quantize_static(
        plain, path, _Data(_feeds()), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )  # fmt: skip
    read = load_graph(str(path))
    optimize(read, 1)
    resize = next(n for n in read.nodes if n.op == "Interp")
    made = next(n for n in read.nodes if resize.inputs[0] in n.outputs)
    assert (made.op == "QLinearConv") == (mode == "nearest")
    _agree(path, _feeds(3), 0.02 if mode == "nearest" else 0.06)  # ONNX Runtime interpolates bytes, and cuts them off


def test_a_quantised_clamp_is_kept_where_it_matters(tmp_path: pathlib.Path) -> None:
    """The range of the result reaches below zero: ReLU becomes a bound on the integers."""
    scale, zero = numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.uint8(100), "z")
    weights = RNG.integers(-127, 128, (8, 5, 1, 1)).astype(np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["x"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["wf"]),
        helper.make_node("Conv", ["x", "wf"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "clamp", [info("q", TensorProto.UINT8, [1, 5, 4, 4])], [info("y", TensorProto.UINT8, [1, 8, 4, 4])],
        [scale, zero, numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    path = tmp_path / "clamp.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = _ops(path)
    assert found["QLinearConv"] == 1
    assert not any(found[op] for op in ("QuantizeLinear", "ReLU"))
    q = RNG.integers(0, 256, (1, 5, 4, 4)).astype(np.uint8)
    (ours,) = model.load(str(path)).run({"q": q}).values()
    real = np.einsum("nchw,oc->nohw", (q.astype(float) - 100) * 0.05, weights[:, :, 0, 0] * 0.05)
    wanted = np.clip(np.round(np.maximum(real, 0) / 0.05) + 100, 0, 255)
    assert ours.min() == 100
    assert np.abs(ours.astype(int) - wanted).max() <= STEPS


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8], ids=["i8", "u8"])
def test_dynamic_and_float_results(kind: QuantType, tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "dynamic", [info("x", TensorProto.FLOAT, ["n", 9, 67])], [info("y", TensorProto.FLOAT, ["n", 9, 35])],
        [_weights("w", 67, 35), _weights("b", 35)],
    )  # fmt: skip
    plain, path = tmp_path / "plain.onnx", tmp_path / "dynamic.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)
    quantize_dynamic(plain, path, weight_type=kind)
    _agree(path, [{"x": RNG.standard_normal((2, 9, 67)).astype(np.float32)}], 1e-5)


def test_products_of_two_quantised_activations(tmp_path: pathlib.Path) -> None:
    """As in attention: neither side is constant."""
    nodes = [
        helper.make_node("MatMul", ["x", "t"], ["m"]),
        helper.make_node("Softmax", ["m"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    shapes = {"x": [2, 13, 70], "t": [2, 70, 21], "v": [2, 21, 34]}
    graph = helper.make_graph(
        nodes, "attention", [info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [info("y", TensorProto.FLOAT, [2, 13, 34])],
    )  # fmt: skip
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)
    feeds = [{n: RNG.standard_normal(s).astype(np.float32) for n, s in shapes.items()} for _ in range(3)]
    for activations in (QuantType.QUInt8, QuantType.QInt8):
        quantize_static(plain, path, _Data(feeds), activation_type=activations, weight_type=QuantType.QInt8)
        assert _ops(path)["QLinearMatMul"] == 2
        _agree(path, feeds, 0.02)


@pytest.mark.onnxruntime("1.32")
def test_weights_of_four_bits_are_multiplied_as_bytes(tmp_path: pathlib.Path) -> None:
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    net = _net()
    net.opset_import[0].version, net.ir_version = 21, 10
    onnx.save(net, plain)
    quantize_static(plain, path, _Data(_feeds()), weight_type=QuantType.QInt4)
    found = _ops(path)
    assert found["QLinearConv"] == 4
    assert not any(found[op] for op in ("Convolution", "ConvolutionDepthwise", "MatMul"))
    _agree(path, _feeds(3), 0.02)


def _branches() -> onnx.ModelProto:
    """Two convolutions that are added up, and one whose activation costs too much for an epilogue."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"]),
        helper.make_node("Conv", ["c1", "w2"], ["c2"]),
        helper.make_node("Conv", ["c1", "w3", "b3"], ["c3"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "c3"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["c4"]),
        helper.make_node("Sigmoid", ["c4"], ["g"]),
        helper.make_node("Mul", ["c4", "g"], ["m"]),
        helper.make_node("Add", ["m", "r"], ["y"]),
    ]
    constants = [_weights("w1", 24, 3, 1, 1), _weights("w2", 24, 24, 1, 1), _weights("w3", 24, 24, 3, 3, scale=0.1)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "branches", [info("x", TensorProto.FLOAT, ["n", 3, 21, 17])],
        [info("y", TensorProto.FLOAT, ["n", 24, 21, 17])], [*constants, _weights("b3", 24)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8], ids=["u8", "i8"])
@pytest.mark.usefixtures("without_tiles")  # products on tiles are other kernels
def test_what_lies_in_memory_behind_a_product_is_bytes(activations: QuantType, tmp_path: pathlib.Path) -> None:
    """Also of the branch that is no epilogue of the sum's kernel, and where what follows is too long for one."""
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    onnx.save(_branches(), plain)
    feeds = [{"x": RNG.standard_normal((1, 3, 21, 17)).astype(np.float32)} for _ in range(3)]
    quantize_static(plain, path, _Data(feeds), activation_type=activations, weight_type=QuantType.QInt8)
    loaded = model.load(str(path), cache=False)
    loaded.run(feeds[0])
    commands = [c for p in loaded.plans_used() for c in p.bound.program.commands]
    results = [c.kernel.out for c in commands if isinstance(c.kernel, ContractSpec)]
    assert len(results) == 4
    assert all(out in (DType.U8, DType.I8) for out in results)
    _agree(path, feeds, 0.02)


@pytest.mark.parametrize("channels", [3, 20])
def test_images_that_are_quantised_and_put_in_another_order(channels: int, tmp_path: pathlib.Path) -> None:
    """Planes of f32 become pixels of bytes."""
    plain, path = tmp_path / "plain.onnx", tmp_path / "quantised.onnx"
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])], "image",
        [info("x", TensorProto.FLOAT, ["n", channels, 81, 79])], [info("y", TensorProto.FLOAT, ["n", 7, 81, 79])],
        [_weights("w", 7, channels, 1, 1)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), plain)
    feeds = [{"x": RNG.standard_normal((2, channels, 81, 79)).astype(np.float32)} for _ in range(2)]
    quantize_static(plain, path, _Data(feeds), per_channel=True)
    _agree(path, feeds, 0.01)


@pytest.mark.parametrize(
    "bounds",
    [
        ((-5.0, -1.0), (0.0, 6.0)),
        ((2.0, 4.0), (0.0, 1.0)),
        ((-1.0, 2.0), (0.0, 1.0)),
        ((0.0, 1.0), (-1.0, 2.0)),
        ((2.0, 1.0), (0.0, 6.0)),
    ],
)
def test_bounds_behind_a_product_come_one_after_the_other(bounds: tuple[tuple[float, float], ...]) -> None:
    """Those that have nothing in common, too: what is at most -1 is 0 behind a ReLU."""
    m = Maker()
    scale, zero = m.const(0.05), m.const(128, np.uint8)
    x = m.op("DequantizeLinear", m.input(1, 3, 5, 5, dtype=DType.U8), scale, zero)
    w = m.op("DequantizeLinear", m.const(m.rng.integers(-99, 99, (4, 3, 3, 3)), np.int8), scale, m.const(0, np.int8))
    y = m.op("Convolution", x, w, kernelX=3, kernelY=3)
    for low, high in bounds:
        y = m.op("ReLU6", y, minValue=low, maxValue=high)
    graph = m.done(m.op("QuantizeLinear", y, scale, zero))
    feeds = {"x": m.rng.integers(0, 255, (1, 3, 5, 5)).astype(np.uint8)}
    assert "QLinearConv" in ops(fires("quantized-operators", graph, feeds=feeds))
