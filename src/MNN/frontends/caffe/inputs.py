"""Blobs that come from outside of a network: of its inputs, and of layers that read data while training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.frontends.caffe.blobs import array_of
from MNN.frontends.caffe.message import Message
from MNN.frontends.caffe.net import Layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_DATA = {
    "Data": "data_param", "ImageData": "image_data_param", "WindowData": "window_data_param",
    "AnnotatedData": "data_param", "VideoData": "video_data_param", "HDF5Data": "hdf5_data_param",
    "MemoryData": "memory_data_param", "DummyData": "dummy_data_param", "DetectionData": "", "DenseImageData": "",
}  # fmt: skip
"""Layers that read data, with the message of their parameters. What they read is given by the user."""
SOURCES = frozenset(["Input", *_DATA])
"""Layers that make blobs of nothing. A Python layer without bottoms is one too."""
MAX_ELEMENTS = 1 << 31
MAX_RANK = 32
LARGEST_CONSTANT = 1 << 24


def is_source(layer: Layer) -> bool:
    """Whether a layer makes blobs of nothing: an input or a reader of data."""
    return layer.type in SOURCES or (layer.type == "Python" and not layer.bottoms)


class Inputs:
    """``given``: shapes by name, as texts, which come before those in the file."""

    def __init__(
        self, where: str, given: Mapping[str, str], layers: Sequence[Layer], weights: Mapping[str, Sequence[Message]]
    ) -> None:
        self._where = where
        self._layers = layers
        self._weights = weights
        self._given = {name: _parsed(name, text) for name, text in given.items()}
        made = {top for layer in layers if is_source(layer) for top in layer.tops} | self._undeclared()
        unknown = sorted(self._given.keys() - made)
        if unknown:
            raise MNNError(
                f"--input-shape {unknown[0]}: the network has the inputs {', '.join(sorted(made)) or 'none'}"
            )
        self._labels = {top for layer in layers if layer.type in _DATA for top in layer.tops[1:]}

    def _undeclared(self) -> set[str]:
        """Blobs that are read before a layer makes them: networks in old caffemodels do not list their inputs."""
        found: set[str] = set()
        made: set[str] = set()
        for layer in self._layers:
            found.update(b for b in layer.bottoms if b not in made)
            made.update(layer.tops)
        return found

    def undeclared(self, layer: Layer, blob: str) -> Value:
        """A blob that nothing makes, where its shape is given. Raises :class:`FormatError` where it is not."""
        if blob not in self._given:
            raise FormatError(
                f"{layer.type} '{layer.name}' reads the blob '{blob}', which no layer before it makes. If it is an "
                f"input of the network, {_say(blob)}"
            )
        return Value(blob, DType.F32, self._given[blob])

    def is_label(self, blob: str) -> bool:
        """Whether a blob is what training compares answers with, which is not there in use."""
        return blob in self._labels

    def value(self, layer: Layer, index: int) -> Value | None:
        """The blob that a layer makes; None for labels. Raises :class:`FormatError` where its shape is not told."""
        top = layer.tops[index]
        if top in self._given:
            return Value(top, DType.F32, self._given[top])
        if layer.type == "DummyData":
            return self._dummy(layer, index)
        if self.is_label(top):
            return None
        shape = self._declared(layer, index) if layer.type == "Input" else self._guessed(layer)
        if shape is None:
            raise FormatError(
                f"{layer.type} '{layer.name}': {self._where} does not tell the shape of '{top}'; {_say(top)}"
            )
        return Value(top, DType.F32, _checked(shape, f"{layer.type} '{layer.name}', '{top}'"))

    def _declared(self, layer: Layer, index: int) -> tuple[int, ...] | None:
        shapes = layer.message.message("input_param").messages("shape")
        if len(shapes) not in (0, 1, len(layer.tops)):
            raise FormatError(f"{layer.message.where}: {len(shapes)} shapes for {len(layer.tops)} blobs")
        return tuple(shapes[index if len(shapes) > 1 else 0].integers("dim")) if shapes else None

    def _guessed(self, layer: Layer) -> tuple[int, ...] | None:
        """What follows from the sizes of batches and crops and from the first convolution."""
        if layer.type == "Python":
            return None
        params, transform = layer.message.message(_DATA[layer.type]), layer.message.message("transform_param")
        batch = params.integer("batch_size", 1)
        if params.has("channels"):
            return batch, params.integer("channels"), params.integer("height"), params.integer("width")
        crop = transform.integer("crop_size", 0) or params.integer("crop_size", 0)
        height, width = (transform.integer(f"crop_{a}", 0) or crop for a in "hw")
        channels = self._channels(layer.tops[0])
        return (batch, channels, height, width) if height and width and channels else None

    def _channels(self, blob: str) -> int:
        for layer in self._layers:
            if layer.type == "Convolution" and blob in layer.bottoms and self._weights.get(layer.name):
                shape = array_of(self._weights[layer.name][0]).shape
                group = layer.message.message("convolution_param").integer("group", 1)
                return shape[1] * group if len(shape) == 4 else 0
        return 0

    def _dummy(self, layer: Layer, index: int) -> Value:
        """A constant, where the layer fills it with one number; else an input."""
        params, top, where = layer.message.message("dummy_data_param"), layer.tops[index], layer.message.where
        shapes = [m.integers("dim") for m in params.messages("shape")]
        if not shapes:
            sides = [params.integers(k) for k in ("num", "channels", "height", "width")]
            shapes = [list(s) for s in zip(*sides, strict=False)]
        if len(shapes) not in (1, len(layer.tops)):
            raise FormatError(f"{where}: {len(shapes)} shapes for {len(layer.tops)} blobs")
        shape = _checked(shapes[index if len(shapes) > 1 else 0], where)
        fillers = params.messages("data_filler")
        filler = fillers[min(index, len(fillers) - 1)] if fillers else Message(where)
        if filler.text("type", "constant") != "constant" or math.prod(shape) > LARGEST_CONSTANT:
            return Value(top, DType.F32, shape)
        return Value(top, DType.F32, shape, np.full(shape, filler.number("value", 0.0), np.float32))


def _parsed(name: str, text: str) -> tuple[int, ...]:
    parts = text.removeprefix("f32:").lower().replace(",", "x").split("x")
    if not all(p.strip().isdecimal() for p in parts):
        raise MNNError(f"--input-shape {name}={text}: expected sizes such as {name}=1x3x227x227")
    return _checked([int(p) for p in parts], f"--input-shape {name}")


def _checked(shape: Sequence[int], where: str) -> tuple[int, ...]:
    if len(shape) > MAX_RANK or min(shape, default=1) < 1 or math.prod(shape) > MAX_ELEMENTS:
        raise FormatError(f"{where}: {str(list(shape))[:100]} is no shape of a blob")
    return tuple(shape)


def _say(name: str) -> str:
    return f"say it with --input-shape {name}=1x3x227x227, or give the prototxt for deployment"
