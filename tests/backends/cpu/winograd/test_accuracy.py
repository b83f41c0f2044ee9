"""The error of ``high``: at most twice that of products summed in fp32, whatever a convolution is computed by."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.backends.cpu.targets import named_target
from MNN.backends.cpu.winograd.cost import plans
from MNN.backends.cpu.winograd.sums import Work, partial_sums

_TWICE = 2.05
"""With what the root mean square of some ten thousand errors differs by from one draw to the next."""


def _error_ratio(channels: int, filters: int, groups: int, size: int, window: tuple[int, int], seed: int) -> float:
    """Root mean square of the errors against float64, for normal weights and inputs behind a ReLU, over that of sums in
    fp32, one product after the other."""
    draw = np.random.default_rng(seed)
    w = draw.normal(size=(groups * filters, channels, *window)).astype(np.float32)
    x = np.maximum(draw.normal(size=(1, groups * channels, size, size)), 0).astype(np.float32)
    pads = [n // 2 for n in window]
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=pads * 2)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "test", [info("x", TensorProto.FLOAT, x.shape)], [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = model.load(made.SerializeToString(), precision="high").run({"x": x})["y"]
    padded = np.pad(x, ((0, 0), (0, 0), *((n, n) for n in pads)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, (2, 3))[0]
    rows = windows.reshape(groups, channels, size, size, *window).transpose(0, 2, 3, 1, 4, 5)
    a = rows.reshape(groups, size * size, -1)
    b = w.reshape(groups, filters, -1).transpose(0, 2, 1)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sums = np.zeros(exact.shape, np.float32)
    for i in range(a.shape[-1]):
        sums += a[:, :, i : i + 1] * b[:, i : i + 1]
    ours = found.reshape(groups, filters, size * size).transpose(0, 2, 1)
    return float(np.sqrt(np.square(ours - exact).mean() / np.square(sums - exact).mean()))


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "size", "window"),
    [
        (48, 48, 2, 40, (3, 3)), (48, 24, 4, 20, (3, 3)), (64, 64, 1, 28, (3, 3)), (80, 80, 1, 28, (3, 3)),
        (32, 32, 2, 33, (3, 3)), (112, 48, 1, 24, (3, 3)), (64, 64, 1, 28, (1, 3)), (64, 48, 1, 24, (5, 5)),
        (128, 64, 1, 24, (1, 7)), (128, 64, 1, 24, (1, 5)),
    ],
    ids=str,
)  # fmt: skip
def test_high_is_twice_as_far_from_exact_as_plain_sums_at_most(
    channels: int, filters: int, groups: int, size: int, window: tuple[int, int]
) -> None:
    assert _error_ratio(channels, filters, groups, size, window, 7 * channels + size) < _TWICE


def test_inner_products_need_shorter_sums_or_more_channels() -> None:
    """Their own error is larger, and grows with that of the transforms."""
    plane = [Work(1, 56, 56, c, c, 3, 3) for c in (16, 64, 80, 112, 128)]
    assert [partial_sums(work, 5, True, True) for work in plane] == [0] * 5
    assert [partial_sums(work, 6, True, True) for work in plane] == [None, None, 16, 16, 32]
    assert [partial_sums(work, 6, False, True) for work in plane] == [0] * 5
    line = Work(1, 1, 900, 256, 64, 1, 5)
    assert [partial_sums(line, n, True, True) for n in (6, 8, 10)] == [32, None, None]
    found = plans(named_target("avx512"), plane[1], 1, "high", sizable=True)
    assert not any(plan.inner_product for plan in found if plan.mh == 4)
