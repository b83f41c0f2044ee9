"""Functions of graphs that are made here, where they are hard: ends of distributions, borders of intervals, and what
nodes do not say."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.tensorflow import load
from MNN.frontends.tensorflow.messages import new
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session

_TYPES = {np.dtype(k): n for k, n in (("f4", 1), ("f8", 2), ("i4", 3), ("i8", 9), ("i1", 11), ("u1", 12))}
"""Bytes are quantised ones."""
_KINDS = {bool: "b", int: "i", float: "f", bytes: "s"}


def _run(op: str, fed: list[Any], kept: list[Any], output: str = "y", **attrs: Any) -> np.ndarray:
    """``op`` of arrays that are fed, then of constants, with its attributes: element types, numbers, words."""
    graph, feeds = new("GraphDef"), {}
    for i, a in enumerate([*fed, *kept]):
        node = graph.node.add(name=f"v{i}", op="Placeholder" if i < len(fed) else "Const")
        array = np.asarray(a, order="C")
        node.attr["dtype"].type = _TYPES[array.dtype]
        if i < len(fed):
            feeds[node.name] = array
            shape = node.attr["shape"].shape
        else:
            tensor = node.attr["value"].tensor
            tensor.dtype, tensor.tensor_content, shape = _TYPES[array.dtype], array.tobytes(), tensor.tensor_shape
        shape.SetInParent()
        for size in np.shape(a):
            shape.dim.add(size=size)
    made = graph.node.add(name="y", op=op, input=[node.name for node in graph.node])
    for key, value in attrs.items():
        if isinstance(value, type):
            made.attr[key].type = _TYPES[np.dtype(value)]
        else:
            setattr(made.attr[key], _KINDS[type(value)], value)
    if output != "y":
        graph.node.add(name="z", op="Identity", input=[output]).attr["T"].type = 1
    loaded = load(graph.SerializeToString())
    optimize(loaded)
    found: np.ndarray = next(iter(Session(loaded, Config(precision="high")).run(feeds).values()))
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_quantiles_of_small_shares(kind: type) -> None:
    p = 10 ** -np.random.default_rng(1).uniform(0, 37, 200)
    p = np.concatenate([p, 1 - p[p > 1e-6]]).astype(kind)
    wanted = [NormalDist().inv_cdf(float(v)) for v in p if v < 1]
    np.testing.assert_allclose(_run("Ndtri", [p[p < 1]], [], T=kind), wanted, 4 * np.finfo(kind).eps, 1e-12)
    ends = _run("Ndtri", [np.asarray([0, 1, -0.1, 1.1], kind)], [], T=kind)
    np.testing.assert_array_equal(ends, np.asarray([-np.inf, np.inf, np.nan, np.nan], kind))


def test_zeta_of_bases_below_zero() -> None:
    """Against the sum itself, whose rest is that of a base above 0."""
    rng = np.random.default_rng(2)
    s, base = rng.integers(2, 8, 60).astype(float), rng.integers(-90, 0, 60) + rng.uniform(0.1, 0.9, 60)
    rest = _run("Zeta", [s, base + 90], [], T=np.float64)
    terms = ((base[:, None] + np.arange(90)) ** -s[:, None]).sum(1)
    np.testing.assert_allclose(_run("Zeta", [s, base], [], T=np.float64), terms + rest, 1e-9, 1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64])
def test_histograms_of_numbers_on_borders(kind: type) -> None:
    values: np.ndarray = (
        np.arange(-2, 13).astype(kind) if np.issubdtype(kind, np.integer) else (np.arange(-2, 13) / 10).astype(kind)
    )
    for ends, bins in (((0, 10), 4), ((0, 3), 4), ((-1, 8), 9)) if values.dtype.kind == "i" else (((0, 1), 10),):
        found = _run("HistogramFixedWidth", [values], [np.asarray(ends, kind), np.int32(bins)], T=kind, dtype=np.int32)
        above = (np.maximum(values, kind(ends[0])) - kind(ends[0])).astype(np.float64)
        places = np.minimum(above / (float(ends[1] - ends[0]) / bins), bins - 1).astype(int)
        np.testing.assert_array_equal(found, np.bincount(places, minlength=bins))


@pytest.mark.parametrize(("op", "limit"), [("BlockLSTM", 3.0), ("BlockLSTMV2", np.inf)])
def test_cells_are_clipped_as_the_operator_says(op: str, limit: float) -> None:
    """Saved models leave attributes out that have their default."""
    zeros = np.zeros((1, 1), np.float32)
    w = np.asarray([[9, 9, 9, 9], [0, 0, 0, 0]], np.float32)
    weights = [w, *[np.zeros(1, np.float32)] * 3, np.zeros(4, np.float32)]
    fed = [np.asarray(6, np.int64), np.ones((6, 1, 1), np.float32), zeros, zeros]
    found = _run(op, fed, weights, "y:1", T=np.float32)
    np.testing.assert_allclose(found.ravel(), np.minimum(np.arange(1, 7), limit), 1e-2)


@pytest.mark.parametrize(("count", "wanted"), [(1, [10]), (7, [0, 5, 5, 10, 10, 15, 15])])
def test_crops_take_the_later_one_of_two_nearest_pixels(count: int, wanted: list[int]) -> None:
    image, whole = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1), np.asarray([[0, 0, 1, 1]], np.float32)
    size = np.asarray([count, count], np.int32)
    found = _run("CropAndResize", [image, whole], [np.zeros(1, np.int32), size], method=b"nearest", T=np.float32)
    np.testing.assert_array_equal(found[0, :, :, 0].diagonal(), wanted)


@pytest.mark.parametrize(
    ("flag", "size", "wanted"),
    [
        ("", 14, [0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, 12, 13]),
        ("align_corners", 7, [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, *[5] * 5, 6, 6, 6]),
        ("half_pixel_centers", 14, [0, 2, 3, 5, 7, 8, 10, 11, 13]),
    ],
)
def test_nearest_pixels_at_the_border_of_two(flag: str, size: int, wanted: list[int]) -> None:
    """What TensorFlow 2.21 gives, whose places are products in f32."""
    line = np.arange(size, dtype=np.float32).reshape(1, size, 1, 1)
    flags = {flag: True} if flag else {}
    found = _run("ResizeNearestNeighbor", [line], [np.asarray([len(wanted), 1], np.int32)], T=np.float32, **flags)
    np.testing.assert_array_equal(found.reshape(-1), wanted)


@pytest.mark.parametrize(
    ("low", "high", "kind", "attrs", "wanted", "ends"),
    [
        (0, 127, np.int8, {}, [-128, -3, -1, 1, 2, 3, 127], (-128, 127)),
        (0, 127, np.int8, {"round_mode": b"HALF_TO_EVEN"}, [-128, -2, 0, 0, 2, 2, 127], (-128, 127)),
        (-0.001, 0.001, np.int8, {}, [-128, -128, -128, 127, 127, 127, 127], (-128 * 0.009 / 127, 0.009)),
        (-4, 1, np.int8, {"narrow_range": True}, [-127, -79, -16, 16, 48, 79, 127], (-4, 4)),
        (-2, 51, np.uint8, {}, [0, 0, 0, 3, 8, 13, 255], (0, 51)),
    ],
)
def test_limits_and_rounding_of_quantised_numbers(
    low: float, high: float, kind: type, attrs: dict[str, Any], wanted: list[int], ends: tuple[float, float]
) -> None:
    """What TensorFlow 2.21 gives without oneDNN, whose kernel has limits of its own."""
    x = np.asarray([-300, -2.5, -0.5, 0.5, 1.5, 2.5, 300], np.float32)
    limits = [np.float32(low), np.float32(high)]
    np.testing.assert_array_equal(_run("QuantizeV2", [x], limits, mode=b"SCALED", T=kind, **attrs), wanted)
    for i, end in enumerate(ends, 1):
        found = _run("QuantizeV2", [x], limits, f"y:{i}", mode=b"SCALED", T=kind, **attrs)
        np.testing.assert_allclose(found, end, rtol=1e-6)


def test_limits_are_given_where_the_older_operator_does_not_say() -> None:
    x, limits = np.asarray([-2, -0.3, 0, 0.2, 1, 3], np.float32), [np.float32(-1), np.float32(1.5), np.int32(4)]
    found = _run("QuantizeAndDequantizeV3", [x], limits, T=np.float32)
    np.testing.assert_allclose(found, np.asarray([-8, -1, 0, 1, 5, 7], np.float32) * 1.5 / 7, rtol=1e-6)


def test_no_class_is_among_the_best_beside_scores_that_are_not_finite() -> None:
    scores = np.asarray([[1, 2, 2, 0], [0, np.nan, 1, 2], [np.inf, 1, 2, 3], [3, 1, 2, -np.inf]], np.float32)
    found = _run("InTopKV2", [scores, np.asarray([1, 3, 0, 0], np.int32)], [np.int32(2)], T=np.int32)
    np.testing.assert_array_equal(found, [True, False, False, False])


@pytest.mark.parametrize("number", [0, 1, 2, -1, 7])
def test_lowered_cases_of_many_branches(number: int) -> None:
    """As TensorFlow freezes ``tf.switch_case``: the second branch is a constant, which only control inputs tie to its
    Switch. What is left of loops, placeholders of any type that nothing uses, is no input."""
    graph = new("GraphDef")
    for name, code in (("left", 21), ("x", 1), ("number", 3)):
        node = graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = code
        node.attr["shape"].shape.SetInParent()
    for name, given in (("sides", "x"), ("pivots", "number")):
        graph.node.add(name=name, op="_SwitchN", input=[given, "number"]).attr["num_outs"].i = 3
    graph.node.add(name="second", op="Identity", input=["pivots:1"])
    held = graph.node.add(name="held", op="Const", input=["^second"])
    held.attr["value"].tensor.dtype, held.attr["dtype"].type = 1, 1
    held.attr["value"].tensor.float_val.append(5)
    graph.node.add(name="first", op="Neg", input=["sides"])
    graph.node.add(name="third", op="Square", input=["sides:2"])
    graph.node.add(name="y", op="Merge", input=["first", "held", "third"])
    graph.node.add(name="place", op="Identity", input=["y:1"])
    graph.node.add(name="out", op="Identity", input=["y"])
    loaded = load(graph.SerializeToString())
    assert [v.name for v in loaded.inputs] == ["x", "number"]
    optimize(loaded)
    found = Session(loaded, Config()).run({"x": np.float32(3), "number": np.int32(number)})
    chosen = number if number in (0, 1) else 2
    assert (float(found["out"]), int(found["place"])) == ([-3.0, 5.0, 9.0][chosen], chosen)


@pytest.mark.parametrize("flag", [False, True])
def test_branches_that_are_loops(flag: bool) -> None:
    """A choice whose two values leave loops of TensorFlow 1: the loops' Switches are none of the choice's."""
    graph = new("GraphDef")
    for name, code in (("x", 1), ("flag", 10)):
        node = graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = code
        node.attr["shape"].shape.SetInParent()
    graph.node.add(name="sides", op="Switch", input=["x", "flag"])
    for side, limit in enumerate((10, 100)):
        held = graph.node.add(name=f"limit{side}", op="Const")
        held.attr["value"].tensor.dtype, held.attr["dtype"].type = 1, 1
        held.attr["value"].tensor.float_val.append(limit)
        nodes = [
            ("Enter", "first", [f"sides:{side}"]), ("Enter", "most", [f"limit{side}"]),
            ("Merge", "value", ["first", "next"]), ("Less", "small", ["value", "most"]),
            ("LoopCond", "going", ["small"]), ("Switch", "turn", ["value", "going"]),
            ("AddV2", "twice", ["turn:1", "turn:1"]), ("NextIteration", "next", ["twice"]),
            ("Exit", "after", ["turn"]),
        ]  # fmt: skip
        own = {name for _, name, _ in nodes}
        for op, name, inputs in nodes:
            given = [i + str(side) if i in own else i.replace("turn:", f"turn{side}:") for i in inputs]
            made = graph.node.add(name=name + str(side), op=op, input=given)
            if op == "Enter":
                made.attr["frame_name"].s = b"loop%d" % side
    graph.node.add(name="y", op="Merge", input=["after0", "after1"])
    graph.node.add(name="out", op="Identity", input=["y"])
    loaded = load(graph.SerializeToString())
    optimize(loaded)
    found = Session(loaded, Config()).run({"x": np.float32(3), "flag": np.asarray(flag)})
    assert float(found["out"]) == (192 if flag else 12)


def test_what_follows_from_an_unsupported_node_is_not_reported() -> None:
    """Nothing is known of the shapes of what it would give; what is unknown for itself is still listed."""
    graph = new("GraphDef")
    for name, op, given in (("x", "Placeholder", ()), ("a", "SparseConcat", ("x",)), ("b", "Relu", ("a",)),
                            ("c", "Bucketize", ("b",)), ("d", "SparseSplit", ("c",))):  # fmt: skip
        node = graph.node.add(name=name, op=op, input=given)
        if op == "Placeholder":
            node.attr["dtype"].type = 1
        if op == "Bucketize":
            node.attr["boundaries"].list.f.append(0.5)
    with pytest.raises(UnsupportedModelError) as raised:
        load(graph.SerializeToString())
    assert [p.op for p in raised.value.problems] == ["SparseConcat", "SparseSplit"]


def test_empty_rows_of_many_are_filled_in_order() -> None:
    """Of so many rows and entries that numbers of both together have more than 32 bits."""
    rows = 1 << 16
    own = np.arange(0, rows, 2)
    at = np.stack([own, np.zeros_like(own)], 1)
    given = [at, own.astype(np.float32), np.asarray([rows, 1]), np.float32(-1)]
    found = _run("SparseFillEmptyRows", given, [], "y:1", T=np.float32)
    np.testing.assert_array_equal(found, np.where(np.arange(rows) % 2, -1, np.arange(rows)))
