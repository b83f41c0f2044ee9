"""What stands between a DequantizeLinear and a product moves integers, with the scales of the axis that it moves."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from tests.passes.build import Maker, apply, fires, ops, stays

U8 = np.uint8


def _dequantised(m: Maker, integers: Value, scale: object, zero: object, axis: int = 0) -> Value:
    kind = np.int8 if integers.dtype is None else integers.dtype.numpy.type
    return m.op("DequantizeLinear", integers, m.const(scale), m.const(zero, kind), axis=axis)


def _quantised(m: Maker, x: Value) -> Value:
    return m.op("QuantizeLinear", x, m.const(0.3), m.const(11, U8))


def _integers_only(graph: Graph, *wanted: str) -> None:
    """Whether both passes make such operators of a graph; numbers half-way between two steps may be off by one."""
    _, sunk = apply("dequantize-sinking", graph)
    _, found = apply("quantized-operators", sunk, tol=1.0)
    _, found = apply("dead-code", found)
    assert sorted(ops(found)) == sorted(wanted)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("kind", ["transposed", "reshaped", "cut", "four bits"])
def test_weights(kind: str, axis: int | None) -> None:
    """As a linear layer is written: weights [out, in], a scale for each output (or input), dequantised, transposed."""
    m = Maker()
    x = _dequantised(m, m.input(5, 12, dtype=DType.U8), 0.1, 7)
    count = 1 if axis is None else (8, 12)[axis]
    dtype, bound = (DType.I4.numpy, 8) if kind == "four bits" else (np.int8, 128)
    w = m.const(m.rng.integers(-bound, bound, (8, 12)), dtype)
    scales, zeros = m.rng.uniform(0.01, 0.02, count), m.rng.integers(-2, 3, count)
    w = m.op("DequantizeLinear", w, m.const(scales.reshape(-1 if axis is not None else ())),
             m.const(zeros.reshape(-1 if axis is not None else ()), dtype), axis=axis or 0)  # fmt: skip
    if kind == "reshaped":
        w = m.op("Reshape", m.op("Reshape", w, m.ints(1, 8, 12)), m.ints(8, 12))
    elif kind == "cut":
        w = m.op("StridedSlice", w, m.ints(1, 0), m.ints(7, 12), m.ints(2, 1))
    y = m.op("MatMul", x, m.op("Permute", w, dims=[1, 0]))
    graph = m.done(_quantised(m, y))
    if axis in (1, -1):  # the products' inner axis: no integers can be summed
        assert "QLinearMatMul" not in ops(apply("quantized-operators", apply("dequantize-sinking", graph)[1])[1])
    else:
        _integers_only(graph, "QLinearMatMul")


@pytest.mark.parametrize("axis", [1, 2])
def test_the_largest_of_weights(axis: int) -> None:
    """Of several indices that have scales of their own, the largest integer need not be the largest number."""
    m = Maker()
    w = m.const(m.rng.integers(-99, 99, (4, 3, 5, 5)), np.int8)
    scales = m.rng.uniform(0.01, 0.09, (4, 3, 5, 5)[axis])
    w = m.op("DequantizeLinear", w, m.const(scales), m.const(np.zeros(scales.size), np.int8), axis=axis)
    w = m.op("Pooling", w, type="MAXPOOL", kernelX=3, kernelY=3, strideX=1, strideY=1)
    graph = m.done(m.op("Convolution", m.input(1, 3, 7, 7), w, kernelX=3, kernelY=3))
    assert ("Pooling" in ops(apply("dequantize-sinking", graph)[1])) == (axis == 2)


@pytest.mark.parametrize("value", [None, 0.0, -0.5, 0.03])
@pytest.mark.parametrize("mode", ["CONSTANT", "REFLECT", "EDGE"])
def test_borders(mode: str, value: float | None) -> None:
    """Of an operand with several uses. A border of what is no step of the scale stays one of floats."""
    m = Maker()
    x = _dequantised(m, m.input(2, 3, 6, 7, dtype=DType.U8), 0.125, 7)
    number = [] if value is None or mode != "CONSTANT" else [m.const(value)]
    padded = m.op("Padding", x, m.ints(0, 0, 0, 0, 1, 2, 0, 3), *number, mode=mode)
    w = _dequantised(m, m.const(m.rng.integers(-99, 99, (4, 3, 3, 3)), np.int8), m.rng.uniform(0.01, 0.02, 4), [0] * 4)
    y = _quantised(m, m.op("Convolution", padded, w, kernelX=3, kernelY=3))
    graph = m.done(y, m.op("ReLU", x))
    if number and value == 0.03:
        stays("dequantize-sinking", graph)
    else:
        _integers_only(graph, "DequantizeLinear", "Padding", "QLinearConv", "ReLU")


def test_rows_of_movers() -> None:
    m = Maker()
    x = _dequantised(m, m.input(1, 4, 6, 6, dtype=DType.U8), 0.1, 7)
    y = m.op("Pooling", x, type="MAXPOOL", kernelX=2, kernelY=2, strideX=2, strideY=2)
    flat = m.op("Reshape", m.op("Permute", y, dims=[0, 2, 3, 1]), m.ints(1, 36))
    w = _dequantised(m, m.const(m.rng.integers(-99, 99, (36, 5)), np.int8), 0.01, 0)
    graph = m.done(_quantised(m, m.op("MatMul", flat, w)))
    _integers_only(graph, "Pooling", "Permute", "Reshape", "QLinearMatMul")


@pytest.mark.parametrize("case", ["no product", "shared", "output", "right side of a sum"])
def test_stays(case: str) -> None:
    m = Maker()
    x = _dequantised(m, m.input(4, 4, dtype=DType.U8), 0.1, 7)
    y = m.op("Permute", x, dims=[1, 0])
    end = m.op("TanH", y) if case == "no product" else m.op("MatMul", y, m.noise(4, 4))
    if case == "right side of a sum":
        end = m.binary("ADD", end, y)
    others = {"shared": [m.op("TanH", y)], "output": [y]}.get(case, [])
    stays("dequantize-sinking", m.done(end, *others))


@pytest.mark.parametrize("zero", [0, 7])
def test_border_in_front_of_a_quantisation(zero: int) -> None:
    """As ONNX Runtime's quantiser writes it: the border becomes the convolution's own."""
    m = Maker()
    scale, at = m.const(0.125), m.const(zero, U8)
    x = m.op("DequantizeLinear", m.input(2, 3, 6, 7, dtype=DType.U8), scale, at)
    padded = m.op("QuantizeLinear", m.op("Padding", x, m.ints(0, 0, 0, 0, 1, 2, 0, 3), mode="CONSTANT"), scale, at)
    w = _dequantised(m, m.const(m.rng.integers(-99, 99, (4, 3, 3, 3)), np.int8), 0.01, 0)
    y = m.op("Convolution", m.op("DequantizeLinear", padded, scale, at), w, kernelX=3, kernelY=3)
    graph = m.done(_quantised(m, y))
    found = fires("constant-folding", fires("quantized-operators", graph, tol=1.0))
    found = fires("dead-code", found)
    assert ops(found) == ["Padding", "QLinearConv"]
    assert ops(fires("pad-folding", found)) == ["QLinearConv"]
