"""Cases that once were wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.random.case import Case, Operand
from tests.random.families.padding import padded
from tests.random.judges import expected
from tests.random.runner import check_case
from tests.random.windows import Geometry, convolve, transpose_convolve


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _passes(case: Case) -> None:
    tally = check_case(case, "")
    assert not tally.failures, "\n".join(tally.failures)
    assert {"reference", "high", "file", "normal"} <= set(tally.compared)


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("channels", [(3, 4), (3, 1)])  # phases as channels of one convolution, and one by one
@pytest.mark.parametrize(
    ("strides", "dilations", "pads", "extra"),
    [
        ([2, 1], [1, 2], [1, 0, 1, 0], [1, 0]),
        ([1, 3], [2, 1], [0, 1, 2, 0], [0, 2]),
        ([2, 1, 1], [1, 3, 2], [0, 0, 1, 1, 0, 0], [0, 0, 0]),
    ],
)
def test_transposed_with_a_stride_on_one_axis_and_a_dilation_on_another(channels, strides, dilations, pads, extra):
    """The dilation was left out on axes without a stride, when another axis had one."""
    count = len(strides)
    made = Geometry([3] * count, strides, dilations, pads)
    x, w = _normal(2, channels[0], *(5, 6, 4)[:count]), _normal(*channels, *[3] * count)
    sizes = [
        (n - 1) * s + span + e - a - z
        for n, s, span, e, a, z in zip(x.shape[2:], strides, made.spans, extra, pads[:count], pads[count:], strict=True)
    ]
    _passes(
        Case(
            "ConvTranspose",
            [Operand(x), Operand(w, False)],
            {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": extra},
            scale="products",
            oracle=lambda a: [transpose_convolve(a[0], a[1], None, made, 1, pads[:count], sizes)],
        )
    )


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("strides", [[4], [1, 3], [2, 1, 4]])
def test_strides_over_a_single_window(strides):
    """The reference implementation took further windows when the input reaches beyond the only one."""
    made = Geometry([3] * len(strides), strides, [1] * len(strides), [0] * 2 * len(strides))
    x, w = _normal(1, 2, *[5] * len(strides)), _normal(4, 2, *[3] * len(strides))
    _passes(
        Case(
            "Conv",
            [Operand(x), Operand(w, False)],
            {"strides": strides},
            scale="products",
            oracle=lambda a: [convolve(a[0], a[1], None, made, 1)],
        )
    )


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize(("channels", "kernel", "group"), [(4, 3, 1), (5, 2, 1), (3, 3, 3), (16, 2, 2), (7, 1, 1)])
def test_weights_of_bytes_given_at_run_time(unsigned, channels, kernel, group):
    """Of weights that are not constants, only those of the first tap were packed for 8-bit products."""
    rng, made = np.random.default_rng(channels), Geometry([kernel] * 2, [1, 1], [1, 1], [0] * 4)
    x = rng.integers(0, 100, (2, channels, 7, 6)).astype(np.uint8 if unsigned else np.int8)
    w = rng.integers(-60, 60, (6 if group < 3 else 3, channels // group, kernel, kernel)).astype(np.int8)
    _passes(
        Case(
            "ConvInteger",
            [Operand(x), Operand(w)],
            {"group": group},
            opset=10,
            scale="exact",
            oracle=lambda a: [np.rint(convolve(a[0], a[1], None, made, group)).astype(np.int32)],
        )
    )


@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_index_of_the_lowest_numbers_is_not_of_the_padding(kind):
    """The padding was chosen where all numbers are as low as it, and a place near it named that no tap reads."""
    lowest = -np.inf if kind is np.float32 else -128
    x = np.full((1, 1, 6), lowest, kind)
    _passes(
        Case(
            "MaxPool",
            [Operand(x)],
            {"kernel_shape": [3], "dilations": [3], "pads": [1, 2]},
            outputs=2,
            low=False,
            oracle=lambda a: [np.full((1, 1, 3), lowest, kind), np.array([[[2, 0, 1]]])],
            excuse="a window of the lowest numbers alone gets no index",
        )
    )


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize(("size", "scale", "out"), [(3, 7 / 3, 7), (9, 13 / 9, 13), (6, 5 / 6, 5), (9, 1.44, 12)])
def test_sizes_from_scales_in_fp32(size, scale, out):
    """7/3 in fp32 is a little less, and 3 of it were cut to 6: the product is rounded to fp32 first."""
    x = _normal(1, 2, size, size)
    case = Case(
        "Resize",
        [Operand(x), None, Operand(np.array([1, 1, scale, scale], np.float32), False)],
        {"mode": "linear"},
        opset=19,
        slack=10,
    )
    assert expected(case).outputs[0].shape == (1, 2, out, out)
    _passes(case)


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize(("begin", "end", "step"), [(-9, -6, -1), (-9, -(2**31), -2), (-9, 3, 2), (9, -9, -1)])
def test_slices_that_begin_before_the_first_element(begin, end, step):
    """With a negative step they begin at the first element, where Python takes nothing."""
    lists = (Operand(np.array([v], np.int64), False) for v in (begin, end, 1, step))
    _passes(Case("Slice", [Operand(_normal(2, 5)), *lists], opset=13, scale="exact", low=False))


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect"])
@pytest.mark.parametrize("pads", [[0, -2, 0, 3], [1, 2, 1, -2], [-1, -1, 1, 1]])
def test_what_negative_pads_cut_off_is_not_repeated(mode, pads):
    x = _normal(3, 6)
    _passes(
        Case(
            "Pad",
            [Operand(x), Operand(np.array(pads, np.int64), False)],
            {"mode": mode},
            opset=19,
            scale="exact",
            oracle=lambda a: [padded(a[0], [0, 1], pads[:2], pads[2:], mode, 0)],
            low=False,
        )
    )


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("op", ["ReduceLogSumExp", "ReduceLogSum", "ReduceL2", "ReduceMean"])
@pytest.mark.parametrize("given", [True, False])
def test_reductions_over_no_axes(op, given):
    """The logarithm was taken, but not of the exponential function."""
    axes = [Operand(np.zeros(0, np.int64), False)] if given else []
    x = np.abs(_normal(3, 4))
    _passes(Case(op, [Operand(x), *axes], {"noop_with_empty_axes": 1, "keepdims": 0}, opset=18, slack=4))


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("fed", [True, False])
def test_sums_of_columns_meet_sums_of_rows(rows, fed):
    """Of one row, the sum of the row stood in front of that of the columns, and was taken as what is summed."""
    rng = np.random.default_rng(rows)
    a, b = rng.integers(0, 200, (1, rows, 33)).astype(np.uint8), rng.integers(-50, 50, (1, 33, 5)).astype(np.int8)
    zeros = [Operand(np.array(2, np.uint8), False), Operand(np.array(98, np.int8), False)]
    _passes(Case("MatMulInteger", [Operand(a), Operand(b, fed), *zeros], opset=10, scale="exact"))


@pytest.mark.onnxruntime("1.32")
def test_one_row_of_causal_attention_sees_all_keys():
    """It is the newest one, as of a decoder whose keys are put together outside; it saw the first key alone."""
    q, k = _normal(2, 1, 8), _normal(2, 5, 8)
    attributes = {"num_heads": 2, "unidirectional": 1}
    _passes(
        Case(
            "MultiHeadAttention",
            [Operand(q), Operand(k), Operand(k + 1)],
            attributes,
            opset=17,
            domain="com.microsoft",
            slack=8,
        )
    )
