"""Shapes drawn into pictures, inside and across their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cv.case import Case

COLOUR = (255, 128, 3)


def _drawn(shape: tuple[int, ...], draw: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def call(cv: Any) -> Any:
        image = np.zeros(shape, np.uint8)
        draw(cv, image)
        return image

    return call


def cases() -> Iterator[Case]:
    for seed in range(24):
        yield from drawn(seed)


def drawn(seed: int) -> Iterator[Case]:
    """All shapes at places, widths and kinds of lines that a seed draws."""
    random = np.random.default_rng(seed)
    inner = seed % 3 > 0
    low, high = (6, 24) if inner else (-6, 40)
    a, b = (tuple(int(n) for n in random.integers(low, high, 2)) for _ in range(2))
    radius, width, kind = int(random.integers(0, 6)), int(random.integers(1, 5)), int(random.choice([4, 8]))
    shapes = [random.integers(low, high, (int(random.integers(3, 6)), 2)).astype(np.int32) for _ in range(2)]
    size = (31, 33) if seed % 4 == 0 else (31, 33, 3)
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "line": lambda cv, im, a=a, b=b, w=width, k=kind: cv.line(im, a, b, COLOUR, w, k),
        "arrowedLine": lambda cv, im, a=a, b=b, w=width: cv.arrowedLine(im, a, b, COLOUR, w, 8, 0, 0.3),
        "circle": lambda cv, im, a=a, r=radius, w=width: cv.circle(im, a, r, COLOUR, w),
        "disc": lambda cv, im, a=a, r=radius: cv.circle(im, a, r, COLOUR, -1),
        "circle shift": lambda cv, im, a=a, r=radius: cv.circle(im, (a[0] * 4 + 1, a[1] * 4 + 2), r * 4 + 1, COLOUR,
                                                                2, 8, 2),
        "rectangle": lambda cv, im, a=a, b=b, w=width, k=kind: cv.rectangle(im, a, b, COLOUR, w, k),
        "rectangle filled": lambda cv, im, a=a, b=b: cv.rectangle(im, a, b, COLOUR, -1),
        "fillPoly": lambda cv, im, s=shapes, k=kind: cv.fillPoly(im, s, COLOUR, k),
        "drawContours": lambda cv, im, s=shapes, w=width: cv.drawContours(im, s, -1, COLOUR, w),
        "drawContours one": lambda cv, im, s=shapes: cv.drawContours(im, s, 1, COLOUR, 1),
        "drawContours filled": lambda cv, im, s=shapes: cv.drawContours(im, s, -1, COLOUR, -1),
    }  # fmt: skip
    for name, draw in calls.items():
        call = _drawn(size, draw)
        yield Case(f"{name} {seed}", call, call, 0)
