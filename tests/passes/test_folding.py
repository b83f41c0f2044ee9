"""batch-norm-folding, scale-folding and input-scale-folding."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.quant import QuantizedArray
from MNN.passes.manager import passes
from tests.passes.build import Maker, fires, ops, stays


def batch_norm(m: Maker, x: Value, channels: int) -> Value:
    var = m.const(m.rng.uniform(0.5, 2, channels))
    return m.op("BatchNorm", x, m.noise(channels), m.noise(channels), m.noise(channels), var, epsilon=1e-3)


def linear(m: Maker, kind: str) -> tuple[Value, int]:
    """An operator with six output channels, and the axis of those."""
    if kind == "matmul":
        return m.op("MatMul", m.input(2, 5, 4), m.noise(4, 6)), 2
    if kind == "matmul transposed":
        return m.op("MatMul", m.input(2, 5, 4), m.noise(6, 4), transposeB=True), 2
    x = m.input(2, 4 if kind in ("conv", "grouped", "deconv", "grouped deconv") else 6, 7, 7)
    if kind == "deconv":
        return m.op("Deconvolution", x, m.noise(4, 6, 3, 3), strideX=2, strideY=2), 1
    if kind == "grouped deconv":
        return m.op("Deconvolution", x, m.noise(4, 3, 3, 3), m.noise(6), group=2), 1
    if kind == "depthwise deconv":
        return m.op("DeconvolutionDepthwise", x, m.noise(6, 1, 3, 3), group=6), 1
    if kind == "depthwise":
        return m.conv(x, 6, 6, group=6), 1
    return m.conv(x, 6, 4, group=2 if kind == "grouped" else 1, bias=kind == "conv"), 1


CONVOLUTIONS = ["conv", "grouped", "depthwise", "deconv", "grouped deconv", "depthwise deconv"]


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_batch_norm_disappears(kind: str) -> None:
    m = Maker()
    x, _ = linear(m, kind)
    graph = m.done(batch_norm(m, x, 6))
    assert len(ops(fires("batch-norm-folding", graph))) == 1


def test_batch_norm_elsewhere_becomes_a_scale() -> None:
    m = Maker()
    x = m.input(2, 4, 3, 3)
    shared = m.conv(x, 4, 4)
    graph = m.done(batch_norm(m, m.op("ReLU", x), 4), batch_norm(m, shared, 4), m.op("TanH", shared))
    assert sorted(ops(fires("batch-norm-folding", graph))) == ["Convolution", "ReLU", "Scale", "Scale", "TanH"]


def test_doubles_stay_as_exact_as_they_are() -> None:
    m = Maker()
    x = m.input(2, 4, 3, 3, dtype=DType.F64)
    slope, mean, var, bias = (m.const(m.rng.uniform(0.1, 2.0, 4), np.float64) for _ in range(4))
    fires("batch-norm-folding", m.done(m.op("BatchNorm", x, slope, mean, var, bias, epsilon=1e-5)), tol=1e-12)
    m = Maker()
    flat = m.op("Reshape", m.input(2, 4, 3, 3, dtype=DType.F64), m.ints(2, 2, -1))
    numbers = (m.const(m.rng.uniform(0.1, 2.0, 2), np.float64) for _ in range(2))
    y = m.op("Reshape", m.op("InstanceNorm", flat, *numbers, epsilon=1e-5), m.ints(2, 4, 3, 3))
    fires("group-norm", m.done(y), tol=1e-12)


def test_batch_norm_with_variable_or_impossible_statistics_stays() -> None:
    m = Maker()
    x = m.input(2, 4, 3, 3)
    mean = m.input(4, name="mean")
    var = m.const([1, 1, 1, 1])
    stays("batch-norm-folding", m.done(m.op("BatchNorm", m.conv(x, 4, 4), m.noise(4), m.noise(4), mean, var)))
    m = Maker()
    x = m.conv(m.input(2, 4, 3, 3), 4, 4)
    negative = m.const([1, -1, 1, 1])
    graph = m.done(m.op("BatchNorm", x, m.noise(4), m.noise(4), m.noise(4), negative, epsilon=0.0))
    assert passes()["batch-norm-folding"].run(graph) == 0


def test_batch_norm_after_a_matrix_product_has_other_channels() -> None:
    m = Maker()
    x = m.op("MatMul", m.input(2, 6, 6), m.noise(6, 6))
    assert ops(fires("batch-norm-folding", m.done(batch_norm(m, x, 6)))) == ["MatMul", "Scale"]


@pytest.mark.parametrize("kind", [*CONVOLUTIONS, "matmul", "matmul transposed"])
@pytest.mark.parametrize("op", ["MUL", "REALDIV", "ADD", "SUB", "from", "scalar"])
def test_constants_per_channel_disappear(kind: str, op: str) -> None:
    m = Maker()
    x, axis = linear(m, kind)
    shape = [6] + [1] * (2 if axis == 1 else 0)
    constant = m.const(m.rng.uniform(0.5, 2, [1] if op == "scalar" else shape))
    out = m.binary("SUB", constant, x) if op == "from" else m.binary("MUL" if op == "scalar" else op, x, constant)
    assert len(ops(fires("scale-folding", m.done(out)))) == 1


def test_chains_fold_whole() -> None:
    m = Maker()
    x, _ = linear(m, "conv")
    y = m.binary("ADD", m.binary("MUL", m.const(2.5), x), m.noise(1, 6, 1, 1))
    assert ops(fires("scale-folding", m.done(m.binary("REALDIV", y, 3.0)))) == ["Convolution"]


def test_weights_that_are_shared_stay_as_they_are() -> None:
    m = Maker()
    x, weight = m.input(1, 4, 5, 5), m.noise(4, 4, 3, 3)
    a, b = (m.op("Convolution", x, weight, kernelX=3, kernelY=3) for _ in range(2))
    after = fires("scale-folding", m.done(m.binary("MUL", a, 3.0), b))
    assert ops(after) == ["Convolution", "Convolution"]


@pytest.mark.parametrize(
    "case", ["shared", "output", "relu", "axis", "wider", "variable", "zero divisor", "over it", "overflow", "type"]
)
def test_what_cannot_be_folded(case: str) -> None:
    m = Maker()
    x = m.input(2, 4, 6, 6)
    flags = {"relu": True} if case == "relu" else {}
    y = m.conv(x, 6, 4, **flags)
    more: list[Value] = []
    constant = m.const(m.rng.uniform(0.5, 2, (6, 1, 1)))
    kind = "MUL"
    if case == "shared":
        more = [m.op("TanH", y)]
    elif case == "output":
        more = [y]
    elif case == "axis":
        constant = m.noise(6)  # along the width
    elif case == "wider":
        constant = m.noise(1, 1, 1, 1, 1)
    elif case == "variable":
        constant = m.input(6, 1, 1, name="c")
    elif case == "zero divisor":
        kind, constant = "REALDIV", m.const(0.0)
    elif case == "overflow":
        constant = m.const(3e38)
    elif case == "type":
        constant = m.const(np.ones((6, 1, 1)), np.float64)
    out = m.binary("REALDIV", constant, y) if case == "over it" else m.binary(kind, y, constant)
    graph = m.done(out, *more)
    assert passes()["scale-folding"].run(graph) == 0


def test_compressed_weights_scale_their_scales() -> None:
    m = Maker()
    x = m.input(1, 4, 5, 5)
    values = m.rng.integers(-7, 8, (6, 36)).astype(np.int8)
    scale = m.rng.uniform(0.01, 0.1, (6, 1)).astype(np.float32)
    weight = Value("w", DType.F32, (6, 4, 3, 3), QuantizedArray.of(values, scale, None, 4, (6, 4, 3, 3)))
    y = m.op("Convolution", x, weight, kernelX=3, kernelY=3)
    after = fires("scale-folding", m.done(m.binary("MUL", y, m.const(m.rng.uniform(0.5, 2, (6, 1, 1))))))
    (node,) = after.nodes
    assert node.inputs[1] is not None
    assert isinstance(node.inputs[1].data, QuantizedArray)


@pytest.mark.parametrize("kind", ["conv", "grouped", "depthwise"])
@pytest.mark.parametrize("op", ["MUL", "REALDIV", "ADD", "SUB"])
def test_constants_in_front_disappear(kind: str, op: str) -> None:
    m = Maker()
    x = m.input(2, 4, 6, 6)
    constant = m.const(m.rng.uniform(0.5, 2, (4, 1, 1)))
    pads = [1] * 4 if op in ("MUL", "REALDIV") else [0] * 4
    y = m.conv(m.binary(op, x, constant), 4, 4, group={"conv": 1, "grouped": 2, "depthwise": 4}[kind], pads=pads)
    assert len(ops(fires("input-scale-folding", m.done(y)))) == 1


def test_sums_before_padding_and_shared_factors_stay() -> None:
    m = Maker()
    x = m.input(2, 4, 6, 6)
    stays("input-scale-folding", m.done(m.conv(m.binary("ADD", x, 1.0), 4, 4)))
    m = Maker()
    scaled = m.binary("MUL", m.input(2, 4, 6, 6), 2.0)
    stays("input-scale-folding", m.done(m.conv(scaled, 4, 4), m.op("TanH", scaled)))


@pytest.mark.parametrize("op", ["MUL", "ADD"])
def test_one_channel_that_constants_make_three_of_stays(op: str) -> None:
    """A grey image, normalised as colours are. One number for all channels goes, as it does elsewhere."""
    m = Maker()
    y = m.binary(op, m.input(2, 1, 6, 6), m.const(m.rng.uniform(0.5, 2, (3, 1, 1))))
    stays("input-scale-folding", m.done(m.conv(y, 4, 3, pads=[0] * 4)))
    m = Maker()
    y = m.binary(op, m.input(2, 1, 6, 6), m.const([[[0.5]]]))
    fires("input-scale-folding", m.done(m.conv(y, 4, 1, pads=[0] * 4)))


def test_folding_leaves_deconvolutions_with_a_given_size() -> None:
    m = Maker()
    node = m.op("Deconvolution", m.input(1, 4, 5, 5), m.noise(4, 6, 3, 3), m.ints(1, 7, 7, 6), hasOutputShape=True)
    stays("scale-folding", m.done(m.binary("ADD", node, m.noise(6, 1, 1))))


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_weights_that_are_infinite_stay_without_a_warning(bad: float) -> None:
    """Infinite ones times 0, and a signalling NaN."""
    m = Maker()
    weights = np.ones((4, 3, 3, 3), np.float32)
    weights[1] = bad
    if np.isnan(bad):
        weights.reshape(-1).view(np.uint32)[0] = 0x7F800001
    x = m.input(1, 3, 5, 5)
    made = m.op("Convolution", x, m.const(weights), kernelX=3, kernelY=3, outputCount=4, inputCount=3, group=1)
    scale = m.const(np.asarray([0, 0, 1, 2]).reshape(1, 4, 1, 1))
    m.graph.outputs = [m.binary("MUL", made, scale)]
    assert not passes()["scale-folding"].run(m.graph)


def test_constants_beyond_their_type_are_made_without_a_warning() -> None:
    builder = GraphBuilder(ModelState(), Graph("numbers"))
    for number, dtype in ((1e300, DType.F32), (-1e6, DType.F16), (np.inf, DType.F16)):
        found = builder.const(number, dtype).data
        assert isinstance(found, np.ndarray)
        assert np.isinf(found)
        assert np.signbit(found) == (number < 0)
    assert np.array_equal(builder.const([1e300, 2.0]).array(), np.asarray([np.inf, 2], np.float32))
