"""Folders of pictures that tests train on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tests import zoo


def write_digits(folder: Path, classes: int, each: int) -> None:
    """scikit-learn's digits as pictures, so many of each class."""
    rows = np.loadtxt(zoo.path("digits"), delimiter=",")
    for digit in range(classes):
        (folder / str(digit)).mkdir(parents=True)
        for i, row in enumerate(rows[rows[:, 64] == digit][:each]):
            Image.fromarray((row[:64].reshape(8, 8) * 255 / 16).astype(np.uint8)).save(folder / str(digit) / f"{i}.png")


def write_crops(folder: Path, each: int) -> None:
    """Squares from two photographs, a cat and a cup of coffee: ``training`` from their left halves, ``testing`` from
    their right ones."""
    rng = np.random.default_rng(0)
    for name in ("chelsea", "coffee"):
        image = Image.open(zoo.path(f"picture_{name}")).convert("RGB")
        wide, high = image.size
        for part, begin in (("training", 0), ("testing", wide // 2)):
            (folder / part / name).mkdir(parents=True)
            for i in range(each):
                side = int(rng.integers(high // 3, high // 2))
                x, y = begin + int(rng.integers(0, wide // 2 - side + 1)), int(rng.integers(0, high - side + 1))
                image.crop((x, y, x + side, y + side)).save(folder / part / name / f"{i}.png")
