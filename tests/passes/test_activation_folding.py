from __future__ import annotations

import pytest

from tests.passes.build import Maker, fires, ops, stays


@pytest.mark.parametrize(("op", "attrs", "flag"), [("ReLU", {}, "relu"), ("ReLU6", {}, "relu6")])
@pytest.mark.parametrize("kind", ["conv", "depthwise", "deconv"])
def test_becomes_a_flag(op: str, attrs: dict[str, object], flag: str, kind: str) -> None:
    m = Maker()
    x = m.input(1, 4, 6, 6)
    if kind == "deconv":
        y = m.op("Deconvolution", x, m.noise(4, 3, 3, 3))
    else:
        y = m.conv(x, 4, 4, group=4 if kind == "depthwise" else 1)
    after = fires("activation-folding", m.done(m.op(op, m.op(op, y, **attrs), **attrs)))
    assert len(after.nodes) == 1
    assert after.nodes[0].attrs[flag] is True


def test_relu_and_relu6_together() -> None:
    m = Maker()
    y = m.op("ReLU", m.op("ReLU6", m.op("ReLU", m.conv(m.input(1, 4, 6, 6), 4, 4))))
    after = fires("activation-folding", m.done(y))
    assert ops(after) == ["Convolution"]
    assert after.nodes[0].attrs.get("relu6") is True


@pytest.mark.parametrize("case", ["slope", "limits", "shared", "output", "elsewhere"])
def test_stays(case: str) -> None:
    m = Maker()
    y = m.conv(m.input(1, 4, 6, 6), 4, 4)
    more = {"shared": lambda: [m.op("TanH", y)], "output": lambda: [y]}.get(case, list)()
    if case == "slope":
        out = m.op("ReLU", y, slope=0.1)
    elif case == "limits":
        out = m.op("ReLU6", y, minValue=-1.0, maxValue=6.0)
    else:
        out = m.op("ReLU", m.op("TanH", y) if case == "elsewhere" else y)
    stays("activation-folding", m.done(out, *more))
