"""The published .tflite models beside LiteRT (XNNPACK), on one thread, in turns on the same core.

    python -m benchmarks.tflite_models [--runs 30] [--only NAME] [FILE ...]

Without files: those of MediaPipe, the wake words and basic-pitch. Architectures in every number format are written by
``benchmarks/export_tflite.py``. LiteRT runs in the environment of the tests (``MNN_LITERT_PYTHON``). A run takes arrays
and gives arrays, in both engines. What is compared is the minimum CPU time of all runs of a process; each engine has
one, and they take turns. Errors are the largest difference over the largest output.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

from benchmarks.process_turns import LOOP, minimum_times

OPEN = {"melspectrogram": (1, 17280)}
"""Sizes of inputs that are open: a second of sound and a little more."""
_NOISE = """
import json, sys
import numpy as np

shapes = json.loads(sys.argv[2])

def noise(shape, dtype):
    rng, kind = np.random.default_rng(0), np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)
    return rng.random(shape).astype(kind)
"""
_LITERT = """
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(sys.argv[1], num_threads=1)
for detail, shape in zip(model.get_input_details(), shapes):
    model.resize_tensor_input(detail["index"], shape)
model.allocate_tensors()
feeds = {d["index"]: noise(shape, d["dtype"]) for d, shape in zip(model.get_input_details(), shapes)}
wanted = [d["index"] for d in model.get_output_details()]

def run():
    for index, array in feeds.items():
        model.set_tensor(index, array)
    model.invoke()
    return [model.get_tensor(index) for index in wanted]
"""
_OURS = """
import MNN
model = MNN.load(sys.argv[1], threads=1)
feeds = {n: noise(shape, i.dtype.numpy) for (n, i), shape in zip(model.inputs.items(), shapes)}
run = lambda: model.run(feeds)
"""


def shapes(path: Path) -> list[list[int]]:
    """What the inputs get: 1 where a size is open, or what :data:`OPEN` says."""
    import MNN

    found = [[d if isinstance(d, int) else 1 for d in i.shape or ()] for i in MNN.load(path).inputs.values()]
    return [list(OPEN.get(path.stem, tuple(shape))) for shape in found]


def measure(path: Path, litert: Path, runs: int) -> tuple[float, float]:
    """Milliseconds of ours and of LiteRT."""
    programs = [(sys.executable, _OURS), (str(litert), _LITERT)]
    given = [str(path), json.dumps(shapes(path))]
    ours, theirs = minimum_times([[python, "-c", _NOISE + source + LOOP, *given] for python, source in programs], runs)
    return ours, theirs


def error(path: Path) -> float:
    """The largest difference from LiteRT on noise."""
    import MNN
    from tests.frontends.tflite.litert import Request, answers

    model = MNN.load(path, threads=1)
    rng = np.random.default_rng(0)
    arrays = []
    for info, shape in zip(model.inputs.values(), shapes(path), strict=True):
        kind = info.dtype.numpy
        integers = kind.kind in "iu"
        arrays.append((rng.integers(-128, 128, shape) if integers else rng.random(shape)).astype(kind))
    wanted = answers({"model": Request(path.read_bytes(), [arrays])})["model"].outputs[0]
    found = model.run(dict(zip(model.inputs, arrays, strict=True)))
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(found.values(), wanted, strict=True)]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def published(part: str) -> dict[str, Path]:
    """The .tflite files of the tests' packages whose names have ``part``.

    The mesh with attention is left out: LiteRT lacks an operator of it.
    """
    from tests import zoo

    keys = [key for package in zoo.packages() for key in package.keys if not key.endswith("_attention")]
    files = {
        key: zoo.path(key) for key in keys if key.startswith(("mediapipe_", "wakeword_", "basic_")) and part in key
    }
    return {key.removeprefix("mediapipe_"): path for key, path in files.items() if path.suffix == ".tflite"}


def main() -> None:
    from tests.frontends.tflite.litert import python

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    ratios = []
    print("| model | ms | LiteRT, ms | ratio | error |\n| --- | ---: | ---: | ---: | ---: |")
    for name, path in ({p.stem: p for p in given.files} or published(given.only)).items():
        ours, theirs = measure(path, python(), given.runs)
        ratios.append(theirs / ours)
        print(f"| {name} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.2f} | {error(path):.0e} |", flush=True)
    print(f"\nmean (geometric) {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
