"""The front end of TensorFlow's speech models: spectrograms, and cepstra of them."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.complex_parts import parted, transformed
from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.common.frames import frames
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.graph import Value

_MAX_WINDOW = 1 << 20
_MAX_FILTERS = 1 << 12
_FLOOR = 1e-12
"""Energies below it count as this."""


@tf_op("AudioSpectrogram")
def spectrogram(ctx: Context, node: TfNode) -> Value:
    """``[samples, channels]`` to ``[channels, frames, bins]``: magnitudes (or their squares) of transforms of windows
    under a periodic Hann function, filled up with zeros to a power of two."""
    length, step = node.int_attr("window_size"), node.int_attr("stride")
    if not 2 <= length <= _MAX_WINDOW or step < 1:
        raise FormatError(f"{node.where}: windows of {length} samples, one every {step}")
    sound = ctx.op("Permute", node.input(0), dims=[1, 0])
    sound.dtype = node.input(0).dtype
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    pieces = binary(ctx, "MUL", frames(ctx, sound, length, step), ctx.const(window.astype(np.float32)))
    pairs = ctx.op("Unsqueeze", pieces, squeezeDims=[3])
    pairs.dtype = pieces.dtype
    z = parted(ctx, transformed(ctx, pairs, [2], [1 << (length - 1).bit_length()], half=True))
    power = binary(ctx, "ADD", unary(ctx, "SQUARE", z.real), unary(ctx, "SQUARE", z.imag))
    return power if node.bool_attr("magnitude_squared", False) else unary(ctx, "SQRT", power)


@tf_op("Mfcc")
def cepstrum(ctx: Context, node: TfNode) -> Value:
    """Mel-frequency cepstral coefficients of squared magnitudes ``[channels, frames, bins]`` (Davis and Mermelstein
    1980): magnitudes are gathered by triangles on the mel scale, and their logarithms go through a cosine transform."""
    power, rate = node.input(0), ctx.constant(node.input(1))
    if rate is None or rate.size != 1:
        raise node.unsupported("a sample rate that is not constant", "freeze the graph with the rate as a constant")
    bins = None if power.shape is None or len(power.shape) != 3 else power.shape[2]
    if not isinstance(bins, int) or bins < 2:
        raise node.unsupported(f"a spectrogram of shape {power.shape}", "export the model with shapes")
    low, high = node.float_attr("lower_frequency_limit", 20.0), node.float_attr("upper_frequency_limit", 4000.0)
    filters, kept = node.int_attr("filterbank_channel_count", 40), node.int_attr("dct_coefficient_count", 13)
    sampled = float(rate.reshape(-1)[0])
    if not (0 < sampled < np.inf and 0 <= low < high < np.inf and 1 <= kept <= filters <= _MAX_FILTERS):
        raise FormatError(
            f"{node.where}: {kept} coefficients of {filters} filters from {low} to {high} Hz, sampled at {sampled} Hz"
        )
    table = _mel_filters(bins, sampled, low, high, filters)
    energies = ctx.op("MatMul", unary(ctx, "SQRT", power), ctx.const(table.astype(np.float32)))
    energies.dtype = power.dtype
    logs = unary(ctx, "LOG", binary(ctx, "MAXIMUM", energies, _FLOOR))
    angles = np.pi / filters * np.outer(np.arange(filters) + 0.5, np.arange(kept))
    cosines = np.sqrt(2 / filters) * np.cos(angles)
    out = ctx.op("MatMul", logs, ctx.const(cosines.astype(np.float32)))
    out.dtype = power.dtype
    return out


def _mel(hertz: np.ndarray | float) -> np.ndarray:
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0))


def _mel_filters(bins: int, rate: float, low: float, high: float, filters: int) -> np.ndarray:
    """``[bins, filters]``: each bin within the limits is shared by the two triangles whose peaks it lies between."""
    peaks = np.linspace(_mel(low), _mel(high), filters + 2)
    width = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / width), min(int(high / width), bins - 1)
    table = np.zeros((bins, filters))
    for at in range(first, last + 1):
        mel = float(_mel(at * width))
        above = int(np.searchsorted(peaks[1:-1], mel))  # the triangle whose peak is at or above
        share = (peaks[above + 1] - mel) / (peaks[above + 1] - peaks[above])
        if above >= 1:
            table[at, above - 1] = share
        if above < filters:
            table[at, above] = 1.0 - share
    return table
