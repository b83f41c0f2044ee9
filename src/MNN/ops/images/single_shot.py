"""Detections of SSD with everything that its Caffe layer allows (Liu et al., arXiv:1512.02325)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import RunError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ops.core.base import EagerOperator, register
from MNN.ops.images.boxes import best_first, decode_centres, decode_corners, suppress
from MNN.ops.inference import infer

_CENTER_SIZE, _CORNER_SIZE = 2, 3


@register("SsdDetectionOutput")
class SsdDetectionOutput(EagerOperator):
    """Like DetectionOutput for any number of samples: location ``[N, boxes * (classes or 1) * 4]``, confidence
    ``[N, boxes * classes]``, priors ``[1, 2, boxes * 4]``; ``[1, 1, found, 7]`` with the sample's number in front, the
    best of each sample first.

    ``shareLocation`` 0: boxes differ between classes. ``backgroundLable``: the class that is none, or -1.
    ``codeType``: 1 corners, 2 centre and size, 3 corners in shares of sizes. ``varianceEncodedTarget``: offsets have
    been multiplied by the variances. ``eta``: see :func:`~MNN.ops.images.boxes.suppress`.
    """

    in_mnn = False
    attributes = {
        "classCount": 0, "nmsThresholdold": 0.0, "nmsTopK": 0, "keepTopK": -1, "confidenceThreshold": 0.0,
        "shareLocation": 1, "backgroundLable": 0, "varianceEncodedTarget": 0, "codeType": 1, "eta": 1.0,
    }  # fmt: skip

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        where, given = f"{node.op} '{node.name}'", [a.astype(np.float32) for a in inputs if a is not None]
        classes, kind = self.int_attr(node, "classCount"), self.int_attr(node, "codeType")
        if len(given) != 3 or given[2].size % 8 or classes < 1 or not given[0].ndim or not 1 <= kind <= _CORNER_SIZE:
            raise RunError(f"{where}: expected locations, confidences, priors [1, 2, n], and classes, not {classes}")
        location, confidence, (priors, variances) = *given[:2], given[2].reshape(2, -1, 4)
        count, samples = len(priors), len(location)
        apart = 1 if self.int_attr(node, "shareLocation") else classes
        if location.size != samples * count * apart * 4 or confidence.size != samples * count * classes:
            raise RunError(f"{where}: {location.size} locations and {confidence.size} confidences for {count} priors")
        if self.int_attr(node, "varianceEncodedTarget"):
            variances = np.ones_like(variances)
        offsets = location.reshape(samples, count, apart, 4)
        scores = confidence.reshape(samples, count, classes)
        rows = []
        for sample in range(samples):
            boxes = [_decoded(kind, priors, variances, offsets[sample, :, i]) for i in range(apart)]
            found = np.asarray(list(self._found(node, boxes, scores[sample])), np.float32).reshape(-1, 6)
            found = found[np.argsort(-found[:, 1], kind="stable")]
            keep = self.int_attr(node, "keepTopK")
            found = found[:keep] if keep >= 0 else found
            rows.append(np.concatenate([np.full((len(found), 1), sample, np.float32), found], 1))
        return [np.concatenate(rows).reshape(1, 1, -1, 7) if rows else np.zeros((1, 1, 0, 7), np.float32)]

    def _found(self, node: Node, boxes: list[np.ndarray], scores: np.ndarray) -> list[tuple[float, ...]]:
        """Rows of a sample by class."""
        limit, overlap = self.float_attr(node, "confidenceThreshold"), self.float_attr(node, "nmsThresholdold")
        most, decay = self.int_attr(node, "nmsTopK"), self.float_attr(node, "eta")
        rows: list[tuple[float, ...]] = []
        for label in range(scores.shape[1]):
            if label == self.int_attr(node, "backgroundLable"):
                continue
            places = boxes[label if len(boxes) > 1 else 0]
            order = best_first(scores[:, label], limit, most)
            kept = suppress(places, order, overlap, len(order), decay)
            rows += [(label, scores[i, label], *places[i]) for i in kept]
        return rows


def _decoded(kind: int, priors: np.ndarray, variances: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    if kind == _CENTER_SIZE:
        return decode_centres(priors, variances, offsets)
    return decode_corners(priors, variances, offsets, kind == _CORNER_SIZE)


@infer.rule(SsdDetectionOutput)
def _infer_detections(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.F32, (1, 1, None, 7))]
