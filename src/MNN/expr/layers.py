"""Layers of networks: convolutions, pooling, activations. Images may come in any layout and leave in NC4HW4 or NHWC."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from MNN.errors import ShapeError
from MNN.expr.build import apply, binary, floats, to_var
from MNN.expr.shaping import convert, dims_of, reshape, transpose
from MNN.expr.types import NC4HW4, NHWC, Ints, Padding_Mode, Pooling_Mode
from MNN.expr.var import Var


def _image(x: object) -> Var:
    v = floats(x)
    if v.ndim != 4:
        raise ShapeError(f"an image tensor has 4 axes, found shape {v.shape}")
    return convert(v, NC4HW4)


def _like(y: Var, x: object) -> Var:
    """A result in the layout of the input; NCHW and NC4HW4 differ in name only."""
    v = to_var(x)
    return convert(y, v.data_format)


def _two(value: Ints, what: str) -> tuple[int, int]:
    """(x, y) as PyMNN orders them: width first."""
    found = [value, value] if isinstance(value, int) else dims_of(value)
    if len(found) != 2:
        raise ShapeError(f"{what} must be two numbers, found {value!r}")
    return found[0], found[1]


def _window(
    x: ArrayLike, op: str, operands: Sequence[ArrayLike | None], stride: Ints, padding: Ints, dilate: Ints, group: int,
    padding_mode: Padding_Mode, channels: int,
) -> Var:  # fmt: skip
    (sx, sy), (px, py), (dx, dy) = _two(stride, "stride"), _two(padding, "padding"), _two(dilate, "dilate")
    given = [None if v is None else floats(v) for v in operands]
    out = apply(
        op, _image(x), *given, layout=NC4HW4, strideX=sx, strideY=sy, padX=px, padY=py, dilateX=dx, dilateY=dy,
        group=int(group), padMode=padding_mode.name, outputCount=channels,
    )  # fmt: skip
    return out


def conv2d(
    input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, stride: Ints = (1, 1), padding: Ints = (0, 0),
    dilate: Ints = (1, 1), group: int = 1, padding_mode: Padding_Mode = Padding_Mode.VALID,
) -> Var:  # fmt: skip
    """Convolution with ``weight [O, C/group, kh, kw]``; explicit ``padding`` counts in mode CAFFE. Gives NC4HW4."""
    w = floats(weight)
    return _window(input, "Convolution", [w, bias], stride, padding, dilate, group, padding_mode, w.shape[0])


def conv2d_transpose(
    input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, stride: Ints = (1, 1), padding: Ints = (0, 0),
    dilate: Ints = (1, 1), group: int = 1, padding_mode: Padding_Mode = Padding_Mode.VALID,
) -> Var:  # fmt: skip
    """Transposed convolution with ``weight [C, O/group, kh, kw]``. Gives NC4HW4."""
    w = floats(weight)
    channels = w.shape[1] * int(group)
    return _window(input, "Deconvolution", [w, bias], stride, padding, dilate, group, padding_mode, channels)


def _pool(x: ArrayLike, kernel: Ints, stride: Ints, mode: Padding_Mode, pads: Ints, kind: str) -> Var:
    (kx, ky), (sx, sy), (px, py) = _two(kernel, "kernel"), _two(stride, "stride"), _two(pads, "pads")
    if mode is not Padding_Mode.CAFFE and (px or py):
        raise ShapeError(f"pads {pads} need padding_mode CAFFE, found {mode}")
    out = apply(
        "Pooling", _image(x), kernelX=kx, kernelY=ky, strideX=sx, strideY=sy, padX=px, padY=py, type=kind,
        padType=mode.name, ceilModel=mode is Padding_Mode.CAFFE, countType="DEFAULT",
    )  # fmt: skip
    return _like(out, x)


def max_pool(
    x: ArrayLike, kernel: Ints, stride: Ints, padding_mode: Padding_Mode = Padding_Mode.VALID, pads: Ints = (0, 0)
) -> Var:
    """The largest over windows; sizes are (x, y). ``pads`` count in mode CAFFE, whose windows may hang over the end."""
    return _pool(x, kernel, stride, padding_mode, pads, Pooling_Mode.MAXPOOL.name)


def avg_pool(
    x: ArrayLike, kernel: Ints, stride: Ints, padding_mode: Padding_Mode = Padding_Mode.VALID, pads: Ints = (0, 0)
) -> Var:
    """The mean over windows, like :func:`max_pool`; explicit padding counts, that of mode SAME does not."""
    return _pool(x, kernel, stride, padding_mode, pads, Pooling_Mode.AVEPOOL.name)


def relu(x: ArrayLike, slope: float = 0.0) -> Var:
    """``max(x, 0)``, or ``slope * x`` below 0."""
    return apply("ReLU", floats(x), slope=float(slope))


def relu6(x: ArrayLike, min: float = 0.0, max: float = 6.0) -> Var:
    """``x`` clamped to an interval."""
    return apply("ReLU6", floats(x), minValue=float(min), maxValue=float(max))


def elu(x: ArrayLike, alpha: float) -> Var:
    """``x``, or ``alpha * (e^x - 1)`` below 0."""
    return apply("ELU", floats(x), alpha=float(alpha))


def selu(x: ArrayLike, scale: float, alpha: float) -> Var:
    """``scale`` times :func:`elu`."""
    return apply("Selu", floats(x), scale=float(scale), alpha=float(alpha))


def prelu(x: ArrayLike, slopes: ArrayLike) -> Var:
    """``x``, or the channel's slope times ``x`` below 0."""
    s = floats(slopes)
    return _like(apply("PReLU", convert(floats(x), NC4HW4), s, slopeCount=s.size), x)


def softplus(x: ArrayLike) -> Var:
    """``log(1 + e^x)``."""
    return apply("UnaryOp", floats(x), opType="BNLL")


def softsign(x: ArrayLike) -> Var:
    """``x / (1 + |x|)``."""
    v = floats(x)
    return binary("REALDIV", v, binary("ADD", apply("UnaryOp", v, opType="ABS"), 1.0))


def scale(x: ArrayLike, channels: int, scale: ArrayLike, bias: ArrayLike) -> Var:
    """``x * scale + bias`` per channel."""
    return _like(apply("Scale", _image(x), floats(scale), floats(bias), channels=int(channels)), x)


def resize(x: ArrayLike, x_scale: float, y_scale: float) -> Var:
    """An image scaled with bilinear interpolation, where pixel i of the result lies at ``i / scale``."""
    out = apply(
        "Interp", _image(x), resizeType=2, ctm="Asymmetric",
        widthScale=float(x_scale), heightScale=float(y_scale),
    )  # fmt: skip
    return _like(out, x)


def channel_shuffle(x: ArrayLike, axis: int) -> Var:
    """Channels dealt out in ``axis`` groups, as ShuffleNet does. Gives NC4HW4."""
    v = convert(floats(x), NHWC)
    n, h, w, c = v.shape
    if axis < 1 or c % axis:
        raise ShapeError(f"{c} channels do not form {axis} groups")
    dealt = transpose(reshape(v, [n, h, w, axis, c // axis]), [0, 1, 2, 4, 3])
    out = reshape(dealt, [n, h, w, c])
    out.set_order(NHWC)
    return convert(out, NC4HW4)
