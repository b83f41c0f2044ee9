"""Single-shot detection as Caffe has it: prior boxes, and boxes from predictions (Liu et al., arXiv:1512.02325)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import EagerOperator, Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank
from MNN.ops.images.boxes import best_first, decode_centres, suppress
from MNN.ops.inference import infer

_MAX_BOXES = 1 << 24


def _floats(op: Operator, node: Node, key: str) -> list[float]:
    value = op.attr(node, key)
    return [float(v) for v in value] if isinstance(value, (list, tuple)) else []


@register("PriorBox")
class PriorBox(Operator):
    """Boxes around every place of the feature map ``x[N, C, H, W]``, relative to the image (second operand, or
    ``imageWidth`` and ``imageHeight``), and their variances: ``[1, 2, H * W * boxes * 4, 1]``."""

    attributes = {
        "minSizes": None, "maxSizes": None, "aspectRatios": None, "variances": None, "flip": False, "clip": False,
        "imageWidth": 0, "imageHeight": 0, "stepWidth": 0, "stepHeight": 0, "offset": 0.0,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, image = operand(b, inputs, 0), operand(b, inputs, 1)
        require_rank(b, x, 4)
        require_rank(b, image, 4, name="the image")
        (h, w), sizes = x.shape[2:], image.shape[2:]
        height = self.int_attr(node, "imageHeight") or sizes[0]
        width = self.int_attr(node, "imageWidth") or sizes[1]
        steps = (
            self.int_attr(node, "stepHeight") or height / max(h, 1),
            self.int_attr(node, "stepWidth") or width / max(w, 1),
        )
        offset, extents = self.float_attr(node, "offset"), self._extents(b, node)
        variances = _floats(self, node, "variances")
        if len(variances) != 4 or height < 1 or width < 1 or h * w * len(extents) > _MAX_BOXES:
            raise ShapeError(
                f"{b.where}: {len(variances)} variances (expected 4), image {height} x {width}, {h} x {w} places"
            )
        half = np.asarray(extents, np.float32).reshape(1, 1, -1, 2) * np.float32(0.5)
        centre_x = ((offset + np.arange(w)) * steps[1]).astype(np.float32)[None, :, None]
        centre_y = ((offset + np.arange(h)) * steps[0]).astype(np.float32)[:, None, None]
        boxes = np.empty((h, w, len(extents), 4), np.float32)
        boxes[..., 0], boxes[..., 2] = centre_x - half[..., 0], centre_x + half[..., 0]
        boxes[..., 1], boxes[..., 3] = centre_y - half[..., 1], centre_y + half[..., 1]
        boxes /= np.asarray([width, height, width, height], np.float32)
        if self.bool_attr(node, "clip"):
            boxes = np.clip(boxes, 0, 1)
        spread = np.tile(np.asarray(variances, np.float32), boxes.size // 4)
        return [b.const(np.stack([boxes.reshape(-1), spread]).reshape(1, 2, -1, 1))]

    def _extents(self, b: Builder, node: Node) -> list[tuple[float, float]]:
        """Width and height of the boxes at a place."""
        least, most = _floats(self, node, "minSizes"), _floats(self, node, "maxSizes")
        ratios = [1.0]
        for ratio in _floats(self, node, "aspectRatios"):
            if ratio <= 0:
                raise ShapeError(f"{b.where}: an aspect ratio of {ratio}")
            if all(abs(ratio - known) >= 1e-6 for known in ratios):
                ratios += [ratio, 1.0 / ratio] if self.bool_attr(node, "flip") else [ratio]
        if most and len(most) != len(least):
            raise ShapeError(f"{b.where}: {len(most)} largest sizes for {len(least)} smallest ones")
        extents = []
        for k, size in enumerate(least):
            extents.append((size, size))
            if most:
                extents.append((math.sqrt(abs(size * most[k])),) * 2)
            roots = [math.sqrt(r) for r in ratios if abs(math.sqrt(r) - 1) >= 1e-6]
            extents += [(size * r, size / r) for r in roots]
        return extents


@register("DetectionOutput")
class DetectionOutput(EagerOperator):
    """Boxes found: inputs ``location[1, boxes * 4, ...]``, ``confidence[1, boxes * classes, ...]``, priors
    ``[1, 2, boxes * 4, 1]``, and for a second stage the first stage's confidence and location. Output
    ``[1, 1, found, 6]``: class, score, x0, y0, x1, y1, best first. The ``nmsTopK`` best of a class are looked at (all
    of them when it is 0), ``keepTopK`` of all classes are given."""

    attributes = {
        "classCount": 0, "nmsThresholdold": 0.0, "nmsTopK": 0, "keepTopK": 0, "confidenceThreshold": 0.0,
        "shareLocation": 0, "backgroundLable": 0, "varianceEncodedTarget": 0, "codeType": 0, "objectnessScore": 0.01,
    }  # fmt: skip

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        where, given = f"{node.op} '{node.name}'", [a for a in inputs if a is not None]
        classes, keep = self.int_attr(node, "classCount"), self.int_attr(node, "keepTopK")
        if len(given) < 3 or given[2].ndim < 3 or given[2].shape[1] != 2 or classes < 1:
            raise RunError(
                f"{where}: expected locations, confidences and priors [1, 2, n, 1], and classes, not {classes}"
            )
        location, confidence, priors = (a.astype(np.float32) for a in given[:3])
        boxes, variances = priors.reshape(2, -1, 4) if priors.size % 8 == 0 else (priors, priors)
        count = len(boxes)
        if location.size != count * 4 or confidence.size != count * classes:
            raise RunError(f"{where}: {location.size} locations and {confidence.size} confidences for {count} priors")
        scores = confidence.reshape(count, classes).copy()
        if len(given) >= 5:
            boxes = decode_centres(boxes, variances, given[4].astype(np.float32).reshape(count, 4))
            object_scores = given[3].reshape(count, 2)[:, 1]
            scores[object_scores < self.float_attr(node, "objectnessScore")] = 0
        boxes = decode_centres(boxes, variances, location.reshape(count, 4))
        limit, overlap = self.float_attr(node, "confidenceThreshold"), self.float_attr(node, "nmsThresholdold")
        rows, most = [], self.int_attr(node, "nmsTopK")
        for label in range(1, classes):
            for i in suppress(boxes, best_first(scores[:, label], limit, most), overlap, keep):
                rows.append((label, scores[i, label], *boxes[i]))
        found = np.asarray(rows, np.float32).reshape(-1, 6)
        found = found[np.argsort(-found[:, 1], kind="stable")][:keep]
        return [found.reshape(1, 1, -1, 6)]


@infer.rule(DetectionOutput)
def _infer_detections(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.F32, (1, 1, None, 6))]
