"""What classes of operators say of themselves, which passes rely on, against what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import operators, traits
from MNN.runtime.config import Config
from MNN.runtime.session import Session

REFERENCE = Config(reference=True)
ATTRIBUTES: dict[str, dict[str, object]] = {
    "Cast": {"dstT": "DT_FLOAT"},
    "UnaryOp": {"opType": "TANH"},
    "Squeeze": {"squeezeDims": [0]},
    "Unsqueeze": {"squeezeDims": [1]},
    "Permute": {"dims": [2, 0, 1]},
    "Slice": {"axis": 1, "slicePoints": [2]},
}
OPERANDS: dict[str, list[object]] = {
    "Reshape": [[4, 3]],
    "ReshapeExact": [[4, 3]],
    "StridedSlice": [[0, 1, 0], [1, 4, 3]],
}


def computed(op: str, x: np.ndarray) -> list[np.ndarray]:
    attrs = {"StridedSlice": {"fromType": 1}}.get(op, ATTRIBUTES.get(op, {}))
    taken = Value("x", DType.F32, tuple(x.shape))
    numbers = [np.asarray(v, np.int64) for v in OPERANDS.get(op, [])]
    operands = [Value(f"c{i}", DType.I64, tuple(a.shape), a) for i, a in enumerate(numbers)]
    made = [Value(f"y{i}") for i in range(2 if op == "Slice" else 1)]
    graph = Graph("g", [taken], made, [Node(op, "n", [taken, *operands], list(made), dict(attrs))])
    found = Session(graph, REFERENCE).run({"x": x})
    return [found[v.name] for v in made]


def named(trait: str) -> list[str]:
    return sorted(name for name, op in operators().items() if getattr(op, trait))


@pytest.mark.parametrize("op", named("elementwise"))
def test_elementwise_operators_look_at_single_numbers(op: str) -> None:
    x = np.linspace(-3, 8, 12, dtype=np.float32)
    whole = computed(op, x.reshape(1, 4, 3))[0]
    alone = np.concatenate([computed(op, x[i : i + 1])[0] for i in range(12)])
    np.testing.assert_array_equal(whole, alone.reshape(1, 4, 3))


@pytest.mark.parametrize("op", named("reshapes"))
def test_reshapes_keep_all_elements_in_their_order(op: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    np.testing.assert_array_equal(computed(op, x)[0].reshape(-1), x.reshape(-1))
    assert operators()[op].moves


@pytest.mark.parametrize("op", named("moves"))
def test_moves_give_elements_of_their_operand(op: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    for found in computed(op, x):
        assert found.size
        assert set(found.reshape(-1)) <= set(x.reshape(-1))


@pytest.mark.parametrize(("op", "attrs"), [("ReLU", {}), ("ReLU6", {}), ("ReLU6", {"minValue": -1.0, "maxValue": 2.5})])
def test_clamps_tell_their_bounds(op: str, attrs: dict[str, object]) -> None:
    x, y = Value("x", DType.F32, (12,)), Value("y")
    node = Node(op, "n", [x], [y], attrs)
    data = np.linspace(-3, 8, 12, dtype=np.float32)
    bounds = traits(node).bounds(node)
    assert bounds is not None
    found = Session(Graph("g", [x], [y], [node]), REFERENCE).run({"x": data})["y"]
    np.testing.assert_array_equal(found, np.clip(data, *bounds))


def test_others_have_no_bounds() -> None:
    for op, attrs in (("ReLU", {"slope": 0.1}), ("Sigmoid", {}), ("NoSuchOperator", {})):
        node = Node(op, "n", [Value("x")], [Value("y")], attrs)
        assert traits(node).bounds(node) is None
