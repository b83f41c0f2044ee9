"""Products with 31 bits of a factor, against whole numbers of Python, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.math.high_products import high_products
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder
from MNN.ops.quantized.fixed_point import product
from tests.backends.cpu.util import TARGETS, call

COUNT = 1003


def _body(factor: int | None) -> Body:
    s = BodyBuilder()
    x, y = s.arg(DType.I32), s.arg(DType.I32)
    return s.build(product(s, x, y if factor is None else s.const(factor, DType.I32), 0))


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
@pytest.mark.parametrize("factor", [None, 1 << 30, 0x5A827999, -5])
def test_every_number_and_sign(target: Target, factor: int | None) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-(1 << 31), 1 << 31, COUNT).astype(np.int32) for _ in range(2))
    x[:4], y[:4] = [-(1 << 31), (1 << 31) - 1, 1, -1], [(1 << 31) - 1, (1 << 31) - 1, 1 << 30, 1 << 30]
    body, found = _body(factor), np.full(COUNT, 7, np.int32)
    assert len(high_products(body)) == 1
    arrays = {"in0": x, "in1": y, "out0": found}
    slots = {"extent0": COUNT, "chunk": COUNT, **{f"{n}_s0": 1 for n in arrays}}
    slots |= {name: a.ctypes.data for name, a in arrays.items()}
    for how in ("1", "0"):  # with one factor for each number, and one for all
        spec = MapSpec(body, 1, ("1", how), ("1",))
        call(spec, target, {s: slots[s] for s in spec.slots()}, 1, list(arrays.values()), checked=True)
        factors = [factor] * COUNT if factor is not None else y.tolist() if how == "1" else y[:1].tolist() * COUNT
        assert found.tolist() == [(a * b + (1 << 30)) >> 31 for a, b in zip(x.tolist(), factors, strict=True)]
