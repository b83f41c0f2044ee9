"""Arrays and pictures from files that may hold anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from MNN.errors import MNNError, ShapeError
from MNN.formatting import dims
from MNN.ir.dtype import DType
from MNN.schema.arrays import DAMAGE

PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"}
_NPY = b"\x93NUMPY"


def read_array(path: Path) -> np.ndarray:
    """The array in a .npy file."""
    _check_start(path, _NPY, ".npy file or picture")
    try:
        with path.open("rb") as file:
            array: np.ndarray = np.load(file, allow_pickle=False)
    except DAMAGE as error:
        raise MNNError(f"{path}: not a readable .npy file: {error}") from error
    return array


def _check_start(path: Path, start: bytes, kind: str) -> None:
    if path.is_dir():
        raise MNNError(f"{path} is a folder; a {kind} is expected")
    try:
        with path.open("rb") as file:
            found = file.read(len(start))
    except OSError as error:
        raise MNNError(f"cannot read {path}: {error.strerror or error}") from error
    if found != start:
        raise MNNError(f"{path} is no {kind}" if found else f"{path} is empty")


def read_picture(
    path: Path, shape: tuple[int, ...], dtype: DType, mean: Sequence[float], norm: Sequence[float]
) -> np.ndarray:
    """A picture as an array of ``shape``: ``[N, C, H, W]`` or ``[N, H, W, C]`` with 1 or 3 channels.

    Channels are red, green, blue; ``(value - mean) * norm`` per channel; resized with bilinear weights.
    """
    from PIL import Image

    from MNN import cv

    first = len(shape) == 4 and shape[1] in (1, 3)
    if len(shape) != 4 or not (first or shape[3] in (1, 3)):
        raise ShapeError(
            f"{path}: a picture needs an input of 1 or 3 channels, NxCxHxW or NxHxWxC; this one is {dims(shape)}"
        )
    height, width, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    if not height or not width:
        raise ShapeError(f"{path}: a picture cannot become {width} wide and {height} high")
    for name, numbers in (("--mean", mean), ("--norm", norm)):
        if len(numbers) not in (1, channels):
            raise MNNError(f"{name} takes one number or one per channel ({channels}), not {len(numbers)}")
    if path.is_dir():
        raise MNNError(f"{path} is a folder; a picture is expected")
    if channels == 3:
        source = np.asarray(cv.imread(path))[:, :, ::-1]
    else:
        source = np.asarray(cv.imread(path, cv.IMREAD_GRAYSCALE))[:, :, 0]
    image = Image.fromarray(np.ascontiguousarray(source).astype(np.uint8))
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(resized, dtype=np.float32).reshape(height, width, channels)
    scaled = (pixels - np.asarray(mean, np.float32)) * np.asarray(norm, np.float32)
    array = scaled.transpose(2, 0, 1) if first else scaled
    return np.ascontiguousarray(np.broadcast_to(array, shape)).astype(dtype.numpy)
