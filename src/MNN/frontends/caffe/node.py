"""One layer as a handler sees it: blobs that it reads, parameters, and weights, with errors that name the layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.caffe.blobs import array_of
from MNN.frontends.caffe.message import Message
from MNN.frontends.caffe.net import Layer
from MNN.frontends.common.format_node import FormatNode
from MNN.ir.graph import Value
from MNN.ir.shape import normalize_axis, static

_HARMLESS = {
    "engine", "weight_filler", "bias_filler", "filler", "scale_filler", "slope_filler", "force_nd_im2col", "debug_info",
    "stable_prod_grad", "stable_product_grad", "moving_average_fraction", "bn_mode", "cudnn_convolution_algo_seeker",
}  # fmt: skip
"""Parameters that mean nothing to answers: of training, or of how Caffe computes."""


class MissingWeightsError(UnsupportedError):
    """A layer has no weights: there is no caffemodel, or it lacks the layer."""


class CaffeNode(FormatNode):
    """``op`` (the layer's type), ``name``, ``inputs``, and ``outputs``: how many blobs it makes.

    Parameters that a handler does not read are reported as unsupported, so that no meaning is lost silently.
    """

    def __init__(self, layer: Layer, inputs: Sequence[Value], blobs: Sequence[Message] | None) -> None:
        self.layer = layer
        self.op, self.name = layer.type, layer.name
        self.inputs = list(inputs)
        self.outputs = len(layer.tops)
        self._blobs = blobs
        self._read: dict[str, Message] = {}

    # -- operands -----------------------------------------------------------------------------------------------------

    def input(self, index: int) -> Value:
        """A blob that the layer reads. Raises :class:`FormatError` when it has not so many."""
        if index >= len(self.inputs):
            raise FormatError(f"{self.where}: it has {len(self.inputs)} bottoms, bottom {index} is missing")
        return self.inputs[index]

    def shape(self, index: int = 0) -> tuple[int | str, ...]:
        """The sizes of a blob, names where they are open."""
        shape = self.input(index).shape
        if shape is None:
            raise self.unsupported("an input of an unknown number of dimensions")
        return shape

    def rank(self, index: int = 0) -> int:
        return len(self.shape(index))

    def sizes(self, index: int = 0) -> tuple[int, ...]:
        """All sizes of a blob. Raises :class:`UnsupportedError` where one is open."""
        found = static(self.shape(index))
        if found is None:
            raise self.unsupported(f"an input with open sizes, {list(self.shape(index))},", "fix the network's inputs")
        return found

    def axis(self, number: int, index: int = 0) -> int:
        """An axis of a blob, counted from the front."""
        return normalize_axis(number, self.rank(index), self.where)

    def size(self, axis: int, index: int = 0) -> int:
        """One size of a blob, such as its number of channels."""
        found = self.shape(index)[self.axis(axis, index)]
        if not isinstance(found, int):
            raise self.unsupported(f"an input whose size {axis} is open")
        return found

    # -- parameters ---------------------------------------------------------------------------------------------------

    def params(self, *names: str) -> Message:
        """The message of this kind of layer's parameters; of several names the one that the layer has."""
        name = next((n for n in names if self.layer.message.has(n)), names[0])
        found = self._read[name] = self.layer.message.message(name)
        return found

    def unread(self) -> list[str]:
        """Parameters that are given and that no handler has looked at."""
        return [
            f"{key}.{field}"
            for key, message in self._read.items()
            for field in message.unread()
            if field not in _HARMLESS
        ]

    def choice(self, message: Message, key: str, default: str, *allowed: str) -> str:
        """A word out of ``allowed``. Raises :class:`UnsupportedError` for any other."""
        found = message.text(key, default)
        if found not in allowed:
            raise self.unsupported(f"{key}: {found}", f"use one of {', '.join(allowed)}")
        return found

    # -- weights ------------------------------------------------------------------------------------------------------

    @property
    def blobs(self) -> int:
        """How many arrays of weights the layer has; 0 too where they are missing."""
        return len(self._blobs or ())

    def weight(self, index: int, *shape: int) -> np.ndarray:
        """An array of weights, in ``shape`` where one is given (-1 for what follows).

        Raises :class:`MissingWeightsError` without one, :class:`FormatError` for one that does not fit.
        """
        if self._blobs is None or index >= len(self._blobs):
            raise MissingWeightsError(self.where)
        array = array_of(self._blobs[index])
        if not shape:
            return array
        known = int(np.prod([d for d in shape if d >= 0], dtype=np.int64))
        if array.size % max(known, 1) if -1 in shape else array.size != known:
            raise FormatError(
                f"{self.where}: its weights {index} are {list(array.shape)}, which does not fit {list(shape)}; do the "
                "prototxt and the caffemodel belong together?"
            )
        return array.reshape(shape)

    # -- errors -------------------------------------------------------------------------------------------------------

    def malformed(self, problem: str) -> FormatError:
        """The error for what makes no sense; raise it."""
        return FormatError(f"{self.where}: {problem}")
