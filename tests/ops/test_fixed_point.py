"""Products with factors of 31 bits, against whole numbers of Python."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.session import Session


def product(x: int, bits: int, power: int) -> int:
    """Rounded half up, then half away from zero."""
    high = ((x << max(power, 0)) * bits + (1 << 30)) // (1 << 31)
    down = max(-power, 0)
    size = (2 * abs(high) + (1 << down)) // (2 << down)
    return size if high >= 0 else -size


@pytest.mark.parametrize("powers", [[0], [5], [-9], [1, 7], [-31, -1, -12], [-3, 0, 4], [-31, 2], None])
def test_products_are_rounded_twice(powers: list[int] | None) -> None:
    """One power of two, several on one side of zero or on both, and those that only running tells; half of the numbers
    lie near the middle of two results."""
    rng = np.random.default_rng(len(powers or []))
    count, given = 97, np.array([-20, 0, 3] if powers is None else powers, np.int32)
    shift = np.resize(given, count) if len(given) > 1 else given
    bits = rng.integers(1 << 30, 1 << 31, count).astype(np.int32)
    bits[::9] = 1 << 30
    room = 2.0 ** (30 - np.maximum(shift, 0).astype(np.float64)) - 1
    x = (rng.uniform(-1, 1, (40, count)) * room).astype(np.int32)
    middles = (
        (2 * rng.integers(-120, 120, (20, count)) + 1) * 2.0 ** (30 - np.minimum(shift, 0).astype(np.float64)) / bits
    )
    near = np.abs(middles) < room
    x[:20][near] = np.rint(middles[near])
    values = [Value("x", DType.I32, (40, count))]
    values += [Value(n, DType.I32, a.shape, a) for n, a in (("bits", bits), ("shift", shift))]
    feeds = {"x": x}
    if powers is None:
        values[2] = Value("shift", DType.I32, shift.shape)
        feeds["shift"] = shift
    out = Value("out", DType.I32)
    node = Node("FixedPointProduct", "product", list(values), [out], {})
    graph = Graph(nodes=[node], inputs=[v for v in values if v.data is None], outputs=[out])
    found = Session(graph).run(feeds)["out"]
    wanted = [[product(*map(int, t)) for t in zip(row, bits, np.resize(shift, count), strict=True)] for row in x]
    np.testing.assert_array_equal(found, wanted)
