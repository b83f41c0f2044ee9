"""StableHLO's operators that LiteRT does not run, or not in every form, against their definitions in numpy
(https://openxla.org/stablehlo/spec)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

import MNN
from tests.frontends.tflite.build import Model
from tests.frontends.tflite.cases import Draw
from tests.frontends.tflite.compare import ours


def longs(**lists: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
    return {k: np.asarray(v, np.int64) for k, v in lists.items()}


# -- sorting -----------------------------------------------------------------------------------------------------------


def sort_model(body: Sequence[tuple[str, int, int, str]], shape: Sequence[int], axis: int, stable: bool) -> Model:
    """Two tensors sorted by ``body``: operators with the places of their operands among the entries, and options."""
    model = Model()
    number, inner = model.subgraph("body")
    entries = [inner.input([], kind) for kind in ("FLOAT32", "FLOAT32", "INT32", "INT32")]
    for op, first, second, direction in body:
        options = {"comparison_direction": direction} if direction else {}
        table = "StablehloCompareOptions" if direction else ""
        inner.outputs = [inner.made(op, [entries[first], entries[second]], [], "BOOL", table, **options)]
    g = model.graph
    x, y = g.input(shape), g.input(shape, "INT32")
    g.outputs = [g.tensor(shape), g.tensor(shape, "INT32")]
    g.op(
        "STABLEHLO_SORT", [x, y], g.outputs, "StablehloSortOptions", dimension=axis, is_stable=stable,
        comparator_subgraph_index=number,
    )  # fmt: skip
    return model


@pytest.mark.parametrize("seed", range(8))
def test_tensors_are_sorted_together(seed: int) -> None:
    d = Draw(seed)
    shape = d.shape(1, 3, 7)
    axis, key, swapped, down = d.int(0, len(shape) - 1), d.int(0, 1), d.flag(), d.flag()
    direction = f"STABLEHLO_COMPARISON_DIRECTION_{d.one(['LT', 'LE']) if down == swapped else d.one(['GT', 'GE'])}"
    op = ("STABLEHLO_COMPARE", direction) if d.flag() else ("LESS" if down == swapped else "GREATER", "")
    pair = (2 * key + 1, 2 * key) if swapped else (2 * key, 2 * key + 1)
    model = sort_model([(op[0], *pair, op[1])], shape, axis, True)
    x, y = d.rng.integers(-3, 3, shape).astype(np.float32), d.rng.integers(-3, 3, shape).astype(np.int32)
    ((a, b),) = ours(model.finish(), [[x, y]])
    order = np.argsort(-(x, y)[key] if down else (x, y)[key], axis, kind="stable")
    np.testing.assert_array_equal(a, np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(b, np.take_along_axis(y, order, axis))


@pytest.mark.parametrize("body", [[("LESS", 0, 2, "")], [("EQUAL", 0, 1, "")], [("LESS", 0, 1, "")] * 2, []])
def test_other_comparisons_are_refused(body: list[tuple[str, int, int, str]]) -> None:
    model = sort_model(body, [4], 0, False)
    with pytest.raises(MNN.MNNError, match="comparison"):
        ours(model.finish(), [[np.zeros(4, np.float32), np.zeros(4, np.int32)]])


# -- scattering --------------------------------------------------------------------------------------------------------


def test_scatter_leaves_out_what_lies_outside() -> None:
    """Places on both sides of the tensor, and without an axis of their own."""
    model = Model()
    number, inner = model.subgraph("body")
    inner.outputs = [inner.made("STABLEHLO_ADD", [inner.input([]), inner.input([])], [])]
    g = model.graph
    lists = longs(update_window_dims=[1], inserted_window_dims=[], scatter_dims_to_operand_dims=[0])
    g.outputs = [
        g.made(
            "STABLEHLO_SCATTER", [g.input([4]), g.input([5], "INT32"), g.input([5, 2])], [4], "FLOAT32",
            "StablehloScatterOptions", index_vector_dim=1, update_computation_subgraph_index=number, **lists,
        )
    ]  # fmt: skip
    x, at, new = np.arange(4, dtype=np.float32), np.array([-9, -1, 0, 3, 4], np.int32), np.arange(10.0).reshape(5, 2)
    ((found,),) = ours(model.finish(), [[x, at, new.astype(np.float32)]])
    np.testing.assert_array_equal(found, [0 + 3 + 4, 1 + 5, 2, 3 + 6])


@pytest.mark.parametrize("op", ["STABLEHLO_AND", "STABLEHLO_OR"])
def test_scatter_of_truth(op: str) -> None:
    model = Model()
    number, inner = model.subgraph("body")
    inner.outputs = [inner.made(op, [inner.input([], "BOOL"), inner.input([], "BOOL")], [], "BOOL")]
    g = model.graph
    lists = longs(update_window_dims=[], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0])
    g.outputs = [
        g.made(
            "STABLEHLO_SCATTER", [g.input([4], "BOOL"), g.input([3, 1], "INT32"), g.input([3], "BOOL")], [4], "BOOL",
            "StablehloScatterOptions", index_vector_dim=1, update_computation_subgraph_index=number, **lists,
        )
    ]  # fmt: skip
    x, at, new = (
        np.array([True, True, False, False]),
        np.array([[0], [1], [2]], np.int32),
        np.array([True, False, True]),
    )
    ((found,),) = ours(model.finish(), [[x, at, new]])
    np.testing.assert_array_equal(found, [True, op.endswith("OR"), op.endswith("OR"), False])


# -- convolution -------------------------------------------------------------------------------------------------------


def by_definition(
    x: np.ndarray, w: np.ndarray, strides: Sequence[int], pads: Sequence[Sequence[int]], apart: Sequence[int],
    within: Sequence[int], back: Sequence[bool], group: int, samples: int,
) -> np.ndarray:  # fmt: skip
    """``x[N, C, spatial...]`` with ``w[O, I, spatial...]`` as the specification has it, one number at a time."""
    if samples > 1:
        pairs = zip(np.split(x, samples), np.split(w, samples), strict=True)
        return np.concatenate([by_definition(a, b, strides, pads, apart, within, back, 1, 1) for a, b in pairs], 1)
    if group > 1:
        pairs = zip(np.split(x, group, 1), np.split(w, group), strict=True)
        return np.concatenate([by_definition(a, b, strides, pads, apart, within, back, 1, 1) for a, b in pairs], 1)
    sizes, kernel = x.shape[2:], w.shape[2:]
    spans = [
        ((n - 1) * a + 1 + sum(p) - (k - 1) * r - 1) // s + 1
        for n, a, p, k, r, s in zip(sizes, apart, pads, kernel, within, strides, strict=True)
    ]
    made = np.zeros((x.shape[0], w.shape[0], *spans))
    for at in itertools.product(*map(range, spans)):
        for tap in itertools.product(*map(range, kernel)):
            place = [i * s + t * r - p[0] for i, s, t, r, p in zip(at, strides, tap, within, pads, strict=True)]
            if all(q % a == 0 and 0 <= q // a < n for q, a, n in zip(place, apart, sizes, strict=True)):
                there = tuple(q // a for q, a in zip(place, apart, strict=True))
                of = tuple(k - 1 - t if b else t for t, k, b in zip(tap, kernel, back, strict=True))
                made[(..., *at)] += x[(..., *there)] @ w[(..., *of)].T
    return made


@pytest.mark.parametrize("seed", range(10))
def test_convolution_is_what_the_specification_says(seed: int) -> None:
    d = Draw(seed)
    count = d.int(1, 3)
    group, samples = d.one([(1, 1), (2, 1), (1, 2)])
    sizes, kernel = [d.int(4, 6) for _ in range(count)], [d.int(1, 3) for _ in range(count)]
    channels, filters, batch = d.int(1, 2) * group, d.int(1, 2) * group * samples, d.int(1, 2) * samples
    strides, apart, within = ([d.int(1, 2) for _ in range(count)] for _ in range(3))
    pads, back = [[d.int(-1, 2), d.int(0, 2)] for _ in range(count)], [d.flag() for _ in range(count)]
    x, w = d.array([batch, channels, *sizes]), d.array([filters, channels // group, *kernel])
    wanted = by_definition(x, w, strides, pads, apart, within, back, group, samples)
    places = [[int(a) for a in d.rng.permutation(count + 2)] for _ in range(3)]
    named = {}
    for name, place, axes in zip(
        ("input", "kernel", "output"), places,
        (("batch", "feature"), ("output_feature", "input_feature"), ("batch", "feature")), strict=True,
    ):  # fmt: skip
        named |= {f"{name}_{axis}_dimension": place[i] for i, axis in enumerate(axes)}
        named |= longs(**{f"{name}_spatial_dimensions": place[2:]})
    x, w, wanted = (a.transpose(np.argsort(p)) for a, p in zip((x, w, wanted), places, strict=True))
    g = d.g
    weights = d.fed(w) if d.flag() else g.const(np.ascontiguousarray(w))
    inputs = [d.fed(x), weights]
    lists = longs(window_strides=strides, padding=np.ravel(pads), lhs_dilation=apart, rhs_dilation=within)
    y = g.made(
        "STABLEHLO_CONVOLUTION", inputs, wanted.shape, "FLOAT32", "StablehloConvolutionOptions",
        window_reversal=np.asarray(back), feature_group_count=group, batch_group_count=samples, **named, **lists,
    )  # fmt: skip
    case = d.case(y)
    ((found,),) = ours(case.model.finish(), case.runs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
