"""ATen operators against torch: seeded calls of many families; each operator that they come to is judged by itself.

``MNN_TORCH_CASES=30 python -m pytest tests/frontends/torch/test_operators.py`` draws more of them.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import base_name, call
from MNN.frontends.torch.registry import apply
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.judging import difference
from tests.frontends.torch.peer import written

COUNT = os.environ.get("MNN_TORCH_CASES", "1")
SEED = os.environ.get("MNN_TORCH_SEED", "1")


@pytest.mark.parametrize(("module", "least"), [("operator_cases", 150), ("function_cases", 60)])
def test_every_operator_answers_as_torch_does(module: str, least: int) -> None:
    folder = written(module, SEED, COUNT)
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    with np.load(folder / "cases.npz") as file:
        arrays = [file[f"arr_{i}"] for i in range(len(file.files))]
    wrong: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        try:
            found = difference(case, arrays)
        except (MNNError, LookupError) as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            wrong[case[0]].append(f"{found} of {case[1:3]}"[:400])
    assert len({c[0] for c in cases}) > least
    assert not wrong, "\n".join(f"{name} ({len(said)}): {said[0]}" for name, said in sorted(wrong.items()))


def test_all_core_operators_have_handlers() -> None:
    """Torch's own list of core operators, less those of training."""
    from MNN.frontends.torch.complex.tensor import COMPLEX
    from MNN.frontends.torch.registry import ATEN

    known = {*ATEN.known(), *COMPLEX.known()}
    listed = (written("core_operators") / "cases").read_text(encoding="utf-8").split()
    assert len(listed) > 170
    left_out = [n for n in listed if n.startswith("sym_") or "backward" in n]
    missing = [n for n in listed if n not in left_out and base_name(n.split(".")[0]) not in known]
    assert not missing


@pytest.mark.parametrize("name", ["add", "conv2d", "scaled_dot_product_attention", "index_put", "lstm"])
def test_arguments_that_do_not_fit_are_named(name: str) -> None:
    from MNN.errors import UnsupportedError
    from MNN.frontends.torch.registry import apply

    ctx = TorchBuilder(ModelState(), Graph("g"))
    ctx.where = f"{name} 'here'"
    with pytest.raises(UnsupportedError, match=r"here.*this form"):
        apply(ctx, name, [], {"surely_unknown": 1})


def test_the_coverage_page_is_up_to_date() -> None:
    from tests.frontends.torch.coverage import PAGE, text

    assert PAGE.read_text(encoding="utf-8") == text(), "python -m tests.frontends.torch.coverage writes it"


def test_rows_behind_the_last_group_give_zeros() -> None:
    """The operator that transformers falls back to for mixtures of experts."""
    rng = np.random.default_rng(3)
    x, weights = rng.random((7, 3), np.float32), rng.random((4, 3, 5), np.float32)
    ends = np.array([2, 2, 3, 5], np.int64)
    expected = np.zeros((7, 5), np.float32)
    for start, end, w in zip([0, *ends[:-1]], ends, weights, strict=True):
        expected[start:end] = x[start:end] @ w
    case = ("transformers.grouped_mm_fallback.default", [{"tensor": i} for i in range(3)], {}, {"tensor": 3})
    assert not difference(case, [x, weights, ends, expected])


def test_rows_of_bags_are_counted_from_the_end_too() -> None:
    weights = np.random.default_rng(4).random((5, 3), np.float32)
    index, starts = np.array([4, 1, 4, 0]), np.array([0, 2])
    expected = np.stack([weights[1], weights[0]])
    args = [*({"tensor": i} for i in range(3)), False, 0, False, None, False, -1]
    case = ("aten.embedding_bag.padding_idx", args, {}, [{"tensor": 3}, None, None, None])
    assert not difference(case, [weights, index, starts, expected])


def test_many_pixels_of_one_are_rounded_as_torch_rounds() -> None:
    """1 / 41 in f32, times 41, is a little less than 1."""
    x = np.random.default_rng(5).random((1, 1, 3, 2), np.float32)
    rows, columns = (np.floor(np.arange(41 * n) * np.float32(1 / 41), dtype=np.float32).astype(int) for n in (3, 2))
    assert rows[41] == 0
    expected = x[:, :, rows][..., columns]
    for factors in ([41.0, 41.0], [None, None]):
        case = ("aten.upsample_nearest2d.default", [{"tensor": 0}, [123, 82], *factors], {}, {"tensor": 1})
        assert not difference(case, [x, expected])


def test_even_shares_of_doubles_have_their_precision() -> None:
    x = np.random.default_rng(6).random((1, 7))
    expected = np.stack([x[:, 0:3].mean(1), x[:, 2:5].mean(1), x[:, 4:7].mean(1)], 1)
    graph, value = Graph("g"), Value("x", DType.F64, (1, 7))
    found = _called(graph, value, "adaptive_avg_pool1d", [3], x)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_open_axes_that_stay_as_long_are_copied_by_linear_resizes() -> None:
    """11 / 10 of 5 are 5, of 10 are 11."""
    for n, longer in ((5, 5), (10, 11)):
        x = np.random.default_rng(n).random((1, 1, n, 4), np.float32)
        graph, value = Graph("g"), Value("x", DType.F32, (1, 1, "h", 4))
        found = _called(graph, value, "upsample_bilinear2d", [None, False, [1.1, 1.1]], x)
        assert found.shape == (1, 1, longer, 4)
        if n == longer:
            np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("axes", [[], [0]])
def test_open_axes_of_size_1_are_not_kept_silently(axes: list[int]) -> None:
    """Torch drops them."""
    x = np.random.default_rng(8).random((2, 3, 1), np.float32)
    value = Value("x", DType.F32, ("n", 3, 1))
    assert _called(Graph("g"), value, "squeeze", axes, x).shape == ((2, 3, 1) if axes else (2, 3))
    with pytest.raises(MNNError, match=r"axis 0 of .* has size 1"):
        _called(Graph("g"), value, "squeeze", axes, x[:1])


@pytest.mark.parametrize("pieces", [2, 3, 5])
def test_pieces_of_open_axes_are_as_many_as_asked_for(pieces: int) -> None:
    """Torch cuts some sizes into fewer, where empty ones stood in for the rest."""
    graph, given = Graph("g"), Value("x", DType.F32, ("n", 2))
    graph.inputs = [given]
    graph.outputs = apply(TorchBuilder(ModelState(), graph), "chunk", [given, pieces], {})
    session = Session(graph, Config(reference=True))
    for n in range(13):
        x, each = np.random.default_rng(n).random((n, 2), np.float32), -(-n // pieces)
        if n and len(range(0, n, each)) != pieces:
            with pytest.raises(MNNError, match=rf"is cut into {pieces} pieces"):
                session.run({"x": x})
            continue
        for i, found in enumerate(session.run({"x": x}).values()):
            np.testing.assert_array_equal(found, x[i * each : (i + 1) * each])


@pytest.mark.parametrize("kind", [DType.F32, DType.I64])
def test_medians_of_open_axes(kind: DType) -> None:
    graph, given = Graph("g"), Value("x", kind, (2, "n"))
    graph.inputs = [given]
    graph.outputs = apply(TorchBuilder(ModelState(), graph), "median", [given, 1], {})
    session = Session(graph, Config(reference=True))
    for n in (1, 2, 5, 8):
        x = np.random.default_rng(n).permutation(2 * n).reshape(2, n).astype(kind.numpy)
        if n == 8 and kind.is_float:
            x[1, 3] = np.nan
        wanted = np.sort(x, 1)[:, (n - 1) // 2]
        wanted[np.isnan(x).any(1)] = np.nan if kind.is_float else 0
        value, place = session.run({"x": x}).values()
        np.testing.assert_array_equal(value, wanted)
        np.testing.assert_array_equal(np.take_along_axis(x, place[:, None], 1)[:, 0], wanted)


def test_repeats_known_at_run_time() -> None:
    """In memory and time of the results, not of rows times results."""
    graph, x, repeats = Graph("g"), Value("x", DType.F32, ("n", 2)), Value("repeats", DType.I64, ("n",))
    graph.inputs = [x, repeats]
    graph.outputs = [apply(TorchBuilder(ModelState(), graph), "repeat_interleave", [x, repeats, 0], {})]
    session = Session(graph, Config(reference=True))
    for n in (1, 7, 30_000):  # these once made a table of 2e9 numbers
        rng = np.random.default_rng(n)
        given, often = rng.random((n, 2), np.float32), rng.integers(0, 5, n)
        (found,) = session.run({"x": given, "repeats": often}).values()
        np.testing.assert_array_equal(found, np.repeat(given, often, axis=0))


@pytest.mark.parametrize(("axis", "often"), [(0, 2), (1, 2), (1, 0)])
def test_repeats_of_axes_beside_empty_ones(axis: int, often: int) -> None:
    graph, given = Graph("g"), Value("x", DType.F32, ("n", 3))
    graph.inputs = [given]
    graph.outputs = [apply(TorchBuilder(ModelState(), graph), "repeat_interleave", [given, often, axis], {})]
    session = Session(graph, Config(reference=True))
    for n in (0, 1, 4):
        x = np.random.default_rng(n).random((n, 3), np.float32)
        (found,) = session.run({"x": x}).values()
        np.testing.assert_array_equal(found, np.repeat(x, often, axis=axis))


def test_places_of_repeats_have_the_type_of_the_repeats() -> None:
    graph, given = Graph("g"), Value("repeats", DType.I32, (3,))
    graph.inputs = [given]
    graph.outputs = [apply(TorchBuilder(ModelState(), graph), "repeat_interleave", [given], {"output_size": 3})]
    (found,) = Session(graph, Config(reference=True)).run({"repeats": np.array([2, 0, 1], np.int32)}).values()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [0, 0, 2])


@pytest.mark.parametrize("shift", [-5, 2, 11])
def test_open_axes_are_rolled_around_several_times(shift: int) -> None:
    for n in (0, 1, 2, 3, 9):
        x = np.random.default_rng(9).random((n, 2), np.float32)
        found = _called(Graph("g"), Value("x", DType.F32, ("n", 2)), "roll", [shift, 0], x)
        np.testing.assert_array_equal(found, np.roll(x, shift, 0))


def test_single_weights_keep_their_names() -> None:
    """Times a number they are no new weight."""
    weight = Value("scale", DType.F32, (), np.float32(2.0).reshape(()))
    ctx = TorchBuilder(ModelState(), Graph("g"))
    assert ctx.binary("MUL", weight, 3.0).data is None
    assert ctx.graph.nodes[-1].inputs[0] is weight
    assert ctx.binary("MUL", ctx.const(2.0), 3.0).data == 6


def test_segments_cost_no_more_than_rows_and_segments() -> None:
    x, lengths = np.random.default_rng(7).random(500, np.float32), np.tile([0, 2], 250)
    graph, value, given = Graph("g"), Value("x", DType.F32, (500,)), Value("l", DType.I64, (500,), lengths)
    found = _called(graph, value, "segment_reduce", ["sum"], x, lengths=Variable(given))
    np.testing.assert_allclose(found, np.where(lengths == 0, 0, x.reshape(250, 2).sum(1).repeat(2)), rtol=1e-6)
    assert max(np.prod(v.shape) for n in graph.nodes for v in n.outputs if v.shape is not None) <= 501


def _called(graph: Graph, value: Value, name: str, args: list[Any], x: np.ndarray, **more: Any) -> np.ndarray:
    """What an operator makes of ``x``, given as ``value``."""
    ctx = TorchBuilder(ModelState(), graph)
    graph.inputs.append(value)
    found = call(ctx, name, [Variable(value), *args], more)
    graph.outputs.append(found.read(ctx))
    (made,) = Session(graph, Config(reference=True)).run({value.name: x}).values()
    return made


@pytest.mark.parametrize(
    ("padding", "include", "divisor"), [(0, True, None), (1, True, None), (1, False, None), (1, True, 5)]
)
def test_averages_of_integers_are_rounded_towards_zero(padding: int, include: bool, divisor: int | None) -> None:
    x = np.random.default_rng(7).integers(-99, 99, (2, 3, 7, 6))
    wide = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    inside = np.pad(np.ones_like(x), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    sums, counts = (
        np.lib.stride_tricks.sliding_window_view(a, (3, 2), (2, 3))[:, :, ::2].sum((-1, -2)) for a in (wide, inside)
    )
    expected = np.trunc(sums / (divisor or (6 if include else counts))).astype(np.int64)
    args = [{"tensor": 0}, [3, 2], [2, 1], [padding, padding], False, include, divisor]
    assert not difference(("aten.avg_pool2d.default", args, {}, {"tensor": 1}), [x, expected])


@pytest.mark.parametrize("pads", [(-4, 5), (-6, 5), (5, -4), (7, -5), (-3, 2), (-1, 4)])
def test_pads_that_cut_all_but_repeat_the_last_element(pads: tuple[int, int]) -> None:
    """Each place shows the element nearest to it of the whole axis."""
    x = np.random.default_rng(9).random((2, 3, 3, 4), np.float32)
    expected = x[..., np.clip(np.arange(max(4 + sum(pads), 0)) - pads[0], 0, 3)]
    case = ("aten.replication_pad2d.default", [{"tensor": 0}, [*pads, 0, 0]], {}, {"tensor": 1})
    assert not difference(case, [x, expected])


def test_no_index_fits_every_tensor() -> None:
    x, index = np.arange(5.0), np.zeros((2, 0), np.int64)
    case = ("aten.gather.default", [{"tensor": 0}, 0, {"tensor": 1}], {}, {"tensor": 2})
    assert not difference(case, [x, index, np.zeros((2, 0))])
