"""Logistic gates and GELU: which programs hold one, and its error on random and special numbers, on every target."""

from __future__ import annotations

import math

import numpy as np
import pytest

from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.math.gates import fused_parts, gates
from MNN.backends.cpu.math.gelu import Gelu
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder, body_of
from tests.backends.cpu.math.test_vecmath import ulps
from tests.backends.cpu.util import TARGETS, call


def _sigmoid(b: BodyBuilder, x: int) -> int:
    return b("recip", b("add", b.const(1.0, DType.F32), b("exp", b("neg", x))))


def _silu(b: BodyBuilder, x: int) -> int:
    return b("mul", x, _sigmoid(b, x))


def _divided(b: BodyBuilder, x: int) -> int:
    return b("div", x, b("add", b("exp", x), b.const(1.0, DType.F32)))


def _shared(b: BodyBuilder, x: int) -> int:
    power = b("exp", x)
    return b("add", power, b("recip", b("add", b.const(1.0, DType.F32), power)))


def _body(function: object) -> Body:
    return body_of([DType.F32], function)  # type: ignore[arg-type]


NUMBERS = np.concatenate(
    [
        np.random.default_rng(0).normal(size=4000) * 8,
        np.linspace(-110, 110, 4001),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 88.5, -88.5, 87.0, -87.0, 89.0, -89.0],
    ]
).astype(np.float32)


def _run(body: Body, target: Target) -> np.ndarray:
    """The body on all ``NUMBERS``."""
    y = np.full_like(NUMBERS, 7)
    slots = {
        "extent0": NUMBERS.size, "chunk": NUMBERS.size, "in0": NUMBERS.ctypes.data, "in0_s0": 1, "out0": y.ctypes.data,
        "out0_s0": 1,
    }  # fmt: skip
    spec = MapSpec(body, 1, ("1",), ("1",))
    call(spec, target, {s: slots[s] for s in spec.slots()}, 1, [NUMBERS, y], checked=True)
    return y


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("function", [_sigmoid, _silu, _divided], ids=["sigmoid", "silu", "divided"])
def test_errors(function: object, target: Target) -> None:
    y = _run(_body(function), target)
    x = NUMBERS.astype(np.float64)
    with np.errstate(all="ignore"):
        power = np.exp(x if function is _divided else -x)
        want = (1.0 if function is _sigmoid else x) / (1.0 + np.where(power > 3.5e38, np.inf, power))
    assert ulps(y[np.abs(want) > 2.0**-125], want[np.abs(want) > 2.0**-125]).max() <= 2.0
    assert np.array_equal(np.isnan(y), np.isnan(want))
    small = np.abs(want) <= 2.0**-125  # of these the last place is worth more than what is left of the sum
    assert np.abs(y[small] - want[small]).max() <= 2.0**-126


def test_what_is_a_gate() -> None:
    found = gates(_body(_silu))
    body = _body(_silu)
    assert found[body.outputs[0]].numerator == 0
    assert found[body.outputs[0]].negative
    assert not gates(_body(_divided))[_body(_divided).outputs[0]].negative
    assert not gates(_body(_shared))  # the power is needed besides
    assert not gates(body_of([DType.F64], lambda b, x: b("recip", b("add", b.const(1.0, DType.F64), b("exp", x)))))


def _gelu(b: BodyBuilder, x: int) -> int:
    e = b("erf", b("mul", x, b.const(math.sqrt(0.5), DType.F32)))
    return b("mul", b("mul", x, b.const(0.5, DType.F32)), b("add", e, b.const(1.0, DType.F32)))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_gelu(target: Target) -> None:
    body = _body(_gelu)
    assert isinstance(fused_parts(body)[body.outputs[0]], Gelu)
    y = _run(body, target)
    finite = np.isfinite(NUMBERS)
    want = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) if abs(v) < math.inf else v for v in NUMBERS.tolist()])
    # As 1 + erf rounds in plain fp32, which is the general way.
    assert (np.abs(y[finite] - want[finite]) / np.maximum(np.abs(want[finite]), 1.0)).max() <= 1.8e-7
    positive = finite & (NUMBERS > 1e-30)
    assert ulps(y[positive], want[positive]).max() <= 3.0
    assert np.isnan(y[np.isnan(NUMBERS)]).all()
    infinite = np.isinf(NUMBERS)
    assert (y[infinite & (NUMBERS > 0)] == np.inf).all()
    assert not (np.abs(y[infinite & (NUMBERS < 0)]) > 1e-7).any()  # the general way has NaN


def test_what_is_no_gelu() -> None:
    def scaled(b: BodyBuilder, x: int) -> int:
        e = b("erf", b("mul", x, b.const(0.7, DType.F32)))
        return b("mul", b("mul", x, b.const(0.5, DType.F32)), b("add", e, b.const(1.0, DType.F32)))

    def kept(b: BodyBuilder, x: int) -> int:
        e = b("erf", b("mul", x, b.const(math.sqrt(0.5), DType.F32)))
        return b("add", e, b("mul", b("mul", x, b.const(0.5, DType.F32)), b("add", e, b.const(1.0, DType.F32))))

    assert not fused_parts(_body(scaled))
    assert not fused_parts(_body(kept))
