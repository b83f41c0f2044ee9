"""Whole numbers for floats and back, histograms, decompositions, and operators by their JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.errors import FormatError, MNNError, ShapeError
from MNN.expr.build import apply_all, floats, leaf, to_var
from MNN.expr.reducing import nms
from MNN.expr.types import NCHW
from MNN.expr.var import Var


def _by_channel(scale: object, rank: int) -> np.ndarray:
    """A scale for each channel (axis 1), or one for all."""
    values = np.asarray(floats(scale)._array(), np.float32).reshape(-1)
    return values.reshape([1, -1, *[1] * (rank - 2)]) if values.size > 1 and rank > 1 else values.reshape(-1)[:1]


def quant(var: ArrayLike, scale: ArrayLike, min: int = -128, max: int = 127, zero: int = 0) -> Var:
    """``round(var * scale) + zero`` within ``min`` to ``max``, as int8; ``scale`` is one number or one per channel."""
    v = floats(var)
    if not -128 <= min <= max <= 127:
        raise MNNError(f"quant(): {min} to {max} is no range of 8 bits")
    scaled = v._array() * _by_channel(scale, v.ndim)
    whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled) + zero  # halves away from zero
    return leaf(np.clip(whole, min, max).astype(np.int8), v.data_format)


def dequant(var: ArrayLike, scale: ArrayLike, zero: int) -> Var:
    """``(var - zero) * scale`` of int8; ``scale`` is one number or one per channel."""
    v = to_var(var)
    if v._kind.is_float:
        raise MNNError(f"dequant() takes whole numbers, found {v.dtype}")
    found = (v._array().astype(np.float32) - np.float32(zero)) * _by_channel(scale, v.ndim)
    return leaf(found.astype(np.float32), v.data_format)


def histogram(input: ArrayLike, binNum: int, minVal: int, maxVal: int) -> Var:
    """How many numbers lie in each of ``binNum`` bins between two numbers, as floats; the last bin has both ends."""
    if binNum < 1 or maxVal <= minVal:
        raise MNNError(f"histogram(): {binNum} bins from {minVal} to {maxVal}")
    counts, _ = np.histogram(to_var(input)._array(), int(binNum), (minVal, maxVal))
    return leaf(counts.astype(np.float32))


def svd(x: ArrayLike) -> list[Var]:
    """``w`` (N), ``u`` (M, N) and ``vt`` (N, N) of a matrix, which is ``u @ diag(w) @ vt``."""
    v = floats(x)
    if v.ndim != 2:
        raise ShapeError(f"svd() takes a matrix, found shape {v.shape}")
    u, w, vt = np.linalg.svd(v._array(), full_matrices=False)
    return [leaf(part.astype(np.float32)) for part in (w, u, vt)]


def jsonop(values: Sequence[ArrayLike], describe: str, outputNumber: int) -> list[Var]:
    """The results of the operator that a JSON text describes as ``mnn dump`` does: ``type``, and its attributes in
    ``main``. Raises :class:`FormatError` for text that is none."""
    try:
        told: Any = json.loads(describe)
        kind, attrs = str(told["type"]), dict(told.get("main") or {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"jsonop(): no operator is described by {describe[:60]!r}: {error}") from error
    return apply_all(kind, [to_var(v) for v in values], int(outputNumber), NCHW, **attrs)


def detection_post_process(
    encode_boxes: ArrayLike, class_predictions: ArrayLike, anchors: ArrayLike, num_classes: int, max_detections: int,
    max_class_per_detection: int, detections_per_class: int, nms_threshold: float, iou_threshold: float,
    use_regular_nms: bool, centersize_encoding: Sequence[float],
) -> list[Var]:  # fmt: skip
    """Boxes ``[1, n, 4]`` (y1, x1, y2, x2), classes, scores ``[1, n]`` and their number ``[1]`` of an SSD detector, as
    TensorFlow Lite's. Boxes are told against anchors ``[count, 4]`` (y, x, h, w), in units of ``centersize_encoding``;
    scores (the last ``num_classes`` columns) below ``nms_threshold`` do not count."""
    boxes, scores, base = (np.asarray(floats(v)._array(), np.float32) for v in
                           (encode_boxes, class_predictions, anchors))  # fmt: skip
    boxes, scores, base = boxes.reshape(-1, boxes.shape[-1])[:, :4], scores.reshape(-1, scores.shape[-1]), base.reshape(
        -1, 4
    )  # fmt: skip
    if not len(boxes) == len(scores) == len(base) or scores.shape[1] < num_classes or max_detections < 1:
        raise ShapeError(f"detection_post_process(): boxes {boxes.shape}, scores {scores.shape}, anchors {base.shape}")
    ys, xs, hs, ws = (float(s) for s in centersize_encoding)
    y, x = boxes[:, 0] / ys * base[:, 2] + base[:, 0], boxes[:, 1] / xs * base[:, 3] + base[:, 1]
    h, w = np.exp(boxes[:, 2] / hs) * base[:, 2] / 2, np.exp(boxes[:, 3] / ws) * base[:, 3] / 2
    corners = np.stack([y - h, x - w, y + h, x + w], 1).astype(np.float32)
    classes = scores[:, scores.shape[1] - num_classes :]
    chosen: list[tuple[float, int, int]] = []
    if use_regular_nms:
        for c in range(num_classes):
            kept = _kept(corners, classes[:, c], detections_per_class, iou_threshold, nms_threshold)
            chosen += [(float(classes[i, c]), int(i), c) for i in kept]
        chosen.sort(key=lambda found: -found[0])
    else:
        for i in _kept(corners, classes.max(1), max_detections, iou_threshold, nms_threshold):
            best = np.argsort(-classes[i], kind="stable")[:max_class_per_detection]
            chosen += [(float(classes[i, c]), int(i), int(c)) for c in best]
    chosen = chosen[:max_detections]
    found = [np.zeros((1, max_detections, 4), np.float32), *(np.zeros((1, max_detections), np.float32) for _ in "ab")]
    for row, (score, i, c) in enumerate(chosen):
        found[0][0, row], found[1][0, row], found[2][0, row] = corners[i], c, score
    return [*(leaf(f) for f in found), leaf(np.array([len(chosen)], np.float32))]


def _kept(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> list[int]:
    places = np.flatnonzero(scores >= least)
    if not len(places):
        return []
    picked = nms(boxes[places], scores[places], most, float(overlap), float(least))._array().reshape(-1)
    return [int(i) for i in places[picked]]
