"""Suppression of boxes that overlap better ones, with scores that are lowered, and the detections of SSD networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ops.arranging.selecting import array, corners, suppress
from MNN.ops.core.base import EagerOperator, register
from MNN.ops.inference import infer


@register("SoftSuppression")
class SoftSuppression(EagerOperator):
    """boxes ``[count, 4]``, scores ``[count]``, most boxes, IoU limit, score limit, sigma?: positions that stay (i32),
    best first, and their scores.

    With sigma above 0 a box that overlaps a better one is not dropped: its score is multiplied by
    ``exp(-iou^2 / (2 sigma))`` (Bodla et al. 2017, "Soft-NMS", arXiv:1704.04503), as TensorFlow has it.
    """

    in_mnn = False

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        boxes, scores = array(node, inputs, 0, "boxes"), array(node, inputs, 1, "scores").reshape(-1)
        if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.shape[0] != scores.size:
            raise ShapeError(f"{node.op} '{node.name}': boxes {list(boxes.shape)} and {scores.size} scores do not fit")
        most, overlap, least = (array(node, inputs, i).reshape(-1)[0] for i in (2, 3, 4))
        given = inputs[5] if len(inputs) > 5 else None
        sigma = 0.0 if given is None else float(given.reshape(-1)[0])
        known = corners(boxes.astype(np.float32), False)
        if sigma <= 0:
            kept = suppress(known, scores, int(most), float(overlap), float(least))
            return [np.asarray(kept, np.int32), scores[kept]]
        return _softly(known, scores, int(most), float(overlap), float(least), sigma)


def _softly(
    boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float, sigma: float
) -> list[np.ndarray]:
    left = [int(i) for i in np.argsort(-scores.astype(np.float64), kind="stable") if scores[i] > least]
    lowered = {i: float(scores[i]) for i in left}
    seen = dict.fromkeys(left, 0)  # how many of those that stay have lowered a score already
    kept: list[int] = []
    while left and len(kept) < most:
        best = max(left, key=lambda i: (lowered[i], -i))
        left.remove(best)
        before, dropped = lowered[best], False
        for other in kept[seen[best] :][::-1]:
            ratio = _ratio(boxes[best], boxes[other])
            lowered[best] *= float(np.exp(-0.5 / sigma * ratio * ratio)) if ratio <= overlap else 0.0
            if lowered[best] <= least:
                dropped = True
                break
        seen[best] = len(kept)
        if dropped:
            continue
        if lowered[best] == before:
            kept.append(best)
        else:
            left.append(best)
    return [np.asarray(kept, np.int32), np.asarray([lowered[i] for i in kept], scores.dtype)]


def _ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes."""
    size = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    shared = float(size[0] * size[1])
    union = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared
    return shared / union if union > 0 else 0.0


@register("DetectionPostProcess")
class DetectionPostProcess(EagerOperator):
    """Boxes and class scores of an SSD network to its detections: boxes ``[1, n, 4]`` (y1, x1, y2, x2), classes
    ``[1, n]``, scores ``[1, n]``, and the number of boxes ``[1]``; all floats, zeros where there is nothing.

    Inputs: encodings ``[1, count, 4]`` (y, x, h, w, ``scales`` times finer), scores ``[1, count, classes (+ 1)]`` (a
    class in front is the background), anchors ``[count, 4]`` (centre y, x, height, width). ``regular`` suppresses every
    class by itself, else boxes are suppressed by the best of their classes (Liu et al. 2016, arXiv:1512.02325).
    """

    in_mnn = False
    attributes = {
        "detections": 0, "classes": 0, "perDetection": 1, "perClass": 100, "regular": False, "scales": None,
        "scoreLimit": 0.0, "overlapLimit": 0.0,
    }  # fmt: skip

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        encoded, scores, anchors = (array(node, inputs, i).astype(np.float32) for i in range(3))
        classes, most = self.int_attr(node, "classes"), self.int_attr(node, "detections")
        count = anchors.shape[0] if anchors.ndim == 2 else -1
        fits = encoded.ndim == 3 and encoded.shape[:2] == (1, count) and encoded.shape[2] >= 4 and anchors.shape[1] == 4
        if not fits or scores.shape[:2] != (1, count) or not 0 < classes <= scores.shape[2]:
            raise ShapeError(
                f"{node.op} '{node.name}': boxes {list(encoded.shape)}, scores {list(scores.shape)} of {classes} "
                f"classes and anchors {list(anchors.shape)} do not fit"
            )
        boxes = _decoded(encoded[0, :, :4], anchors, np.asarray(self.attr(node, "scales"), np.float32))
        own = scores[0, :, scores.shape[2] - classes :]
        regular = self.bool_attr(node, "regular")
        per = 1 if regular else self.int_attr(node, "perDetection")
        found = self._regular(node, boxes, own) if regular else self._fast(node, boxes, own)
        slots, each = most * per, min(per, own.shape[1])
        made = [np.zeros((1, slots, 4), np.float32), np.zeros((1, slots), np.float32), np.zeros((1, slots), np.float32)]
        for i, (box, kind, score) in enumerate(found[:slots]):
            made[0][0, i], made[1][0, i], made[2][0, i] = boxes[box], kind, score
        return [*made, np.asarray([min(len(found), slots) // each], np.float32)]

    def _limits(self, node: Node) -> tuple[float, float]:
        return self.float_attr(node, "overlapLimit"), self.float_attr(node, "scoreLimit")

    def _fast(self, node: Node, boxes: np.ndarray, scores: np.ndarray) -> list[tuple[int, int, float]]:
        overlap, least = self._limits(node)
        per = min(self.int_attr(node, "perDetection"), scores.shape[1])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :per]
        best = scores.max(axis=1)
        kept = _suppressed(boxes, best, self.int_attr(node, "detections"), overlap, least)
        return [(b, int(k), float(scores[b, k])) for b in kept for k in order[b]]

    def _regular(self, node: Node, boxes: np.ndarray, scores: np.ndarray) -> list[tuple[int, int, float]]:
        overlap, least = self._limits(node)
        most, per_class = self.int_attr(node, "detections"), self.int_attr(node, "perClass")
        found: list[tuple[int, int, float]] = []
        for kind in range(scores.shape[1]):
            kept = _suppressed(boxes, scores[:, kind], per_class, overlap, least)
            found += [(b, kind, float(scores[b, kind])) for b in kept]
            found = sorted(found, key=lambda f: -f[2])[:most]
        return found


def _suppressed(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> list[int]:
    """Scores count from the limit on, itself included."""
    return suppress(boxes, scores, most, overlap, float(np.nextafter(np.float32(least), np.float32(-np.inf))))


def _decoded(encoded: np.ndarray, anchors: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Corners of boxes."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        middle = encoded[:, :2] / scales[:2] * anchors[:, 2:] + anchors[:, :2]
        half = np.float32(0.5) * np.exp(encoded[:, 2:] / scales[2:]) * anchors[:, 2:]
        return np.concatenate([middle - half, middle + half], axis=1)


@infer.rule(SoftSuppression)
def _infer_suppression(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.I32, (None,)), (infer.operand(node, 1).dtype, (None,))]


@infer.rule(DetectionPostProcess)
def _infer_detections(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    per = 1 if node.attrs.get("regular") else infer.number(node, "perDetection", 1)
    slots = infer.number(node, "detections") * per
    return [(DType.F32, (1, slots, 4)), (DType.F32, (1, slots)), (DType.F32, (1, slots)), (DType.F32, (1,))]
