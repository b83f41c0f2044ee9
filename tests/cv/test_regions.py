"""Regions, borders and histograms by kernels beside the numpy and Python code they stand for, on random pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.cv as mcv
from MNN.cv.kernels import regions, run


def _filled(random: np.random.Generator) -> Any:
    height, width = (int(n) for n in random.integers(1, [40, 150]))
    shares = random.choice([0, 0.05, 0.3, 0.5, 0.7, 0.95, 1])
    filled = (random.random((height, width)) < shares) * int(random.choice([1, 128, 255]))
    if random.random() < 0.3:
        filled = np.kron(filled, np.ones((2, 3)))[:height, :width]
    found: Any = filled.astype(random.choice(["u1", "f4", "i4", "u2"]))
    return found if random.random() < 0.7 else np.asfortranarray(found)


def _both(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    found = []
    for least in (1 << 62, 0):
        monkeypatch.setattr(run.Settings, "least", least)
        found.append(call())
    return found[0], found[1]


def _same(found: Any, want: Any) -> None:
    found, want = np.asarray(found), np.asarray(want)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_regions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = _filled(np.random.default_rng([seed, 1]))
    for neighbours in (4, 8):
        want, found = _both(lambda n=neighbours: mcv.connectedComponentsWithStats(filled, n), monkeypatch)
        assert found[0] == want[0]
        for one, other in zip(found[1:], want[1:], strict=True):
            _same(one, other)


@pytest.mark.parametrize("seed", range(30))
def test_borders(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng([seed, 2])
    filled = _filled(random)[:30, :60]
    offset = tuple(int(n) for n in random.integers(-3, 4, 2))
    for mode in (mcv.RETR_EXTERNAL, mcv.RETR_LIST, mcv.RETR_CCOMP, mcv.RETR_TREE):
        for method in (mcv.CHAIN_APPROX_NONE, mcv.CHAIN_APPROX_SIMPLE):
            want, found = _both(lambda m=mode, a=method: mcv.findContours(filled, m, a, offset), monkeypatch)
            assert len(found[0]) == len(want[0])
            for one, other in zip(found[0], want[0], strict=True):
                _same(one, other)
            assert (found[1] is None) == (want[1] is None)
            if found[1] is not None:
                _same(found[1], want[1])


def test_more_borders_than_there_was_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A border of one pixel each, as many as there can be, and one border that visits most pixels."""
    monkeypatch.setattr(run.Settings, "least", 0)
    dots = np.zeros((41, 61), np.uint8)
    dots[::2, ::2] = 1
    assert len(mcv.findContours(dots, 1, 1)[0]) == 21 * 31
    comb = np.zeros((41, 61), np.uint8)
    comb[:, ::2] = comb[0] = 1
    (border,), _ = mcv.findContours(comb, 0, 1)
    assert len(np.asarray(border)) > regions.followed(comb, True)[1].shape[0]  # type: ignore[index]
    assert len({tuple(p) for p in np.asarray(border).reshape(-1, 2).tolist()}) == int(comb.sum())


@pytest.mark.parametrize("seed", range(30))
def test_histograms(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng([seed, 3])
    shape = tuple(int(n) for n in random.integers(1, 90, 2))
    kinds = random.choice(["u1", "f4", "u2"], 2) if random.random() < 0.3 else [random.choice(["u1", "f4"])] * 2
    images = [(random.random((*shape, 3)) * 260).astype(kind) for kind in kinds]
    if images[0].dtype == np.float32:
        images[0][..., 1].flat[:3] = (np.nan, np.inf, -np.inf)[: images[0][..., 1].size]
        images[0][:, :, 2] = np.rint(images[0][:, :, 2])
    images[1] = np.asfortranarray(images[1])[::-1]
    count = int(random.integers(1, 4))
    channels = [int(n) for n in random.integers(0, 6, count)]
    sizes = [int(n) for n in random.choice([1, 7, 16, 40, 256], count)]
    ends = [float(n) for pair in np.sort(random.random((count, 2)) * 280 - 10) for n in np.add(np.rint(pair), [0, 1])]
    mask = [None, (random.random(shape) < 0.5).astype(random.choice(["u1", "f4"]))][seed % 2]
    with np.errstate(invalid="ignore"):
        want, found = _both(lambda: mcv.calcHist(images, channels, mask, sizes, ends), monkeypatch)
    _same(found, want)


@pytest.mark.parametrize("seed", range(20))
def test_masks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng([seed, 7])
    shape = (*(int(n) for n in random.integers(1, 150, 2)), int(random.integers(1, 6)))[: int(random.integers(2, 4))]
    a, b, dst = ((random.random(shape) * 256).astype(kind) for kind in ["u1", "i4", "u2"][seed % 3 :][:1] * 3)
    mask = (random.random(shape[:2]) < random.choice([0, 0.2, 0.9, 1])).astype(random.choice(["u1", "f4"]))
    for call in (
        lambda: mcv.copyTo(a, mask), lambda: mcv.copyTo(a[::-1], mask, dst),
        lambda: mcv.bitwise_and(a, b, dst, mask), lambda: mcv.bitwise_xor(a, b, None, mask),
    ):  # fmt: skip
        want, found = _both(call, monkeypatch)
        _same(found, want)
    for i, kept in enumerate((a, dst)):
        np.testing.assert_array_equal(np.asarray(mcv.copyTo(a, mask, dst))[mask == 1 - i], kept[mask == 1 - i])
    np.testing.assert_array_equal(np.asarray(mcv.bitwise_or(a, b)), a | b)
