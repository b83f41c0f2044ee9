"""Conversions to and from words of 16 bits, shared chroma, HLS, alpha that was multiplied, Lab and Luv, of random
pictures."""

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


LIGHTNESS = tuple(
    f"{a}2{b}"
    for space in ("Lab", "Luv")
    for colors in ("BGR", "RGB", "LBGR", "LRGB")
    for a, b in ((colors, space), (space, colors))
)
_TABLE = 0.5
"""How far OpenCV's Lab of sRGB in floats is from the formula: it interpolates in a table of 33 entries a side."""


def lightness(seed: int, names: tuple[str, ...] = LIGHTNESS) -> Iterator[Case]:
    """``names`` of pictures of any colours, in bytes of such as no screen shows too."""
    random = np.random.default_rng([seed, 1976])
    height, width = (int(n) for n in random.integers(1, 40, 2))
    for name in names:
        im: Any = random.integers(0, 256, (height, width, 3)).astype(np.uint8)
        most, few = 1.0, 0.0
        if random.random() < 0.5:
            im = im / np.float32(255)
            if name.startswith("L") and name[1] in "au":
                im = (im * [100, 160, 160] - [0, 80, 80]).astype(np.float32)
            most, few = _TABLE if name in ("BGR2Lab", "RGB2Lab") else 0.02, 0.002

        def converted(cv: Any, im: Any = im, name: str = name) -> Any:
            return cv.cvtColor(im, getattr(cv, f"COLOR_{name}"))

        yield Case(f"cvtColor {name} {im.shape} {im.dtype} {seed}", converted, converted, most, few)


def edges() -> Iterator[Case]:
    """Bytes with which a number that is rounded otherwise before the last step shows: L*u*v* in the dark, where the
    chromaticity is a quotient of few bits; L*a*b* whose luminance cut off, not rounded, gives two levels less; reds
    whose hue is just below a whole circle."""
    dark: Any = np.random.default_rng(24).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    dark[:, :, 0] %= 24
    between = [[32, 242], [36, 216], [46, 179], [85, 103], [101, 81], [108, 72], [117, 61], [130, 46], [159, 15]]
    low, spread, less = np.meshgrid(np.arange(0, 128, 7), np.arange(4, 128), np.arange(1, 4), indexing="ij")
    reds = np.stack([low + 2 * spread, low, low + less], -1).clip(0, 255).astype(np.uint8).reshape(-1, 3, 3)
    pictures = {
        **{f"Luv2{colors}": dark for colors in ("BGR", "RGB", "LBGR", "LRGB")},
        "Lab2RGB": np.array([[243, *ab] for ab in between], np.uint8)[None],
        "RGB2HSV": reds,
        "RGB2HSV_FULL": reds,
    }
    for name, im in pictures.items():

        def converted(cv: Any, im: Any = im, name: str = name) -> Any:
            return cv.cvtColor(im, getattr(cv, f"COLOR_{name}"))

        yield Case(f"cvtColor {name} at edges", converted, converted, 1.0)
