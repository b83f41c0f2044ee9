"""Further functions on pictures, which ``python -m benchmarks.pictures --further`` measures beside OpenCV alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = Callable[[], Any]
_CODES = {
    1: ("GRAY2BGRA", "YUV2BGR_NV12", "YUV2RGB_I420"),
    3: ("BGR2HLS", "BGR2Lab", "BGR2Luv", "BGR2YCrCb", "BGR2XYZ", "HSV2BGR", "Lab2BGR", "YUV2BGR", "BGR2YUV_I420"),
    4: ("BGRA2GRAY", "BGRA2RGBA"),
}
_REFLECT = 2


def further(cv: Any, given: Callable[[Any], Any], im: Any, flags: str, opencv: bool) -> Iterator[tuple[str, Call]]:
    """Names and calls: ``given`` makes of an array what functions take, ``flags`` is what warping calls its filter."""
    x, (height, width) = given(im), im.shape[:2]
    channels = 1 if im.ndim == 2 else im.shape[2]
    yield from _arranged(cv, x, given, im, channels)
    yield from _filtered(cv, x, given, channels, im.dtype == np.uint8, opencv)
    yield from _resampled(cv, x, width, height, flags)
    colours = given(im if im.dtype == np.uint8 else im / np.float32(255))
    for name in _CODES[channels]:
        if im.dtype == np.uint8 or not name.endswith(("NV12", "I420")):
            yield f"cvtColor {name}", lambda name=name: cv.cvtColor(colours, getattr(cv, f"COLOR_{name}"))
    canvas, points = im.copy(), [np.array([[5, 5], [width - 7, 40], [width // 2, height - 9]], np.int32)]
    corner, middle = (width - 9, height - 20), (width // 2, height // 2)
    drawn: dict[str, Call] = {
        "line": lambda: cv.line(canvas, (3, 4), corner, (255, 128, 3), 3),
        "circle, filled": lambda: cv.circle(canvas, middle, 60, (255, 1, 2), -1),
        "rectangle, filled": lambda: cv.rectangle(canvas, (10, 10), corner, (255, 1, 2), -1),
        "fillPoly": lambda: cv.fillPoly(canvas, points, (9, 255, 4)),
        "line, thin": lambda: cv.line(canvas, (3, 4), corner, (255, 128, 3)),
        "circle": lambda: cv.circle(canvas, middle, 60, (255, 1, 2), 3),
        "rectangle": lambda: cv.rectangle(canvas, (10, 10), corner, (255, 1, 2), 2),
        "arrowedLine": lambda: cv.arrowedLine(canvas, (3, 4), corner, (255, 128, 3), 2),
    }
    if im.dtype == np.uint8 and channels == 1:
        yield from _found(cv, im)
    for name, draw in drawn.items():
        yield name, lambda draw=draw: (draw(), canvas)[1]


def _found(cv: Any, im: Any) -> Iterator[tuple[str, Call]]:
    """Regions, their borders and hulls, of some forty blobs and of noise."""
    height, width = im.shape
    y, x = np.mgrid[0:height, 0:width]
    blobs = ((np.sin(x / 17) + np.sin(y / 23) + np.sin((x + y) / 31)) > 0.6).astype(np.uint8)
    cloud = (np.random.default_rng(2).normal(size=(200, 1, 2)) * 90).astype(np.int32)
    turn = np.linspace(0, 6, 40)
    ring = np.stack([np.cos(turn), np.sin(turn)], 1)[:, None] * 80
    ring, canvas = ring.astype(np.int32), im.copy()
    for name, filled in (("blobs", blobs), ("noise", (im > 128).astype(np.uint8))):
        for n in (4, 8):
            yield (f"connectedComponentsWithStats {n}, {name}",
                   lambda f=filled, n=n: cv.connectedComponentsWithStats(f, connectivity=n)[1])  # fmt: skip
        for mode, how in ((1, 1), (3, 2)):
            yield (f"findContours {mode} {how}, {name}",
                   lambda f=filled, mode=mode, how=how: cv.findContours(f, mode, how)[1])  # fmt: skip
    outlines: list[Any] = []

    def draw(width: int) -> Any:
        if not outlines:
            outlines.extend(np.asarray(c) for c in cv.findContours(blobs, 3, 2)[0])
        cv.drawContours(canvas, outlines, -1, (9, 255, 4), width)
        return canvas

    yield "drawContours", lambda: draw(2)
    yield "drawContours, filled", lambda: draw(-1)
    yield "convexHull", lambda: cv.convexHull(cloud)
    yield "minAreaRect", lambda: np.prod(cv.minAreaRect(cloud)[1])
    yield "contourArea", lambda: np.array(cv.contourArea(ring))
    yield "boundingRect", lambda: np.array(cv.boundingRect(ring))
    yield "boundingRect, picture", lambda: np.array(cv.boundingRect(blobs))
    yield "calcHist, masked", lambda: cv.calcHist([im], [0], blobs, [64], [0, 256])
    yield "calcHist, two", lambda: cv.calcHist([im, blobs], [0, 1], None, [16, 4], [0, 256, 0, 4])
    yield "copyTo", lambda: cv.copyTo(im, blobs)
    yield "bitwise_and, masked", lambda: cv.bitwise_and(im, im, mask=blobs)


def _arranged(cv: Any, x: Any, given: Callable[[Any], Any], im: Any, channels: int) -> Iterator[tuple[str, Call]]:
    yield "flip 0", lambda: cv.flip(x, 0)
    yield "flip 1", lambda: cv.flip(x, 1)
    yield "rotate 90", lambda: cv.rotate(x, 0)
    yield "rotate 180", lambda: cv.rotate(x, 1)
    yield "hconcat", lambda: cv.hconcat([x, x])
    if channels > 1:
        parts = [given(np.ascontiguousarray(im[..., i])) for i in range(channels)]
        yield "merge", lambda: cv.merge(parts)
    yield "copyMakeBorder 0", lambda: cv.copyMakeBorder(x, 16, 16, 16, 16, 0)


def _filtered(
    cv: Any, x: Any, given: Callable[[Any], Any], channels: int, small: bool, opencv: bool
) -> Iterator[tuple[str, Call]]:
    for n in (5, 31):
        border = {"borderType": _REFLECT} if opencv else {"borderType": cv.BORDER_REFLECT}
        yield f"blur {n}, reflected", lambda n=n, border=border: cv.blur(x, (n, n), **border)
    yield "GaussianBlur 31", lambda: cv.GaussianBlur(x, (31, 31), 6.0)
    yield "sqrBoxFilter", lambda: cv.sqrBoxFilter(x, 5, (5, 5))
    kernel = given(np.random.default_rng(1).random((7, 7)).astype(np.float32) / 25)
    yield "filter2D 7", lambda: cv.filter2D(x, -1, kernel)
    yield "Laplacian", lambda: cv.Laplacian(x, 5, ksize=3)
    yield "Scharr", lambda: cv.Scharr(x, 5, 1, 0)
    for n in (7, 21):
        yield f"erode {n}", lambda n=n: cv.erode(x, given(np.ones((n, n), np.uint8)))
    yield "pyrDown", lambda: cv.pyrDown(x)
    yield "pyrUp", lambda: cv.pyrUp(x)
    for kind in (2, 4):
        yield f"threshold {kind}", lambda kind=kind: cv.threshold(x, 100.0, 255.0, kind)
    if channels != 4:
        yield "bilateralFilter 5", lambda: cv.bilateralFilter(x, 5, 30.0, 30.0)
    if small:
        yield "bitwise_and", lambda: cv.bitwise_and(x, x)
        yield "calcHist", lambda: cv.calcHist([x], [0], None, [256], [0, 256])
    if small and channels == 1:
        yield "threshold, Otsu", lambda: cv.threshold(x, 0.0, 255.0, 8)
        yield "adaptiveThreshold", lambda: cv.adaptiveThreshold(x, 255, 0, 0, 11, 2)


def _resampled(cv: Any, x: Any, width: int, height: int, flags: str) -> Iterator[tuple[str, Call]]:
    turn = np.array([[0.9, 0.2, 10.0], [-0.2, 0.9, 20.0]])
    tilt = np.vstack([turn, [1e-5, 2e-5, 1]])
    v, u = np.mgrid[0:height, 0:width].astype(np.float32)
    u, v = u * np.float32(0.9) + 3, v * np.float32(0.95) + 2
    for name, how in (("nearest", 0), ("cubic", 2)):
        yield f"warpPerspective {name}", lambda how=how: cv.warpPerspective(x, tilt, (width, height), **{flags: how})
        yield f"remap {name}", lambda how=how: cv.remap(x, u, v, how)
    yield "warpAffine cubic", lambda: cv.warpAffine(x, turn, (width, height), **{flags: 2})
    for name, how in (("linear", 1), ("cubic", 2)):
        yield f"resize {name}, doubled", lambda how=how: cv.resize(x, (width * 2, height * 2), interpolation=how)
    for name, how in (("nearest", 0), ("linear", 1), ("area", 3)):
        yield f"resize {name}, half", lambda how=how: cv.resize(x, (width // 2, height // 2), interpolation=how)
    yield "getRectSubPix", lambda: cv.getRectSubPix(x, (width // 2, height // 2), (width / 2 + 0.3, height / 2 + 0.4))


__all__ = ["further"]
