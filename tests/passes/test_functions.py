"""gelu, silu and hard-swish: every spelling that exporters use, and functions that only look alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from tests.passes.build import Maker, fires, ops, stays


def erf(m: Maker, x: Value) -> Value:
    return m.op("UnaryOp", x, opType="ERF")


def gelu_torch(m: Maker, x: Value) -> Value:
    inner = m.binary("ADD", erf(m, m.binary("REALDIV", x, math.sqrt(2))), 1.0)
    return m.binary("MUL", m.binary("MUL", x, inner), 0.5)


def gelu_half_first(m: Maker, x: Value) -> Value:
    inner = m.binary("ADD", m.const(1.0), erf(m, m.binary("MUL", m.const([0.70710678]), x)))
    return m.binary("MUL", m.binary("MUL", m.const(0.5), x), inner)


def gelu_tanh(m: Maker, x: Value) -> Value:
    cube = m.binary("MUL", m.binary("POW", x, 3.0), 0.044715)
    inner = m.op("TanH", m.binary("MUL", m.binary("ADD", x, cube), math.sqrt(2 / math.pi)))
    return m.binary("MUL", m.binary("MUL", x, 0.5), m.binary("ADD", inner, 1.0))


def gelu_tanh_nested(m: Maker, x: Value) -> Value:
    cube = m.binary("MUL", x, m.binary("MUL", x, m.binary("MUL", m.const(0.044715), x)))
    inner = m.op("TanH", m.binary("MUL", m.const(0.7978846), m.binary("ADD", x, cube)))
    return m.binary("MUL", x, m.binary("MUL", m.const(0.5), m.binary("ADD", m.const([1.0]), inner)))


def silu(m: Maker, x: Value) -> Value:
    return m.binary("MUL", m.op("Sigmoid", x), x)


def hard_swish(m: Maker, x: Value) -> Value:
    return m.binary("REALDIV", m.binary("MUL", x, m.op("ReLU6", m.binary("ADD", x, 3.0))), 6.0)


def hard_swish_by_hard_sigmoid(m: Maker, x: Value) -> Value:
    inner = m.binary("ADD", m.binary("MUL", x, 1 / 6), 0.5)
    return m.binary("MUL", x, m.op("ReLU6", inner, minValue=0.0, maxValue=1.0))


SPELLINGS = [
    ("gelu", gelu_torch, "GELU_STANDARD"),
    ("gelu", gelu_half_first, "GELU_STANDARD"),
    ("gelu", gelu_tanh, "GELU"),
    ("gelu", gelu_tanh_nested, "GELU"),
    ("silu", silu, "SILU"),
    ("hard-swish", hard_swish, "HARDSWISH"),
    ("hard-swish", hard_swish_by_hard_sigmoid, "HARDSWISH"),
]


@pytest.mark.parametrize(("name", "build", "kind"), SPELLINGS, ids=lambda v: getattr(v, "__name__", v))
def test_is_found(name: str, build, kind: str) -> None:  # type: ignore[no-untyped-def]
    m = Maker()
    x = m.binary("ADD", m.input(2, 50), m.noise(50))
    y = build(m, x)
    after = fires(name, m.done(m.binary("MUL", y, m.noise(50)), m.op("TanH", x)))
    assert ops(after) == ["ADD", kind, "MUL", "TanH"]


def quick_gelu(m: Maker, x: Value) -> Value:
    return m.binary("MUL", x, m.op("Sigmoid", m.binary("MUL", x, 1.702)))


def rounded_constant(m: Maker, x: Value) -> Value:
    inner = m.binary("ADD", erf(m, m.binary("REALDIV", x, 1.414)), 1.0)
    return m.binary("MUL", m.binary("MUL", x, inner), 0.5)


def gate_of_another(m: Maker, x: Value) -> Value:
    return m.binary("MUL", m.op("Sigmoid", m.op("TanH", x)), x)


def other_slope(m: Maker, x: Value) -> Value:
    return m.binary("MUL", x, m.op("ReLU6", m.binary("ADD", m.binary("MUL", x, 0.2), 0.5), minValue=0.0, maxValue=1.0))


def per_channel(m: Maker, x: Value) -> Value:
    inner = m.binary("ADD", erf(m, m.binary("REALDIV", x, m.const(np.full(50, math.sqrt(2))))), 1.0)
    return m.binary("MUL", m.binary("MUL", x, inner), 0.5)


def wider(m: Maker, x: Value) -> Value:
    inner = m.binary("ADD", erf(m, m.binary("REALDIV", x, math.sqrt(2))), m.const([[[1.0]]]))
    return m.binary("MUL", m.binary("MUL", x, inner), 0.5)


@pytest.mark.parametrize("name", ["gelu", "silu", "hard-swish"])
@pytest.mark.parametrize(
    "build", [quick_gelu, rounded_constant, gate_of_another, other_slope, per_channel, wider], ids=lambda f: f.__name__
)
def test_looks_alike(name: str, build) -> None:  # type: ignore[no-untyped-def]
    m = Maker()
    stays(name, m.done(build(m, m.input(2, 50))))


@pytest.mark.parametrize(("name", "build", "kind"), SPELLINGS, ids=lambda v: getattr(v, "__name__", v))
def test_inner_values_used_elsewhere_stay(name: str, build, kind: str) -> None:  # type: ignore[no-untyped-def]
    m = Maker()
    y = build(m, m.input(2, 50))
    before = len(m.graph.nodes)
    inner = next(n.outputs[0] for n in m.graph.nodes if n.op in ("UnaryOp", "TanH", "Sigmoid", "ReLU6"))
    stays(name, m.done(y, inner))
    assert len(m.graph.nodes) == before


def test_half_precision_keeps_its_type() -> None:
    m = Maker()
    x = m.input(2, 9, dtype=DType.F16)
    y = m.binary("MUL", m.op("Sigmoid", x), x)
    fires("silu", m.done(y), tol=2e-3)
