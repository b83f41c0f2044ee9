"""Pictures in folders, one folder for each class."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.data.dataset import Dataset, Example
from MNN.errors import MNNError, ShapeError

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff"}
KEPT = 1 << 29
"""Bytes of pictures that a dataset keeps after they were read."""
SMALLEST_CROP = 0.6
"""Of the area, when pictures are cropped at random."""


@dataclass(frozen=True)
class Look:
    """How a picture becomes an array ``[channels, height, width]``: resized to ``size`` (height, width), then ``(value
    - mean) * norm`` of red, green and blue, or of grey; ``mean`` and ``norm`` are one number or one per channel."""

    size: tuple[int, int]
    channels: int = 3
    mean: tuple[float, ...] = (0.0,)
    norm: tuple[float, ...] = (1 / 255,)

    def __post_init__(self) -> None:
        if self.channels not in (1, 3) or min(self.size) < 1:
            raise ShapeError(f"pictures have 1 or 3 channels and a size, found {self.channels} and {self.size}")
        for name, numbers in (("mean", self.mean), ("norm", self.norm)):
            if len(numbers) not in (1, self.channels):
                raise MNNError(f"{name} is one number or one per channel ({self.channels}), found {len(numbers)}")

    def array(self, pixels: np.ndarray) -> np.ndarray:
        """Pixels u8 ``[height, width, channels]`` as the network takes them."""
        scaled = (pixels.astype(np.float32) - np.asarray(self.mean, np.float32)) * np.asarray(self.norm, np.float32)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1))


class Pictures(Dataset):
    """Pictures in files, with the numbers of their classes. ``flip`` and ``crop``: every time that a picture is asked
    for it may be mirrored, and a part of it is taken; what is drawn depends on the seed, the pass and the picture."""

    def __init__(
        self,
        files: Sequence[Path],
        labels: Sequence[int],
        look: Look,
        flip: bool = False,
        crop: bool = False,
        seed: int = 0,
    ) -> None:
        self.files, self.labels, self.look = list(files), list(labels), look
        self.flip, self.crop, self.seed = flip, crop, seed
        self._pass = 0
        self._kept: dict[int, np.ndarray] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.files)

    def begin_pass(self, number: int) -> None:
        """The number of the pass over the data that begins."""
        self._pass = number

    def __getitem__(self, index: int) -> Example:
        return [self.look.array(self._changed(index))], [np.int32(self.labels[index])]

    def pixels(self, index: int) -> np.ndarray:
        """A picture as u8 ``[height, width, channels]``, resized."""
        found = self._kept.get(index)
        if found is None:
            found = _resized(_read(self.files[index], self.look.channels), self.look.size)
            with self._lock:
                if index not in self._kept and self._bytes + found.nbytes <= KEPT:
                    self._kept[index] = found
                    self._bytes += found.nbytes
        return found

    def _changed(self, index: int) -> np.ndarray:
        pixels = self.pixels(index)
        if not self.flip and not self.crop:
            return pixels
        rng = np.random.default_rng([self.seed, self._pass, index])
        if self.crop:
            share = np.sqrt(rng.uniform(SMALLEST_CROP, 1.0))
            high, wide = (n * share for n in self.look.size)
            top, left = rng.uniform(0, self.look.size[0] - high), rng.uniform(0, self.look.size[1] - wide)
            pixels = _resized(pixels, self.look.size, (left, top, left + wide, top + high))
        return pixels[:, ::-1] if self.flip and rng.random() < 0.5 else pixels


def classes_of(folder: str | os.PathLike[str]) -> dict[str, list[Path]]:
    """The pictures in a folder by class, the folders inside being the classes; both in the order of their names. Raises
    :class:`MNNError` where there are fewer than two classes, or one without pictures."""
    root = Path(folder)
    if not root.is_dir():
        raise MNNError(f"{root} is no folder: pictures for training lie in one folder for each class")
    rooms = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(rooms) < 2:
        raise MNNError(f"{root} holds {len(rooms)} folders: pictures for training lie in one folder for each class")
    found = {p.name: sorted(f for f in p.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file()) for p in rooms}
    empty = [name for name, files in found.items() if not files]
    if empty:
        raise MNNError(f"{root / empty[0]} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    return found


def divided(files: dict[str, list[Path]], share: float, seed: int) -> tuple[dict[str, list[Path]], ...]:
    """Two parts of what :func:`classes_of` gave: the first without a share of every class, at least one picture, the
    second with these."""
    rng = np.random.default_rng([seed, 1])
    kept, held = {}, {}
    for name, paths in files.items():
        count = max(1, round(share * len(paths)))
        if count >= len(paths):
            raise MNNError(f"the class '{name}' has {len(paths)} pictures, {count} of which would be held out")
        out = set(rng.permutation(len(paths))[:count].tolist())
        kept[name] = [p for i, p in enumerate(paths) if i not in out]
        held[name] = [p for i, p in enumerate(paths) if i in out]
    return kept, held


def _read(path: Path, channels: int) -> np.ndarray:
    from MNN import cv

    if channels == 1:
        return np.asarray(cv.imread(path, cv.IMREAD_GRAYSCALE)).astype(np.uint8)
    return np.asarray(cv.imread(path)).astype(np.uint8)[:, :, ::-1]


def _resized(
    pixels: np.ndarray, size: tuple[int, int], box: tuple[float, float, float, float] | None = None
) -> np.ndarray:
    from PIL import Image

    channels = pixels.shape[2]
    image = Image.fromarray(np.ascontiguousarray(pixels if channels == 3 else pixels[:, :, 0]))
    found = image.resize((size[1], size[0]), Image.Resampling.BILINEAR, box=box)
    return np.asarray(found, np.uint8).reshape(*size, channels)


__all__ = ["Look", "Pictures", "classes_of", "divided"]
