"""Every builtin operator that LiteRT runs, on random models, beside LiteRT. ``MNN_TFLITE_CASES`` sets how many of each
(3 by default); ``python -m tests.frontends.tflite.trial --cases 100`` runs many and lists what differs."""

from __future__ import annotations

import os

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.tflite.registry import CUSTOM, TABLE
from MNN.frontends.tflite.schema import TFLITE
from MNN.frontends.tflite.unsupported import ADVICE
from tests.frontends.tflite.build import Model
from tests.frontends.tflite.cases import FAMILIES, FORMS, Draw
from tests.frontends.tflite.cases.quantized_exact import EXACT
from tests.frontends.tflite.cases.quantized_tables import TABLES
from tests.frontends.tflite.compare import ours
from tests.frontends.tflite.coverage import PAGE, page
from tests.frontends.tflite.trial import trial
from tests.frontends.tflite.within import trial as within_trial

CASES = int(os.environ.get("MNN_TFLITE_CASES", "3"))


@pytest.fixture(scope="module")
def wrong() -> dict[str, list[str]]:
    """What differs, by family: all are computed at once, as LiteRT starts slowly."""
    return trial(list(FAMILIES), range(CASES))


@pytest.mark.parametrize("name", FAMILIES)
def test_random_models_give_what_litert_gives(wrong: dict[str, list[str]], name: str) -> None:
    assert not wrong[name], "\n".join(wrong[name])


def test_forms_of_quantised_operators() -> None:
    """Every twelfth, and what was wrong once: zeros that are scattered into, functions and pixels of 16 bits, integers
    of one scale as those of another."""
    wrong = trial([*list(FORMS)[::12], "SCATTER_ND quantised", *TABLES], range(1))
    wrong |= trial(EXACT, range(1, 14, 12))
    wrong |= trial(["HARD_SWISH of bytes"], range(35, 36))  # its steps are coarse
    wrong |= trial(["variables in control flow"], range(4))
    wrong |= trial(["LEAKY_RELU wide quantised", "PRELU quantised", "QUANTIZE wide"], range(1, 3))
    wrong |= trial(["BATCH_MATMUL quantised", "L2_NORMALIZATION quantised"], range(5, 6))
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("op", ["TANH", "SOFTMAX", "EXP"])
@pytest.mark.parametrize("zero", [0, 5])
def test_functions_of_16_bits_in_forms_that_no_kernel_takes(op: str, zero: int) -> None:
    """A zero point, or rows of nothing: the function itself, rounded."""
    function = {"TANH": np.tanh, "EXP": np.exp}.get(op, lambda a: np.exp(a) / np.exp(a).sum(-1, keepdims=True))
    shape, model = [2, 5] if zero else [2, 0], Model()
    g = model.graph
    x = np.random.default_rng(1).integers(-30000, 30000, shape).astype(np.int16)
    table, options = ("SoftmaxOptions", {"beta": 1.0}) if op == "SOFTMAX" else ("", {})
    given = g.input(shape, "INT16", scale=1e-4, zero=zero)
    g.outputs = [g.made(op, [given], shape, "INT16", table, quantization={"scale": 1e-3, "zero": 0}, **options)]
    ((found,),) = ours(model.finish(), [[x]])
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, np.round(function((x.astype(np.float64) - zero) * 1e-4) / 1e-3))


@pytest.mark.parametrize("batch", [-1, 2])
def test_exponents_of_16_bits_are_summed_in_32_where_they_fit(batch: int) -> None:
    """70,000 ones of the kernels' 2^15 do not: such rows are the function itself."""
    for count in (9, 70_000):
        model = Model()
        g = model.graph
        given = g.input([batch, count], "INT16", scale=1e-3, zero=0)
        output = {"scale": 2.0**-15, "zero": 0}
        g.outputs = [g.made("SOFTMAX", [given], [batch, count], "INT16", "SoftmaxOptions", quantization=output)]
        assert any(node.op == "Softmax" for node in load_graph(model.finish()).nodes) == (count > 9)


def test_operators_within_branches_and_loops() -> None:
    """Every eleventh family, in an IF and in a WHILE."""
    wrong = within_trial([n for n in list(FAMILIES)[::11] if n not in ("SHAPE", "RANK")], range(1))
    assert not any(wrong.values()), wrong


def test_states_of_layers_within_branches_are_refused() -> None:
    """LiteRT begins anew whenever the branch runs."""
    model = Model()
    g = model.graph
    number, inner = model.subgraph("branch")
    rng = np.random.default_rng(0)
    x = inner.input([1, 3])
    operands = [x, *(inner.const(rng.random(s).astype(np.float32)) for s in ([4, 3], [4, 4], [4]))]
    state = inner.tensor([1, 4], is_variable=True)
    inner.outputs = [inner.made("RNN", [*operands, state], [1, 4], options="RNNOptions")]
    made = g.tensor([1, 4])
    both = {"then_subgraph_index": number, "else_subgraph_index": number}
    g.op("IF", [g.input([], "BOOL"), g.input([1, 3])], [made], "IfOptions", **both)
    g.outputs = [made]
    with pytest.raises(MNNError, match="a layer's state that changes within a branch"):
        load_graph(model.finish())


def test_layers_of_integers_are_one_operator() -> None:
    """Where nothing is normalised or projected; else the cell is written out."""
    found = set()
    for seed in range(12):
        case = FORMS["UNIDIRECTIONAL_SEQUENCE_LSTM of integers"](Draw(seed))
        operands = case.model.graph.operators[-1].inputs
        plain = operands[16] == -1 and operands[23] == -1
        nodes = {node.op for node in load_graph(case.model.finish()).nodes}
        assert ("IntegerLSTM" in nodes) == plain
        assert ("FixedPointProduct" in nodes) or plain
        found.add(plain)
    assert found == {False, True}


def test_every_builtin_operator_is_supported_or_has_advice() -> None:
    builtin = set(TFLITE.enum("BuiltinOperator").values) - {"CUSTOM"}
    known = {op for op in TABLE.known() if not op.startswith(CUSTOM)}
    assert known <= builtin
    assert builtin - known == set(ADVICE)


def test_the_page_is_up_to_date() -> None:
    said = "run python -m tests.frontends.tflite.coverage"
    assert PAGE.read_text(encoding="utf-8") == page(), said


def test_nearly_all_supported_operators_are_compared() -> None:
    """But for those of StableHLO, which LiteRT itself does not run."""
    builtin = {op for op in TABLE.known() if not op.startswith((CUSTOM, "STABLEHLO_"))}
    assert len(builtin & set(FAMILIES)) >= 0.95 * len(builtin)


@pytest.mark.parametrize("rank", [1, 3])
def test_stablehlo_by_other_names(rank: int) -> None:
    """Operators that LiteRT has no kernels for, against numpy."""
    rng = np.random.default_rng(rank)
    x, y = rng.uniform(0.2, 3, (2, *[3] * rank)).astype(np.float32)
    cases = {
        "STABLEHLO_ABS": np.abs, "STABLEHLO_NEGATE": np.negative, "STABLEHLO_EXPONENTIAL": np.exp,
        "STABLEHLO_LOG": np.log, "STABLEHLO_COSINE": np.cos, "STABLEHLO_FLOOR": np.floor, "STABLEHLO_TANH": np.tanh,
        "STABLEHLO_RSQRT": lambda a: 1 / np.sqrt(a), "STABLEHLO_LOGISTIC": lambda a: 1 / (1 + np.exp(-a)),
        "STABLEHLO_CBRT": np.cbrt,
    }  # fmt: skip
    pairs = {
        "STABLEHLO_SUBTRACT": np.subtract, "STABLEHLO_DIVIDE": np.divide, "STABLEHLO_POWER": np.power,
        "STABLEHLO_REMAINDER": np.fmod,
    }  # fmt: skip
    for op, function in {**cases, **pairs}.items():
        model = Model()
        g = model.graph
        inputs = [g.input(x.shape) for _ in range(2 if op in pairs else 1)]
        g.outputs = [g.made(op, inputs, x.shape)]
        arrays = [x, y][: len(inputs)]
        ((found,),) = ours(model.finish(), [arrays])
        np.testing.assert_allclose(found, function(*arrays), rtol=2e-5, atol=1e-6, err_msg=op)


def test_call_runs_a_subgraph() -> None:
    model = Model()
    number, inner = model.subgraph("inner")
    inner.outputs = [inner.made("EXP", [inner.input([3])], [3])]
    g = model.graph
    g.outputs = [g.made("CALL", [g.input([3])], [3], "FLOAT32", "CallOptions", subgraph=number)]
    x = np.array([0.0, 1.0, -1.0], np.float32)
    ((found,),) = ours(model.finish(), [[x]])
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "empty"), [("SUM", 0), ("PROD", 1), ("MAX", np.finfo("f4").min), ("MIN", np.finfo("f4").max)]
)
def test_entries_of_no_segment(kind: str, empty: float) -> None:
    model = Model()
    g = model.graph
    count = g.const(np.int32(4))
    g.outputs = [g.made(f"UNSORTED_SEGMENT_{kind}", [g.input([5, 2]), g.input([5], "INT32"), count], [4, 2])]
    x, ids = np.arange(1, 11, dtype=np.float32).reshape(5, 2), np.asarray([0, -1, 2, 0, -1], np.int32)
    ((found,),) = ours(model.finish(), [[x, ids]])
    combined = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min}[kind](x[[0, 3]], axis=0)
    np.testing.assert_array_equal(found, np.asarray([combined, [empty] * 2, x[2], [empty] * 2], np.float32))


def test_nearest_pixels_by_both_flags() -> None:
    """What LiteRT 2.3 gives."""
    model = Model()
    g = model.graph
    flags = {"half_pixel_centers": True, "align_corners": True}
    x = g.input([1, 9, 1, 1])
    g.outputs = [
        g.made("RESIZE_NEAREST_NEIGHBOR", [x, g.const(np.asarray([3, 1], np.int32))], [1, 3, 1, 1], "FLOAT32",
               "ResizeNearestNeighborOptions", **flags)
    ]  # fmt: skip
    ((found,),) = ours(model.finish(), [[np.arange(9, dtype=np.float32).reshape(1, 9, 1, 1)]])
    np.testing.assert_array_equal(found.reshape(-1), [2, 6, 8])


@pytest.mark.parametrize("half", [False, True])
def test_many_pixels_of_16_bits_end_at_the_last(half: bool) -> None:
    """A step of 33.8 / 1024 is rounded to 34: the last of a thousand would lie beyond the picture."""
    model = Model()
    g = model.graph
    x = g.input([1, 1, 33, 1], "INT16", scale=1e-3, zero=0)
    g.outputs = [
        g.made("RESIZE_BILINEAR", [x, g.const(np.asarray([1, 1000], np.int32))], [1, 1, 1000, 1], "INT16",
               "ResizeBilinearOptions", quantization={"scale": 1e-3, "zero": 0}, half_pixel_centers=half)
    ]  # fmt: skip
    pixels = np.random.default_rng(half).integers(-30000, 30000, 33).astype(np.int16)
    ((found,),) = ours(model.finish(), [[pixels.reshape(1, 1, 33, 1)]])
    places = (np.arange(1000) * 34 + (17 - 512 if half else 0)) / 1024
    expected = np.interp(places, np.arange(33), pixels.astype(np.float64))
    assert np.abs(found.reshape(-1) - expected).max() <= 0.51
