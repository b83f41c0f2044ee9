"""Random pictures, sizes and flags through ``MNN.cv`` and OpenCV, as many as are asked for:

python -m tests.cv.sweep --opencv PYTHON --seeds 0 500

PYTHON is an interpreter with opencv-python, in an environment of its own. What differs by more than a case allows is
listed, for pictures computed by numpy and by kernels; the exit status says whether there was any.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.cv import array_cases, color_cases, drawing_cases, filter_cases, region_cases
from tests.cv.case import Case, border

INTERPOLATIONS = ("NEAREST", "LINEAR", "CUBIC", "AREA", "LANCZOS4", "NEAREST_EXACT")
COLORS = tuple(
    f"{a}2{b}"
    for a in ("BGR", "RGB", "BGRA", "RGBA", "GRAY", "YCrCb", "YUV", "XYZ", "HSV")
    for b in ("BGR", "RGB", "BGRA", "RGBA", "GRAY", "YCrCb", "YUV", "XYZ", "HSV", "HSV_FULL")
)
PLANES = tuple(f"YUV2{a}_{b}" for a in ("BGR", "RGB", "BGRA", "RGBA") for b in ("NV12", "NV21", "I420", "YV12"))


def _picture(random: np.random.Generator, low: int = 2, high: int = 90) -> Any:
    height, width = random.integers(low, high, 2)
    count = int(random.choice([1, 3, 4]))
    shape = (height, width) if count == 1 else (height, width, count)
    if random.random() < 0.5:
        return random.integers(0, 256, shape).astype(np.uint8)
    return (random.random(shape) * 255).astype(np.float32)


def cases(seed: int) -> Iterator[Case]:
    random = np.random.default_rng([seed, 2029])
    yield from _resized(seed, random, _picture(random))
    yield from _warped(seed, random, _picture(random))
    yield from _filtered(seed, random, _picture(random))
    yield from _moved(seed, random, _picture(random))
    yield from _coloured(seed, random)
    yield from color_cases.packed(1000 + seed, tuple(random.choice(color_cases.NAMES, 12, replace=False)))
    yield from color_cases.lightness(1000 + seed, tuple(random.choice(color_cases.LIGHTNESS, 6, replace=False)))
    for family in ("_derivatives", "_pyramids", "_morphology", "_smoothing"):
        yield from getattr(filter_cases, family)(1000 + seed)
    yield from array_cases.cases(seed)
    yield from drawing_cases.drawn(1000 + seed)
    yield from region_cases.seeded(1000 + seed)


def _resized(seed: int, random: np.random.Generator, im: Any) -> Iterator[Case]:
    whole = im.dtype == np.uint8
    height, width = im.shape[:2]
    for how in INTERPOLATIONS:
        size = int(random.integers(1, 2 * width + 3)), int(random.integers(1, 2 * height + 3))
        if random.random() < 0.3:
            size = (2 * width, 2 * height) if random.random() < 0.5 else (max(width // 2, 1), max(height // 2, 1))

        def resized(cv: Any, how: str = how, size: tuple[int, int] = size) -> Any:
            return cv.resize(im, size, interpolation=getattr(cv, f"INTER_{how}"))

        few = 0.3 if how == "NEAREST_EXACT" else 0.0  # either neighbour where a centre falls between two
        most = 0.0 if "NEAREST" in how else 1.0 if whole else 0.05
        yield Case(f"resize {how} {im.shape} {size} {im.dtype} {seed}", resized, resized, most, few)


def _warped(seed: int, random: np.random.Generator, im: Any) -> Iterator[Case]:
    whole = im.dtype == np.uint8
    height, width = im.shape[:2]
    size = int(random.integers(1, 2 * width + 3)), int(random.integers(1, 2 * height + 3))
    angle, zoom = random.random() * 6, random.random() * 2 + 0.3
    c, s = np.cos(angle) * zoom, np.sin(angle) * zoom
    turn = np.array([[c, s, random.normal() * 9], [-s, c, random.normal() * 9]])
    tilt = np.vstack([turn, [random.normal() * 1e-3, random.normal() * 1e-3, 1]])
    value = tuple(float(n) for n in random.integers(0, 255, 4))
    b, inverse = int(random.integers(3)), int(random.choice([0, 16]))
    for how in ("NEAREST", "LINEAR", "CUBIC"):
        few = 0.02 if how == "NEAREST" else 0.0
        most = 1.0 if whole else 0.3
        edge = 0 if how == "CUBIC" else b  # two pictures away OpenCV's cubic kernel stops reflecting
        told = f"{how} {im.shape} {size} {im.dtype} border {edge} inverse {inverse} {seed}"
        for name, matrix in (("warpAffine", turn), ("warpPerspective", tilt)):
            yield Case(
                f"{name} {told}",
                lambda cv, n=name, m=matrix, h=how, b=edge: getattr(cv, n)(
                    im, m.tolist(), size, getattr(cv, f"INTER_{h}") | inverse, b, value
                ),
                lambda cv, n=name, m=matrix, h=how, b=edge: getattr(cv, n)(
                    im, m, size, flags=getattr(cv, f"INTER_{h}") | inverse, borderMode=border(cv, b), borderValue=value
                ),
                most, max(few, 0.002 if name == "warpPerspective" else 0.0),
            )  # fmt: skip


def _filtered(seed: int, random: np.random.Generator, im: Any) -> Iterator[Case]:
    most = 1.0 if im.dtype == np.uint8 else 0.05
    b = int(random.integers(3))
    told = f"{im.shape} {im.dtype} border {b} {seed}"
    size = tuple(int(n) for n in random.integers(1, 9, 2))
    yield Case(f"blur {size} {told}", lambda cv: cv.blur(im, size, b),
               lambda cv: cv.blur(im, size, borderType=border(cv, b)), most)  # fmt: skip
    odd = tuple(int(n) * 2 + 1 for n in random.integers(0, 6, 2))
    sigma = float(random.random() * 3 + 0.3), float(random.choice([0, 1.7]))
    yield Case(f"GaussianBlur {odd} {sigma} {told}", lambda cv: cv.GaussianBlur(im, odd, *sigma, b),
               lambda cv: cv.GaussianBlur(im, odd, sigma[0], None, sigma[1], border(cv, b)), most)  # fmt: skip
    kernel = random.normal(size=size).astype(np.float32)
    delta = float(random.choice([0, 3.5]))
    yield Case(f"filter2D {size} {told}", lambda cv: cv.filter2D(im, -1, kernel, delta, b),
               lambda cv: cv.filter2D(im, -1, kernel, delta=delta, borderType=border(cv, b)), most)  # fmt: skip
    normal = bool(random.integers(2))
    yield Case(f"boxFilter {size} {normal} {told}", lambda cv: cv.boxFilter(im, 5, size, normal, b),
               lambda cv: cv.boxFilter(im, 5, size, normalize=normal, borderType=border(cv, b)), 0.05)  # fmt: skip
    row, column = (random.normal(size=int(n)).astype(np.float32) for n in random.choice([1, 3, 5, 7], 2))
    yield Case(f"sepFilter2D {len(row)} {len(column)} {told}", lambda cv: cv.sepFilter2D(im, 5, row, column, delta, b),
               lambda cv: cv.sepFilter2D(im, 5, row, column, delta=delta, borderType=border(cv, b)), 0.05)  # fmt: skip


def _moved(seed: int, random: np.random.Generator, im: Any) -> Iterator[Case]:
    told = f"{im.shape} {im.dtype} {seed}"
    for code in (-1, 0, 1, 2):
        if code >= 0:
            yield Case(f"rotate {code} {told}", *[lambda cv, c=code: cv.rotate(im, c)] * 2, 0)
        if code < 2:
            yield Case(f"flip {code} {told}", *[lambda cv, c=code: cv.flip(im, c)] * 2, 0)
    edges = [int(n) for n in random.integers(0, min(im.shape[:2]), 4)]
    b, value = int(random.integers(3)), tuple(float(n) for n in random.integers(0, 255, 4))
    yield Case(f"copyMakeBorder {edges} {b} {told}", lambda cv: cv.copyMakeBorder(im, *edges, b, value),
               lambda cv: cv.copyMakeBorder(im, *edges, border(cv, b), value=value), 0)  # fmt: skip
    kind, at, top = int(random.integers(5)), float(random.random() * 255), float(random.integers(1, 256))
    yield Case(f"threshold {kind} {at} {top} {told}", lambda cv: cv.threshold(im, at, top, kind),
               lambda cv: cv.threshold(im, at, top, kind)[1], 0 if im.dtype == np.uint8 else 1e-3)  # fmt: skip
    other, weights = im[::-1].copy(), [float(n) for n in random.normal(size=3) * (1, 1, 30)]

    def weighted(cv: Any) -> Any:
        return cv.addWeighted(im, weights[0], other, weights[1], weights[2])

    yield Case(f"addWeighted {told}", weighted, weighted, 1 if im.dtype == np.uint8 else 0.01)


def _coloured(seed: int, random: np.random.Generator) -> Iterator[Case]:
    height, width = (int(n) for n in random.integers(1, 90, 2))
    for name in random.choice(COLORS, 12, replace=False):
        source, target = str(name).split("2")
        count = 1 if source == "GRAY" else 4 if source.endswith("A") else 3
        shape = (height, width) if count == 1 else (height, width, count)
        im: Any = random.integers(0, 256, shape).astype(np.uint8)
        if source == "HSV":
            im[..., 0] %= 180
        if random.random() < 0.5:
            im = (im / np.float32(255)).astype(np.float32)
            if source == "HSV":
                im[..., 0] *= 510  # degrees

        def converted(cv: Any, im: Any = im, name: str = name) -> Any:
            return cv.cvtColor(im, getattr(cv, f"COLOR_{name}"))

        most = 1.0 if im.dtype == np.uint8 else 1e-2 if "HSV" in str(name) else 1e-4
        few = 0.001 if target.startswith("HSV") else 0.0  # hues at the ends of their circle
        yield Case(f"cvtColor {name} {shape} {im.dtype} {seed}", converted, converted, most, few)
    rows, columns = int(random.integers(1, 20)) * 6, int(random.integers(1, 40)) * 2
    planes = random.integers(0, 256, (rows, columns)).astype(np.uint8)
    for name in random.choice(PLANES, 4, replace=False):

        def joined(cv: Any, name: str = name) -> Any:
            return cv.cvtColor(planes, getattr(cv, f"COLOR_{name}"))

        yield Case(f"cvtColor {name} {planes.shape} {seed}", joined, joined, 1)


def write(file: str, first: int, last: int) -> None:
    """What OpenCV gives; of what it refuses nothing."""
    import cv2  # type: ignore[import-not-found]

    found = {}
    for seed in range(first, last):
        for case in cases(seed):
            try:
                found[case.name] = np.asarray(case.theirs(cv2))
            except (cv2.error, AttributeError):
                continue
    np.savez(file, **{f"{i}": array for i, array in enumerate(found.values())}, names=np.array(list(found)))


def difference(case: Case, cv: Any, wanted: Any) -> str:
    """What is wrong with our answer; empty if nothing is."""
    try:
        found = np.asarray(case.ours(cv))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__}: {error}"
    if found.ndim == wanted.ndim + 1 and found.shape[-1] == 1:  # pictures keep their channel axis here
        wanted = wanted[..., None]
    if found.shape != wanted.shape:
        return f"shape {found.shape}, OpenCV {wanted.shape}"
    stored = np.dtype(np.int32) if wanted.dtype == np.uint16 else wanted.dtype  # Vars have fewer types
    if found.dtype.kind != stored.kind and wanted.dtype != np.float64:
        return f"{found.dtype}, OpenCV {wanted.dtype}"
    apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    share = float((~(apart <= case.most)).mean()) if apart.size else 0.0
    return "" if share <= case.few else f"{share:.2%} differ by up to {apart.max():.4g}, allowed {case.most}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--opencv", required=True, help="an interpreter with opencv-python")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50))
    parser.add_argument("--write", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        return write(asked.write, *asked.seeds)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "opencv.npz")
        root = Path(__file__).parents[2]
        given = [
            asked.opencv,
            "-m",
            "tests.cv.sweep",
            "--opencv",
            "-",
            "--write",
            file,
            "--seeds",
            *map(str, asked.seeds),
        ]
        subprocess.run(given, check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
        with np.load(file) as results:
            wanted = {name: results[str(i)] for i, name in enumerate(results["names"].tolist())}
    import MNN.cv
    from MNN.cv.kernels.run import Settings

    counted = wrong = 0
    warnings.simplefilter("error")
    for seed in range(*asked.seeds):
        for case in cases(seed):
            for way, least in (("numpy", 1 << 62), ("kernels", 0)):
                Settings.least = least
                if case.name in wanted:
                    counted += 1
                    told = difference(case, MNN.cv, wanted[case.name])
                    wrong += bool(told)
                    if told:
                        print(f"{case.name} by {way}: {told}")
    print(f"{counted} answers, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
