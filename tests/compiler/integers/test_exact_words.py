"""Products of 16-bit integers by bytes: every result is the integer that the whole numbers give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from MNN.compiler.integers.exact_words import with_exact_words
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.verify import verify
from MNN.runtime.session import Session

TARGETS = ["", "avx2 -avxvnni -avxvnniint8", "sse4.1", "avx512,+amx-tile,+amx-bf16,+amx-int8"]
LARGEST = (1 << 31) - 1


def constant(name: str, data: np.ndarray) -> Value:
    return Value(name, DType.of(data), data.shape, data)


def convolution(w: np.ndarray, bias: np.ndarray, bounded: bool = False, **attrs: object) -> Graph:
    """A quantised convolution of 16-bit integers, whose results are sums by 2^16; ``bounded``: of none below zero."""
    x = Value("x", DType.I16, (2, w.shape[1], 7, 9))
    one, zero = constant("one", np.array(1, np.float32)), constant("zero", np.array(0, np.int16))
    operands: list[Value | None] = [
        x, one, zero, constant("w", w), constant("ws", np.ones(len(w), np.float32)),
        constant("wz", np.zeros(len(w), np.int8)), constant("ys", np.array(1 << 16, np.float32)), zero,
        constant("b", bias),
    ]  # fmt: skip
    nodes = []
    if bounded:
        operands[0] = Value("positive", DType.I16, x.shape)
        nodes.append(Node("BinaryOp", "bound", [x, zero], [operands[0]], {"opType": "MAXIMUM"}))
    y = Value("y", DType.I16, (None,) * 4)
    nodes.append(Node("QLinearConv", "product", operands, [y], dict(attrs)))
    return Graph("test", [x], [y], nodes)


def exact(graph: Graph) -> bool:
    changed = with_exact_words(graph)
    verify(changed, "after with_exact_words")
    return any(node.attrs.get("exact") for node in changed.nodes)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [1, 3])
def test_results_are_those_of_whole_numbers(kernel: int, target: str, weaker: Callable[[str], None]) -> None:
    """Sums reach the ends of 32 bits, and results the ends of 16; windows are apart."""
    weaker(target)
    rng = np.random.default_rng(kernel)
    channels, outputs = 37, 21
    w = rng.integers(-100, 101, (outputs, channels, kernel, kernel)).astype(np.int8)
    room = LARGEST - (np.abs(w.astype(np.int64)).reshape(outputs, -1).sum(1) << 15)
    bias = (np.minimum(room, 1 << 30) * rng.choice([-1, 1], outputs)).astype(np.int32)
    graph = convolution(w, bias, strides=[2, 2], pads=[kernel // 2] * 4)
    assert exact(graph)
    x = rng.integers(-32768, 32768, (2, channels, 7, 9)).astype(np.int16)
    x[0, :, 2, 2] = np.where(w[0, :, kernel // 2, kernel // 2] > 0, -32768, 32767)
    found = Session(graph).run({"x": x})["y"]
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), *[(kernel // 2,) * 2] * 2))
    view = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::2, ::2]
    sums = np.einsum("nchwij,ocij->nohw", view, w.astype(np.int64)) + bias.reshape(-1, 1, 1)
    wanted = np.clip(sums / 2**16, -32768, 32767)
    away = 2**-8 if "amx" not in target else 1  # that of f32, and of two parts in bf16
    assert np.abs(found - wanted).max() <= 0.5 + away


def test_only_what_fits_is_exact() -> None:
    """Lines of weights whose sizes are together 65,535 and more, of one sign or both, and with a bias."""
    whole = np.full((1, 517, 1, 1), 127, np.int8)
    whole[0, 516] = 65535 - 127 * 516
    none = np.zeros(1, np.int32)
    assert exact(convolution(whole, none))
    assert exact(convolution(-whole, none + (1 << 15) - 1))
    assert not exact(convolution(whole, none + (1 << 15)))
    over = np.concatenate([whole, np.full((1, 3, 1, 1), -127, np.int8)], 1)
    assert not exact(convolution(over, none))
    assert exact(convolution(over, none, bounded=True))
    assert not exact(convolution(np.abs(over), none, bounded=True))
    assert not exact(convolution(np.ones((3, 16, 3, 3), np.int8), np.zeros(3, np.int32)))
    assert exact(convolution(np.ones((3, 16, 3, 3), np.int8), np.zeros(3, np.int32), dilations=[2, 2]))
