"""Resize: modes, coordinate transformations, antialiasing, axes, regions, policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand

TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
              "tf_crop_and_resize")  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def case(draw: Draw) -> Case:
    opset = draw.choice([11, 13, 18, 19])
    mode = draw.choice(["nearest", "linear", "linear", "cubic"])
    spatial = 2 if mode == "cubic" else draw.choice([1, 2, 2, 3])
    shape = [draw.int(1, 3), draw.int(1, 5), *draw.ints(spatial, 1, {1: 20, 2: 11, 3: 6}[spatial])]
    transforms = TRANSFORMS if opset >= 19 else [t for t in TRANSFORMS if t != "half_pixel_symmetric"]
    transform = draw.often("half_pixel", transforms, 0.3)
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest" and draw.flag(0.8):
        attributes["nearest_mode"] = draw.choice(ROUNDINGS)
    if mode == "cubic":
        if draw.flag():
            attributes["cubic_coeff_a"] = draw.choice([-0.5, -0.75, -0.3])
        if draw.flag(0.3):
            attributes["exclude_outside"] = 1
    if transform == "tf_crop_and_resize" and draw.flag():
        attributes["extrapolation_value"] = 1.5
    if opset >= 18 and mode != "nearest" and transform != "tf_crop_and_resize" and draw.flag(0.35):
        attributes["antialias"] = 1
    rank = len(shape)
    axes = list(range(rank))
    if opset >= 18 and draw.flag(0.5):
        axes = list(range(2, rank)) if draw.flag(0.7) else draw.subset(range(2, rank), 1)
        attributes["axes"] = [a - rank if draw.flag(0.3) else a for a in axes]
    wanted = [shape[a] if a < 2 else draw.int(1, {1: 40, 2: 20, 3: 9}[spatial]) for a in axes]
    if draw.flag(0.2):
        wanted = [shape[a] * (1 if a < 2 else 2) for a in axes]
    roi = None
    if transform == "tf_crop_and_resize":
        low = draw.uniform(-0.2, 0.5, len(axes))
        high = draw.uniform(0.5, 1.2, len(axes))
        for i, a in enumerate(axes):
            if a < 2:
                low[i], high[i] = 0, 1
        roi = np.concatenate([low, high]).astype(np.float32)
    x = draw.normal(*shape)
    inputs: list[Operand | None] = [Operand(x), None if roi is None else Operand(roi, False)]
    if draw.flag():  # scales from sizes, or odd ones
        ratios = [
            1.0 if a < 2 else draw.choice([w / shape[a], 2.0, 0.5, 1.5, float(draw.uniform(0.3, 3.0))])
            for w, a in zip(wanted, axes, strict=True)
        ]
        ratios = [max(r, 1.0 / shape[a]) for r, a in zip(ratios, axes, strict=True)]
        inputs.append(Operand(np.array(ratios, np.float32), False))
    else:
        if opset >= 18 and draw.flag(0.3) and all(a >= 2 for a in axes):
            attributes["keep_aspect_ratio_policy"] = draw.choice(["not_larger", "not_smaller", "stretch"])
        inputs += [None, Operand(np.array(wanted, np.int64), False)]
    if inputs[1] is None and opset < 13:
        inputs[1] = Operand(np.zeros(0, np.float32), False)
    if inputs[2] is None and opset < 13:
        inputs[2] = Operand(np.zeros(0, np.float32), False)
    return Case(
        "Resize",
        inputs,
        attributes,
        opset=opset,
        slack=1 if mode == "nearest" else 10,
        oracle=lambda arrays: [_resize(attributes, *arrays)],
        sums=lambda arrays: [np.full(_resize(attributes, *arrays).shape, max(np.abs(arrays[0]).max(), 1.5))],
        excuse=_excuse(attributes, shape, axes, inputs),
        low=mode != "nearest" or transform != "tf_crop_and_resize",
    )


def _excuse(attributes: dict[str, Any], shape: list[int], axes: list[int], inputs: list[Operand | None]) -> str:
    """Where ONNX Runtime differs from onnx's own reference, with which the oracle agrees."""
    transform, mode = attributes["coordinate_transformation_mode"], attributes["mode"]
    arrays = [None if i is None else i.array for i in inputs]
    lengths = [shape[a] for a in axes]
    outs, factors, crops = _extents(attributes, lengths, *arrays[1:])
    apart = [abs(f * n - o) for f, n, o in zip(factors, lengths, outs, strict=True)]
    if transform in ("align_corners", "tf_crop_and_resize") and max(apart) > 1e-5:  # scales or a policy
        return f"{transform} with scales: it takes the whole size, where onnx's cases take size * scale"
    if len(arrays) == 3:
        if outs == lengths and factors != [1.0] * len(axes):
            return "scales that change no size: it copies"
        same = any(o == n and f != 1 for o, n, f in zip(outs, lengths, factors, strict=True))
        if same and "antialias" in attributes:
            return "antialias with a scale that does not change a size: it copies that axis"
    if transform == "tf_crop_and_resize":
        if mode == "cubic" or (mode == "linear" and len(shape) == 5):
            return "tf_crop_and_resize of cubic and of 3 dimensions: it takes other regions"
        if any(o == n and c != (0, 1) for o, n, c in zip(outs, lengths, crops, strict=True)):
            return "tf_crop_and_resize to the same size: it takes the whole region"
    if "keep_aspect_ratio_policy" in attributes and min(attributes.get("axes", [0])) < 0:
        return "a policy with negative axes: it leaves these axes out"
    if mode == "nearest":
        for n, out, factor, crop in zip(lengths, outs, factors, crops, strict=True):
            places = np.array([_place(transform, o, n, out, factor, crop) for o in range(out)])
            if _close(places * 2).any():
                return "places that rounding takes to one of two neighbours"
    return ""


def _close(places: np.ndarray) -> np.ndarray:
    """Which numbers are whole but for rounding errors."""
    apart = np.abs(places - np.rint(places))
    return (apart > 0) & (apart < 1e-4)


def _extents(
    attributes: dict[str, Any], lengths: list[int], roi: Any, scales: Any, sizes: Any = None
) -> tuple[list[int], list[float], list[tuple[float, float]]]:
    """Sizes, scales and regions of the resized axes."""
    if sizes is not None and len(sizes):
        factors = [float(n) / d for n, d in zip(sizes, lengths, strict=True)]
        outs = [int(n) for n in sizes]
        policy = attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(factors)
            outs = [int(np.floor(f * d + 0.5)) for f, d in zip(factors, lengths, strict=True)]
    else:
        factors = [float(f) for f in scales]
        outs = [int(np.floor(np.float32(f) * np.float32(d))) for f, d in zip(scales, lengths, strict=True)]
    count = len(lengths)
    given = roi is not None and len(roi) > 0
    crops = [(float(roi[i]), float(roi[i + count])) if given else (0.0, 1.0) for i in range(count)]
    return outs, factors, crops


def _resize(attributes: dict[str, Any], x: Any, roi: Any, scales: Any, sizes: Any = None) -> np.ndarray:
    """Every axis is a product with a matrix, whose rows follow the specification one output element at a time."""
    axes = [a % x.ndim for a in attributes.get("axes", range(x.ndim))]
    lengths = [x.shape[a] for a in axes]
    outs, factors, crops = _extents(attributes, lengths, roi, scales, sizes)
    total, outside = x.astype(np.float64), np.zeros((1,) * x.ndim, bool)
    for i, axis in enumerate(axes):
        if outs[i] == lengths[i] and factors[i] == 1 and crops[i] == (0, 1):
            continue
        rows, beyond = _rows(attributes, lengths[i], outs[i], factors[i], crops[i])
        total = np.moveaxis(np.moveaxis(total, axis, -1) @ rows.T, -1, axis)
        outside = outside | beyond.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return np.where(outside, attributes.get("extrapolation_value", 0.0), total)


def _rows(
    attributes: dict[str, Any], size: int, out: int, scale: float, crop: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The matrix ``[out, size]`` of an axis, and which outputs lie outside of the region."""
    transform, mode = attributes["coordinate_transformation_mode"], attributes["mode"]
    rows, beyond = np.zeros((out, size)), np.zeros(out, bool)
    for o in range(out):
        at = _place(transform, o, size, out, scale, crop)
        if transform == "tf_crop_and_resize":
            beyond[o] = at < 0 or at > size - 1
        if mode == "nearest":
            chosen = {
                "round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5),
                "floor": np.floor(at), "ceil": np.ceil(at),
            }[attributes.get("nearest_mode", "round_prefer_floor")]  # fmt: skip
            rows[o, int(np.clip(chosen, 0, size - 1))] = 1
            continue
        shrink = min(scale, 1.0) if attributes.get("antialias") else 1.0
        reach = (1 if mode == "linear" else 2) / shrink
        taps = np.arange(int(np.floor(at - reach)) + 1, int(np.ceil(at + reach)))
        weights = np.array([_weight(mode, abs(t - at) * shrink, attributes.get("cubic_coeff_a", -0.75)) for t in taps])
        if attributes.get("exclude_outside"):
            weights = np.where((taps >= 0) & (taps < size), weights, 0)
        if attributes.get("exclude_outside") or shrink < 1:
            weights = weights / weights.sum()
        np.add.at(rows[o], np.clip(taps, 0, size - 1), weights)
    return rows, beyond


def _weight(mode: str, distance: float, a: float) -> float:
    if mode == "linear":
        return max(0.0, 1 - distance)
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a if distance < 2 else 0.0


def _place(transform: str, o: int, size: int, out: int, scale: float, crop: tuple[float, float]) -> float:
    length = scale * size  # onnx's own cases take what is not rounded
    if transform == "half_pixel" or (transform == "pytorch_half_pixel" and out > 1):
        return (o + 0.5) / scale - 0.5
    if transform == "half_pixel_symmetric":
        return size / 2 * (1 - out / length) + (o + 0.5) / scale - 0.5
    if transform == "asymmetric":
        return o / scale
    if transform == "align_corners":
        return o * (size - 1) / (length - 1) if out > 1 else 0.0
    if transform == "tf_crop_and_resize":
        low, high = crop
        if out > 1:
            return low * (size - 1) + o * (high - low) * (size - 1) / (length - 1)
        return 0.5 * (low + high) * (size - 1)
    return 0.0
