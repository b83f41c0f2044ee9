"""Integer weights beside floats: rows are rounded to 8 bits, as the files mean it; loops have floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.frontends.tflite.load import load
from MNN.ir.graph import Graph
from MNN.ir.quant import FEWEST_ROW_BITS, QuantizedArray
from tests.frontends.tflite.build import Graph as Subgraph
from tests.frontends.tflite.build import Model

SIZE = 12


def _product(graph: Subgraph, x: int, values: np.ndarray, scale: np.ndarray) -> int:
    w = graph.const(values, scale=scale)
    return graph.made("FULLY_CONNECTED", [x, w, -1], [2, SIZE], options="FullyConnectedOptions", version=12)


def _weights(graph: Graph) -> list[QuantizedArray]:
    found = [v.data for v in graph.values() if isinstance(v.data, QuantizedArray)]
    return found + [w for node in graph.nodes for _, sub in node.subgraphs() for w in _weights(sub)]


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_rounded_but_not_in_loops(seed: int) -> None:
    """The same product before a loop and in it, three times: numpy's answer within the steps of rows."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-127, 128, (SIZE, SIZE)).astype(np.int8)
    scale = rng.uniform(0.001, 0.003, SIZE).astype(np.float32)
    model = Model()
    main = model.graph
    first = _product(main, main.input([2, SIZE]), values, scale)
    zero = main.const(np.int32(0))
    condition, tested = model.subgraph("condition")
    count = tested.input([], "INT32")
    tested.input([2, SIZE])
    tested.outputs = [tested.made("LESS", [count, tested.const(np.int32(3))], [], "BOOL")]
    body, stepped = model.subgraph("body")
    count, state = stepped.input([], "INT32"), stepped.input([2, SIZE])
    more = stepped.made("ADD", [count, stepped.const(np.int32(1))], [], "INT32", "AddOptions")
    stepped.outputs = [more, _product(stepped, state, values, scale)]
    ends = [main.tensor([], "INT32"), main.tensor([2, SIZE])]
    main.op("WHILE", [zero, first], ends, "WhileOptions", cond_subgraph_index=condition, body_subgraph_index=body)
    main.outputs = [ends[1]]
    graph = load(model.finish())
    (weights,) = _weights(graph)
    assert weights.row_bits == FEWEST_ROW_BITS

    from MNN.runtime.session import Session

    x = rng.normal(size=(2, SIZE)).astype(np.float32)
    session = Session(graph)
    (found,) = session.run({next(iter(session.inputs)): x}).values()
    w = (values * scale[:, None]).astype(np.float64)
    wanted = x.astype(np.float64)
    for _ in range(4):
        wanted = wanted @ w.T
    np.testing.assert_allclose(found, wanted, atol=0.03 * float(np.abs(wanted).max()))


def _quantised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers of each sample around its zero point, as floats, and what a step is."""
    flat = x.reshape(len(x), -1)
    low, high = np.minimum(flat.min(1), np.float32(0)), np.maximum(flat.max(1), np.float32(0))
    step = (high - low) / np.float32(255)
    zero = np.clip(np.round(-low / step), 0, 255)
    step, zero = (a.reshape(-1, *(1,) * (x.ndim - 1)) for a in (step, zero))
    return np.clip(np.round(x / step) + zero, 0, 255) - zero, step


def _convolved(x: np.ndarray, w: np.ndarray, stride: int, dilation: int, group: int) -> np.ndarray:
    """``x [N, H, W, C]`` with ``w [O, kh, kw, C / group]`` and borders as TensorFlow's SAME, in float64."""
    kernel, sizes = w.shape[1:3], x.shape[1:3]
    spans = [(k - 1) * dilation + 1 for k in kernel]
    totals = [max((-(-n // stride) - 1) * stride + s - n, 0) for n, s in zip(sizes, spans, strict=True)]
    padded = np.pad(x, ((0, 0), *((t // 2, t - t // 2) for t in totals), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, (1, 2))
    windows = windows[:, ::stride, ::stride, :, ::dilation, ::dilation]
    n, h, v = windows.shape[:3]
    parts = windows.reshape(n, h, v, group, -1, *kernel)
    filters = w.reshape(group, len(w) // group, *w.shape[1:])
    return np.einsum("nhwgcij,goijc->nhwgo", parts, filters).reshape(n, h, v, -1)


def _network(rng: np.random.Generator, batch: int) -> tuple[Model, np.ndarray, list[np.ndarray]]:
    """Two convolutions of one shape, one of windows of one pixel and a depthwise one, each on the input; and what they
    give."""
    model = Model()
    g = model.graph
    size, channels, outputs = [int(rng.integers(9, 15)), int(rng.integers(9, 15))], int(rng.choice([3, 16, 40])), 24
    x = rng.normal(0.3, 1, (batch, *size, channels)) * rng.uniform(0.1, 5, (batch, 1, 1, 1))
    x, given = x.astype(np.float32), g.input([batch, *size, channels])
    wanted = []
    kinds = [(3, 1, 1, channels), (1, 1, 1, outputs), (5, 2, 1, outputs), (3, 1, 2, outputs), (3, 2, 1, 0)]
    for kernel, stride, dilation, many in kinds:
        count = many or channels
        w = rng.integers(-127, 128, (count, kernel, kernel, channels if many else 1)).astype(np.int8)
        scale, bias = rng.uniform(0.001, 0.02, count).astype(np.float32), rng.normal(size=count).astype(np.float32)
        made = [-(-n // stride) for n in size]
        options = {
            "padding": "SAME", "stride_h": stride, "stride_w": stride, "dilation_hfactor": dilation,
            "dilation_wfactor": dilation, "fused_activation_function": "RELU",
        }  # fmt: skip
        if many:
            op, table, stored, axis = "CONV_2D", "Conv2DOptions", w, 0
        else:
            op, table, stored, axis = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", w.transpose(3, 1, 2, 0), 3
            options["depth_multiplier"] = 1
        operands = [given, g.const(np.ascontiguousarray(stored), scale=scale, axis=axis), g.const(bias)]
        g.outputs = [
            *g.outputs, g.made(op, operands, [batch, *made, count], "FLOAT32", table, version=6, **options)
        ]  # fmt: skip
        whole, step = _quantised(x)
        sums = _convolved(whole, w.astype(np.float64), stride, dilation, 1 if many else channels)
        wanted.append(np.maximum(sums * (step * scale) + bias, 0))
    return model, x, wanted


TARGETS = ["", "avx2", "avx2 -avxvnni -avxvnniint8", "sse4.1", "avx512,+amx-tile,+amx-bf16,+amx-int8"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("batch", [1, 3])
def test_convolutions_are_of_integers(batch: int, target: str, weaker: Callable[[str], None]) -> None:
    """Each sample in steps of its own range: numbers are those of integer sums, but for the rounding of floats."""
    from MNN.passes.manager import optimize
    from MNN.runtime.session import Session

    weaker(target)
    model, x, wanted = _network(np.random.default_rng(batch), batch)
    graph = load(model.finish())
    optimize(graph)
    session = Session(graph)
    found = session.run({next(iter(session.inputs)): x}).values()
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6 * float(np.abs(b).max()))


def test_zero_points_are_one_for_each_sample() -> None:
    from MNN.errors import MNNError
    from MNN.ir.dtype import DType
    from MNN.ir.graph import Node, Value
    from MNN.runtime.session import Session

    shapes = {"x": (2, 3, 5, 5), "w": (4, 3, 3, 3), "zero": (1, 3, 1, 1)}
    values = {n: Value(n, DType.I8 if n == "w" else DType.U8, s) for n, s in shapes.items()}
    y = Value("y", DType.I32)
    node = Node("ConvInteger", "product", list(values.values()), [y], {"pads": [1, 1, 1, 1]})
    graph = Graph("test", list(values.values()), [y], [node])
    feeds = {n: np.ones(s, np.int8 if n == "w" else np.uint8) for n, s in shapes.items()}
    with pytest.raises(MNNError, match=r"product.*zero points \[1, 3, 1, 1\]"):
        Session(graph).run(feeds)
