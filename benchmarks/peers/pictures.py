"""Functions on pictures in one library: ``python -m benchmarks.peers.pictures LIBRARY THREADS``.

LIBRARY is ``ours``, ``opencv`` or ``pymnn``. It reads one JSON object a line: a case, how many seconds to time it for,
by which clock (``wall``, or ``processor`` for the time of all threads), and whether to save its result. It answers each
with the least milliseconds of a call and the file of the result, or with why there is none. Cases have the same
arguments in all three; where PyMNN lacks a function there is no time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .pictures_further import further

SIZES = {"480p": (480, 640), "1080p": (1080, 1920), "4K": (2160, 3840)}
KINDS = ("u8 1", "u8 3", "u8 4", "f32 1", "f32 3", "f32 4")
"""Types and numbers of channels."""
_TURN = [0.9, 0.2, 10.0, -0.2, 0.9, 20.0]
_TILT = [*_TURN, 1e-5, 2e-5, 1.0]


class Library(NamedTuple):
    cv: Any
    given: Callable[[Any], Any]
    """From an array to what functions take."""
    matrix: Callable[[list[float]], Any]
    done: Callable[[Any], Any]
    """What makes a library compute that puts it off."""
    array: Callable[[Any], Any]
    opencv: bool


def _functions(a: Library, im: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names and calls. What OpenCV and PyMNN call differently is chosen here."""
    cv, x = a.cv, a.given(im)
    height, width = im.shape[:2]
    half, more = (width // 2 + 9, height // 2 + 7), (width * 3 // 2, height * 3 // 2)
    for name, how in (("nearest", 0), ("linear", 1), ("cubic", 2), ("area", 3)):
        yield f"resize {name}", lambda how=how: cv.resize(x, half, interpolation=how)
    yield "resize linear, larger", lambda: cv.resize(x, more, interpolation=1)
    flat, tilt = a.matrix(_TURN), a.matrix(_TILT)
    yield "warpAffine", lambda: cv.warpAffine(x, flat, (width, height))
    yield "warpAffine nearest", lambda: cv.warpAffine(x, flat, (width, height), **{_flags(a): 0})
    yield "warpPerspective", lambda: cv.warpPerspective(x, tilt, (width, height))
    v, u = np.mgrid[0:height, 0:width].astype(np.float32)
    u, v = a.given(u * np.float32(0.9) + np.float32(3.3)), a.given(v * np.float32(0.95) + np.float32(1.7))
    yield "remap", lambda: cv.remap(x, u, v, 1)
    for n in (3, 9):
        yield f"blur {n}", lambda n=n: cv.blur(x, (n, n))
    for n, sigma in ((3, 0.0), (5, 1.1), (15, 2.5)):
        yield f"GaussianBlur {n}", lambda n=n, sigma=sigma: cv.GaussianBlur(x, (n, n), sigma)
    kernel = a.given((np.arange(9, dtype=np.float32) / 36).reshape(3, 3))
    yield "filter2D 3", lambda: cv.filter2D(x, -1, kernel)
    row = a.given(np.array([[0.2, 0.5, 0.3]], np.float32))
    yield "sepFilter2D 3", lambda: cv.sepFilter2D(x, -1, row, row)
    yield "Sobel", lambda: cv.Sobel(x, 5, 1, 0)
    element = a.given(np.ones((3, 3), np.uint8))
    yield "erode 3", lambda: cv.erode(x, element)
    yield "dilate 5", lambda: cv.dilate(x, a.given(np.ones((5, 5), np.uint8)))
    yield "threshold", lambda: cv.threshold(x, 100.0, 255.0, 0)
    yield "copyMakeBorder", lambda: cv.copyMakeBorder(x, 4, 4, 4, 4, 4 if a.opencv else cv.BORDER_REFLECT_101)
    yield "normalize", lambda: cv.normalize(x, None, 10, 200, 32 if a.opencv else cv.NORM_MINMAX)
    yield "addWeighted", lambda: cv.addWeighted(x, 0.3, x, 0.5, 3.0)
    channels = im.shape[2] if im.ndim == 3 else 1
    codes = {1: {"GRAY2BGR": 8}, 3: {"BGR2RGB": 4, "BGR2GRAY": 6, "BGR2HSV": 40, "BGR2YUV": 82}, 4: {"BGRA2BGR": 1}}
    for name, code in codes[channels].items():
        yield f"cvtColor {name}", lambda code=code: cv.cvtColor(x, code)


def _flags(a: Library) -> str:
    return "flags" if a.opencv else "flag"


def picture(size: str, kind: str) -> Any:
    dtype, channels = kind.split()
    noise = np.random.default_rng(0).integers(0, 256, (*SIZES[size], int(channels)))
    im = noise.astype(np.uint8 if dtype == "u8" else np.float32)
    return im[:, :, 0].copy() if channels == "1" else im


def _library(name: str, threads: int) -> Library:
    if name == "opencv":
        import cv2

        cv2.setNumThreads(threads)
        one = lambda r: r[1] if isinstance(r, tuple) else r  # noqa: E731
        return Library(cv2, lambda array: array, lambda m: np.array(m).reshape(-1, 3), one, one, True)
    if name == "ours":
        import MNN.cv

        MNN.cv.setNumThreads(threads)
        same = lambda r: r  # noqa: E731
        return Library(MNN.cv, same, lambda m: np.array(m).reshape(-1, 3), same, np.asarray, False)
    import MNN

    e = MNN.expr
    kinds = {"uint8": e.uint8, "float32": e.float}

    def matrix(numbers: list[float]) -> Any:
        m = MNN.CVMatrix()
        m.write([*numbers, 0.0, 0.0, 1.0][:9])
        return m

    given = lambda array: e.const(array, list(array.shape), e.NHWC, kinds[array.dtype.name])  # noqa: E731
    return Library(MNN.cv, given, matrix, lambda r: r.read(), np.array, False)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    library = _library(sys.argv[1], int(sys.argv[2]))
    folder = tempfile.mkdtemp(prefix="pictures-")
    cache: dict[tuple[str, str], dict[str, Callable[[], Any]]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["size"], request["kind"]
        try:
            if key not in cache:
                cache.clear()
                cache[key] = dict(_all(library, picture(*key)))
            call = cache[key][request["name"]]
            result = library.done(call())
            clock = time.process_time if request["clock"] == "processor" else time.perf_counter
            least, end = float("inf"), clock() + request["seconds"]
            while clock() < end:
                start = clock()
                result = library.done(call())
                least = min(least, clock() - start or least)  # a processor's clock may stand still
            path = Path(folder) / "result.npy"
            if request["save"]:
                np.save(path, library.array(result))
            answer = {"ms": least * 1e3, "file": str(path)}
        except Exception as error:  # noqa: BLE001 - whatever a library raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _all(a: Library, im: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from _functions(a, im)
    yield from _further(a, im)


def _further(a: Library, im: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    return further(a.cv, a.given, im, _flags(a), a.opencv)


def names(kind: str, more: bool = False) -> list[str]:
    """The cases that there are for a type and number of channels; ``more``: the further ones."""
    nothing = Library(None, *[lambda given: given] * 4, True)
    dtype, channels = kind.split()
    small = np.zeros((2, 2, int(channels)), np.uint8 if dtype == "u8" else np.float32)
    cases = _further if more else _functions
    return [name for name, _ in cases(nothing, small[:, :, 0] if channels == "1" else small)]


if __name__ == "__main__":
    main()
