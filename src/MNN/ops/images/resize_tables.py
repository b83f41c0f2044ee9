"""Which input elements, with which weights, make each output element of a resized axis.

The rules are those of ONNX's Resize, of which MNN's and TensorFlow's are special cases. Cubic weights: Keys, "Cubic
convolution interpolation for digital image processing", 1981.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.ir.traced import TracedSize

TRANSFORMS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_EXACT, _LARGE = 64, 16
"""Open sizes, of at most 14 bits, times scales up to the latter that are multiples of 1 by the former are exact in
fp32, and so are formulas."""


@dataclass(frozen=True)
class Method:
    """``mode``: nearest, linear or cubic. ``transform`` one of TRANSFORMS, ``rounding`` one of ROUNDINGS."""

    mode: str
    transform: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class Axis:
    """One axis to resize: the scale that the model has ``given`` (None: out / in), ``roi`` in normalised ones."""

    size: int
    out: int
    given: float | None = None
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def scale(self) -> float:
        """How much larger it becomes."""
        if self.given is not None:
            return self.given
        return self.out / self.size if self.size else 1.0


@dataclass(frozen=True)
class Taps:
    """``index`` and ``weight`` are ``[out, taps]``; ``outside[out]`` marks what takes the extrapolation value."""

    index: np.ndarray
    weight: np.ndarray
    outside: np.ndarray


def coordinates(axis: Axis, transform: str) -> np.ndarray:
    """The input coordinate of every output element."""
    x = np.arange(axis.out, dtype=np.float64)
    length = axis.scale * axis.size
    if transform == "half_pixel":
        return (x + 0.5) / axis.scale - 0.5
    if transform == "half_pixel_symmetric":
        adjustment = axis.out / length
        return axis.size / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5
    if transform == "pytorch_half_pixel":
        return (x + 0.5) / axis.scale - 0.5 if axis.out > 1 else x * 0
    if transform == "align_corners":
        return x * (axis.size - 1) / (length - 1) if axis.out > 1 else x * 0
    if transform == "tf_half_pixel_for_nn":
        return (x + 0.5) / axis.scale
    if transform == "tf_crop_and_resize":
        start, end = axis.roi
        if axis.out == 1:
            return x + 0.5 * (start + end) * (axis.size - 1)
        return start * (axis.size - 1) + x * (end - start) * (axis.size - 1) / (length - 1)
    return x / axis.scale  # asymmetric


def taps(axis: Axis, method: Method) -> Taps:
    """Indices (clamped into the input) and weights for one axis."""
    at = coordinates(axis, method.transform)
    if method.mode == "nearest" and method.transform == "asymmetric" and np.float32(axis.scale) == axis.given:
        # 3 / 0.6 is 5 in fp32, in which engines divide by scales of fp32, and less than 5 by the same scale in fp64
        at = (np.arange(axis.out, dtype=np.float32) / np.float32(axis.scale)).astype(np.float64)
    outside = np.zeros(axis.out, np.bool_)
    if method.transform == "tf_crop_and_resize":
        outside = (at < 0) | (at > axis.size - 1)
    if method.mode == "nearest":
        index = _nearest(at, method.rounding)[:, None]
        weight = np.ones(index.shape)
    else:
        base = np.floor(at)
        offsets, weight = _weights(at - base, min(axis.scale, 1.0) if method.antialias else 1.0, method)
        index = base[:, None].astype(np.int64) + offsets
    if method.exclude_outside and method.mode != "nearest":
        weight = np.where((index >= 0) & (index < axis.size), weight, 0.0)
        total = weight.sum(1, keepdims=True)
        weight = weight / np.where(total == 0, 1.0, total)
    return Taps(np.clip(index, 0, max(axis.size - 1, 0)).astype(np.int64), weight, outside)


def _nearest(at: np.ndarray, rounding: str) -> np.ndarray:
    if rounding == "round_prefer_floor":
        found = np.ceil(at - 0.5)
    elif rounding == "round_prefer_ceil":
        found = np.floor(at + 0.5)
    else:
        found = np.ceil(at) if rounding == "ceil" else np.floor(at)
    return found.astype(np.int64)


def _weights(ratio: np.ndarray, scale: float, method: Method) -> tuple[np.ndarray, np.ndarray]:
    """Offsets from the coordinate's floor, and weights ``[out, taps]``; ``scale`` < 1 widens the kernel (antialias)."""
    reach = 1 if method.mode == "linear" else 2
    start = int(np.floor(-reach / scale)) + 1
    offsets = np.arange(start, 2 - start)
    distance = np.abs((offsets - ratio[:, None]) * scale)
    if method.mode == "linear":
        weight = np.maximum(0.0, 1.0 - distance)
    else:
        a = method.cubic_a
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weight = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    if scale < 1:
        weight = weight / weight.sum(1, keepdims=True)
    return offsets, weight


def aspect_sizes(
    sizes: Sequence[int], shape: Sequence[int], policy: str
) -> tuple[Sequence[int], Sequence[float | None]]:
    """Output sizes and scales for wanted ``sizes`` under ONNX's keep_aspect_ratio_policy; no scales where they are what
    the sizes make them."""
    if policy == "stretch" or not sizes:
        return sizes, [None] * len(sizes)
    scales = [n / d if d else 1.0 for n, d in zip(sizes, shape, strict=True)]
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [int(np.floor(scale * d + 0.5)) for d in shape], [scale] * len(scales)


def scaled(size: int, scale: float) -> int:
    """The size that a scale makes of ``size``: the product is rounded to fp32 before it is cut, as ONNX's own shape
    inference does, so that 7/3 of 3 in fp32, which is a little less, makes 7. Raises nothing: what is no size is 0."""
    product = float(np.float32(size) * np.float32(scale))
    if not np.isfinite(product):
        return 0
    found = int(np.floor(product))
    if isinstance(size, TracedSize) and _EXACT * scale == int(_EXACT * scale) and 0 < scale <= _LARGE:
        return size * int(_EXACT * scale) // _EXACT  # no product is rounded
    return found
