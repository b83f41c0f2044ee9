"""Derivatives, pyramids, morphology and smoothing: every flag on seeded pictures of odd sizes, 1, 3 and 4 channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cv.case import Case, border


def _picture(random: np.random.Generator, channels: tuple[int, ...] = (1, 3, 4)) -> Any:
    height, width = random.integers(7, 18, 2)
    count = int(random.choice(channels))
    shape = (height, width) if count == 1 else (height, width, count)
    if random.random() < 0.5:
        return random.integers(0, 256, shape).astype(np.uint8)
    return (random.random(shape) * 255).astype(np.float32)


def cases() -> Iterator[Case]:
    for seed in range(12):
        yield from _derivatives(seed)
        yield from _pyramids(seed)
        yield from _morphology(seed)
        yield from _smoothing(seed)
    for shape in range(3):
        for size in ((1, 1), (3, 3), (5, 2), (4, 7), (6, 1)):

            def element(cv: Any, shape: int = shape, size: tuple[int, int] = size) -> Any:
                return cv.getStructuringElement(shape, size)

            yield Case(f"getStructuringElement {shape} {size}", element, element, 0)


def _derivatives(seed: int) -> Iterator[Case]:
    random = np.random.default_rng(seed)
    im = _picture(random)
    k, b, depth = int(random.choice([1, 3, 5, 7])), int(random.integers(3)), int(random.choice([-1, 5]))
    dx, dy = [(1, 0), (0, 1), (1, 1), (2, 0)][random.integers(4)]
    scale, delta = float(random.choice([1, 0.5])), float(random.choice([0, 3]))
    most = 1.0 if im.dtype == np.uint8 else 0.05
    rest = {"scale": scale, "delta": delta}
    yield Case(f"Sobel {seed}", lambda cv: cv.Sobel(im, depth, dx, dy, k, scale, delta, b),
               lambda cv: cv.Sobel(im, depth, dx, dy, ksize=k, borderType=border(cv, b), **rest), most)  # fmt: skip
    yield Case(f"Scharr {seed}", lambda cv: cv.Scharr(im, depth, 0, 1, scale, delta, b),
               lambda cv: cv.Scharr(im, depth, 0, 1, borderType=border(cv, b), **rest), most)  # fmt: skip
    yield Case(f"Laplacian {seed}", lambda cv: cv.Laplacian(im, depth, k, scale, delta, b),
               lambda cv: cv.Laplacian(im, depth, ksize=k, borderType=border(cv, b), **rest), most)  # fmt: skip
    plane = im.astype(np.uint8).reshape(*im.shape[:2], -1)[:, :, 0].copy()
    for i in range(2):
        yield Case(f"spatialGradient {seed} {i}", lambda cv, i=i: cv.spatialGradient(plane)[i],
                   lambda cv, i=i: cv.spatialGradient(plane)[i], 0)  # fmt: skip
        for size in (k, -1) if dx + dy == 1 else (k,):
            yield Case(f"getDerivKernels {seed} {i} {size}",
                       lambda cv, i=i, s=size: cv.getDerivKernels(dx, dy, s, bool(seed % 2))[i],
                       lambda cv, i=i, s=size: cv.getDerivKernels(dx, dy, s, normalize=bool(seed % 2))[i].T,
                       1e-6)  # fmt: skip


def _pyramids(seed: int) -> Iterator[Case]:
    random = np.random.default_rng(100 + seed)
    im = _picture(random)
    height, width = im.shape[:2]
    most = 0.0 if im.dtype == np.uint8 else 1e-3
    yield Case(f"pyrDown {seed}", lambda cv: cv.pyrDown(im, None, 2),
               lambda cv: cv.pyrDown(im, borderType=cv.BORDER_REFLECT), most)  # fmt: skip
    half = (width // 2, height // 2)
    yield Case(f"pyrDown size {seed}", lambda cv: cv.pyrDown(im, half), lambda cv: cv.pyrDown(im, dstsize=half), most)
    twice = 2 * width + int(random.integers(-1, 2)), 2 * height + int(random.integers(-1, 2))
    yield Case(f"pyrUp {seed}", lambda cv: cv.pyrUp(im, twice), lambda cv: cv.pyrUp(im, dstsize=twice), most)


def _morphology(seed: int) -> Iterator[Case]:
    random = np.random.default_rng(200 + seed)
    im, b, times = _picture(random), int(random.integers(3)), int(random.integers(3))
    element = (random.random(tuple(random.integers(1, 6, 2))) < 0.6).astype(np.uint8)
    element[0, 0] = 1
    element = np.ones_like(element) if seed % 2 else element
    for name in ("erode", "dilate"):
        yield Case(
            f"{name} {seed}",
            lambda cv, n=name: getattr(cv, n)(im, element, times, b),
            lambda cv, n=name: getattr(cv, n)(
                im, element, iterations=times, **({"borderType": border(cv, b)} if b else {})
            ),
            0,
        )  # fmt: skip


def _smoothing(seed: int) -> Iterator[Case]:
    random = np.random.default_rng(300 + seed)
    im, b = _picture(random, (1, 3)), int(random.integers(3))
    most = 1.0 if im.dtype == np.uint8 else 0.05
    d = int(random.choice([0, 5, 6]))
    yield Case(f"bilateralFilter {seed}", lambda cv: cv.bilateralFilter(im, d, 30, 1.5, b),
               lambda cv: cv.bilateralFilter(im, d, 30, 1.5, borderType=border(cv, b)), most)  # fmt: skip
    size = tuple(int(n) for n in random.integers(1, 6, 2))
    mean = bool(random.integers(2))
    yield Case(f"sqrBoxFilter {seed}", lambda cv: cv.sqrBoxFilter(im, -1, size, mean, b),
               lambda cv: cv.sqrBoxFilter(im, -1, size, normalize=mean, borderType=border(cv, b)), 0.5)  # fmt: skip
    one, two = (random.random(im.shape[:2]).astype(np.float32) for _ in range(2))
    other = im[::-1].copy()

    def blended(cv: Any) -> Any:
        return cv.blendLinear(im, other, one, two)

    yield Case(f"blendLinear {seed}", blended, blended, 1 if im.dtype == np.uint8 else 1e-3)
    gray = im.astype(np.uint8).reshape(*im.shape[:2], -1)[:, :, 0].copy()
    flags = int(random.integers(2)), int(random.integers(2)), int(random.choice([3, 5, 7])), float(random.normal() * 4)

    def adapted(cv: Any) -> Any:
        return cv.adaptiveThreshold(gray, 200, *flags)

    yield Case(f"adaptiveThreshold {seed}", adapted, adapted, 0)
    sigma, theta, wave, gamma = (float(n) for n in random.random(4) * 3 + 0.5)
    for kernel in ((5, 7), (0, 0)):

        def gabor(cv: Any, kernel: Any = kernel) -> Any:
            return cv.getGaborKernel(kernel, sigma, theta, wave, gamma)

        yield Case(f"getGaborKernel {seed} {kernel}", gabor, lambda cv, g=gabor: g(cv).astype(np.float32), 1e-5)
    middle = float(im.shape[1] * random.random()), float(im.shape[0] * random.random())
    whole = im.astype(np.uint8)

    def patch(cv: Any) -> Any:
        return cv.getRectSubPix(whole, (5, 6), middle)

    # Beyond the right and the left edge, above or below the picture, OpenCV does not go on with the corner's pixel.
    across, down = (np.arange(n) + c - (n - 1) / 2 for n, c in zip((5, 6), middle, strict=True))
    outside = [(p < 0) | (p > n - 1) for p, n in zip((across, down), im.shape[1::-1], strict=True)]
    yield Case(f"getRectSubPix {seed}", patch, patch, 1, float(np.outer(*outside).mean()))
