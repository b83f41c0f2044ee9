"""Operators whose result is as long as the data says; they are computed with numpy between native calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ops.core.base import EagerOperator, register
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.inference import infer


def array(node: Node, inputs: Sequence[np.ndarray | None], index: int, what: str = "") -> np.ndarray:
    """A required operand's numbers. Raises :class:`ShapeError` naming the node."""
    found = inputs[index] if index < len(inputs) else None
    if found is None:
        raise ShapeError(f"{node.op} '{node.name}': {what or f'input {index}'} is missing")
    return found


def _index_type(op: EagerOperator, node: Node) -> np.dtype[np.generic]:
    return from_data_type(op.str_attr(node, "outputDataType"), node.name).numpy


@register("Where")
class Where(EagerOperator):
    """Coordinates ``[count, rank]`` of the elements that are not zero, in row-major order."""

    attributes = {"outputDataType": "DT_INT32"}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        return [np.argwhere(array(node, inputs, 0)).astype(_index_type(self, node))]


@register("Compress")
class Compress(EagerOperator):
    """x, condition: slices along ``axis`` (of the flat tensor when absent) where the condition holds."""

    in_mnn = False
    attributes = {"axis": None}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        x, condition = array(node, inputs, 0), array(node, inputs, 1).reshape(-1)
        axis = None if self.attr(node, "axis") is None else self.int_attr(node, "axis")
        if axis is None:
            x, axis = x.reshape(-1), 0
        if not -x.ndim <= axis < x.ndim or condition.size > x.shape[axis]:
            raise ShapeError(f"{node.op} '{node.name}': {condition.size} conditions for axis {axis} of {list(x.shape)}")
        return [np.compress(condition, x, axis=axis)]


@register("Unique")
class Unique(EagerOperator):
    """Different elements (or slices along ``axis``), first positions, positions of all in the result, counts.

    ``sorted`` False keeps the order of first occurrence. With two outputs the second one is the inverse (TensorFlow).
    """

    attributes = {"axis": None, "sorted": True, "outputDataType": "DT_INT32", "inverseSecond": True}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        x, kind = array(node, inputs, 0), _index_type(self, node)
        axis = None if self.attr(node, "axis") is None else self.int_attr(node, "axis")
        if axis is not None and not -x.ndim <= axis < x.ndim:
            raise ShapeError(f"{node.op} '{node.name}': axis {axis} is outside a tensor of rank {x.ndim}")
        wide = x.astype(np.float32) if DType.of(x) is DType.BF16 else x
        values, first, inverse, counts = np.unique(
            wide, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        inverse = inverse.reshape(-1)
        if not self.bool_attr(node, "sorted"):
            order = np.argsort(first, kind="stable")
            rank = np.empty_like(order)
            rank[order] = np.arange(order.size)
            values = np.take(values, order, axis=0 if axis is None else axis)
            first, inverse, counts = first[order], rank[inverse], counts[order]
        rest = [first.astype(kind), inverse.astype(kind), counts.astype(kind)]
        if len(node.outputs) == 2 and self.bool_attr(node, "inverseSecond"):
            rest = [rest[1]]
        return [values.astype(x.dtype), *rest]


@register("NonMaxSuppression")
class NonMaxSuppression(EagerOperator):
    """boxes ``[n, count, 4]``, scores ``[n, classes, count]``, most boxes per class?, IoU limit?, score limit?.

    Gives rows (batch, class, box) of the boxes that stay, best first. ``centerPointBox``: 0 corners (y1, x1, y2, x2),
    1 centre and size (x, y, w, h).
    """

    in_mnn = False
    attributes = {"centerPointBox": 0, "outputDataType": "DT_INT64"}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        return [
            suppress_batches(node, inputs, self.int_attr(node, "centerPointBox") == 1).astype(_index_type(self, node))
        ]


def suppress_batches(node: Node, inputs: Sequence[np.ndarray | None], center: bool) -> np.ndarray:
    """Rows (batch, class, box) for boxes and scores of rank 3."""
    boxes, scores = array(node, inputs, 0, "boxes"), array(node, inputs, 1, "scores")
    fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4 and boxes.shape[1] == scores.shape[2]
    if not fits or boxes.shape[0] != scores.shape[0]:
        raise ShapeError(
            f"{node.op} '{node.name}': boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit"
        )
    limits = [inputs[i] if i < len(inputs) else None for i in (2, 3, 4)]
    most = 0 if limits[0] is None else int(limits[0].reshape(-1)[0])
    overlap = 0.0 if limits[1] is None else float(limits[1].reshape(-1)[0])
    least = None if limits[2] is None else float(limits[2].reshape(-1)[0])
    rows = [
        (n, c, k)
        for n in range(boxes.shape[0])
        for c in range(scores.shape[1])
        for k in suppress(corners(boxes[n].astype(np.float32), center), scores[n, c], most, overlap, least)
    ]
    return np.asarray(rows, np.int64).reshape(-1, 3)


@register("NonMaxSuppressionV2")
class NonMaxSuppressionV2(EagerOperator):
    """boxes ``[count, 4]``, scores ``[count]``, most boxes, IoU limit?, score limit?: positions that stay, best first.

    Boxes of rank 3 are handled like those of NonMaxSuppression.
    """

    attributes = {"outputDataType": "DT_INT32"}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        if array(node, inputs, 0, "boxes").ndim == 3:
            return [suppress_batches(node, inputs, False).astype(_index_type(self, node))]
        boxes, scores = array(node, inputs, 0, "boxes"), array(node, inputs, 1, "scores").reshape(-1)
        if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.shape[0] != scores.size:
            raise ShapeError(f"{node.op} '{node.name}': boxes {list(boxes.shape)} and {scores.size} scores do not fit")
        most = int(array(node, inputs, 2, "the most boxes").reshape(-1)[0])
        limits = [inputs[i] if i < len(inputs) else None for i in (3, 4)]
        overlap = 0.0 if limits[0] is None else float(limits[0].reshape(-1)[0])
        least = None if limits[1] is None else float(limits[1].reshape(-1)[0])
        kept = suppress(corners(boxes.astype(np.float32), False), scores, most, overlap, least)
        return [np.asarray(kept, _index_type(self, node))]


def corners(boxes: np.ndarray, center: bool) -> np.ndarray:
    """Boxes as (low0, low1, high0, high1)."""
    if center:
        middle, half = boxes[:, :2], boxes[:, 2:] / 2
        return np.concatenate([middle - half, middle + half], axis=1)
    a, z = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, z), np.maximum(a, z)], axis=1)


def suppress(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float | None) -> list[int]:
    """Greedy suppression: takes the best box, drops those that overlap it by more than ``overlap``, and so on."""
    if not 0.0 <= overlap <= 1.0:
        raise RunError(f"an overlap limit of {overlap} is outside 0 to 1")
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while order.size and len(kept) < most:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(boxes[best, :2], boxes[order, :2])
        high = np.minimum(boxes[best, 2:], boxes[order, 2:])
        size = np.maximum(high - low, 0)
        shared = size[:, 0] * size[:, 1]
        union = area[best] + area[order] - shared
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(union > 0, shared / union, 0)
        order = order[ratio <= overlap]
    return kept


@infer.rule(Where)
def _infer_non_zero(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known = infer.sizes(infer.operand(node, 0))
    return [(infer.index_type(node), (None, None if known is None else len(known)))]


@infer.rule(Unique)
def _infer_unique(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, known = infer.operand(node, 0), infer.sizes(infer.operand(node, 0))
    flat = node.attrs.get("axis") is None
    at = infer.number(node, "axis") % max(len(known or ()), 1)
    apart = None if known is None else tuple(None if i == at else d for i, d in enumerate(known))
    first: infer.Sizes | None = (None,) if flat else apart
    return [(x.dtype, first), *[(infer.index_type(node), (None,))] * (len(node.outputs) - 1)]


@infer.rule(NonMaxSuppression, NonMaxSuppressionV2)
def _infer_suppression(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known = infer.sizes(infer.operand(node, 0))
    return [(infer.index_type(node), None if known is None else (None, 3) if len(known) == 3 else (None,))]


@infer.rule(Compress)
def _infer_compress(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, axis = infer.sizes(x), node.attrs.get("axis")
    if axis is None:
        return [(x.dtype, (None,))]
    if known is None:
        return [(x.dtype, None)]
    at = infer.number(node, "axis") % max(len(known), 1)
    return [(x.dtype, tuple(None if i == at else d for i, d in enumerate(known)))]
