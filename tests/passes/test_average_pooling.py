"""Averages over windows and pointwise convolutions change places, and keep what they compute."""

from __future__ import annotations

import pytest

from tests.passes.build import Maker, fires, ops, stays

NEIGHBOURS = {"type": "AVEPOOL", "kernelX": 3, "kernelY": 3, "strideX": 1, "strideY": 1, "ceilModel": False}
APART = {**NEIGHBOURS, "kernelX": 2, "kernelY": 2, "strideX": 2, "strideY": 2}
COUNTS = pytest.mark.parametrize("count", ["INCLUDE_PADDING", "EXCLUDE_PADDING", "DEFAULT"])
POINT = {"kernelX": 1, "kernelY": 1, "pads": [0, 0, 0, 0]}


@COUNTS
@pytest.mark.parametrize("pads", [[1, 1, 1, 1], [0, 0, 0, 0], [0, 2, 1, 0], [3, 1, 1, 1]], ids=str)
@pytest.mark.parametrize("flag", ["", "relu", "relu6"])
def test_fewer_channels_are_averaged(count: str, pads: list[int], flag: str) -> None:
    m = Maker()
    pooled = m.op("Pooling", m.input(2, 12, 7, 6), pads=pads, countType=count, **NEIGHBOURS)
    after = fires("average-pooling", m.done(m.conv(pooled, 5, 12, 1, **POINT, **({flag: True} if flag else {}))))
    late = ["ADD"] if any(pads) and (count != "EXCLUDE_PADDING" or max(pads) > 2) else []
    last = {"": [], "relu": ["ReLU"], "relu6": ["ReLU6"]}[flag]
    assert ops(after) == ["Convolution", "Pooling", *late, *last]


@COUNTS
def test_fewer_pixels_are_multiplied(count: str) -> None:
    m = Maker()
    conv = m.conv(m.input(2, 12, 7, 6), 20, 12, 1, **POINT)
    after = fires("average-pooling", m.done(m.op("Pooling", conv, countType=count, **APART)))
    assert ops(after) == ["Pooling", "Convolution"]


def test_the_average_of_everything_comes_first() -> None:
    m = Maker()
    conv = m.conv(m.input(2, 12, 7, 6), 20, 12, 1, **POINT)
    after = fires("average-pooling", m.done(m.op("Pooling", conv, type="AVEPOOL", isGlobal=True)))
    assert ops(after) == ["Pooling", "Convolution"]


@pytest.mark.parametrize("case", ["maximum", "more channels", "window", "stride", "groups", "shared", "output"])
def test_convolution_stays_behind(case: str) -> None:
    m = Maker()
    pool = {**NEIGHBOURS, "type": "MAXPOOL"} if case == "maximum" else NEIGHBOURS
    pooled = m.op("Pooling", m.input(1, 12, 7, 6), pads=[1, 1, 1, 1], **pool)
    size = 3 if case == "window" else 1
    steps = {"strideX": 2, "strideY": 2} if case == "stride" else {}
    group = 2 if case == "groups" else 1
    own = {**POINT, "kernelX": size, "kernelY": size, "group": group, **steps}
    conv = m.conv(pooled, 13 if case == "more channels" else 4, 12, size, **own)
    others = {"shared": [m.op("TanH", pooled)], "output": [pooled]}.get(case, [])
    stays("average-pooling", m.done(conv, *others))


@pytest.mark.parametrize("case", ["activation", "counted padding", "shared", "neighbours"])
def test_convolution_stays_in_front(case: str) -> None:
    m = Maker()
    conv = m.conv(m.input(1, 12, 7, 6), 20, 12, 1, **POINT, **({"relu": True} if case == "activation" else {}))
    pool = NEIGHBOURS if case == "neighbours" else APART
    counted = {"pads": [1, 1, 1, 1], "countType": "INCLUDE_PADDING"} if case == "counted padding" else {}
    pooled = m.op("Pooling", conv, **pool, **counted)
    stays("average-pooling", m.done(pooled, *([m.op("TanH", conv)] if case == "shared" else [])))
