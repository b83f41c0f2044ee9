"""Integer products: exactly the integers of numpy, computed by kernels alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.loops.lookup import LookupSpec
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.runtime.session import Session

RNG = np.random.default_rng(3)
_TYPES = {"u8": TensorProto.UINT8, "i8": TensorProto.INT8, "f32": TensorProto.FLOAT, "i32": TensorProto.INT32}
_NUMPY = {"u8": np.uint8, "i8": np.int8}
TARGETS = pytest.mark.parametrize("target", ["", "avx2", "avx2 -avxvnni -avxvnniint8", "sse4.1"])
"""AVX2 with this machine's products of bytes, and with 16-bit ones in their place."""


def session(
    nodes: list[onnx.NodeProto], inputs: dict[str, tuple[str, list[int]]], outputs: dict[str, str],
    constants: dict[str, np.ndarray],
) -> Session:  # fmt: skip
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "test", [info(n, _TYPES[t], s) for n, (t, s) in inputs.items()],
        [info(n, _TYPES[t], None) for n, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return model.load(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def by_kernels(found: Session) -> bool:
    """Whether nothing of the last run was computed by numpy."""
    stages = [p.bound for p in found.plans_used() if isinstance(p.bound, BoundProgram)]
    return bool(stages) and all(c.host is None for s in stages for c in s.program.commands)


def numbers(kind: str, *shape: int) -> np.ndarray:
    info = np.iinfo(_NUMPY[kind])
    return RNG.integers(info.min, info.max + 1, shape).astype(_NUMPY[kind])


def convolved(x: np.ndarray, w: np.ndarray, stride: int, group: int) -> np.ndarray:
    """The convolution of an already padded ``x``, in int64."""
    kh, kw = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (kh, kw), (2, 3))[:, :, ::stride, ::stride]
    n, _, oh, ow = windows.shape[:4]
    apart = windows.reshape(n, group, -1, oh, ow, kh, kw)
    filters = w.astype(np.int64).reshape(group, w.shape[0] // group, -1, kh, kw)
    return np.einsum("ngchwij,gocij->ngohw", apart, filters).reshape(n, w.shape[0], oh, ow)


@TARGETS
@pytest.mark.parametrize("zeros", [(0, 0), (3, 120), (255, 128), (77, 200)], ids=str)
@pytest.mark.parametrize("constant", [True, False], ids=["constant zero", "zero as input"])
@pytest.mark.parametrize("group", [1, 4, 20], ids=["dense", "grouped", "depthwise"])
def test_convolutions_of_unsigned_weights(
    group: int, constant: bool, zeros: tuple[int, int], target: str, weaker: Callable[[str], None]
) -> None:
    weaker(target)
    x, w = numbers("u8", 2, 20, 7, 9), numbers("u8", 40, 20 // group, 3, 3)
    node = helper.make_node(
        "ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1, 1, 0, 2], strides=[2, 2], group=group
    )
    xz, wz = np.uint8(zeros[0]), np.uint8(zeros[1])
    inputs = {"x": ("u8", [2, 20, 7, 9])} | ({} if constant else {"xz": ("u8", [])})
    made = session([node], inputs, {"y": "i32"}, {"w": w, "wz": wz} | ({"xz": xz} if constant else {}))
    (found,) = made.run({"x": x} | ({} if constant else {"xz": np.asarray(xz)})).values()
    centred = np.pad(x.astype(int) - int(xz), ((0, 0), (0, 0), (1, 0), (1, 2)))
    np.testing.assert_array_equal(found, convolved(centred, w.astype(int) - int(wz), 2, group))
    assert by_kernels(made)


@TARGETS
@pytest.mark.parametrize("kinds", ["u8 u8", "u8 i8", "i8 i8"])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 3)], ids=str)
def test_convolutions_with_window_three(
    kinds: str, kernel: tuple[int, int], target: str, weaker: Callable[[str], None]
) -> None:
    """By Winograd's method where products of bytes are made of 16-bit ones."""
    weaker(target)
    a, b = kinds.split()
    x, w = numbers(a, 1, 64, 15, 18), numbers(b, 48, 64, *kernel)
    rows = kernel[0] // 2
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[rows, 1, rows, 1])
    xz, wz = numbers(a, 1)[0], numbers(b, 1)[0]
    made = session([node], {"x": (a, [1, 64, 15, 18]), "xz": (a, [])}, {"y": "i32"}, {"w": w, "wz": wz})
    (found,) = made.run({"x": x, "xz": np.asarray(xz)}).values()
    centred = np.pad(x.astype(int) - int(xz), ((0, 0), (0, 0), (rows, rows), (1, 1)))
    np.testing.assert_array_equal(found, convolved(centred, w.astype(int) - int(wz), 1, 1))
    assert by_kernels(made)
    stages = [p.bound for p in made.plans_used() if isinstance(p.bound, BoundProgram)]
    if target.startswith("avx2 -") and kernel == (3, 3):
        assert any(isinstance(c.kernel, WinogradSpec) for s in stages for c in s.program.commands)


@TARGETS
@pytest.mark.parametrize("kinds", ["u8 u8", "i8 u8", "u8 i8", "i8 i8"])
@pytest.mark.parametrize("extents", [(1, 70, 33), (5, 259, 20), (40, 64, 100)], ids=str)
def test_products_with_constant_weights(
    extents: tuple[int, int, int], kinds: str, target: str, weaker: Callable[[str], None]
) -> None:
    weaker(target)
    (m, k, n), (a, b) = extents, kinds.split()
    x, w = numbers(a, m, k), numbers(b, k, n)
    xz, wz = numbers(a, 1)[0], numbers(b, n)
    node = helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])
    made = session([node], {"x": (a, [m, k])}, {"y": "i32"}, {"w": w, "xz": xz, "wz": wz})
    (found,) = made.run({"x": x}).values()
    np.testing.assert_array_equal(found, (x.astype(int) - int(xz)) @ (w.astype(int) - wz.astype(int)))
    assert by_kernels(made)


@pytest.mark.parametrize("target", ["", "avx2", "sse4.1"])
@pytest.mark.parametrize("kind", ["u8", "i8"])
def test_activations_of_bytes_are_looked_up(kind: str, target: str, weaker: Callable[[str], None]) -> None:
    """SiLU between quantised tensors, against the same in floating point and ONNX Runtime's rounding."""
    weaker(target)
    zero, other = (np.uint8(120), np.uint8(3)) if kind == "u8" else (np.int8(-5), np.int8(-128))
    shape = [1, 3, 40, 50]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "t", "o"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "t", "o"], ["d"]),
        helper.make_node("Mul", ["a", "d"], ["e"]),
        helper.make_node("QuantizeLinear", ["e", "s", "z"], ["y"]),
    ]
    scales = {"s": np.float32(0.05), "t": np.float32(1 / 255), "z": zero, "o": other}
    made = session(nodes, {"x": (kind, shape)}, {"y": kind}, scales)
    x = numbers(kind, *shape)
    (found,) = made.run({"x": x}).values()
    info = np.iinfo(_NUMPY[kind])
    a = (x.astype(np.float64) - float(zero)) * 0.05
    c = np.clip(np.round(255 / (1 + np.exp(-a))) + float(other), info.min, info.max)
    e = a * (c - float(other)) / 255
    wanted = np.clip(np.round(e / 0.05) + float(zero), info.min, info.max)
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert (found != wanted).mean() < 0.01
    stages = [p.bound for p in made.plans_used() if isinstance(p.bound, BoundProgram)]
    assert [type(c.kernel) for s in stages for c in s.program.commands] == [LookupSpec]


@pytest.mark.parametrize("seed", range(6))
def test_tables_round_ties_as_divisions_do(seed: int) -> None:
    """SiLU whose product is often half-way between two bytes: each step rounded to f32, as operators alone do."""
    rng = np.random.default_rng(seed)
    step, zero = np.float32(np.exp(rng.uniform(-5, -1))), np.uint8(rng.integers(90, 160))
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "t", "o"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "t", "o"], ["d"]),
        helper.make_node("Mul", ["a", "d"], ["e"]),
        helper.make_node("QuantizeLinear", ["e", "s", "z"], ["y"]),
    ]
    scales = {"s": step, "t": np.float32(1 / 256), "z": zero, "o": np.uint8(0)}
    x = np.tile(np.arange(256, dtype=np.uint8), 40)
    (found,) = session(nodes, {"x": ("u8", [x.size])}, {"y": "u8"}, scales).run({"x": x}).values()
    a = (x.astype(np.float32) - np.float32(zero)) * step
    c = np.clip(np.round(256 / (1 + np.exp(-a.astype(np.float64)))), 0, 255).astype(np.float32) / np.float32(256)
    np.testing.assert_array_equal(found, np.clip(np.round(a * c / step) + np.float32(zero), 0, 255).astype(np.uint8))


def test_cheap_and_small_functions_are_computed() -> None:
    scales = {"s": np.float32(0.05), "z": np.uint8(3), "t": np.float32(0.1)}
    for nodes, shape in (
        ([helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
          helper.make_node("QuantizeLinear", ["a", "t", "z"], ["y"])], [1, 3, 40, 50]),
        ([helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]), helper.make_node("Erf", ["a"], ["b"]),
          helper.make_node("Exp", ["b"], ["c"]), helper.make_node("QuantizeLinear", ["c", "t", "z"], ["y"])], [1, 20]),
    ):  # fmt: skip
        made = session(nodes, {"x": ("u8", shape)}, {"y": "u8"}, scales)
        made.run({"x": numbers("u8", *shape)})
        stages = [p.bound for p in made.plans_used() if isinstance(p.bound, BoundProgram)]
        assert not any(isinstance(c.kernel, LookupSpec) for s in stages for c in s.program.commands)


@pytest.mark.parametrize("target", ["", "sse4.1"])
@pytest.mark.parametrize("scale", [0.1, 1 / 255, 3e-5, 0.25, 7.3, 1e-25, 2e19], ids=str)
def test_quotients_by_constant_scales_are_those_of_divisions(
    scale: float, target: str, weaker: Callable[[str], None]
) -> None:
    """Also half-way between two integers, where the quotient is infinite, and without fused products."""
    weaker(target)
    step, zero = np.float32(scale), np.uint16(1000)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "test", [info("x", TensorProto.FLOAT, [40000])], [info("y", TensorProto.UINT16, None)],
        [numpy_helper.from_array(np.asarray(step), "s"), numpy_helper.from_array(np.asarray(zero), "z")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21)]
    made = model.load(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    halves = (np.arange(-1200, 18800) + np.float32(0.5)) * step
    x = np.concatenate([halves, RNG.normal(size=20000).astype(np.float32) * step * np.float32(30000)])
    x[:4] = [np.inf, -np.inf, 3e38, -3e38]
    (found,) = made.run({"x": x.astype(np.float32)}).values()
    with np.errstate(over="ignore"):
        wanted = np.clip(np.round(x.astype(np.float32) / step) + np.float32(1000), 0, 65535)
    np.testing.assert_array_equal(found, wanted.astype(np.uint16))


@pytest.mark.parametrize("target", ["", "avx2", "sse4.1"])
def test_quotients_by_scales_of_the_moment_are_those_of_divisions(target: str, weaker: Callable[[str], None]) -> None:
    """Half-way between two steps and beside, for ranges from tiny to the largest, and where one number is infinite."""
    weaker(target)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    made = session([node], {"x": ("f32", [None])}, {"y": "u8", "s": "f32", "z": "u8"}, {})  # type: ignore[list-item]
    for exponent in RNG.uniform(-90, 126.5, 40):
        low, high = np.sort(RNG.normal(size=2) * 2.0**exponent).clip(-3e38, 3e38).astype(np.float32)
        low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
        with np.errstate(over="ignore"):
            step = (high - low) / np.float32(255)
        halves = ((np.arange(-256, 256) + 0.5) * np.float64(step)).astype(np.float32)
        beside = [halves, *(np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf)), [low, high]]
        x = np.concatenate(beside).clip(low, high).astype(np.float32)
        found = made.run({"x": x})
        zero = np.clip(np.round(-low / step), 0, 255)
        assert (found["s"], found["z"]) == (step, zero)
        np.testing.assert_array_equal(found["y"], np.clip(np.round(x / step) + zero, 0, 255).astype(np.uint8))
    finite = made.run({"x": np.array([1, -2, 0, 3e38, np.inf], np.float32)})
    assert finite["s"] == np.inf
    assert not finite["y"].any()


@pytest.mark.parametrize("shape", [(5, 300), (1,), (2, 7, 33), (3, 4, 5, 40)], ids=str)
def test_ranges_are_found_in_one_pass(shape: tuple[int, ...]) -> None:
    """Minimum, maximum, scale and zero point by one kernel, the bytes by another."""
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    made = session([node], {"x": ("f32", list(shape))}, {"y": "u8", "s": "f32", "z": "u8"}, {})
    x = (RNG.normal(size=shape) * 3 + 1).astype(np.float32)
    found = made.run({"x": x})
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    step = (high - low) / np.float32(255)
    zero = np.round(-low / step)
    np.testing.assert_array_equal(found["y"], np.clip(np.round(x / step) + zero, 0, 255).astype(np.uint8))
    stages = [p.bound for p in made.plans_used() if isinstance(p.bound, BoundProgram)]
    commands = [c for s in stages for c in s.program.commands]
    assert len(commands) == 2
    assert by_kernels(made)
