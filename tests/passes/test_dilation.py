"""Convolutions between blocks that lie in the batch."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.graph import Value
from tests.passes.build import Maker, fires, ops, stays


def blocks(m: Maker, op: str, x: Value, block: list[int], border: list[int], attributes: bool) -> Value:
    """``border``: before and after, axis by axis."""
    if attributes:
        return m.op(op, x, blockShape=np.array(block, np.int32), padding=np.array(border, np.int32).reshape(-1, 2))
    return m.op(op, x, m.const(block, np.int32), m.const(border, np.int32))


@pytest.mark.parametrize("seed", range(12))
def test_dilated(seed: int) -> None:
    """Borders as TensorFlow chooses them: what the convolution pads, and as much as whole blocks take."""
    m = Maker(seed)
    axes = 1 + seed % 2
    block = [int(n) for n in m.rng.integers(1, 4, axes)]
    size, kernel = [int(n) for n in m.rng.integers(9, 15, 2)], int(m.rng.integers(1, 4))
    before, behind = ([int(n) for n in m.rng.integers(0, 4, axes)] for _ in range(2))
    more = [-(n + a + b) % step for n, a, b, step in zip(size, before, behind, block, strict=False)]
    there = [v for a, b, c in zip(before, behind, more, strict=True) for v in (a, b + c)]
    depthwise, inner = bool(seed // 2 % 2), seed % 3 == 0
    x = blocks(m, "SpaceToBatchND", m.input(2, 4, *size), block, there, seed % 4 == 1)
    attrs: dict[str, object] = {"pads": [1, 0, 0, 1]} if inner else {"pads": None, "padMode": "VALID"}
    y = m.conv(x, 4, 4, kernel, group=4 if depthwise else 1, dilateX=1 + seed % 2, relu=bool(seed % 2), **attrs)
    whole = blocks(m, "BatchToSpaceND", y, block, [v for c in more for v in (0, c)], seed % 4 == 1)
    assert ops(fires("dilation", m.done(whole))) == ["ConvolutionDepthwise" if depthwise else "Convolution"]


def test_others_keep_the_blocks() -> None:
    """A convolution of which the blocks are used as well; one whose blocks have other users is put apart."""
    m = Maker()
    x = blocks(m, "SpaceToBatchND", m.input(1, 4, 8, 8), [2, 2], [2, 2, 2, 2], False)
    first, second = m.conv(x, 4, 4, pads=[0] * 4), m.conv(x, 4, 4, pads=[0] * 4)
    a, b = (blocks(m, "BatchToSpaceND", y, [2, 2], [0] * 4, False) for y in (first, second))
    assert ops(fires("dilation", m.done(a, b, m.op("ReLU", first)))) == [
        "SpaceToBatchND", "Convolution", "BatchToSpaceND", "Convolution", "ReLU",
    ]  # fmt: skip


@pytest.mark.parametrize("case", ["stride", "same", "blocks", "cropped", "computed"])
def test_stays(case: str) -> None:
    m = Maker()
    x = m.input(1, 4, 8, 8)
    border = m.binary("MUL", m.const([2, 2, 2, 2], np.int32), m.const(1, np.int32)) if case == "computed" else None
    there, back = ([2, 2, 2, 2], [3, 2, 0, 0] if case == "cropped" else [0] * 4)
    given = m.const(there, np.int32) if border is None else border
    y = m.op("SpaceToBatchND", x, m.const([2, 2], np.int32), given)
    strides = {"strideX": 2} if case == "stride" else {}
    pads: dict[str, object] = {"pads": None, "padMode": "SAME"} if case == "same" else {"pads": [0] * 4}
    y = m.conv(y, 4, 4, **pads, **strides)
    y = m.op("BatchToSpaceND", y, m.const([4, 1] if case == "blocks" else [2, 2], np.int32), m.const(back, np.int32))
    stays("dilation", m.done(y))
