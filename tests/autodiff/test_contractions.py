"""Gradients of convolutions and products of random sizes, by kernels, against sums over taps in numpy and float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.loops.transpose import TransposeSpec
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor

EXACT = 2e-5
"""Error of fp32, of the largest number."""
ROUNDED = 0.02
"""With operands in bf16."""


def gradients(node, operands, weights, config):
    """The result of a node of two operands, and their gradients when it is summed up with ``weights``."""
    graph, feeds = graph_of(node, operands, weights)
    return [np.asarray(a) for a in Executor(graph, config).run(feeds, graph.outputs)]


def graph_of(node, operands, weights):
    """The graph of these, and what it is fed."""
    inputs = [Value(f"x{i}", DType.F32, a.shape) for i, a in enumerate(operands)]
    given = Value("weights", DType.F32, weights.shape)
    y, product, total = Value("y"), Value("product"), Value("total")
    axes = Value("axes", DType.I64, (weights.ndim,), np.arange(weights.ndim, dtype=np.int64))
    slopes = [Value(f"g{i}") for i in range(len(operands))]
    nodes = [
        Node(node[0], "node", list(inputs), [y], node[1]),
        Node("BinaryOp", "weigh", [y, given], [product], {"opType": "MUL"}),
        Node("Reduction", "sum", [product, axes], [total], {"operation": "SUM", "keepDims": False}),
        Node("Gradient", "gradient", [total, *inputs], slopes),
    ]
    graph = Graph("gradients", [*inputs, given], [y, *slopes], nodes)
    return graph, dict(zip(graph.inputs, (*operands, weights), strict=True))


def seen(kernel, strides, dilations, out):
    """Of every tap its index, and the slices of a padded image under it."""
    for tap in itertools.product(*map(range, kernel)):
        begins = [t * d for t, d in zip(tap, dilations, strict=True)]
        yield tap, tuple(slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, out, strides, strict=True))


def convolved(x, w, g, strides, dilations, groups, pads):
    """The convolution, and the gradients of its operands, in float64."""
    x, w, g = (a.astype(np.float64) for a in (x, w, g))
    wide = np.pad(x, [(0, 0), (0, 0), *pads])
    per_in, per_out = w.shape[1], w.shape[0] // groups
    y, dx, dw = np.zeros_like(g), np.zeros_like(wide), np.zeros_like(w)
    for k in range(groups):
        into, out = slice(k * per_in, (k + 1) * per_in), slice(k * per_out, (k + 1) * per_out)
        for tap, where in seen(w.shape[2:], strides, dilations, g.shape[2:]):
            part = wide[(slice(None), into, *where)]
            factors = w[(out, slice(None), *tap)]
            y[:, out] += np.einsum("nc...,oc->no...", part, factors)
            rows = (a.reshape(*a.shape[:2], -1) for a in (part, g[:, out]))
            dw[(out, slice(None), *tap)] = np.einsum("ncp,nop->oc", *rows)
            dx[(slice(None), into, *where)] += np.einsum("no...,oc->nc...", g[:, out], factors)
    inner = tuple(slice(a, n - z) for (a, z), n in zip(pads, wide.shape[2:], strict=True))
    return y, dx[(slice(None), slice(None), *inner)], dw


def drawn(seed):
    """A convolution of one to three dimensions: attributes, operands and what its result is summed up with."""
    rng = np.random.default_rng(seed)
    line = rng.random() < 0.2  # an image of one row
    count = 2 if line else int(rng.choice([2, 2, 3]))
    most = 70 if line else {2: 23, 3: 9}[count]
    kernel = [int(rng.choice([1, 2, 3, 3, 3, 5])) for _ in range(count)]
    strides, dilations = ([int(rng.choice([1, 1, 1, 2, 3])) for _ in range(count)] for _ in range(2))
    if rng.random() < 0.5:  # what fast algorithms are for
        strides, dilations = [1] * count, [1] * count
    if line:
        kernel[0] = 1
    pads = [(int(rng.integers(0, k)), int(rng.integers(0, k))) for k in kernel]
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    per_in, per_out = (int(n) for n in rng.integers(1, 40 // groups, 2))
    if rng.random() < 0.25:  # depthwise
        groups, per_in, per_out = int(rng.integers(2, 50)), 1, 1
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [max(int(rng.integers(1, most)), r - a - z) for r, (a, z) in zip(reach, pads, strict=True)]
    sizes = [1 if line and i == 0 else max(n, 1) for i, n in enumerate(sizes)]
    out = [(n + a + z - r) // s + 1 for n, (a, z), r, s in zip(sizes, pads, reach, strides, strict=True)]
    batch = int(rng.integers(1, 9))
    x = rng.normal(size=(batch, groups * per_in, *sizes)).astype(np.float32)
    w = rng.normal(size=(groups * per_out, per_in, *kernel)).astype(np.float32)
    g = rng.normal(size=(batch, groups * per_out, *out)).astype(np.float32)
    return x, w, g, strides, dilations, groups, pads


def convolution(strides, dilations, groups, pads):
    """The operator of a convolution whose weights are an operand, and its attributes."""
    begins = [*(a for a, _ in pads), *(z for _, z in pads)]
    if len(strides) == 3:
        return "Convolution3D", {"strides": strides, "dilates": dilations, "group": groups, "pads": begins}
    (sy, sx), (dy, dx) = strides, dilations
    return "Convolution", {
        "strideY": sy, "strideX": sx, "dilateY": dy, "dilateX": dx, "group": groups, "pads": begins,
    }  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(24))
def test_random_convolutions(seed, threads):
    x, w, g, *rest = drawn(seed)
    wanted = convolved(x, w, g, *rest)
    node = convolution(*rest)
    found = gradients(node, [x, w], g, Config(threads=threads, precision="high"))
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= EXACT * max(np.abs(b).max(), 1e-3), (seed, a.shape)
    if threads == 1:
        low = gradients(node, [x, w], g, Config(precision="low"))
        for a, b in zip(low, wanted, strict=True):
            assert np.abs(a - b).max() <= ROUNDED * max(np.abs(b).max(), 1e-3), (seed, a.shape)


@pytest.mark.parametrize("only", ["", "Winograd", "implicit GEMM"])
@pytest.mark.parametrize("shape", [(5, 16, 24, 14, 13), (3, 40, 33, 9, 17), (2, 9, 8, 25, 6)])
def test_filters_that_change_by_either_way(shape, only):
    batch, channels, filters, height, width = shape
    rng = np.random.default_rng(sum(shape))
    x = rng.normal(size=(batch, channels, height, width)).astype(np.float32)
    w = rng.normal(size=(filters, channels, 3, 3)).astype(np.float32)
    g = rng.normal(size=(batch, filters, height, width)).astype(np.float32)
    rest = [1, 1], [1, 1], 1, [(1, 1), (1, 1)]
    with restricted(only):
        found = gradients(convolution(*rest), [x, w], g, Config(precision="high"))
    for a, b in zip(found, convolved(x, w, g, *rest), strict=True):
        assert np.abs(a - b).max() <= EXACT * np.abs(b).max()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("m", "k", "n", "transposed"),
    [
        (1, 1, 1, False), (37, 5001, 19, False), (301, 4100, 70, True), (130, 33, 257, True), (7, 9000, 3, False),
        (4, 0, 3, False), (4, 0, 4, True), (0, 4, 3, False), (4, 3, 0, True),
    ],
)  # fmt: skip
def test_products_of_odd_sizes(m, k, n, transposed, threads):
    """Sums of thousands of steps are cut into parts."""
    rng = np.random.default_rng(m + k + n)
    x = rng.normal(size=(m, k)).astype(np.float32)
    y = rng.normal(size=(n, k) if transposed else (k, n)).astype(np.float32)
    g = rng.normal(size=(m, n)).astype(np.float32)
    wide = y.astype(np.float64).T if transposed else y.astype(np.float64)
    wanted = [x @ wide, g @ wide.T, x.astype(np.float64).T @ g]
    if transposed:
        wanted[2] = wanted[2].T
    found = gradients(
        ("MatMul", {"transposeA": False, "transposeB": transposed}),
        [x, y],
        g,
        Config(threads=threads, precision="high"),
    )
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max(initial=0) <= EXACT * np.abs(b).max(initial=0)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("k", "n"), [(24, 168), (168, 24), (40, 40)])
def test_one_matrix_of_a_batch_has_its_gradient_from_the_wider_side_as_it_lies(k, n, turned):
    """Rows are transposed of the narrower side, and results not at all where both are as wide."""
    batch, rows = 3, 400
    rng = np.random.default_rng(k)
    x = rng.normal(size=(batch, rows, k)).astype(np.float32)
    y = rng.normal(size=(n, k) if turned else (k, n)).astype(np.float32)
    g = rng.normal(size=(batch, rows, n)).astype(np.float32)
    graph, feeds = graph_of(("MatMul", {"transposeA": False, "transposeB": turned}), [x, y], g)
    executor = Executor(graph, Config(threads=1, precision="high"))
    slope = graph.outputs[2]
    found = np.asarray(executor.run(feeds, [slope])[0])
    wide = x.astype(np.float64).reshape(-1, k), g.astype(np.float64).reshape(-1, n)
    wanted = wide[1].T @ wide[0] if turned else wide[0].T @ wide[1]
    assert np.abs(found - wanted).max() <= EXACT * np.abs(wanted).max()
    programs = [part.program for part in executor.plan(feeds, [slope]).bound.parts()]
    copies = [c for program in programs for c in program.commands if isinstance(c.kernel, TransposeSpec)]
    sizes = [c.args["rows"] * c.args["cols"] for c in copies]
    assert max(sizes) == batch * rows * min(k, n)
    assert len(sizes) == (1 if k == n else 1 + (turned == (k < n)))
