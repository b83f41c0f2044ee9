"""Read the text in an image, with the detector and the recogniser of PP-OCR.

    python examples/ocr.py ppocr_det.onnx ppocr_rec.onnx page.png

Needs both networks as .onnx: the recogniser's alphabet stands in its file's metadata. Prints a line of text for each
line that was found, with the mean probability of its letters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from detect import detect, scaled
from PIL import Image

import MNN
from MNN.model import Model

HEIGHT = 48
"""Pixels that the recogniser wants a line to be high; lines may have any width."""


def alphabet(path: Path) -> list[str]:
    """What each class of the recogniser stands for; class 0 is no letter."""
    metadata = onnx.load(path, load_external_data=False).metadata_props
    letters = next((entry.value for entry in metadata if entry.key == "character"), None)
    if letters is None:
        raise SystemExit(f"{path} holds no alphabet: its metadata has no entry 'character'")
    return ["", *letters.splitlines(), " "]


def read(model: Model, letters: list[str], line: Image.Image) -> tuple[str, float]:
    """The text of one line and the mean probability of its letters.

    The network answers for every few columns; equal neighbours are one letter (Graves et al. 2006)."""
    width = max(1, round(line.width * HEIGHT / line.height))
    steps = model(scaled(line.resize((width, HEIGHT), Image.Resampling.BILINEAR)))[0]
    best = steps.argmax(axis=1)
    kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    sure = float(steps.max(axis=1)[kept].mean()) if kept.any() else 0.0
    return "".join(letters[k] for k in best[kept]), sure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("detector", type=Path)
    parser.add_argument("recogniser", type=Path)
    parser.add_argument("image", type=Path)
    options = parser.parse_args()
    with Image.open(options.image) as file:
        image = file.convert("RGB")
    detector, recogniser = MNN.load(options.detector), MNN.load(options.recogniser)
    letters = alphabet(options.recogniser)
    for box, _ in detect(detector, image):
        text, sure = read(recogniser, letters, image.crop(box))
        print(f"{sure:4.2f}  {text}")


if __name__ == "__main__":
    main()
