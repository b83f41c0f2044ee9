"""Updates of a scatter that are one number for all places: an operand that is repeated, not stored."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session


@pytest.mark.parametrize("kind", [DType.F32, DType.I64, DType.I8])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_repeated_updates(kind: DType, shape: tuple[int, ...]) -> None:
    places = np.array([[0], [2], [5]], np.int32)
    x, repeated, out = Value("x", kind, shape), Value("repeated", kind), Value("out", kind)
    size = Value("size", DType.I64, (2,), np.array([3, 3]))
    at = Value("at", DType.I32, places.shape, places)
    data = Value("data", kind, (6, 3), np.zeros((6, 3), kind.numpy))
    whole = Value("whole", DType.I64, (2,), np.array([6, 3]))
    nodes = [
        Node("BroadcastTo", "repeat", [x, size], [repeated]),
        Node("ScatterNd", "scatter", [at, repeated, whole, data], [out], {"opType": "NONE"}),
    ]
    number = np.arange(1, 4)[: int(np.prod(shape))].reshape(shape).astype(kind.numpy)
    found = Session(Graph("repeated", [x], [out], nodes)).run({"x": number})["out"]
    wanted = np.zeros((6, 3), kind.numpy)
    wanted[places[:, 0]] = number
    np.testing.assert_array_equal(found, wanted)
