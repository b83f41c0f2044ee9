"""Pictures in files and in memory, through Pillow. Channels come as blue, green, red."""

from __future__ import annotations

import io
import os
import pathlib
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageOps, UnidentifiedImageError

from MNN.cv._array import Array, _wrap, as_array, as_planes, to_dtype
from MNN.cv._color import to_gray
from MNN.cv._constants import (
    IMREAD_ANYDEPTH,
    IMREAD_COLOR,
    IMREAD_GRAYSCALE,
    IMWRITE_JPEG_QUALITY,
    IMWRITE_PNG_COMPRESSION,
)
from MNN.errors import FormatError, MNNError
from MNN.expr.var import Var
from MNN.schema.files import replaceable

_FORMATS = {
    ".jpg": "JPEG", ".jpeg": "JPEG", ".jpe": "JPEG", ".png": "PNG", ".bmp": "BMP", ".dib": "BMP",
    ".webp": "WEBP", ".tif": "TIFF", ".tiff": "TIFF", ".ppm": "PPM", ".pgm": "PPM",
}  # fmt: skip
# What Pillow's readers raise for damaged files.
_DAMAGE = (OSError, ValueError, SyntaxError, struct.error, EOFError, IndexError, KeyError, Image.DecompressionBombError)


def imread(filename: str | os.PathLike[str], flag: int = IMREAD_COLOR) -> Var:
    """The picture in a file, turned as its EXIF orientation says; alpha is dropped.

    Returns uint8 of shape (h, w, 3), blue green red; with ``IMREAD_GRAYSCALE`` uint8 (h, w, 1); with
    ``IMREAD_ANYDEPTH`` float32 (h, w, 3), values as in the file (0-255). Raises ``MNNError`` when there is no such file
    and ``FormatError`` when it is no picture.
    """
    try:
        data = pathlib.Path(filename).read_bytes()
    except OSError as error:
        raise MNNError(f"cannot read the picture '{os.fspath(filename)}': {error.strerror or error}") from error
    return _wrap(_decode(data, flag, f"'{os.fspath(filename)}'"))


def imdecode(buf: ArrayLike, flag: int = IMREAD_COLOR) -> Var:
    """The picture in a sequence of bytes (bytes, bytearray, array or list); else like :func:`imread`."""
    if isinstance(buf, (bytes, bytearray, memoryview)):
        data = bytes(buf)
    else:
        data = as_array(buf, "buf").astype(np.uint8).tobytes()
    return _wrap(_decode(data, flag, f"a buffer of {len(data)} bytes"))


def imwrite(filename: str | os.PathLike[str], img: ArrayLike, params: Sequence[int] | None = None) -> bool:
    """Writes a picture; the name's ending says the format. The file appears whole or not at all.

    ``img``: (h, w), (h, w, 1), (h, w, 3) blue green red or (h, w, 4) with alpha; anything but uint8 is rounded and
    clamped to it. ``params``: pairs such as ``[IMWRITE_JPEG_QUALITY, 90]``; the quality is 95 by default.
    """
    path = replaceable(filename)
    data = _encode(path.suffix, img, params)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".mnn-")
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            pathlib.Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MNNError(f"cannot write the picture '{path}': {error.strerror or error}") from error
    return True


def imencode(ext: str, img: ArrayLike, params: Sequence[int] | None = None) -> tuple[bool, list[int]]:
    """``(True, bytes as a list of int)`` of a picture in the format that ``ext`` ("jpg", ".png") names."""
    return True, list(_encode(ext if ext.startswith(".") else f".{ext}", img, params))


def haveImageReader(filename: str | os.PathLike[str]) -> bool:  # noqa: N802
    """Whether the file is a picture that :func:`imread` can read, judged by its first bytes."""
    try:
        with Image.open(filename):
            return True
    except _DAMAGE:
        return False


def haveImageWriter(filename: str | os.PathLike[str]) -> bool:  # noqa: N802
    """Whether :func:`imwrite` knows the format of this name's ending."""
    return pathlib.Path(filename).suffix.lower() in _FORMATS


def _decode(data: bytes, flag: int, what: str) -> Array:
    if flag not in (IMREAD_COLOR, IMREAD_GRAYSCALE, IMREAD_ANYDEPTH):
        raise MNNError(f"the flag {flag} is unknown; use IMREAD_COLOR, IMREAD_GRAYSCALE or IMREAD_ANYDEPTH")
    try:
        with Image.open(io.BytesIO(data)) as image:
            if flag == IMREAD_GRAYSCALE and image.format == "JPEG":
                image.draft("L", image.size)  # the file's own luminance, as libjpeg gives it
            pixels = _pixels(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:  # its text is about the stream, not the file
        why = "is of no known kind of picture, or is damaged at its start" if data else "is empty"
        raise FormatError(f"{what} is not a picture that can be read: it {why}") from error
    except _DAMAGE as error:
        raise FormatError(f"{what} is not a picture that can be read, or is damaged: {error}") from error
    if flag == IMREAD_GRAYSCALE:
        return to_gray(pixels[:, :, ::-1]) if pixels.shape[2] == 3 else pixels
    color = np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels[:, :, ::-1])
    return color.astype(np.float32) if flag == IMREAD_ANYDEPTH else color


def _pixels(image: Image.Image) -> Array:
    """uint8 of shape (h, w, 1) or (h, w, 3), red green blue."""
    if image.mode.startswith("I;16") or image.mode == "I":
        deep: Array = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255).astype(np.uint8)
        return deep[:, :, None]
    if image.mode == "F":
        return to_dtype(np.asarray(image), np.dtype(np.uint8))[:, :, None]
    if image.mode in ("1", "L", "LA", "La"):
        return np.asarray(image.convert("LA").getchannel(0) if "A" in image.mode.upper() else image.convert("L"))[
            :, :, None
        ]
    if image.mode in ("RGBA", "RGBX"):
        return np.asarray(image)[:, :, :3]
    if image.mode == "P" and "transparency" in image.info:
        return np.asarray(image.convert("RGBA"))[:, :, :3]
    return np.asarray(image.convert("RGB"))


def _encode(ext: str, img: object, params: Sequence[int] | None) -> bytes:
    kind = _FORMATS.get(ext.lower())
    if kind is None:
        raise MNNError(f"cannot write pictures of the format '{ext}'; known endings: {', '.join(_FORMATS)}")
    pixels = to_dtype(as_planes(img, "img"), np.dtype(np.uint8))
    channels = pixels.shape[2]
    if channels not in (1, 3, 4):
        raise MNNError(f"img has {channels} channels; a picture file holds 1, 3 or 4")
    if channels == 4 and kind in ("JPEG", "PPM"):
        pixels = pixels[:, :, :3]
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]
    array = np.ascontiguousarray(pixels[:, :, order])
    image = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    given = _pairs(params)
    options: dict[str, Any] = {}
    if kind in ("JPEG", "WEBP"):
        options["quality"] = min(max(given.get(IMWRITE_JPEG_QUALITY, 95), 0), 100)
    elif kind == "PNG":
        options["compress_level"] = min(max(given.get(IMWRITE_PNG_COMPRESSION, 1), 0), 9)
    stream = io.BytesIO()
    try:
        image.save(stream, kind, **options)
    except (OSError, ValueError) as error:  # larger than the format allows
        raise MNNError(f"cannot write a picture of shape {pixels.shape} as {kind}: {error}") from error
    return stream.getvalue()


def _pairs(params: Sequence[int] | None) -> dict[int, int]:
    values = [int(v) for v in params or ()]
    if len(values) % 2:
        raise MNNError(f"params must be pairs of a name and a value; it has {len(values)} numbers")
    return dict(zip(values[::2], values[1::2], strict=True))


def _umask() -> int:
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return mask
