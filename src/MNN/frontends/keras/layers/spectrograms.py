"""Fourier transforms and spectrograms, as operations and as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.complex_parts import Parts, paired, parted, transformed
from MNN.frontends.common.expressions import binary, unary
from MNN.frontends.common.frames import frames
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.operations import floating
from MNN.frontends.keras.layers.operations_elementwise import reduced
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import Config, keras_layer, keras_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_SMALLEST = 1e-7
"""Keras's ``epsilon``."""
MAX_LENGTH = 1 << 20
"""How long a transform may be."""


def _length(node: KerasNode, key: str, default: Any = None) -> int:
    value = node.get(key, default) if default is not None else node.get(key)
    if not isinstance(value, int) or not 0 < value <= MAX_LENGTH:
        raise FormatError(f"{node.where}: '{key}' is {value!r:.60}, expected a length up to {MAX_LENGTH}")
    return value


def spectrum(ctx: KerasContext, x: Value, rank: int, length: int | None) -> Parts:
    """The ``n // 2 + 1`` numbers of the transform of real ones over the last axis."""
    pairs = ctx.op("Unsqueeze", x, squeezeDims=[rank])
    pairs.dtype = x.dtype
    return parted(ctx, transformed(ctx, pairs, [rank - 1], [length], half=True))


def windowed_spectrum(ctx: KerasContext, node: KerasNode, x: Value, options: Config) -> Parts:
    """Spectra of windowed pieces, as ``keras.ops.stft`` has them."""
    inner = KerasNode(node.part, [], {})
    inner.config = options
    length, stride, whole = (_length(inner, k) for k in ("sequence_length", "sequence_stride", "fft_length"))
    rank = ctx.sizes(x, node.where)
    if whole < length:
        raise FormatError(f"{node.where}: pieces of {length} numbers in transforms of {whole}")
    if options.get("center", True):
        pads = [0] * (2 * rank - 2) + [whole // 2] * 2
        padded = ctx.op("Padding", x, ctx.const(pads, DType.I32), mode="REFLECT")
        padded.dtype = x.dtype
        x = padded
    before = (whole - length) // 2
    window = np.zeros(whole, np.float64)
    window[before : before + length] = _window(node, options.get("window", "hann"), length)
    pieces = binary(ctx, "MUL", frames(ctx, x, whole, stride), ctx.const(window.astype(np.float32)))
    return spectrum(ctx, pieces, rank + 1, None)


def _window(node: KerasNode, given: Any, length: int) -> np.ndarray:
    turns = 2 * np.pi * np.arange(length) / length
    if given is None:
        return np.ones(length)
    if given == "hann":
        return 0.5 - 0.5 * np.cos(turns)
    if given == "hamming":
        return 0.54 - 0.46 * np.cos(turns)
    numbers = np.asarray(given, np.float64) if not isinstance(given, str | Value) else None
    if numbers is None or numbers.shape != (length,):
        raise node.unsupported(f"the window {given!r:.60}", "use hann or hamming")
    return numbers


# -- operations --------------------------------------------------------------------------------------------------------


@keras_op("STFT")
def short_time(ctx: KerasContext, node: KerasNode) -> list[Value]:
    return list(windowed_spectrum(ctx, node, node.input(0), node.config))


@keras_op("ExtractSequences")
def sequences(ctx: KerasContext, node: KerasNode) -> Value:
    return frames(ctx, node.input(0), _length(node, "sequence_length"), _length(node, "sequence_stride"))


@keras_op("RFFT", "IRFFT", "FFT", "FFT2", "IFFT2")
def transform(ctx: KerasContext, node: KerasNode) -> list[Value]:
    """Complex tensors are pairs: the real parts and the imaginary ones."""
    kind, given = node.op.removeprefix("ops."), node.inputs
    rank = ctx.sizes(given[0], node.where)
    wanted = node.config.get("fft_length")
    length = None if wanted is None else _length(node, "fft_length")
    if kind == "RFFT":
        return list(spectrum(ctx, given[0], rank, length))
    if len(given) != 2:
        raise FormatError(f"{node.where}: {len(given)} tensors, expected real and imaginary parts")
    pairs = paired(ctx, Parts(given[0], given[1]), rank)
    if kind == "IRFFT":
        out = transformed(ctx, pairs, [rank - 1], [length], inverse=True, half=True)
        return [ctx.op("Squeeze", out, squeezeDims=[rank])]
    axes = [rank - 1] if kind == "FFT" else [rank - 2, rank - 1]
    return list(parted(ctx, transformed(ctx, pairs, axes, [None] * len(axes), kind.startswith("I"))))


# -- layers ------------------------------------------------------------------------------------------------------------


def mel_matrix(bins: int, mels: int, rate: float, low: float, high: float) -> np.ndarray:
    """Weights ``[bins, mels]`` of triangles between frequencies that are evenly spread on the mel scale of HTK,
    ``1127 ln(1 + f / 700)``; the first bin has none."""

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log(1.0 + np.asarray(hertz, np.float64) / 700.0)

    of_bins = mel(np.linspace(0.0, rate / 2, bins)[1:])[:, None]
    edges = np.linspace(mel(low), mel(high), mels + 2)
    rising = (of_bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - of_bins) / (edges[2:] - edges[1:-1])
    return np.pad(np.maximum(0.0, np.minimum(rising, falling)), [[1, 0], [0, 0]]).astype(np.float32)


@keras_layer("MelSpectrogram")
def mel_spectrogram(ctx: KerasContext, node: KerasNode) -> Value:
    x = floating(ctx, node.input(0))
    real, imag = windowed_spectrum(ctx, node, x, {**node.config, "center": True})
    power = binary(ctx, "ADD", unary(ctx, "SQUARE", real), unary(ctx, "SQUARE", imag))
    power = binary(ctx, "POW", unary(ctx, "SQRT", power), node.float_attr("mag_exp", 2.0))
    rate = node.float_attr("sampling_rate", 16000)
    low, high = node.float_attr("min_freq", 20.0), node.float_attr("max_freq", rate / 2)
    mels = _length(node, "num_mel_bins", 128)
    if not (rate > 0 and 0 <= low < high):
        raise FormatError(f"{node.where}: frequencies from {low} to {high} at {rate} samples a second")
    matrix = mel_matrix(_length(node, "fft_length") // 2 + 1, mels, rate, low, high)
    y = ctx.op("MatMul", power, ctx.const(matrix))
    y.dtype = x.dtype
    rank = ctx.sizes(x, node.where) + 1
    if node.bool_attr("power_to_db", True):
        y = _decibels(ctx, node, y, list(range(rank)))
    turned = ctx.op("Permute", y, dims=[*range(rank - 2), rank - 1, rank - 2])
    turned.dtype = y.dtype
    return turned


def _decibels(ctx: KerasContext, node: KerasNode, x: Value, dims: Sequence[int]) -> Value:
    """Relative to a reference, and at most ``top_db`` below the largest of all."""
    least, scale = node.float_attr("min_power", 1e-10), 10 / float(np.log(10))
    reference = max(abs(node.float_attr("ref_power", 1.0)), least)
    level = binary(ctx, "MUL", unary(ctx, "LOG", binary(ctx, "MAXIMUM", x, least)), scale)
    level = binary(ctx, "SUB", level, scale * float(np.log(reference)))
    largest = reduced(ctx, "MAXIMUM", level, list(dims), True)
    return binary(ctx, "MAXIMUM", level, binary(ctx, "SUB", largest, node.float_attr("top_db", 80.0)))


_PARTS = {"real": ["real_kernel"], "imag": ["imag_kernel"]}


def _kernels(config: Config) -> Sequence[str]:
    return _PARTS.get(config.get("mode", "log"), ["real_kernel", "imag_kernel"])


@keras_layer("STFTSpectrogram", variables=_kernels)
def stft_spectrogram(ctx: KerasContext, node: KerasNode) -> Value:
    """Its transform is a convolution with kernels ``[length, 1, bins]`` that are variables; each channel by itself."""
    x, first, apart = node.input(0), node.channels_first(), node.bool_attr("expand_dims")
    mode = node.choice_attr("mode", "log", "log", "magnitude", "psd", "real", "imag", "angle", "stft")
    length = _length(node, "frame_length")
    stride = _length(node, "frame_step", max(length // 2, 1))
    if node.choice_attr("padding", "valid", "valid", "same") != "valid":
        raise node.unsupported("padding='same'", "pad before the layer")
    channels_first = x if first else ctx.op("Permute", x, dims=[0, 2, 1])
    channels_first.dtype = x.dtype
    pieces = frames(ctx, channels_first, length, stride)
    parts, bins = [], 0
    for name in _kernels(node.config):
        kernel = node.array(name)
        if kernel is None or kernel.ndim != 3 or kernel.shape[:2] != (length, 1):
            raise FormatError(f"{node.where}: its kernel is {None if kernel is None else list(kernel.shape)}")
        part = ctx.op("MatMul", pieces, ctx.const(kernel[:, 0].astype(np.float32)))
        part.dtype = x.dtype
        parts.append(part)
        bins = kernel.shape[2]
    y = _form(ctx, mode, parts, bins)
    bins *= 1 + (mode == "stft")
    channels = (x.shape or (0, 0, 0))[1 if first else 2]
    if not isinstance(channels, int):
        raise node.unsupported("an open number of channels", "save the model with shapes")
    # [batch, channels, steps, bins]
    order = {(True, True): [0, 1, 2, 3], (False, True): [0, 2, 3, 1], (True, False): [0, 1, 3, 2]}
    out = ctx.op("Permute", y, dims=order.get((first, apart), [0, 2, 1, 3]))
    out.dtype = y.dtype
    if apart:
        return out
    width = channels * bins
    together = ctx.op("Reshape", out, ctx.const([0, width, -1] if first else [0, -1, width]))
    together.dtype = y.dtype
    return together


def _form(ctx: KerasContext, mode: str, parts: Sequence[Value], bins: int) -> Value:
    """What a mode tells of spectra, along the last axis."""
    if len(parts) == 1:
        return parts[0]
    real, imag = parts
    if mode == "stft":
        both = ctx.op("Concat", real, imag, axis=3)
        both.dtype = real.dtype
        return both
    if mode == "angle":
        return binary(ctx, "ATAN2", imag, real)
    power = binary(ctx, "ADD", unary(ctx, "SQUARE", real), unary(ctx, "SQUARE", imag))
    if mode == "psd":  # of all but the first and the last one the negative frequencies, too
        twice = np.full(bins, 2, np.float32)
        twice[[0, -1]] = 1
        return binary(ctx, "MUL", power, ctx.const(twice))
    size = unary(ctx, "SQRT", binary(ctx, "MAXIMUM", power, _SMALLEST))
    return size if mode == "magnitude" else unary(ctx, "LOG", binary(ctx, "MAXIMUM", size, _SMALLEST))
