"""Find the lines of text in an image, with the detector of PP-OCR.

    python examples/detect.py ppocr_det.onnx page.png [--out boxes.png]

Needs a text detector that gives a probability map (DBNet, such as PP-OCRv4's) as .onnx or .mnn. Prints one box a line,
from top to bottom: left, top, right and bottom in pixels, and its score. ``--out`` draws them into the image.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import MNN
from MNN.model import Model

Box = tuple[int, int, int, int]


def scaled(image: Image.Image) -> np.ndarray:
    """An RGB image as float32 [1, 3, height, width] in -1 .. 1."""
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray(pixels / 127.5 - 1)[None]


def areas(mask: np.ndarray) -> Iterator[Box]:
    """The bounding boxes of the connected areas of a mask [height, width]."""
    left = set(map(tuple, np.argwhere(mask).tolist()))
    while left:
        stack, found = [left.pop()], []
        while stack:
            y, x = stack.pop()
            found.append((y, x))
            for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if near in left:
                    left.remove(near)
                    stack.append(near)
        rows, columns = zip(*found, strict=True)
        yield min(columns), min(rows), max(columns) + 1, max(rows) + 1


def detect(model: Model, image: Image.Image, threshold: float = 0.3) -> list[tuple[Box, float]]:
    """Boxes of lines and their scores, top to bottom. The network takes sizes that are multiples of 32."""
    grow = max(1.0, 800 / max(image.size))  # it was trained on letters of some 20 pixels
    width, height = (max(32, round(d * grow / 32) * 32) for d in image.size)
    probability = model(scaled(image.resize((width, height))))[0, 0]
    found = []
    for left, top, right, bottom in areas(probability > threshold):
        score = float(probability[top:bottom, left:right].mean())
        if min(right - left, bottom - top) < 3 or score < 0.5:
            continue
        # the map shows the shrunk core of a line: each side moves out by area * 1.6 / perimeter (Liao et al. 2020)
        out = round((right - left) * (bottom - top) * 0.8 / (right - left + bottom - top))
        sides = np.array([left - out, top - out, right + out, bottom + out]).clip(0, [width, height] * 2)
        place = np.rint(sides * np.tile(np.divide(image.size, (width, height)), 2)).astype(int)
        found.append((tuple(place.tolist()), score))
    return sorted(found, key=lambda f: f[0][1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("image", type=Path)
    parser.add_argument("--out", type=Path, help="where to write the image with the boxes")
    options = parser.parse_args()
    with Image.open(options.image) as file:
        image = file.convert("RGB")
    drawing = ImageDraw.Draw(image)
    for box, score in detect(MNN.load(options.model), image.copy()):
        print(*box, f"{score:.2f}")
        drawing.rectangle(box, outline="red", width=2)
    if options.out:
        image.save(options.out)


if __name__ == "__main__":
    main()
