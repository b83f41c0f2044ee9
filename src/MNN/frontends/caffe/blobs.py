"""Arrays in Caffe's files: weights, and the mean of pictures."""

from __future__ import annotations

import math

import numpy as np

from MNN.cache.scratch import apart
from MNN.errors import FormatError
from MNN.frontends.caffe.message import Message
from MNN.schema.files import release

_FLOAT16 = 2
_OLD_SIZES = ("num", "channels", "height", "width")


def array_of(blob: Message) -> np.ndarray:
    """The numbers of a BlobProto as f32, in its shape; four sizes where it is older than shapes.

    A copy: the file may be changed while the model lives. Raises :class:`FormatError` when there are more or fewer
    numbers than the shape has.
    """
    data = _data(blob)
    if blob.has("shape"):
        shape = blob.message("shape").integers("dim")
    elif any(blob.has(name) for name in _OLD_SIZES):
        shape = [blob.integer(name, 0) for name in _OLD_SIZES]
    else:
        shape = [data.size]
    if min(shape, default=0) < 0 or math.prod(shape) != data.size:
        raise FormatError(f"{blob.where}: {data.size} numbers for the shape {shape[:32]}; is the file damaged?")
    copied = np.array(data, np.float32).reshape(shape)
    release(data)
    return apart(copied)


def _data(blob: Message) -> np.ndarray:
    """The numbers in one dimension, as f32 or as the file has them."""
    if blob.has("double_data"):
        return blob.array("double_data", np.float64)
    if blob.has("raw_data"):  # NVIDIA's Caffe
        kind, raw = blob.integer("raw_data_type", 1), blob.data("raw_data")
        dtype = np.dtype({0: "<f8", 1: "<f4", _FLOAT16: "<f2"}.get(kind, "V1"))
        if dtype.kind != "f" or len(raw) % dtype.itemsize:
            raise FormatError(f"{blob.where}: {len(raw)} bytes of raw data of type {kind}, expected floats")
        return np.frombuffer(raw, dtype)
    return blob.array("data", np.float32)
