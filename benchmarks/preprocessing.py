"""``CVImageProcess`` beside PyMNN's, in one thread each: ``python -m benchmarks.preprocessing --python PYTHON``.

PYTHON is an interpreter with PyMNN (:mod:`tests.interop.official` makes one). Both run in processes of their own, in
turns, on the same noise, which is given by its address; the least time of all turns counts. How far their results are
apart: ``python -m tests.cv.process_sweep``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMATS = {"RGBA": 0, "RGB": 1, "BGR": 2, "GRAY": 3, "NV21": 11}
PIXEL = {"RGBA": 4, "RGB": 3, "BGR": 3, "GRAY": 1, "NV21": 1.5}
FILTERS = ("nearest", "linear")


class Case(NamedTuple):
    source: str
    target: str
    filter: int
    size: tuple[int, int]
    wanted: tuple[int, int]
    planar: bool
    turned: bool = False

    def __str__(self) -> str:
        size, wanted = ("x".join(map(str, s)) for s in (self.size, self.wanted))
        layout = "planes" if self.planar else "pixels"
        turned = ", turned" if self.turned else ""
        return f"{self.source} {size} to {self.target} {wanted}, {FILTERS[self.filter]}{turned}, {layout}"


CASES = (
    Case("RGBA", "BGR", 1, (640, 480), (224, 224), True),
    Case("RGBA", "BGR", 0, (640, 480), (224, 224), True),
    Case("RGB", "BGR", 1, (640, 480), (224, 224), False),
    Case("BGR", "RGB", 1, (1920, 1080), (320, 320), True, True),
    Case("NV21", "RGB", 0, (640, 480), (224, 224), True),
    Case("GRAY", "GRAY", 1, (640, 480), (320, 320), False),
    Case("RGBA", "RGB", 1, (1280, 720), (640, 640), True),
)


def least(mnn: Any, case: Case, turns: int = 40) -> float:
    """Milliseconds of a call."""
    width, height = case.size
    data = np.random.default_rng(0).integers(0, 256, int(width * height * PIXEL[case.source])).astype(np.uint8)
    formats = {"sourceFormat": FORMATS[case.source], "destFormat": FORMATS[case.target]}
    scaling = {"mean": (103.9, 116.8, 123.7, 0.0), "normal": (0.017, 0.017, 0.017, 1.0)}
    process = mnn.CVImageProcess({"filterType": case.filter, **formats, **scaling})
    matrix = mnn.CVMatrix()
    matrix.setScale(width / case.wanted[0], height / case.wanted[1])
    if case.turned:
        matrix.postRotate(30, width / 2, height / 2)
    process.setMatrix(matrix)
    channels, rows = int(PIXEL[case.target]), case.wanted[::-1]
    shape = (1, channels, *rows) if case.planar else (1, *rows, channels)
    order = mnn.Tensor_DimensionType_Caffe if case.planar else mnn.Tensor_DimensionType_Tensorflow
    tensor = mnn.Tensor(shape, mnn.Halide_Type_Float, order)
    best = math.inf
    for _ in range(turns):
        start = time.perf_counter()
        process.convert(data.ctypes.data, width, height, 0, tensor)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure(python: str, ours: bool) -> list[float]:
    """All cases in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if ours or name != "PYTHONPATH"}
    command = [python, str(Path(__file__).resolve()), "--python", "-", "--worker"]
    done = subprocess.run(command, check=True, env=kept, capture_output=True, text=True)
    return [float(n) for n in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="an interpreter with PyMNN")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        import MNN
        import MNN.cv

        if hasattr(MNN.cv, "setNumThreads"):  # which PyMNN, of one thread, has not
            MNN.cv.setNumThreads(1)
        print(json.dumps([least(MNN, case) for case in CASES]))
        return
    rounds = [(measure(given.python, False), measure(sys.executable, True)) for _ in range(given.turns)]
    theirs, ours = ([min(times) for times in zip(*side, strict=True)] for side in zip(*rounds, strict=True))
    print("| | PyMNN, ms | MNN, ms | PyMNN / MNN |\n| --- | ---: | ---: | ---: |")
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    for case, a, b, ratio in zip(CASES, theirs, ours, ratios, strict=True):
        print(f"| {case} | {a:.2f} | {b:.2f} | {ratio:.2f} |")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\nGeometric mean {mean:.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
