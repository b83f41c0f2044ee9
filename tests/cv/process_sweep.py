"""Random formats, filters, wraps, matrices and sizes through ``CVImageProcess``, here and in PyMNN:

python -m tests.cv.process_sweep --official PYTHON --seeds 0 500

PYTHON is an interpreter with PyMNN, in an environment of its own (:mod:`tests.interop.official` makes one). Pixels
that lie between two of the source, and those beside the first and the last one of a row that lie inside, or where
a row passes the source between two of its pixels, as PyMNN counts otherwise there, do not count (:func:`settled`). Not
asked for is what PyMNN 3.6.1 does not do: cubic interpolation (it takes the nearest pixel), wrapping by repeating (it
clamps), bytes in their own format where nothing moves (it writes nothing), and the right ends of turned rows that are
filled up. Two pixels of its results share the colours of YUV pictures, so those are the same everywhere here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

FORMATS = {"RGBA": 0, "RGB": 1, "BGR": 2, "GRAY": 3, "BGRA": 4, "NV21": 11, "NV12": 12, "I420": 13}
YUV = ("NV21", "NV12", "I420")
PIXEL = {"RGBA": 4, "RGB": 3, "BGR": 3, "GRAY": 1, "BGRA": 4}
ABSENT = (("BGR", "RGBA"), ("RGB", "BGRA"))
"""Pairs of formats that PyMNN does not convert."""


class Asked(NamedTuple):
    name: str
    config: dict[str, Any]
    steps: list[tuple[str, tuple[float, ...]]]
    """What is called on the matrix."""
    padding: int
    data: Any
    size: tuple[int, int]
    """Width and height."""
    stride: int
    shape: tuple[int, ...]
    whole: bool
    """Whether the result is of uint8."""


def asked(seed: int) -> Iterator[Asked]:
    """The calls of a seed: each source with a target, a filter, a wrap and a matrix of its own."""
    random = np.random.default_rng([seed, 77])
    for source, a in FORMATS.items():
        target = str(random.choice(list(PIXEL)))
        if (source, target) in ABSENT:
            continue
        width, height = (int(n) for n in random.integers(2, 40, 2))
        columns, rows = (int(n) for n in random.integers(1, 40, 2))
        yuv = source in YUV
        filtering, wrap = int(random.integers(2)), int(random.integers(2))
        steps: list[tuple[str, tuple[float, ...]]] = []
        kind = int(random.integers(4))
        wrap = 0 if kind == 3 else wrap
        if kind == 1:
            steps = [("setScale", (width / columns, height / rows))]
        elif kind == 2:
            moved = tuple(float(n) for n in random.normal(size=2) * 4)
            steps = [("setScale", tuple(float(n) for n in random.random(2) * 2 + 0.2)), ("postTranslate", moved)]
        elif kind == 3:
            steps = [("setRotate", (float(random.normal() * 60), width / 2, height / 2)),
                     ("postScale", tuple(float(n) for n in random.random(2) + 0.4))]  # fmt: skip
        gap = int(random.choice([0, 0, 5])) if not yuv else 0
        stride = width * PIXEL[source] + gap if gap else 0
        count = (stride or width * PIXEL[source]) * height if not yuv else _bytes_of(width, height)
        data = random.integers(0, 256, count).astype(np.uint8)
        if yuv:
            colours = data[width * height :].reshape(*((2, -1) if source == "I420" else (-1, 2)))
            colours[...] = random.integers(0, 256, (2, 1) if source == "I420" else 2)
        whole = bool(random.integers(2)) and (kind > 0 or source != target)
        config = {
            "filterType": filtering, "sourceFormat": a, "destFormat": FORMATS[target], "wrap": wrap,
            "mean": tuple(float(n) for n in random.random(4) * 200),
            "normal": tuple(float(n) for n in random.random(4) + 0.1),
        }  # fmt: skip
        shape = (1, rows, columns, PIXEL[target])
        told = f"{source} {target} filter {filtering} wrap {wrap} {'u8' if whole else 'f32'} {width}x{height}"
        yield Asked(
            f"{told} to {columns}x{rows} {steps} {stride} {seed}", config, steps, int(random.integers(256)),
            data, (width, height), stride, shape, whole,
        )  # fmt: skip


def _bytes_of(width: int, height: int) -> int:
    return width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)


def process(mnn: Any, call: Asked) -> Any:
    """The ``CVImageProcess`` of a call, by a library."""
    matrix = mnn.CVMatrix()
    for name, numbers in call.steps:
        getattr(matrix, name)(*numbers)
    made = mnn.CVImageProcess(call.config)
    made.setMatrix(matrix)
    made.setPadding(call.padding)
    return made


def answer(mnn: Any, call: Asked) -> Any:
    """What a library gives."""
    kind = mnn.Halide_Type_Uint8 if call.whole else mnn.Halide_Type_Float
    tensor = mnn.Tensor(call.shape, kind, mnn.Tensor_DimensionType_Tensorflow)
    data = np.ascontiguousarray(call.data)
    process(mnn, call).convert(data.ctypes.data, *call.size, call.stride, tensor)
    return np.array(tensor.getNumpyData())


def settled(call: Asked) -> Any:
    """Which pixels of a result are the same however positions are rounded."""
    import MNN

    matrix = MNN.CVMatrix()
    for name, numbers in call.steps:
        getattr(matrix, name)(*numbers)
    rows, columns = call.shape[1:3]
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    places = np.asarray(matrix) @ np.stack([x, y, np.ones_like(x)]).reshape(3, -1)
    u, v = (p.reshape(rows, columns) for p in places[:2])
    found = np.ones((rows, columns), np.bool_)
    if call.config["filterType"] == 0 or call.config["sourceFormat"] in [FORMATS[name] for name in YUV]:
        for p in (u, v):
            found &= np.abs(p - np.floor(p) - 0.5) > 1e-3
    if call.config["wrap"] == 1:
        for p, last in ((u, call.size[0] - 1), (v, call.size[1] - 1)):
            found &= (np.abs(p) > 1e-3) & (np.abs(p - last) > 1e-3) | (p == 0)
        inside = _inside(u, v, call.size)
        wide = np.pad(inside, ((0, 0), (3, 3)), "edge")
        for i in range(7):
            found &= wide[:, i : i + columns] == inside
        for step in np.linspace(-1, 1, 33):  # where a row passes between two of its pixels, PyMNN takes one outside
            across = np.asarray(matrix)[:, 0] * step
            found &= inside | ~_inside(u + across[0], v + across[1], call.size)
        if call.config["sourceFormat"] in [FORMATS[name] for name in YUV]:
            found[:, -1] = False  # which has no colours where the first pixel inside is an odd one
    return found


def _inside(u: Any, v: Any, size: tuple[int, int]) -> Any:
    return (u >= 0) & (u <= size[0] - 1) & (v >= 0) & (v <= size[1] - 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--official", required=True, help="an interpreter with PyMNN")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50))
    parser.add_argument("--write", help=argparse.SUPPRESS)
    given = parser.parse_args()
    import MNN

    if given.write:
        found = [answer(MNN, call) for seed in range(*given.seeds) for call in asked(seed)]
        return np.savez(given.write, *found)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "pymnn.npz")
        command = [given.official, os.path.abspath(__file__), "--official", "-", "--write", file,
                   "--seeds", *map(str, given.seeds)]  # fmt: skip
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(command, check=True, env=kept, cwd=folder)
        with np.load(file) as results:
            wanted = [results[f"arr_{i}"] for i in range(len(results.files))]
    calls = [call for seed in range(*given.seeds) for call in asked(seed)]
    counted = wrong = 0
    for call, theirs in zip(calls, wanted, strict=True):
        ours = answer(MNN, call)
        apart = np.abs(ours.astype(np.float64) - theirs)
        level = 1 if call.whole else 1.01 * max(call.config["normal"])
        apart = apart[0][settled(call)]
        counted += apart.size
        if (apart > level).any():
            wrong += 1
            print(f"{call.name}: {(apart > level).mean():.1%} differ by up to {apart.max():.4g}")
    print(f"{len(calls)} pictures, {counted} numbers compared, {wrong} pictures wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
