"""Group normalisation as exporters write it, in every variation that means the same, and what only looks like it."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.graph import Value
from tests.passes.build import Maker, fires, ops, stays


def grouped(m: Maker, x: Value, group: int, plain: bool = True) -> Value:
    """The view of groups, normalised, and the view back."""
    sizes = list(x.shape or ())
    flat = m.op("Reshape", x, m.ints(*[sizes[0], group, -1]))
    scale, shift = (m.const(np.ones(group)), m.const(np.zeros(group))) if plain else (m.noise(group), m.noise(group))
    normal = m.op("InstanceNorm", flat, scale, shift, epsilon=1e-5)
    return m.op("Reshape", normal, m.ints(*sizes))


@pytest.mark.parametrize("sizes", [(2, 12, 5), (1, 8, 4, 3), (3, 6), (2, 4, 2, 3, 3)])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("behind", ["", "MUL", "ADD", "MUL ADD"])
def test_with_scales_and_shifts(sizes: tuple[int, ...], group: int, behind: str) -> None:
    m = Maker()
    y = grouped(m, m.input(*sizes), group)
    for i, step in enumerate(behind.split()):
        y = m.binary(step, y, m.noise(sizes[1], *(1,) * (len(sizes) - 2)) if i == 0 or len(sizes) > 2 else m.noise(1))
    after = fires("group-norm", m.done(y))
    assert ops(after) == ["GroupNorm"]
    assert after.nodes[0].attrs["group"] == group


def test_scales_of_groups() -> None:
    m = Maker()
    y = m.binary("ADD", grouped(m, m.input(2, 6, 5), 3, plain=False), m.noise(6, 1))
    assert ops(fires("group-norm", m.done(y))) == ["GroupNorm"]


def test_factors_of_elements_stay_behind_it() -> None:
    m = Maker()
    y = m.binary("MUL", grouped(m, m.input(2, 6, 5), 3), m.noise(6, 5))
    assert ops(fires("group-norm", m.done(y))) == ["GroupNorm", "MUL"]


@pytest.mark.parametrize("seed", range(6))
def test_another_view_behind_it(seed: int) -> None:
    """Dimensions of 1 may come and go, as where a convolution over lines that follows shows them as pictures."""
    rng = np.random.default_rng(seed)
    group, sizes = int(rng.integers(1, 4)), [int(n) for n in rng.integers(2, 6, rng.integers(1, 4))]
    channels = group * int(rng.integers(1, 5))
    before, behind = list(sizes), list(sizes)
    before.insert(int(rng.integers(len(before) + 1)), 1) if seed % 3 == 0 else None
    behind.insert(int(rng.integers(len(behind) + 1)), 1)
    m = Maker()
    x = m.input(2, channels, *before)
    flat = m.op("Reshape", x, m.ints(2, group, -1))
    normal = m.op("InstanceNorm", flat, m.noise(group), m.noise(group), epsilon=1e-5)
    y = m.op("Reshape", normal, m.ints(2, channels, *behind))
    y = m.binary("MUL", y, m.noise(channels, *(1,) * len(behind)))
    after = ops(fires("group-norm", m.done(y)))
    assert after == (["GroupNorm"] if before == behind else ["Reshape", "GroupNorm"])


@pytest.mark.parametrize("case", ["across samples", "part of a channel", "another shape", "seen"])
def test_stays(case: str) -> None:
    m = Maker()
    x = m.input(4, 6, 8)
    rows, group = (2, 6) if case == "across samples" else (4, 12 if case == "part of a channel" else 3)
    flat = m.op("Reshape", x, m.ints(rows, group, -1))
    normal = m.op("InstanceNorm", flat, m.const(np.ones(group)), m.const(np.zeros(group)), epsilon=1e-5)
    back = m.op("Reshape", normal, m.ints(*([4, 8, 6] if case == "another shape" else [4, 6, 8])))
    stays("group-norm", m.done(back, normal) if case == "seen" else m.done(back))
