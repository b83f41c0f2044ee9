from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from tests.passes.build import Maker, fires, ops, stays

POOL = {"kernelX": 3, "kernelY": 3, "strideX": 2, "strideY": 2, "padType": "VALID", "ceilModel": False}


def pad(m: Maker, *pads: int, value: float | None = None, mode: str = "CONSTANT", relu: bool = False):  # type: ignore[no-untyped-def]
    x = m.input(1, 4, 7, 7)
    x = m.op("ReLU", x) if relu else x
    operands = [m.ints(*pads)] + ([m.const(value)] if value is not None else [])
    return m.op("Padding", x, *operands, mode=mode)


SIDES = (0, 0, 0, 0, 0, 1, 1, 2)


@pytest.mark.parametrize("own", [{"pads": [0, 0, 0, 0]}, {"pads": [1, 0, 1, 0]}, {"pads": None, "padMode": "VALID"}])
def test_convolution(own: dict[str, object]) -> None:
    m = Maker()
    after = fires("pad-folding", m.done(m.conv(pad(m, *SIDES), 4, 4, strideX=2, strideY=2, **own)))
    assert ops(after) == ["Convolution"]


@pytest.mark.parametrize("zero", [None, 0, 7])
@pytest.mark.parametrize("own", [None, [1, 0, 1, 1]])
@pytest.mark.parametrize("value", [None, 0, 7])
def test_convolution_of_integers(zero: int | None, own: list[int] | None, value: int | None) -> None:
    m = Maker()
    x, w = m.input(2, 4, 7, 7, dtype=DType.U8), m.const(m.rng.integers(-99, 99, (4, 4, 3, 3)), np.int8)
    number = [] if value is None else [m.const(value, np.uint8)]
    padded = m.op("Padding", x, m.ints(*SIDES), *number, mode="CONSTANT")
    operands = [] if zero is None else [m.const(zero, np.uint8)]
    graph = m.done(m.op("ConvInteger", padded, w, *operands, strides=[2, 2], **({} if own is None else {"pads": own})))
    if (zero or 0) == (value or 0):
        assert ops(fires("pad-folding", graph)) == ["ConvInteger"]
    else:
        stays("pad-folding", graph)


@pytest.mark.parametrize(
    ("kind", "value", "relu"),
    [("AVEPOOL", 0.0, False), ("MAXPOOL", float("-inf"), False), ("MAXPOOL", 0.0, True)],
)
def test_pooling(kind: str, value: float, relu: bool) -> None:
    m = Maker()
    y = m.op("Pooling", pad(m, *SIDES, value=value, relu=relu), type=kind, countType="EXCLUDE_PADDING", **POOL)
    assert "Padding" not in ops(fires("pad-folding", m.done(y)))


@pytest.mark.parametrize("case", ["value", "reflect", "crop", "channels", "same", "shared"])
def test_convolution_stays(case: str) -> None:
    m = Maker()
    sides = {"crop": (0, 0, 0, 0, -1, 1, 0, 0), "channels": (0, 0, 0, 1, 1, 1, 1, 1)}.get(case, SIDES)
    padded = pad(m, *sides, value=1.0 if case == "value" else None, mode="REFLECT" if case == "reflect" else "CONSTANT")
    channels = 5 if case == "channels" else 4
    y = m.conv(padded, 4, channels, **({"pads": None, "padMode": "SAME"} if case == "same" else {}))
    stays("pad-folding", m.done(y, *([m.op("TanH", padded)] if case == "shared" else [])))


@pytest.mark.parametrize("case", ["average of others", "signed maximum", "far", "ceil", "own padding left out"])
def test_pooling_stays(case: str) -> None:
    m = Maker()
    sides = (0, 0, 0, 0, 4, 4, 0, 0) if case == "far" else SIDES
    value = 2.0 if case == "average of others" else 0.0
    kind = "AVEPOOL" if case in ("average of others", "own padding left out") else "MAXPOOL"
    attrs: dict[str, object] = {**POOL, "type": kind, "countType": "EXCLUDE_PADDING"}
    if case == "ceil":
        attrs["ceilModel"] = True
    if case == "own padding left out":
        attrs |= {"padType": "CAFFE", "pads": [1, 1, 1, 1]}
    padded = pad(m, *sides, value=value, relu=case in ("far", "ceil"))
    stays("pad-folding", m.done(m.op("Pooling", padded, **attrs)))
