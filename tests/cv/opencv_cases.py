"""Calls whose results are compared with OpenCV's. Run with opencv-python to write ``opencv.npz`` anew:

python -m tests.cv.opencv_cases
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cv import color_cases, drawing_cases, filter_cases, region_cases
from tests.cv.case import Case, border

FILE = pathlib.Path(__file__).with_name("opencv.npz")
SIZES = ((36, 37), (11, 9), (14, 10), (28, 20), (56, 40), (5, 27))
"""From smaller to larger than the picture, an exact half and double, and mixed."""
COLORS = (
    *(f"{a}2{b}" for a in ("BGR", "RGB") for b in ("GRAY", "YCrCb", "YUV", "XYZ", "HSV", "HSV_FULL", "RGBA", "BGRA")),
    *(f"{a}2{b}" for a in ("YCrCb", "YUV", "XYZ", "HSV", "HSV_FULL") for b in ("BGR", "RGB") if "FULL" not in a),
    "HSV2BGR_FULL", "HSV2RGB_FULL", "BGRA2RGB", "RGBA2GRAY", "BGRA2GRAY", "GRAY2BGR", "GRAY2RGBA", "BGR2RGB",
    *(f"YUV2{a}_{b}" for a in ("BGR", "RGBA") for b in ("NV12", "NV21", "I420", "YV12")), "YUV2GRAY_420",
)  # fmt: skip


def pictures() -> dict[str, Any]:
    random = np.random.default_rng(7)
    y, x = np.mgrid[0:20, 0:28]
    wave = [127 + 120 * np.sin(x / 7 + y / 9), 127 + 100 * np.cos(x / 5), y * 12.0]
    return {
        "noise": random.integers(0, 256, (20, 28, 3)).astype(np.uint8),
        "smooth": np.stack(wave, 2).clip(0, 255).astype(np.uint8),
        "float": random.random((20, 28, 3), np.float32),
        "gray": (random.integers(0, 256, (20, 28)) // 2 + (x * 3)).clip(0, 255).astype(np.uint8),
        "420": random.integers(0, 256, (24, 14)).astype(np.uint8),
    }


def cases() -> Iterator[Case]:
    images = pictures()
    for kind in ("noise", "smooth", "float"):
        yield from _geometry(kind, images[kind])
    for kind in ("noise", "smooth"):
        yield from _filters(kind, images[kind])
    yield from _colors(images)
    yield from _thresholds(images["gray"])
    yield from _arithmetic(images)
    for part in (filter_cases, drawing_cases, region_cases):
        yield from part.cases()
    for seed in range(2):
        yield from color_cases.packed(seed)
    for seed in range(4):
        yield from color_cases.lightness(seed)
    yield from color_cases.edges()


def _geometry(kind: str, im: Any) -> Iterator[Case]:
    level = 1e-5 if im.dtype == np.float32 else 1
    for how in ("NEAREST", "LINEAR", "CUBIC", "AREA", "LANCZOS4", "NEAREST_EXACT"):
        for size in SIZES[::2] if kind == "float" else SIZES:

            def resized(cv: Any, how: str = how, size: tuple[int, int] = size) -> Any:
                return cv.resize(im, size, interpolation=getattr(cv, f"INTER_{how}"))

            # OpenCV takes either neighbour where a pixel's centre falls between two.
            few = 0.25 if how == "NEAREST_EXACT" else 0.0
            yield Case(f"resize {kind} {how} {size}", resized, resized, 0 if "NEAREST" in how else level, few)
    value = (0.2, 0.5, 1.0) if im.dtype == np.float32 else (9, 20, 30)
    turn = [[0.75, 0.49, -5.3], [-0.49, 0.75, 12.1]]
    tilt = [[0.9, 0.1, -3.2], [0.05, 1.1, 2.7], [0.002, -0.001, 1.0]]
    for how in ("NEAREST", "LINEAR", "CUBIC"):
        for edge in range(3):
            few = 0.01 if how == "NEAREST" else 0.0
            yield Case(
                f"warpAffine {kind} {how} {edge}",
                lambda cv, h=how, b=edge: cv.warpAffine(im, turn, (30, 24), getattr(cv, f"INTER_{h}"), b, value),
                lambda cv, h=how, b=edge: cv.warpAffine(
                    im, np.array(turn), (30, 24), flags=getattr(cv, f"INTER_{h}"), borderMode=border(cv, b),
                    borderValue=value,
                ),
                level * 3 if im.dtype == np.float32 else level, few,
            )  # fmt: skip
    for name, inverse in (("", 0), (" inverse", 16)):
        yield Case(
            f"warpPerspective {kind}{name}",
            lambda cv, i=inverse: cv.warpPerspective(im, tilt, (30, 24), cv.INTER_LINEAR | i, 2),
            lambda cv, i=inverse: cv.warpPerspective(
                im, np.array(tilt), (30, 24), flags=cv.INTER_LINEAR | i, borderMode=cv.BORDER_REFLECT
            ),
            level * 10 if im.dtype == np.float32 else level,
        )
    for code in (0, 1, -1):
        yield Case(f"flip {kind} {code}", lambda cv, c=code: cv.flip(im, c), lambda cv, c=code: cv.flip(im, c), 0)
    for code in (0, 1, 2):
        yield Case(f"rotate {kind} {code}", lambda cv, c=code: cv.rotate(im, c), lambda cv, c=code: cv.rotate(im, c), 0)


def _filters(kind: str, im: Any) -> Iterator[Case]:
    kernel = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
    for b in range(3):
        yield Case(
            f"GaussianBlur {kind} {b}",
            lambda cv, b=b: cv.GaussianBlur(im, (5, 7), 1.3, 0, b),
            lambda cv, b=b: cv.GaussianBlur(im, (5, 7), 1.3, borderType=border(cv, b)),
            1,
        )
        yield Case(
            f"blur {kind} {b}",
            lambda cv, b=b: cv.blur(im, (4, 3), b),
            lambda cv, b=b: cv.blur(im, (4, 3), borderType=border(cv, b)),
            1,
        )
        yield Case(
            f"filter2D {kind} {b}",
            lambda cv, b=b: cv.filter2D(im, -1, kernel, 3, b),
            lambda cv, b=b: cv.filter2D(im, -1, kernel, delta=3, borderType=border(cv, b)),
            1,
        )
        yield Case(
            f"copyMakeBorder {kind} {b}",
            lambda cv, b=b: cv.copyMakeBorder(im, 3, 4, 5, 6, b, (1, 2, 3)),
            lambda cv, b=b: cv.copyMakeBorder(im, 3, 4, 5, 6, border(cv, b), value=(1, 2, 3)),
            0,
        )
    for name, call in {
        "chosen size": lambda cv: cv.GaussianBlur(im, (0, 0), 2.1),
        "chosen sigma": lambda cv: cv.GaussianBlur(im, (7, 7), 0),
        "boxFilter sum": lambda cv: cv.boxFilter(im, 5, (3, 5), normalize=False),
        "sepFilter2D": lambda cv: cv.sepFilter2D(im, 5, np.float32([1, 2, 1]), np.float32([-1, 0, 1])),
    }.items():
        yield Case(f"{name} {kind}", call, call, 1 if "chosen" in name else 0)


def _colors(images: dict[str, Any]) -> Iterator[Case]:
    steps = np.stack(np.meshgrid(*[np.arange(0, 256, 51)] * 3), -1).reshape(-1, 6, 3).astype(np.uint8)
    alpha = np.concatenate([steps, steps[:, :, :1]], 2)
    for name in COLORS:
        source = name.split("2")[0]
        im = images["420"] if "YUV2" in name and "_" in name else images["gray"] if source == "GRAY" else steps
        im = alpha if source.endswith("A") else im

        def converted(cv: Any, im: Any = im, name: str = name) -> Any:
            return cv.cvtColor(im, getattr(cv, f"COLOR_{name}"))

        yield Case(f"cvtColor {name}", converted, converted, 1)
        if im is steps:
            top = np.float32([360, 1, 1]) if source == "HSV" else np.float32(1)

            scaled = steps / np.float32(255) * top

            def floats(cv: Any, im: Any = scaled, name: str = name) -> Any:
                return cv.cvtColor(im, getattr(cv, f"COLOR_{name}"))

            yield Case(f"cvtColor {name} float", floats, floats, 1e-3 if name.endswith(("HSV", "FULL")) else 1e-5)


def _thresholds(gray: Any) -> Iterator[Case]:
    for kind in range(5):
        for extra in (0, 8, 16):
            yield Case(
                f"threshold {kind} {extra}",
                lambda cv, t=kind | extra: cv.threshold(gray, 77.6, 200, t),
                lambda cv, t=kind | extra: cv.threshold(gray, 77.6, 200, t)[1],
                0,
            )


def _arithmetic(images: dict[str, Any]) -> Iterator[Case]:
    a, b, mask = images["noise"], images["smooth"], (images["gray"] > 100).astype(np.uint8)
    value = images["gray"].astype(np.float32)
    for norm in ("NORM_INF", "NORM_L1", "NORM_L2", "NORM_MINMAX"):

        def scaled(cv: Any, norm: str = norm) -> Any:
            return cv.normalize(value, None, 3, 7, getattr(cv, norm))

        yield Case(f"normalize {norm}", scaled, scaled, 1e-5)
    for name, call in {
        "addWeighted": lambda cv: cv.addWeighted(a, 0.3, b, 0.9, 5),
        "mean": lambda cv: cv.mean(a),
        "mean mask": lambda cv: cv.mean(a, mask),
        "and": lambda cv: cv.bitwise_and(a, b, mask=mask),
        "or": lambda cv: cv.bitwise_or(a, b),
        "xor": lambda cv: cv.bitwise_xor(a, b),
        "split": lambda cv: cv.split(a),
        "merge": lambda cv: cv.merge([a[:, :, 1].copy(), b[:, :, 0].copy()]),
        "getRotationMatrix2D": lambda cv: cv.getRotationMatrix2D((20, 11.5), 33, 0.9),
        "invertAffineTransform": lambda cv: cv.invertAffineTransform(np.array([[2.0, 1, 3], [0, 4, 5]])),
        "getPerspectiveTransform": lambda cv: cv.getPerspectiveTransform(
            np.float32([[0, 0], [130, 3], [5, 90], [120, 96]]), np.float32([[10, 5], [120, 0], [0, 96], [130, 90]])
        ),
        "getAffineTransform": lambda cv: cv.getAffineTransform(
            np.float32([[0, 0], [130, 3], [5, 90]]), np.float32([[10, 5], [120, 0], [0, 96]])
        ),
    }.items():
        yield Case(name, call, call, 1e-4 if name.startswith(("mean", "get", "invert")) else 1)
    for size in (3, 5, 7, 9, 11):
        yield Case(
            f"getGaussianKernel {size}",
            lambda cv, k=size: cv.getGaussianKernel(k, 0),
            lambda cv, k=size: cv.getGaussianKernel(k, 0).T,
            1e-7,
        )


def main() -> None:
    import cv2  # type: ignore[import-not-found]

    results = {case.name: np.asarray(case.theirs(cv2)) for case in cases()}
    np.savez_compressed(FILE, version=np.array(cv2.__version__), **results)
    print(f"{len(results)} results of OpenCV {cv2.__version__}, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
