"""Fourier transforms as products with constant matrices, and mel filter banks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional, require_rank, wide
from MNN.ops.inference import infer

_LONGEST = 2048
"""Longer transforms go through numpy's FFT: the matrix would be too large."""


def _angles(length: int, bins: int) -> np.ndarray:
    """``2 pi k n / length`` as ``[length, bins]``, with ``k n`` reduced first so that large products stay exact."""
    return 2 * np.pi * ((np.arange(length)[:, None] * np.arange(bins)) % length) / length


def forward_matrix(length: int, bins: int, parts: int, inverse: bool) -> np.ndarray:
    """``[length * parts, bins * 2]``: from real (``parts`` 1) or interleaved complex (2) to interleaved complex."""
    angle = _angles(length, bins)
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    for part in (cos, sin):  # what is zero has no sign and no rounding: angles of real bins are 0 or pi then
        part[np.abs(part) < 1e-12] = 0
    out = np.empty((length, parts, bins, 2))
    out[:, 0, :, 0], out[:, 0, :, 1] = cos, sin
    if parts == 2:
        out[:, 1, :, 0], out[:, 1, :, 1] = -sin, cos
    if inverse:
        out /= length
    return out.reshape(length * parts, bins * 2)


def real_inverse_matrix(length: int) -> np.ndarray:
    """``[bins * 2, length]``: from the non-negative half of a symmetric spectrum to a real signal."""
    bins = length // 2 + 1
    angle = _angles(length, bins).T
    weight = np.full((bins, 1), 2.0)
    weight[0] = 1.0
    if length % 2 == 0:
        weight[-1] = 1.0
    out = np.stack([np.cos(angle) * weight, -np.sin(angle) * weight], 1) / length
    return out.reshape(bins * 2, length)


@register("DFT")
class Dft(Operator):
    """Discrete Fourier transform along ``axis`` of ``[..., n, ..., 1 or 2]`` (real, or real and imaginary parts).

    Inputs ``x, length?, axis?``. ``onesided`` keeps the ``n // 2 + 1`` bins of a real signal's spectrum; with
    ``inverse`` it takes such a half and gives the real signal.
    """

    sizes_from = 1
    in_mnn = False
    attributes = {"axis": 1, "inverse": False, "onesided": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, given, at = operand(b, inputs, 0), optional(inputs, 1), optional(inputs, 2)
        inverse, onesided = self.bool_attr(node, "inverse"), self.bool_attr(node, "onesided")
        axis = self.int_attr(node, "axis") if at is None else b.ints(at, "the axis")[0]
        axis = normalize_axis(axis, x.rank, b.where)
        if x.rank < 2 or axis == x.rank - 1 or x.shape[-1] not in (1, 2):
            raise ShapeError(f"{b.where}: cannot transform axis {axis} of {list(x.shape)}")
        size, parts = x.shape[axis], x.shape[-1]
        half_input = inverse and onesided
        length = b.ints(given, "the length")[0] if given is not None else 2 * (size - 1) if half_input else size
        if length < 1:
            raise ShapeError(f"{b.where}: a transform of length {length}")
        taken = length // 2 + 1 if half_input else length
        x = self._fit(b, x, axis, taken)
        order = [*(i for i in range(x.rank - 1) if i != axis), axis, x.rank - 1]
        rows = b.permute(x, order)
        if half_input:
            if parts == 1:
                rows = b.pad(rows, [0] * x.rank, [0] * (x.rank - 1) + [1])
            bins, channels = length, 1
        else:
            bins, channels = (length // 2 + 1 if onesided else length), 2
        shape = (*rows.shape[:-2], bins, channels)
        out = self._transform(b, rows, length, bins, parts, inverse, half_input, shape)
        return [b.permute(out, [order.index(i) for i in range(x.rank)])]

    def _fit(self, b: Builder, x: Tensor, axis: int, count: int) -> Tensor:
        """``axis`` cut or filled with zeros to ``count``."""
        high = [0] * x.rank
        high[axis] = count - x.shape[axis]
        return b.pad(x, [0] * x.rank, high)

    def _transform(
        self, b: Builder, rows: Tensor, length: int, bins: int, parts: int, inverse: bool, half: bool,
        shape: Sequence[int],
    ) -> Tensor:  # fmt: skip
        data = wide(b, rows)
        if length <= _LONGEST:
            matrix = real_inverse_matrix(length) if half else forward_matrix(length, bins, parts, inverse)
            flat = b.reshape(data, (*data.shape[:-2], data.shape[-2] * data.shape[-1]))
            return b.cast(b.reshape(b.matmul(flat, b.const(matrix, data.dtype)), shape), rows.dtype)

        def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            signal = arrays[0][..., 0] + (1j * arrays[0][..., 1] if arrays[0].shape[-1] == 2 else 0)
            if half:
                return [np.fft.irfft(signal, length, axis=-1)[..., None].astype(arrays[0].dtype)]
            found = (np.fft.ifft if inverse else np.fft.fft)(signal, axis=-1)[..., :bins]
            return [np.stack([found.real, found.imag], -1).astype(arrays[0].dtype)]

        return b.cast(b.host("fft", run, [data], (data.dtype, tuple(shape)))[0], rows.dtype)


@register("Stft")
class Stft(Operator):
    """Fourier transforms of overlapping frames: ``signal[B, L, 1 or 2], step, window?, length?`` to
    ``[B, frames, bins, 2]``. One strided convolution, whose weights are the windowed transform. ``abs`` is what the
    .mnn schema calls the choice of one-sided results (``length // 2 + 1`` bins)."""

    attributes = {"n_fft": 0, "hop_length": 0, "abs": True}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, window, given = operand(b, inputs, 0), optional(inputs, 2), optional(inputs, 3)
        step = b.ints(operand(b, inputs, 1), "the frame step")[0]
        require_rank(b, x, 2, 3)
        parts = x.shape[2] if x.rank == 3 else 1
        if given is not None:
            length = b.ints(given, "the frame length")[0]
        elif window is not None:
            length = window.shape[0] if window.rank else 0
        else:
            raise ShapeError(f"{b.where}: neither a window nor a frame length is given")
        if parts not in (1, 2) or not 0 < length <= x.shape[1] or step < 1:
            raise ShapeError(f"{b.where}: frames of {length} every {step} do not fit a signal {list(x.shape)}")
        bins = length // 2 + 1 if self.bool_attr(node, "abs") else length
        data = wide(b, x)
        b.require(2 * length * bins * parts, "the transform's matrix")
        matrix = forward_matrix(length, bins, parts, inverse=False).reshape(length, parts, bins * 2)
        weight = b.const(np.ascontiguousarray(matrix.transpose(2, 1, 0)), data.dtype)
        if window is not None:
            if window.shape != (length,):
                raise ShapeError(f"{b.where}: window {list(window.shape)}, expected [{length}]")
            weight = b.op("mul", weight, b.cast(window, data.dtype))
        signal = b.permute(b.reshape(data, (*x.shape[:2], parts)), (0, 2, 1))
        signal, weight = b.unsqueeze(signal, [2]), b.unsqueeze(weight, [2])
        out = b.conv(signal, weight, (1, step), (1, 1), 1, (0, 0, 0, 0))
        out = b.reshape(out, (x.shape[0], bins, 2, out.shape[3]))
        return [b.cast(b.permute(out, (0, 3, 1, 2)), x.dtype)]


@register("MelWeightMatrix")
class MelWeightMatrix(Operator):
    """Triangular filters evenly spaced on the mel scale, ``[length // 2 + 1, bins]``; inputs: number of bins, DFT
    length, sample rate, lowest and highest frequency in Hz."""

    in_mnn = False
    attributes = {"dtype": "DT_FLOAT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        names = ("the number of bins", "the length", "the sample rate", "the lower edge", "the upper edge")
        numbers = [float(b.value(operand(b, inputs, i), name).reshape(-1)[0]) for i, name in enumerate(names)]
        bins, length, rate = int(numbers[0]), int(numbers[1]), numbers[2]
        if bins < 1 or length < 1 or rate <= 0:
            raise ShapeError(f"{b.where}: {bins} bins of a transform of length {length} at {rate} Hz")
        b.require(bins * (length // 2 + 1), "the filters")
        rows = length // 2 + 1
        low, high = (2595.0 * np.log10(1.0 + edge / 700.0) for edge in numbers[3:])
        mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
        edges = np.floor((length + 1) * (700.0 * (10.0 ** (mels / 2595.0) - 1.0)) / rate).astype(np.int64)
        out = np.zeros((rows, bins), np.float32)
        for i in range(bins):
            lower, centre, upper = edges[i : i + 3]
            if centre == lower:
                out[min(max(centre, 0), rows - 1), i] = 1
            else:
                up = np.arange(max(lower, 0), min(centre + 1, rows))
                out[up, i] = (up - lower) / (centre - lower)
            if upper > centre:
                down = np.arange(max(centre, 0), min(upper, rows))
                out[down, i] = (upper - down) / (upper - centre)
        return [b.const(out, from_data_type(self.str_attr(node, "dtype"), b.where))]


@infer.rule(Dft)
def _infer_transform(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, length = infer.sizes(x), h.ints(node.inputs[1]) if len(node.inputs) > 1 else None
    given = node.inputs[2] if len(node.inputs) > 2 else None
    at = [infer.number(node, "axis", 1)] if given is None else h.known_ints(given)
    plain = (len(node.inputs) < 2 or node.inputs[1] is None) and not node.attrs.get("onesided")
    if known is not None and plain and not at:  # whichever the axis is, its size stays
        return [(x.dtype, (*known[:-1], 2))]
    parts: symbolic.Size = 1 if node.attrs.get("onesided") and node.attrs.get("inverse") else 2
    if known is None or not at or not -len(known) <= at[0] < len(known):
        return [(x.dtype, None if known is None else (*(None,) * (len(known) - 1), parts))]
    axis, onesided = at[0] % len(known), bool(node.attrs.get("onesided"))
    bins: symbolic.Size = known[axis]
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        bins = length[0] if length and len(length) == 1 else None
    if onesided and node.attrs.get("inverse"):
        bins = None
    elif onesided:
        bins = symbolic.add(symbolic.floor_divide(bins, 2), 1)
    return [(x.dtype, (*known[:axis], bins, *known[axis + 1 : -1], parts))]


@infer.rule(Stft)
def _infer_short_transforms(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, step = infer.operand(node, 0), h.known_ints(infer.operand(node, 1))
    known, window = infer.sizes(x), node.inputs[2] if len(node.inputs) > 2 else None
    length = h.known_ints(node.inputs[3]) if len(node.inputs) > 3 else None
    if length is None and window is not None and window.shape is not None:
        length = [d for d in window.shape if isinstance(d, int)]
    if known is None or len(known) < 2 or not step or not length or step[0] < 1:
        return [(x.dtype, None if known is None else (known[0], None, None, 2))]
    frames = symbolic.add(symbolic.floor_divide(symbolic.add(known[1], -length[0]), step[0]), 1)
    onesided = bool(node.attrs.get("onesided", True))
    return [(x.dtype, (known[0], frames, length[0] // 2 + 1 if onesided else length[0], 2))]
