"""Classify images: the five likeliest classes of each.

    python examples/classify.py model.onnx photo.jpg [more.png ...] [--labels labels.txt]

Needs a classifier (.onnx or .mnn) with one image input, 1x3xHxW, such as EfficientNet-Lite0, and nothing beyond the
package itself. ``--mean`` and ``--scale`` must be those that the model was trained with: pixels (0 to 255, red, green,
blue) become ``(pixel - mean) * scale``. ``labels.txt`` holds one class name a line.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import MNN


def prepare(path: Path, size: int, mean: float, scale: float) -> np.ndarray:
    """The centre square of an image file as float32 [1, 3, size, size]."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.BICUBIC)
    pixels = (np.asarray(square, np.float32) - mean) * scale
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Scores to probabilities that add up to one; what is one already stays."""
    if scores.min() >= 0 and abs(float(scores.sum()) - 1) < 1e-3:
        return scores
    grown: np.ndarray = np.exp(scores - scores.max())
    return np.asarray(grown / grown.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--labels", type=Path, help="a text file with one class name a line")
    parser.add_argument("--mean", type=float, default=127.0)
    parser.add_argument("--scale", type=float, default=1 / 128)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    labels = options.labels.read_text(encoding="utf-8").splitlines() if options.labels else []
    model = MNN.load(options.model, threads=options.threads)
    shape = model.get_inputs()[0].shape or ()
    size = shape[-1] if shape and isinstance(shape[-1], int) else 224
    for path in options.images:
        chances = softmax(np.ravel(model(prepare(path, size, options.mean, options.scale))))
        print(path.name)
        for place in np.argsort(chances)[::-1][:5]:
            name = labels[place] if place < len(labels) else ""
            print(f"  {chances[place]:6.1%}  class {place}  {name}".rstrip())


if __name__ == "__main__":
    main()
