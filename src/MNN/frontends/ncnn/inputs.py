"""Shapes of inputs: what the file says, what is given as text, and what follows from the layers that take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from MNN.errors import MNNError
from MNN.frontends.ncnn.file import Layer
from MNN.ir.dtype import DType

Shape = tuple[int | str, ...]
_TYPES = {d.value: d for d in DType}
_MAX = 1 << 24
_FEATURES = {"Convolution": 3, "ConvolutionDepthWise": 3, "Convolution1D": 2, "ConvolutionDepthWise1D": 2,
             "Convolution3D": 4, "ConvolutionDepthWise3D": 4}  # fmt: skip
_RANKS = {
    "Deconvolution": 3, "DeconvolutionDepthWise": 3, "Deconvolution1D": 2, "DeconvolutionDepthWise1D": 2,
    "Deconvolution3D": 4, "DeconvolutionDepthWise3D": 4, "Pooling": 3, "Pooling1D": 2, "Pooling3D": 4, "Embed": 1,
    "LSTM": 2, "GRU": 2, "RNN": 2, "MultiHeadAttention": 2, "Spectrogram": 1, "InnerProduct": 1, "SDPA": 3,
}  # fmt: skip
"""Dimensions of the first input of layers that take no others."""
_SAME = {
    "AbsVal", "BatchNorm", "Bias", "BinaryOp", "BNLL", "CELU", "Clip", "DeepCopy", "Dropout", "Eltwise", "ELU", "Erf",
    "GELU", "HardSigmoid", "HardSwish", "Mish", "Packing", "Padding", "Power", "PReLU", "ReLU", "Scale", "SELU",
    "Sigmoid", "Split", "Swish", "TanH", "UnaryOp",
}  # fmt: skip
"""Layers whose result has the shape of their input, as far as matters here."""


def described(inputs: Mapping[str, str], layers: Sequence[Layer]) -> dict[str, tuple[DType, Shape]]:
    """Texts of users: ``3x224x224``, ``3,height,width``, ``i32:77``. Raises :class:`MNNError` for others."""
    known = [blob for layer in layers if layer.type == "Input" for blob in layer.outputs]
    found = {}
    for name, text in inputs.items():
        if name not in known:
            raise MNNError(f"the model has no input '{name}'; its inputs are {', '.join(known) or 'none'}")
        kind, _, sizes = text.rpartition(":")
        words = [w for w in sizes.replace(",", "x").split("x") if w] if "," not in sizes else sizes.split(",")
        shape = tuple(int(w) if w.isdigit() else w for w in words)
        bad = [
            d
            for d in shape
            if (isinstance(d, int) and not 1 <= d <= _MAX) or (isinstance(d, str) and not d.isidentifier())
        ]
        if bad or not 1 <= len(shape) <= 4 or (kind and kind not in _TYPES):
            raise MNNError(
                f"--input-shape {name}={text}: a shape of ncnn has 1 to 4 sizes without a batch, as 3x224x224, or "
                "3,height,width with names of open sizes; another type than f32 stands before it, as i32:77"
            )
        found[name] = (_TYPES.get(kind, DType.F32), shape)
    return found


def shape_of_input(layers: Sequence[Layer], number: int, blob: str) -> tuple[DType, Shape]:
    """The shape of an input: sizes that layer ``number`` tells, others open; the number of dimensions and of channels
    follow from the first layer that takes it."""
    params = layers[number].params
    w, h, d, c = (params.integer(i) for i in (0, 1, 11, 2))
    told = [n for n in (c, d, h, w) if n > 0]
    dims = 4 if d else 3 if c else 2 if h else 1 if w else 0
    taker = _first_taker(layers, blob)
    dtype = DType.I32 if taker is not None and taker.type == "Embed" else DType.F32
    if dims and len(told) == dims:
        return dtype, tuple(told)
    rank = dims or (3 if taker is None else _FEATURES.get(taker.type) or _RANKS.get(taker.type, 3))
    shape: list[int | str] = [f"{blob}.{i}" for i in range(rank)]
    if taker is not None and taker.type in _FEATURES and rank == _FEATURES[taker.type]:
        channels = _channels(taker, rank)
        shape[0] = channels if channels else shape[0]
    if taker is not None and taker.type == "InnerProduct" and not dims:
        shape[0] = taker.params.integer(2) // max(taker.params.integer(0), 1) or shape[0]
    return dtype, tuple(shape)


def _first_taker(layers: Sequence[Layer], blob: str) -> Layer | None:
    names = {blob}
    for layer in layers:
        if not names.intersection(layer.inputs):
            continue
        if layer.type in _FEATURES or layer.type in _RANKS:
            return layer
        if layer.type in _SAME:
            names.update(layer.outputs)
    return None


def _channels(layer: Layer, rank: int) -> int:
    p = layer.params
    width = p.integer(1)
    kernel = width * (p.integer(11, width) if rank > 2 else 1) * (p.integer(21, width) if rank > 3 else 1)
    group = p.integer(7, 1) if "DepthWise" in layer.type else 1
    outputs = p.integer(0)
    return p.integer(6) * group // (outputs * kernel) if outputs > 0 and kernel > 0 and p.integer(6) > 0 else 0
