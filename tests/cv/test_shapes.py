"""Hulls, areas and rectangles of random points, from what they must be: not from how kernels find them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import MNN.cv as mcv
from MNN import MNNError
from MNN.cv.kernels import points
from MNN.cv.kernels.quick import measures


def _points(random: np.random.Generator, kind: int) -> Any:
    count = int(random.integers(1, 80))
    if kind == 0:
        return random.integers(-20, 20, (count, 2)).astype(np.int32)
    if kind == 1:
        return (random.normal(size=(count, 2)) * 90).astype(np.float32)
    if kind == 2:
        return random.integers(0, 3, (count, 2))
    if kind == 3:
        turn = np.linspace(0, 2 * math.pi, count)
        return np.rint(np.stack([np.cos(turn), np.sin(turn)], 1) * random.integers(1, 300)).astype(np.int32)
    return (random.integers(-5, 5, (count, 1)) * random.integers(-5, 5, (1, 2))).astype(np.int32)  # on a line


def _turns(p: Any) -> Any:
    """Cross products of neighbouring sides of a polygon."""
    sides = (np.roll(p, -1, 0) - p).astype(np.float64)
    after = np.roll(sides, -1, 0)
    return sides[:, 0] * after[:, 1] - sides[:, 1] * after[:, 0]


@pytest.mark.parametrize("seed", range(60))
def test_hulls(seed: int) -> None:
    p = _points(np.random.default_rng([seed, 4]), seed % 5)
    for clockwise in (False, True):
        places = np.asarray(mcv.convexHull(p, clockwise, False)).ravel()
        corners = p[places].astype(np.float64)
        np.testing.assert_array_equal(np.asarray(mcv.convexHull(p, clockwise))[:, 0], p[places])
        assert len(np.unique(corners, axis=0)) == len(corners)
        first = [int(np.flatnonzero((p == p[place]).all(1))[0]) for place in places]
        assert first == places.tolist()  # of equal points the first
        if len(corners) > 2:
            assert (_turns(corners) * (-1 if clockwise else 1) > 0).all()
            sides = np.roll(corners, -1, 0) - corners
            for corner, side in zip(corners, sides, strict=True):  # nothing lies outside
                away = side[0] * (p[:, 1] - corner[1]) - side[1] * (p[:, 0] - corner[0])
                assert (away * (-1 if clockwise else 1) >= -1e-6 * np.abs(side).max()).all()
        else:
            ends = p[np.lexsort((p[:, 1], p[:, 0]))[[0, -1]]]
            np.testing.assert_array_equal(np.unique(corners, axis=0), np.unique(ends.astype(np.float64), axis=0))


@pytest.mark.parametrize("seed", range(60))
def test_measures(seed: int) -> None:
    p = _points(np.random.default_rng([seed, 5]), seed % 5)
    x, y = p.astype(np.float64).T
    area = ((np.roll(x, 1) * y - x * np.roll(y, 1)).sum()) / 2
    assert mcv.contourArea(p, True) == pytest.approx(area, rel=1e-9, abs=1e-6)
    assert mcv.contourArea(p) == abs(mcv.contourArea(p, True))
    low, high = np.floor(p.min(0)), np.floor(p.max(0))
    assert mcv.boundingRect(p) == [*low, *(high - low + 1)]
    (cx, cy), (width, height), angle = mcv.minAreaRect(p)
    turn = math.radians(angle)
    u, v = (x - cx) * math.cos(turn) + (y - cy) * math.sin(turn), (y - cy) * math.cos(turn) - (x - cx) * math.sin(turn)
    assert 0 < angle <= 90
    near = {"abs": 1e-2}
    assert (u.min(), u.max()) == (pytest.approx(-width / 2, **near), pytest.approx(width / 2, **near))
    assert (v.min(), v.max()) == (pytest.approx(-height / 2, **near), pytest.approx(height / 2, **near))
    around = [_extent(x, y, t) for t in np.linspace(0, math.pi / 2, 91)]
    assert width * height <= min(around) * (1 + 1e-5) + 1e-2


def _extent(x: Any, y: Any, turn: float) -> float:
    u, v = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
    return float(np.ptp(u) * np.ptp(v))


@pytest.mark.parametrize("seed", range(30))
def test_bounds_of_pictures(seed: int) -> None:
    random = np.random.default_rng([seed, 6])
    height, width = int(random.integers(1, 40)), int(random.integers(1, 90)) if seed % 4 else 2
    kind = random.choice(["u1", "f4"]) if width != 2 else "u1"  # floats in two columns are points
    im = (random.random((height, width)) < random.choice([0, 0.001, 0.01, 0.3])).astype(kind)
    im = np.asfortranarray(im)[::-1] if seed % 2 else im
    y, x = np.nonzero(im)
    want = [x.min(), y.min(), np.ptp(x) + 1, np.ptp(y) + 1] if len(x) else [0, 0, 0, 0]
    assert mcv.boundingRect(im) == want


def _on_both_sides(random: np.random.Generator) -> Any:
    """Points that are corners of a hull whichever way it is followed, as cross products are rounded."""

    def turn(a: Any, b: Any, c: Any) -> float:
        return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    found: list[tuple[float, float]] = []
    x, slope = 0.1, random.uniform(0.3, 2)
    for _ in range(200):
        x += random.uniform(0.01, 1)
        new = x, float(slope * x + random.integers(-3, 4) * np.spacing(slope * x))
        if len(found) < 2 or (turn(found[-2], found[-1], new) > 0 and turn(new, found[-1], found[-2]) > 0):
            found.append(new)
    return np.array(found)


def test_hulls_that_rounding_makes_long_stay_in_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Guarded:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
            made.append(np.full(int(np.prod(shape)) + 64, 77, dtype))
            return made[-1][:-64].reshape(shape)

    monkeypatch.setattr(points, "np", Guarded())
    random, longest = np.random.default_rng(8), 0
    for _ in range(20):
        p = _on_both_sides(random)
        corners = np.asarray(mcv.convexHull(p, returnPoints=False)).ravel()
        assert np.isin(corners, np.arange(len(p))).all()
        longest = max(longest, len(corners) - len(p))
    assert longest > 2  # or this shows nothing
    assert all((memory[-64:] == 77).all() for memory in made)


@pytest.mark.parametrize("call", [mcv.convexHull, mcv.contourArea, mcv.minAreaRect, mcv.boundingRect])
def test_points_that_are_nowhere(call: Any) -> None:
    with pytest.raises(MNNError, match="finite"):
        call(np.array([[0, 0], [1, np.nan], [3, 4]]))


@pytest.mark.parametrize("call", [mcv.convexHull, mcv.contourArea, mcv.minAreaRect, mcv.boundingRect])
def test_points_whose_products_are_infinite(call: Any) -> None:
    with pytest.raises(MNNError, match="within 1e"):
        call(np.array([[0, 0], [1e300, 3], [4, 1e300], [1, 1]]))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_points_far_away(kind: Any) -> None:
    far = kind(3e38 if kind is np.float32 else 9e139)
    p = np.array([[0, 0], [far, 0], [far, far], [far / 2, far / 3], [0, far]], kind)
    assert sorted(np.asarray(mcv.convexHull(p, returnPoints=False)).ravel().tolist()) == [0, 1, 2, 4]
    assert mcv.contourArea(p[[0, 1, 2, 4]]) == pytest.approx(float(far) ** 2)


def test_hulls_stay_when_others_are_found() -> None:
    """Memory that is used again for few points must not be what results lie in."""
    random = np.random.default_rng(0)
    points = [random.integers(0, 90, (n, 2)).astype(np.int32) for n in (3, 200, 257, 600)]
    found = [np.asarray(mcv.convexHull(p, returnPoints=False)) for p in points]
    again = [np.asarray(mcv.convexHull(p, returnPoints=False)).copy() for p in points]
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


def _answers(p: Any, clockwise: Any, monkeypatch: pytest.MonkeyPatch, quick: Any) -> list[Any]:
    """What all functions say of points, or how they refuse them."""
    monkeypatch.setattr(points, "_quick", [quick])
    answers: list[Any] = []
    for call in (mcv.contourArea, mcv.boundingRect, mcv.minAreaRect, lambda a: mcv.contourArea(a, True),
                 lambda a: mcv.convexHull(a, clockwise), lambda a: mcv.convexHull(a, clockwise, False)):  # fmt: skip
        try:
            found = call(p)
            answers.append((np.asarray(found), np.asarray(found).dtype) if not isinstance(found, tuple) else found)
        except MNNError as error:
            answers.append(f"{type(error).__name__}: {error}")
    return answers


def test_generated_code_reads_points_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = measures.function(points._FEW)
    assert quick is not None
    taken: list[bool] = []

    def noted(*given: Any) -> bool:
        taken.append(quick(*given))
        return taken[-1]

    for seed in range(120):
        random = np.random.default_rng([seed, 6])
        p = _points(random, seed % 5)
        if seed % 17 == 0:
            p = np.tile(p, (7, 1))[: 250 + seed // 17 * 2]  # about as many as there is memory for
        forms = [p, p[:, None], p[::-1], p.astype(np.float32), p.astype(np.float64), p.ravel(), p.tolist(), p[:1],
                 np.full(p.shape, np.inf, np.float32), np.asfortranarray(p), p.astype(">i4"), p[:0]]  # fmt: skip
        given = forms[int(random.integers(len(forms)))]
        clockwise = (False, True, 1)[seed % 3]
        with np.errstate(all="ignore"):
            want = _answers(given, clockwise, monkeypatch, points._never)
            found = _answers(given, clockwise, monkeypatch, noted)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_equal(a, b, err_msg=f"{seed} {np.shape(given)}")
    assert 150 < sum(taken) < len(taken)
