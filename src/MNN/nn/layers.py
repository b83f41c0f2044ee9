"""Layers with parameters of their own."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build
from MNN.expr.fused.settings import lazily
from MNN.expr.layers import conv2d
from MNN.expr.reducing import matmul
from MNN.expr.shaping import convert, gather
from MNN.expr.types import NC4HW4, NCHW, Ints, Padding_Mode
from MNN.expr.var import Var
from MNN.nn import initial
from MNN.nn.module import Module
from MNN.nn.quantizer import Quantizer
from MNN.nn.settings import extent, not_negative, portion, shown, truth
from MNN.nn.steps import check_batch, step_number


def _parameter(array: np.ndarray) -> Var:
    return build.leaf(array, op="Trainable")


def _pair(value: Ints, what: str) -> list[int]:
    try:
        numbers = np.asarray(value).reshape(-1)
    except ValueError:  # lists of several lengths
        numbers = np.zeros(0)
    if (
        numbers.size not in (1, 2)
        or numbers.dtype.kind not in "iuf"
        or not all(0 <= v < 1e9 and v % 1 == 0 for v in numbers)
    ):
        raise ShapeError(f"{what} is one or two whole numbers, found {shown(value)}")
    return [int(v) for v in numbers] * (3 - numbers.size)


class Conv(Module):
    """A convolution: ``weight [O, C / groups, kernel y, kernel x]`` and ``bias [O]``. Sizes of two numbers are (x,
    y)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = (1, 1),
        padding: Ints = (0, 0),
        dilation: Ints = (1, 1),
        depthwise: bool = False,
        bias: bool = True,
        padding_mode: Padding_Mode = Padding_Mode.VALID,
    ) -> None:
        super().__init__()
        kernel, pads = _pair(kernel_size, "kernel_size"), _pair(padding, "padding")
        extent("in_channels", in_channels), extent("out_channels", out_channels)
        steps, spread = _pair(stride, "stride"), _pair(dilation, "dilation")
        if min(*steps, *spread) < 1:
            raise ShapeError(f"the strides and dilations of a convolution are at least 1, found {steps} and {spread}")
        if not isinstance(padding_mode, Padding_Mode):
            raise MNNError(f"padding_mode is one of Padding_Mode's, found {shown(padding_mode)}")
        groups = in_channels if truth("depthwise", depthwise) else 1
        if min(kernel) < 1 or out_channels % groups:
            raise ShapeError(f"no convolution of {in_channels} channels to {out_channels} with a kernel of {kernel}")
        shape = (out_channels, in_channels // groups, kernel[1], kernel[0])
        self.weight = _parameter(initial.xavier(shape, math.prod(shape[1:])))
        self.bias = _parameter(initial.constant(out_channels, 0.0)) if truth("bias", bias) else None
        self._stride, self._dilation = steps, spread
        self._pads, self._groups = pads, groups
        self._mode = Padding_Mode.CAFFE if any(pads) else padding_mode
        self.quantizer: Quantizer | None = None

    def forward(self, x: ArrayLike) -> Var:
        """Images ``[N, C, H, W]`` to ``[N, O, H', W']``, in NC4HW4."""
        window = self._stride, self._pads, self._dilation, self._groups, self._mode
        if self.quantizer is None:
            return conv2d(x, self.weight, self.bias, *window)
        with lazily():
            plain = conv2d(x, self.weight, self.bias, *window)
        return self.quantizer.convolution(plain)


class Linear(Module):
    """``x @ weight.T + bias`` with ``weight [out, in]``, over the last axis."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        extent("in_channels", in_channels), extent("out_channels", out_channels)
        self.weight = _parameter(initial.xavier((out_channels, in_channels), in_channels))
        self.bias = _parameter(initial.constant(out_channels, 0.0)) if truth("bias", bias) else None

    def forward(self, x: ArrayLike) -> Var:
        """``[..., in]`` to ``[..., out]``."""
        v = build.floats(x)
        v = convert(v, NCHW) if v.data_format is NC4HW4 else v
        out = matmul(v, self.weight, False, True)
        return out if self.bias is None else build.binary("ADD", out, self.bias)


class BatchNorm(Module):
    """Normalises channels (axis 1) of ``dims`` axes: by the statistics of the batch while it is trained, by running
    ones else, of which a step keeps ``momentum`` (0.99: MNN's; torch's 0.1 is 0.9 here). The running variance is, as
    MNN has it, of the numbers that were normalised; torch's is n / (n - 1) times that of n numbers of a channel."""

    def __init__(self, channels: int, dims: int = 4, momentum: float = 0.99, epsilon: float = 1e-5) -> None:
        super().__init__()
        if dims not in (2, 4):
            raise ShapeError(f"batch_norm takes tensors of 2 or 4 axes, found dims={dims}")
        extent("channels", channels)
        self.scale = _parameter(initial.constant(channels, 1.0))
        self.bias = _parameter(initial.constant(channels, 0.0))
        self.running_variance = self.register_statistic(initial.constant(channels, 1.0))
        self.running_mean = self.register_statistic(initial.constant(channels, 0.0))
        self._channels, self._momentum = channels, portion("momentum", momentum)
        self._epsilon = not_negative("epsilon", epsilon)

    def forward(self, x: ArrayLike) -> Var:
        """The same shape."""
        v = build.floats(x)
        operands = (v, self.scale, self.bias, self.running_mean, self.running_variance)
        if self.is_training:
            check_batch(v)
            return build.apply_all(
                "BatchNormTraining", operands, 3, v.data_format, momentum=self._momentum, epsilon=self._epsilon
            )[0]
        return build.apply("BatchNorm", *operands, layout=v.data_format, channels=self._channels, epsilon=self._epsilon)


class Dropout(Module):
    """Zeros in the place of a share of the elements while it is trained, the others scaled up; nothing else. Which ones
    depends on the seed of the layer and the number of the step."""

    def __init__(self, dropout_ratio: float) -> None:
        super().__init__()
        if not isinstance(dropout_ratio, (int, float, np.number)) or not 0 <= dropout_ratio < 1:
            raise MNNError(f"a dropout ratio is at least 0 and below 1, found {shown(dropout_ratio)}")
        self._ratio, self.seed = float(dropout_ratio), initial.next_seed()

    def forward(self, x: ArrayLike) -> Var:
        """The same shape."""
        v = build.floats(x)
        if not self.is_training or not self._ratio:
            return build.own(v)
        return build.apply("StepDropout", v, step_number(), layout=v.data_format, seed=self.seed, ratio=self._ratio)


class LayerNorm(Module):
    """Normalises the last axis."""

    def __init__(self, channels: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        extent("channels", channels)
        self.gamma = _parameter(initial.constant(channels, 1.0))
        self.beta = _parameter(initial.constant(channels, 0.0))
        self._epsilon = not_negative("epsilon", epsilon)

    def forward(self, x: ArrayLike) -> Var:
        """The same shape."""
        return build.apply("LayerNorm", build.floats(x), self.gamma, self.beta, axis=[-1], epsilon=self._epsilon)


class Embedding(Module):
    """Rows of ``weight [count, width]`` by index."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        extent("count", count), extent("width", width)
        self.weight = _parameter(initial.normal((count, width), 1.0))

    def forward(self, x: ArrayLike) -> Var:
        """Whole numbers ``[...]`` to ``[..., width]``."""
        return gather(self.weight, x)


conv = Conv
linear = Linear
batch_norm = BatchNorm
dropout = Dropout
layer_norm = LayerNorm
embedding = Embedding

__all__ = [
    "BatchNorm", "Conv", "Dropout", "Embedding", "LayerNorm", "Linear", "batch_norm", "conv", "dropout", "embedding",
    "layer_norm", "linear",
]  # fmt: skip
