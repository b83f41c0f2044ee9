"""What PyMNN's CVImageProcess gives, for tests. Run with PyMNN to write ``process.npz`` anew:

python tests/cv/process_cases.py

Nearest and linear sampling of interleaved formats; its REPEAT does not repeat, two pixels of the result share
a chroma, and BGR to RGBA and RGB to BGRA are not there."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

FILE = pathlib.Path(__file__).with_name("process.npz")
FORMATS = {"RGBA": 0, "RGB": 1, "BGR": 2, "GRAY": 3, "BGRA": 4}
ABSENT = (("BGR", "RGBA"), ("RGB", "BGRA"))
HEIGHT, WIDTH, ROWS, COLUMNS = 12, 14, 9, 10


def matrix(mnn: Any, kind: int) -> Any:
    m = mnn.CVMatrix()
    if kind == 0:
        m.setScale(WIDTH / COLUMNS, HEIGHT / ROWS)
    elif kind == 1:
        m.setTranslate(-2.0, -3.0)
    else:
        m.setScale(0.8, 0.9)
        m.preTranslate(1.5, 2.25)
    return m


def cases(mnn: Any) -> Iterator[tuple[str, Any]]:
    random = np.random.default_rng(0)
    number = 0
    for source, a in FORMATS.items():
        for target, b in FORMATS.items():
            number += 1
            kind, how, wrap = number % 3, number % 2, (number // 2) % 2
            pixels = random.integers(0, 256, (HEIGHT, WIDTH, len(source) if source != "GRAY" else 1)).astype(np.uint8)
            if (source, target) in ABSENT:
                continue
            process = mnn.CVImageProcess({
                "filterType": how, "sourceFormat": a, "destFormat": b, "wrap": wrap,
                "mean": (10.0, 20.0, 30.0, 40.0), "normal": (0.1, 0.2, 0.3, 0.4),
            })  # fmt: skip
            process.setPadding(77)
            process.setMatrix(matrix(mnn, kind))
            for name in ("Uint8", "Float"):
                shape = (1, ROWS, COLUMNS, len(target) if target != "GRAY" else 1)
                tensor = mnn.Tensor(shape, getattr(mnn, f"Halide_Type_{name}"), mnn.Tensor_DimensionType_Tensorflow)
                process.convert(pixels.ctypes.data, WIDTH, HEIGHT, 0, tensor)
                yield f"{source} {target} {name}", np.array(tensor.getNumpyData())


if __name__ == "__main__":
    import MNN

    np.savez_compressed(FILE, **dict(cases(MNN)))
