"""Networks that pictures are classified with: a small one from nothing, and one that goes on from a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from MNN.errors import MNNError, UnsupportedError
from MNN.expr.layers import max_pool, relu
from MNN.expr.models import get_inputs_and_outputs, load_as_list
from MNN.expr.node import Expr, in_order
from MNN.expr.reducing import reduce_mean
from MNN.expr.shaping import convert, reshape, transpose
from MNN.expr.types import NC4HW4, NCHW, NHWC
from MNN.expr.var import Var
from MNN.nn.extracted import Extracted
from MNN.nn.layers import BatchNorm, Conv, Dropout, Linear
from MNN.nn.module import Module
from MNN.ops.core.base import operators
from MNN.ops.linear.compressed import TakesCompressed

LAST = 4
"""Rows or columns of the last feature maps of a small network, at most."""
LARGE = 32
"""Above so many rows and columns, convolutions go in steps of two instead of being followed by a pooling."""


class Small(Module):
    """Convolutions with batch normalisation that halve the picture until little is left, and a product. ``width``:
    channels of the first; each next one has twice as many, eight times at most."""

    def __init__(self, channels: int, size: Sequence[int], classes: int, width: int, dropout: float) -> None:
        super().__init__()
        self._large: list[bool] = []
        high, wide, given = size[0], size[1], channels
        while min(high, wide) > LAST or not self._large:
            number, large = len(self._large), min(high, wide) > LARGE
            out = width * 2 ** min(number, 3)
            setattr(self, f"conv{number}", Conv(given, out, 3, 2 if large else 1, 1, bias=False))
            setattr(self, f"norm{number}", BatchNorm(out, momentum=0.9))
            self._large.append(large)
            high, wide = ((n + 1) // 2 if large else max(n // 2, 1) for n in (high, wide))
            given = out
        self.dropout = Dropout(dropout)
        self.head = Linear(given * high * wide, classes)

    def forward(self, x: Any) -> Var:
        """Pictures ``[N, channels, height, width]`` to scores ``[N, classes]``."""
        for number, large in enumerate(self._large):
            x = relu(getattr(self, f"norm{number}")(getattr(self, f"conv{number}")(x)))
            if not large:
                kernel = [min(2, n) for n in x.shape[:1:-1]]
                x = max_pool(x, kernel, kernel)
        found: Var = self.head(self.dropout(reshape(convert(x, NCHW), [0, -1])))
        return found


@dataclass(frozen=True)
class Body:
    """A classifier's file: its picture, what its last product works on, and its scores."""

    image: Var
    features: Var
    scores: Var

    @property
    def rows_first(self) -> bool:
        """Whether pictures are ``[N, H, W, C]`` there."""
        shape = self.image.shape
        return self.image.data_format is NHWC or (shape[1] not in (1, 3) and shape[3] in (1, 3))

    @property
    def picture(self) -> tuple[int, int, int]:
        """Channels, height and width; 1 where a size is open."""
        n, a, b, c = self.image.shape
        del n
        return (c, a, b) if self.rows_first else (a, b, c)


def body_of(path: str | os.PathLike[str], features: str = "") -> Body:
    """A classifier in a file of any format. ``features``: the tensor that a new last layer works on; by default what
    the last product or convolution works on. Raises :class:`MNNError` for a model that classifies no pictures."""
    tensors = load_as_list(path)
    inputs, outputs = get_inputs_and_outputs({v.name or str(i): v for i, v in enumerate(tensors)})
    images = list(inputs.values())
    if len(images) != 1 or images[0].ndim != 4 or not images[0]._kind.is_float:
        found = ", ".join(f"{n} {v.shape} of {v._kind.value}" for n, v in inputs.items()) or "none"
        raise MNNError(f"{path}: a classifier of pictures has one input of floats with 4 axes, found {found}")
    if len(outputs) != 1:
        raise MNNError(f"{path}: a classifier has one output, found {', '.join(outputs) or 'none'}")
    (scores,) = outputs.values()
    if features:
        named = [v for v in tensors if v.name == features]
        if not named:
            raise MNNError(f"{path}: there is no tensor '{features}'")
        return Body(images[0], named[0], scores)
    return Body(images[0], _features(images[0], scores, path), scores)


def _features(image: Var, scores: Var, path: str | os.PathLike[str]) -> Var:
    order = in_order([scores._expr])
    depends = {id(image._expr)}
    last: tuple[Expr, int] | None = None
    for expr in order:
        taken = [r for r in expr.inputs if r is not None and id(r[0]) in depends]
        if taken:
            depends.add(id(expr))
        if (
            isinstance(operators().get(expr.op), TakesCompressed)
            and len(taken) == 1
            and id(taken[0][0]) != id(image._expr)
        ):
            last = taken[0][0], taken[0][1]
    if last is None:
        raise UnsupportedError(f"{path}: no last product or convolution was found; name the 'features' to go on from")
    return Var(last[0], last[1], NCHW)


class Frame(Module):
    """A part of a file's network on pictures ``[N, C, H, W]``, whatever order it takes them in."""

    def __init__(self, body: Body, output: Var, trained: bool) -> None:
        super().__init__()
        self.network = Extracted([body.image], [output], trained)
        self._convert, self._transpose = body.image.data_format is NHWC, body.rows_first

    def forward(self, x: Any) -> Var:
        """Pictures to what the output is."""
        if self._convert:
            x = convert(x, NHWC)
        elif self._transpose:
            x = transpose(x, [0, 2, 3, 1])
        found: Var = self.network(x)
        return convert(found, NCHW) if found.data_format is NC4HW4 else found


class Features(Frame):
    """Numbers ``[N, C]`` that a file's network finds in pictures: means over the places of maps, and of tokens."""

    def __init__(self, body: Body, trained: bool) -> None:
        super().__init__(body, body.features, trained)

    def forward(self, x: Any) -> Var:
        """Pictures to features."""
        found = super().forward(x)
        if found.data_format is NHWC:
            found = convert(found, NCHW)
        if found.ndim == 4:
            return reduce_mean(found, [2, 3])
        return reduce_mean(found, [1]) if found.ndim == 3 else found


class Transferred(Module):
    """Features of a file's network, and a new product behind them."""

    def __init__(self, features: Features, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.features = features
        self.dropout, self.head = Dropout(dropout), Linear(width, classes)

    def forward(self, x: Any) -> Var:
        """Pictures to scores ``[N, classes]``."""
        return self.of_features(self.features(x))

    def of_features(self, x: Any) -> Var:
        """The same from features."""
        found: Var = self.head(self.dropout(x))
        return found


class Head(Module):
    """The part of a :class:`Transferred` behind the features, with its parameters."""

    def __init__(self, whole: Transferred) -> None:
        super().__init__()
        self.dropout, self.head = whole.dropout, whole.head

    def forward(self, x: Any) -> Var:
        """Features to scores."""
        found: Var = self.head(self.dropout(x))
        return found


__all__ = ["Body", "Features", "Frame", "Head", "Small", "Transferred", "body_of"]
