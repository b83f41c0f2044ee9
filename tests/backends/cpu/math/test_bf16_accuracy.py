"""Functions for results that are rounded to bf16: close enough that nobody can tell after the rounding."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.math import bf16_accuracy
from MNN.backends.cpu.targets import host_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.reference import scalar as reference_scalar
from tests.backends.cpu import util

F32, BF16 = DType.F32, DType.BF16


def body(op: str) -> Body:
    return body_of([F32], lambda b, x: b.cast(b("div", b.const(3.0, F32), x) if op == "div" else b(op, x), BF16))


def run(made: Body, x: np.ndarray) -> np.ndarray:
    out = np.zeros(x.shape, BF16.numpy)
    spec = MapSpec(made, 1, ("1",), ("1",))
    slots = {"extent0": x.size, "chunk": x.size, "in0": x.ctypes.data, "out0": out.ctypes.data}
    util.call(spec, host_target(), slots, 1, [x, out])
    return out.astype(np.float64)


@pytest.mark.parametrize("op", ["erf", "exp", "recip", "div"])
def test_within_a_rounding(op: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.linspace(-20, 20, 5001), rng.normal(size=3003), [1e-3, -1e-3, 80.0, -80.0]])
    x = x[x != 0].astype(np.float32)
    exact = reference_scalar.evaluate(body_of(body(op).args, lambda b, v: b(op, v)) if op != "div" else body_of(
        [F32], lambda b, v: b("div", b.const(3.0, F32), v)), [x.astype(np.float32)])[0].astype(np.float64)  # fmt: skip
    found = run(body(op), x)
    absolute = 1e-4 if op == "erf" else 0.0
    assert (np.abs(found - exact) <= np.abs(exact) * (2.0**-8 * 1.05 + (1e-3 if op == "erf" else 0)) + absolute).all()


def test_special_numbers() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, 100.0, -200.0] * 3, np.float32)
    with np.errstate(all="ignore"):
        for op in ("erf", "exp", "recip"):
            exact = reference_scalar.evaluate(body(op), [x])[0].astype(np.float64)
            np.testing.assert_allclose(run(body(op), x), exact, rtol=1e-2)


def test_only_where_results_are_rounded() -> None:
    assert bf16_accuracy.allowed(body("erf"))
    assert not bf16_accuracy.allowed(body_of([F32], lambda b, x: b("erf", x)))
    assert not bf16_accuracy.allowed(body_of([BF16], lambda b, x: b("exp", b.cast(x, F32))))
