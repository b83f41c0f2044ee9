"""Borders, regions, hulls, histograms, maps, equations and poses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cv.case import Case


def _same(name: str, call: Callable[[Any], Any], most: float, few: float = 0.0) -> Case:
    return Case(name, call, call, most, few)


def cases() -> Iterator[Case]:
    for seed in range(10):
        yield from seeded(seed)


def seeded(seed: int) -> Iterator[Case]:
    """All of them on what a seed draws."""
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(4, 26, 2))
    filled = (random.random(shape) < random.choice([0.3, 0.5, 0.7])).astype(np.uint8)
    yield from _regions(seed, filled)
    yield from _points(seed, random)
    yield from _histograms(seed, random)
    yield from _equations(seed, random)
    yield from _poses(seed, random)


def _regions(seed: int, filled: Any) -> Iterator[Case]:
    for connectivity in (4, 8):
        for i, part in enumerate(("labels", "stats", "centres"), 1):
            yield _same(
                f"connectedComponents {seed} {connectivity} {part}",
                lambda cv, c=connectivity, i=i: cv.connectedComponentsWithStats(filled, connectivity=c)[i],
                1e-5,
            )
    for mode in range(4):
        for method in (1, 2):
            yield _same(
                f"findContours {seed} {mode} {method}",
                lambda cv, a=mode, b=method: np.concatenate([np.zeros((1, 1, 2), np.int32),
                                                             *cv.findContours(filled, a, b)[0]]),
                0,
            )  # fmt: skip
            yield _same(
                f"findContours {seed} {mode} {method} hierarchy",
                lambda cv, a=mode, b=method: np.asarray(cv.findContours(filled, a, b)[1], np.float64),
                0,
            )


def _points(seed: int, random: np.random.Generator) -> Iterator[Case]:
    places = random.permutation(400)[: int(random.integers(1, 12))]
    points = np.stack([places % 20, places // 20], 1)[:, None].astype(np.int32)
    if seed % 3 == 0:
        points = points.astype(np.float32) + random.random(points.shape).astype(np.float32)
    for clockwise in (False, True):
        yield _same(f"convexHull {seed} {clockwise}", lambda cv, c=clockwise: cv.convexHull(points, clockwise=c), 0)
        yield _same(f"convexHull {seed} {clockwise} places",
                    lambda cv, c=clockwise: cv.convexHull(points, clockwise=c, returnPoints=False), 0)  # fmt: skip
    yield _same(f"contourArea {seed}", lambda cv: cv.contourArea(points, True), 1e-3)
    yield _same(f"boundingRect {seed}", lambda cv: np.array(cv.boundingRect(points), np.float64), 0)
    yield _same(f"minAreaRect {seed}", lambda cv: float(np.prod(cv.minAreaRect(points)[1])), 1e-2)
    box = ((3.0, 4.0), (5.0, 2.0), float(random.integers(1, 90)))
    yield _same(f"boxPoints {seed}", lambda cv: cv.boxPoints(box), 1e-4)


def _histograms(seed: int, random: np.random.Generator) -> Iterator[Case]:
    one, two = (random.integers(0, 256, (13, 15)).astype(np.uint8) for _ in range(2))
    mask = (one > 40).astype(np.uint8)
    yield _same(f"calcHist {seed}", lambda cv: cv.calcHist([one], [0], None, [7], [10.0, 200.0]), 0)
    yield _same(f"calcHist {seed} two",
                lambda cv: cv.calcHist([one, two], [1, 0], mask, [7, 5], [10.0, 200.0, 0.0, 256.0]), 0)  # fmt: skip
    x, y = ((random.random((6, 7)) * 14).astype(np.float32) for _ in range(2))
    wide = lambda cv: getattr(cv, "CV_16SC2", 11)  # noqa: E731 - the number is another one in OpenCV 5
    for i in range(2):
        yield _same(f"convertMaps {seed} {i}", lambda cv, i=i: np.int32(cv.convertMaps(x, y, wide(cv))[i]), 0)
    yield _same(f"remap fixed {seed}", lambda cv: cv.remap(one, *cv.convertMaps(x, y, wide(cv)), 1), 1)


def _equations(seed: int, random: np.random.Generator) -> Iterator[Case]:
    a, b, wide, right = (random.normal(size=s) for s in ((3, 3), (3, 2), (5, 3), (5, 1)))
    rounded = max(1e-5, 2e-7 * float(np.abs(np.linalg.solve(a, b)).max()))  # to float32
    for method in (0, 1, 4, 16):
        yield _same(f"solve {seed} {method}", lambda cv, m=method: cv.solve(a, b, flags=m)[1]
                    if hasattr(cv, "CV_16SC2") else cv.solve(a, b, m)[1], rounded)  # fmt: skip
    yield _same(f"solve {seed} cholesky", lambda cv: cv.solve(a @ a.T, b, 3)[1] if not hasattr(cv, "CV_16SC2")
                else cv.solve(a @ a.T, b, flags=3)[1], 1e-4)  # fmt: skip
    yield _same(f"solve {seed} least squares", lambda cv: cv.solve(wide, right, 1)[1]
                if not hasattr(cv, "CV_16SC2") else cv.solve(wide, right, flags=1)[1], 1e-5)  # fmt: skip
    turn = random.normal(size=3) * 2
    yield Case(f"Rodrigues {seed}", lambda cv: cv.Rodrigues(turn),
               lambda cv: np.float32(cv.Rodrigues(turn)[0]), 1e-5)  # fmt: skip
    yield Case(f"Rodrigues {seed} back", lambda cv: cv.Rodrigues(cv.Rodrigues(turn)),
               lambda cv: np.float32(cv.Rodrigues(cv.Rodrigues(turn)[0])[0]), 1e-5)  # fmt: skip


def _poses(seed: int, random: np.random.Generator) -> Iterator[Case]:
    points, turn = random.normal(size=(8, 3)) * 2, random.normal(size=3)
    angle = np.linalg.norm(turn)
    axis = np.cross(np.eye(3), turn / angle) * -1
    matrix = np.eye(3) + np.sin(angle) * axis + (1 - np.cos(angle)) * axis @ axis
    placed = points @ matrix.T + [0.3, -0.2, 9.0]
    camera = np.array([[500.0, 0, 300], [0, 480.0, 250], [0, 0, 1]])
    seen = placed[:, :2] / placed[:, 2:] * [500, 480] + [300, 250] + random.normal(size=(8, 2)) * 0.3
    bends = np.array([0.02, -0.01, 0.001, 0.002, 0.0]) if seed % 2 else np.zeros(5)
    half_turn = abs(float(angle) % (2 * np.pi) - np.pi) < 0.1  # which is written in two ways
    shown = float(np.hypot(*((seen - [300, 250]) / [500, 480]).T).max()) < 1.6  # others no such lens shows
    for name in ("ITERATIVE", "SQPNP"):
        for i in (1, 2):
            yield _same(
                f"solvePnP {seed} {name} {i}",
                lambda cv, n=name, i=i: cv.solvePnP(points, seen, camera, bends, flags=getattr(cv, f"SOLVEPNP_{n}"))[i],
                2e-3 if shown else 0.1, float(half_turn and i == 1),
            )  # fmt: skip
