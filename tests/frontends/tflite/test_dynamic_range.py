"""Integer weights beside floats: rows are rounded to 8 bits, as the files mean it; loops have floats."""

from __future__ import annotations

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
