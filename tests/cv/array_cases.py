"""Resizing by factors, remapping, statistics, masks, borders, thresholds that choose themselves, two planes of colours
and types of 16 bits: random calls for :mod:`tests.cv.sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cv.case import Case, border

Random = np.random.Generator


def cases(seed: int) -> Iterator[Case]:
    random = np.random.default_rng([seed, 2901])
    for family in (_scaled, _remapped, _statistics, _masked, _typed, _chosen, _planes, _maps, _joined, _fine):
        yield from family(seed, random)


def _picture(random: Random, kinds: str = "u8 f4", channels: tuple[int, ...] = (1, 3, 4)) -> Any:
    height, width = random.integers(1, 70, 2)
    count, kind = int(random.choice(channels)), str(random.choice(kinds.split()))
    shape = (height, width) if count == 1 else (height, width, count)
    if kind == "f4":
        return (random.random(shape) * 255).astype(np.float32)
    if kind == "f8":
        return random.random(shape) * 255
    top = {"u8": 256, "u16": 65536, "i16": 32768}[kind]
    return random.integers(-top if kind == "i16" else 0, top, shape).astype(
        {"u8": np.uint8, "u16": np.uint16, "i16": np.int16}[kind]
    )


def _same(name: str, call: Callable[[Any], Any], most: float, few: float = 0.0) -> Case:
    return Case(name, call, call, most, few)


def _most(im: Any) -> float:
    """A level of whole numbers; of floats what sums of them round to."""
    return 1.0 if im.dtype.kind in "iu" else 0.05


def _scaled(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random)
    across, down = (float(n) for n in random.choice([0.25, 0.5, 1 / 3, 0.8, 1.3, 2.0, 2.5, 3.7], 2))
    for how in ("NEAREST", "LINEAR", "CUBIC", "AREA", "LANCZOS4"):
        if min(im.shape[0] * down, im.shape[1] * across) >= 1:
            yield _same(
                f"resize by {across:.3g} {down:.3g} {how} {im.shape} {im.dtype} {seed}",
                lambda cv, h=how: cv.resize(im, None, fx=across, fy=down, interpolation=getattr(cv, f"INTER_{h}")),
                0.0 if how == "NEAREST" else _most(im),
            )


def _remapped(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random)
    size = random.integers(1, 60, 2)
    reach = 1 if random.random() < 0.7 else 1.5
    x, y = (
        (((random.random(size) - 0.5) * reach + 0.5) * (n - 1)).astype(np.float32) for n in (im.shape[1], im.shape[0])
    )
    b, value = int(random.integers(3)), tuple(float(n) for n in random.integers(0, 255, 4))
    for how in ("NEAREST", "LINEAR", "CUBIC"):
        if how == "CUBIC" and (b or min(im.shape[:2]) < 4):  # two pictures away OpenCV's kernel stops reflecting
            continue
        yield Case(
            f"remap {how} {im.shape} {im.dtype} {tuple(size)} border {b} {seed}",
            lambda cv, h=how: cv.remap(im, x, y, getattr(cv, f"INTER_{h}"), b, value),
            lambda cv, h=how: cv.remap(
                im, x, y, getattr(cv, f"INTER_{h}"), borderMode=border(cv, b), borderValue=value
            ),
            1.0 if im.dtype == np.uint8 else 0.3, 0.02 if how == "NEAREST" else 0.0,
        )  # fmt: skip


def _statistics(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random, "u8 u16 i16 f4")
    mask = (random.random(im.shape[:2]) < 0.5).astype(np.uint8) * 255
    for told, given in (("", None), (" masked", mask)):
        yield _same(f"mean{told} {im.shape} {im.dtype} {seed}", lambda cv, g=given: cv.mean(im, g), 1e-2)
    one, two = (float(n) for n in random.normal(size=2) * 100)
    for norm in ("NORM_INF", "NORM_L1", "NORM_L2", "NORM_MINMAX"):
        yield _same(f"normalize {norm} {im.shape} {im.dtype} {seed}",
                    lambda cv, n=norm: cv.normalize(im, None, one, two, getattr(cv, n)), _most(im))  # fmt: skip
    if im.ndim == 2:
        yield _same(
            f"calcHist {im.shape} {im.dtype} {seed}",
            lambda cv: cv.calcHist([im.astype(np.uint8)], [0], mask, [9], [3.0, 201.0]),
            0,
        )


def _masked(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random, "u8 u16 i16")
    other, mask = im[::-1, ::-1].copy(), (random.random(im.shape[:2]) < 0.5).astype(np.uint8)
    for name in ("and", "or", "xor"):
        for told, given in (("", None), (" masked", mask)):
            yield _same(f"bitwise_{name}{told} {im.shape} {im.dtype} {seed}",
                        lambda cv, n=name, g=given: getattr(cv, f"bitwise_{n}")(im, other, mask=g), 0)  # fmt: skip
    for told, under in (("", None), (" onto", other)):
        yield _same(f"copyTo{told} {im.shape} {im.dtype} {seed}",
                    lambda cv, u=under: cv.copyTo(im, mask, None if u is None else u.copy()), 0)  # fmt: skip


def _typed(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random, "u16 i16")
    b = int(random.integers(3))
    told = f"{im.shape} {im.dtype} border {b} {seed}"
    size = tuple(int(n) for n in random.integers(1, 6, 2))
    wanted = int(random.integers(1, 99)), int(random.integers(1, 99))
    if min(im.shape[:2]) > 8:
        yield Case(f"blur {size} {told}", lambda cv: cv.blur(im, size, b),
                   lambda cv: cv.blur(im, size, borderType=border(cv, b)), 1)  # fmt: skip
        yield Case(f"GaussianBlur {told}", lambda cv: cv.GaussianBlur(im, (5, 3), 1.2, 0, b),
                   lambda cv: cv.GaussianBlur(im, (5, 3), 1.2, borderType=border(cv, b)), 2)  # fmt: skip
        element = np.ones(size, np.uint8)
        yield _same(f"erode {size} {told}", lambda cv: cv.erode(im, element), 0)
        yield _same(f"dilate {size} {told}", lambda cv: cv.dilate(im, element), 0)
    for how in ("NEAREST", "LINEAR", "AREA"):
        yield _same(f"resize {how} {wanted} {told}",
                    lambda cv, h=how: cv.resize(im, wanted, interpolation=getattr(cv, f"INTER_{h}")),
                    0.0 if how == "NEAREST" else 2.0)  # fmt: skip
    for kind in range(5):
        at, top = float(random.normal() * 9000), float(random.integers(0, 30000))
        yield Case(f"threshold {kind} {at} {told}", lambda cv, k=kind, a=at, t=top: cv.threshold(im, a, t, k),
                   lambda cv, k=kind, a=at, t=top: cv.threshold(im, a, t, k)[1], 0)  # fmt: skip


def _chosen(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random, "u8", (1,))
    im = (im // int(random.integers(1, 9))).astype(np.uint8)
    for kind in range(5):
        for way in (8, 16):
            yield Case(
                f"threshold {kind} {way} {im.shape} {seed}",
                lambda cv, t=kind | way: cv.threshold(im, 0, 200, t),
                lambda cv, t=kind | way: cv.threshold(im, 0, 200, t)[1],
                0,
            )


def _planes(seed: int, random: Random) -> Iterator[Case]:
    height, width = (2 * int(n) for n in random.integers(1, 30, 2))
    luma = random.integers(0, 256, (height, width)).astype(np.uint8)
    colours = random.integers(0, 256, (height // 2, width // 2, 2)).astype(np.uint8)
    for name in ("BGR_NV12", "RGB_NV12", "BGR_NV21", "RGB_NV21", "BGRA_NV12", "RGBA_NV21"):
        yield _same(
            f"cvtColorTwoPlane {name} {height} {width} {seed}",
            lambda cv, n=name: cv.cvtColorTwoPlane(luma, colours, getattr(cv, f"COLOR_YUV2{n}")),
            1,
        )


def _maps(seed: int, random: Random) -> Iterator[Case]:
    corners = np.float32([[0, 0], [60, 0], [0, 50], [60, 50]]) + random.normal(size=(4, 2)).astype(np.float32) * 9
    others = np.float32([[0, 0], [60, 0], [0, 50], [60, 50]]) + random.normal(size=(4, 2)).astype(np.float32) * 9
    yield _same(f"getPerspectiveTransform {seed}", lambda cv: cv.getPerspectiveTransform(corners, others), 1e-3)
    yield _same(f"getAffineTransform {seed}", lambda cv: cv.getAffineTransform(corners[:3], others[:3]), 1e-3)
    angle, zoom = float(random.normal() * 200), float(random.random() * 3)
    yield _same(f"getRotationMatrix2D {seed}", lambda cv: cv.getRotationMatrix2D((3.5, 7.25), angle, zoom), 1e-4)
    matrix = random.normal(size=(2, 3))
    few = 0.0 if abs(np.linalg.det(matrix[:, :2])) > 0.1 else 1.0  # badly conditioned
    yield _same(f"invertAffineTransform {seed}", lambda cv: cv.invertAffineTransform(matrix), 1e-3, few)
    yield _same(f"getGaussianKernel {seed}",
                lambda cv: np.asarray(cv.getGaussianKernel(2 * (seed % 9) + 1, zoom)).reshape(1, -1), 1e-6)  # fmt: skip


def _joined(seed: int, random: Random) -> Iterator[Case]:
    im = _picture(random, "u8 u16 i16 f4", (3, 4))
    other = im[::-1].copy()
    for i in range(im.shape[2]):
        yield _same(f"split {i} {im.shape} {im.dtype} {seed}", lambda cv, i=i: cv.split(im)[i], 0)
    yield _same(f"merge {im.shape} {im.dtype} {seed}", lambda cv: cv.merge([im[..., 2].copy(), im[..., 0].copy()]), 0)
    for name in ("hconcat", "vconcat"):
        yield _same(f"{name} {im.shape} {im.dtype} {seed}", lambda cv, n=name: getattr(cv, n)([im, other]), 0)
    edges = [int(n) for n in random.integers(0, min(im.shape[:2]), 4)]
    for b in range(3):
        value = tuple(float(n) for n in random.integers(0, 255, 4))
        yield Case(
            f"copyMakeBorder {edges} {b} {im.shape} {im.dtype} {seed}",
            lambda cv, b=b, v=value: cv.copyMakeBorder(im, *edges, b, v),
            lambda cv, b=b, v=value: cv.copyMakeBorder(im, *edges, border(cv, b), value=v),
            0,
        )


def _fine(seed: int, random: Random) -> Iterator[Case]:
    """Lines of every kind between positions within pixels, border values that do not fit, bins of any bounds, colours
    of 16 bits."""
    shift, kind, width = int(random.integers(0, 5)), int(random.choice([0, 1, 4, 8])), int(random.choice([1, 1, 2, 3]))
    a, b = (tuple(int(n) for n in random.integers(0, 30 << shift, 2)) for _ in range(2))
    corners = random.integers(-6 << shift, 40 << shift, (int(random.integers(2, 7)), 2)).astype(np.int32)
    drawn = {
        "line": lambda cv, im: cv.line(im, a, b, 9, width, kind, shift),
        "circle": lambda cv, im: cv.circle(im, a, abs(b[0]), 9, width, kind, shift),
        "rectangle": lambda cv, im: cv.rectangle(im, a, b, 9, width, kind, shift),
        "fillPoly": lambda cv, im: cv.fillPoly(im, [corners], 9, kind, shift),
    }
    for name, draw in drawn.items():

        def image(cv: Any, draw: Callable[[Any, Any], Any] = draw) -> Any:
            im = np.zeros((31, 33), np.uint8)
            draw(cv, im)
            return im

        yield _same(f"{name} kind {kind} shift {shift} width {width} {seed}", image, 0)
    im = _picture(random, "u8 u16 i16 f4")
    value = tuple(float(n) for n in random.choice([-1e3, -0.5, 0.5, 1.5, 300, 4e4, 7e4], 4))
    yield _same(f"copyMakeBorder {value} {im.dtype} {seed}",
                lambda cv: cv.copyMakeBorder(im, 1, 2, 3, 4, 0, value=value), 1e-2)  # fmt: skip
    plane = _picture(random, "u8 f4", (1,))
    bins, low = int(random.integers(1, 40)), float(random.choice([random.integers(-9, 99), random.random() * 50]))
    ends = [low, low + float(random.choice([random.integers(1, 200), random.random() * 99 + 1]))]
    yield _same(f"calcHist {bins} {ends} {plane.dtype} {seed}",
                lambda cv: cv.calcHist([plane], [0], None, [bins], ends), 0)  # fmt: skip
    wide = _picture(random, "u16", (3,))
    for code in ("BGR2GRAY", "RGB2BGRA", "BGR2YUV", "YCrCb2RGB"):
        yield _same(f"cvtColor {code} u16 {wide.shape} {seed}",
                    lambda cv, c=code: cv.cvtColor(wide, getattr(cv, f"COLOR_{c}")), 2)  # fmt: skip
