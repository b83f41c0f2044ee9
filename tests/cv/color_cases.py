"""Conversions to and from words of 16 bits, shared chroma, HLS and alpha that was multiplied, of random pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cv.case import Case

_ORDERS = ("BGR", "RGB", "BGRA", "RGBA")
_COUNTS = {"GRAY": 1, "BGR565": 2, "BGR555": 2, "BGR": 3, "RGB": 3, "HLS": 3, "BGRA": 4, "RGBA": 4, "mRGBA": 4}
NAMES = (
    *(f"{a}2{b}" for a in (*_ORDERS, "GRAY") for b in ("BGR565", "BGR555")),
    *(f"{a}2{b}" for a in ("BGR565", "BGR555") for b in (*_ORDERS, "GRAY")),
    *(f"{a}2YUV_{b}" for a in _ORDERS for b in ("I420", "YV12")),
    *(f"YUV2{a}_{b}" for a in (*_ORDERS, "GRAY") for b in ("UYVY", "YUYV", "YVYU")),
    *(f"{a}2HLS{end}" for a in ("BGR", "RGB") for end in ("", "_FULL")),
    *(f"HLS2{a}{end}" for a in ("BGR", "RGB") for end in ("", "_FULL")),
    "RGBA2mRGBA", "mRGBA2RGBA",
)  # fmt: skip


def packed(seed: int, names: tuple[str, ...] = NAMES) -> Iterator[Case]:
    """``names`` of pictures of even sizes, of bytes; HLS of f32 too."""
    random = np.random.default_rng([seed, 565])
    height, width = (2 * int(n) for n in random.integers(1, 9, 2))
    for name in names:
        source = name.split("2")[0]
        count = 2 if source == "YUV" else _COUNTS[source]
        shape = (height, width) if count == 1 else (height, width, count)
        im: Any = random.integers(0, 256, shape).astype(np.uint8)
        floats = "HLS" in name and random.random() < 0.5
        if floats:
            im = im / np.float32(255) * (np.float32([360, 1, 1]) if source == "HLS" else np.float32(1))

        def converted(cv: Any, im: Any = im, name: str = name) -> Any:
            return cv.cvtColor(im, getattr(cv, f"COLOR_{name}"))

        yield Case(f"cvtColor {name} {shape} {im.dtype} {seed}", converted, converted, 1e-3 if floats else 1)
