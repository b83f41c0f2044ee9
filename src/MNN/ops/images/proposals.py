"""Regions that may hold something, and pooling over them in channels of their own: Faster R-CNN and R-FCN."""

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
from MNN.ops.images.boxes import best_first, suppress
from MNN.ops.inference import infer

_LARGEST = 1 << 30


@register("RegionProposal")
class RegionProposal(EagerOperator):
    """Inputs: scores ``[1, 2 * A, H, W]`` (those of objects are the second half), offsets ``[1, 4 * A, H, W]``, and the
    image's height, width and scale. Outputs rows ``[n, 5]`` of 0 and corners in pixels, best first, and scores
    ``[n, 1]`` (Ren et al. 2015, arXiv:1506.01497).

    ``A`` anchors at every ``step`` pixels: of the area of a square of side ``base``, for every one of ``ratios`` of
    height to width, ``scales`` times as wide and high. Boxes with a side under ``smallest`` times the image's scale
    go, then all but ``candidates``, then those that share more than ``overlap`` with a better one, then all but
    ``most``.
    """

    in_mnn = False
    attributes = {
        "step": 16, "base": 16, "smallest": 16.0, "ratios": [0.5, 1.0, 2.0], "scales": [8.0, 16.0, 32.0],
        "candidates": 6000, "most": 300, "overlap": 0.7,
    }  # fmt: skip

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        given = [a.astype(np.float32) for a in inputs if a is not None]
        anchors = _anchors(*(np.asarray(self.attr(node, k), np.float64) for k in ("base", "ratios", "scales")))
        count = len(anchors)
        if len(given) != 3 or any(a.ndim != 4 for a in given[:2]) or given[2].size < 3:
            raise RunError(f"{node.op} '{node.name}': expected scores, offsets, and the size and scale of the image")
        scores, offsets, (height, width, scale) = *given[:2], given[2].reshape(-1)[:3]
        rows, columns = scores.shape[2:]
        if scores.shape != (1, 2 * count, rows, columns) or offsets.shape != (1, 4 * count, rows, columns):
            raise RunError(
                f"{node.op} '{node.name}': scores {list(scores.shape)} and offsets {list(offsets.shape)} for {count} "
                "anchors and one image"
            )
        places = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(-1, 1, 2)
        priors = (anchors + np.tile(places * self.int_attr(node, "step"), 2)).reshape(-1, 4).astype(np.float32)
        chances = scores[0, count:].transpose(1, 2, 0).reshape(-1)
        boxes = _moved(priors, offsets[0].transpose(1, 2, 0).reshape(-1, 4))
        boxes = np.clip(boxes, 0, np.array([width - 1, height - 1] * 2, np.float32))
        sides = boxes[:, 2:] - boxes[:, :2] + 1
        chances = np.where((sides >= self.float_attr(node, "smallest") * scale).all(1), chances, -np.inf)
        limits = [n if n > 0 else len(boxes) for n in (self.int_attr(node, k) for k in ("candidates", "most"))]
        order = best_first(chances, -np.inf, limits[0])
        kept = suppress(boxes, order, self.float_attr(node, "overlap"), limits[1], extra=1.0)
        regions = np.concatenate([np.zeros((len(kept), 1), np.float32), boxes[kept]], 1)
        return [regions, chances[kept].reshape(-1, 1)]


def _anchors(base: np.ndarray, ratios: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Corners ``[ratios * scales, 4]`` around the first square; sides are rounded before they are scaled."""
    side, centre = float(base), (float(base) - 1) / 2
    widths = np.round(np.sqrt(side * side / ratios))
    heights = np.round(widths * ratios)
    half = (np.stack([widths, heights], 1)[:, None] * scales[:, None] - 1).reshape(-1, 2) / 2
    return np.concatenate([centre - half, centre + half], 1)


def _moved(priors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Boxes whose centres are moved by shares of the sides, and whose sides grow by exponentials."""
    sides = priors[:, 2:] - priors[:, :2] + 1
    centres = priors[:, :2] + 0.5 * sides + offsets[:, :2] * sides
    with np.errstate(over="ignore"):
        half = 0.5 * np.minimum(np.exp(offsets[:, 2:]) * sides, np.float32(_LARGEST))
    return np.concatenate([centres - half, centres + half], 1)


@register("PositionSensitivePooling")
class PositionSensitivePooling(Operator):
    """``x[N, channels * bins * bins, H, W]`` and regions ``[R, 5]`` (the sample's number and corners) to
    ``[R, channels, bins, bins]``: each bin's mean in the channel that belongs to it (Dai et al. 2016,
    arXiv:1605.06409)."""

    in_mnn = False
    attributes = {"channels": 0, "bins": 0, "spatialScale": 1.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, regions = operand(b, inputs, 0), operand(b, inputs, 1, "regions")
        require_rank(b, x, 4)
        outputs, bins, where = self.int_attr(node, "channels"), self.int_attr(node, "bins"), b.where
        count = math.prod(regions.shape) // 5
        if outputs < 1 or bins < 1 or x.shape[1] != outputs * bins * bins or count * 5 != math.prod(regions.shape):
            raise ShapeError(
                f"{b.where}: {list(x.shape)} and regions {list(regions.shape)} for {outputs} outputs in {bins} bins"
            )
        scale = self.float_attr(node, "spatialScale")

        def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return [_pooled(arrays[0], arrays[1].reshape(-1, 5), outputs, bins, scale, where)]

        return b.host("position_sensitive_pool", run, [x, regions], (x.dtype, (count, outputs, bins, bins)))


def _pooled(x: np.ndarray, regions: np.ndarray, outputs: int, bins: int, scale: float, where: str) -> np.ndarray:
    found = np.zeros((len(regions), outputs, bins, bins), x.dtype)
    numbers = np.nan_to_num(regions[:, 0]).astype(np.int64)
    if len(regions) and not ((numbers >= 0) & (numbers < len(x))).all():
        raise RunError(f"{where}: a region's image number is outside [0, {len(x) - 1}]")
    height, width = x.shape[2:]
    channels = x.reshape(len(x), outputs, bins, bins, height, width)
    corners = np.clip(np.nan_to_num(regions[:, 1:].astype(np.float64)), -_LARGEST, _LARGEST)
    for r, (image, box) in enumerate(zip(numbers, corners, strict=True)):
        low = np.floor(box[:2] + 0.5) * scale
        step = np.maximum((np.floor(box[2:] + 0.5) + 1) * scale - low, 0.1) / bins
        edges = low + np.arange(bins + 1)[:, None] * step
        begins = np.clip(np.floor(edges[:-1]), 0, [width, height]).astype(np.int64)
        ends = np.clip(np.ceil(edges[1:]), 0, [width, height]).astype(np.int64)
        for i in range(bins):
            for j in range(bins):
                part = channels[image, :, i, j, begins[i, 1] : ends[i, 1], begins[j, 0] : ends[j, 0]]
                if part.size:
                    found[r, :, i, j] = part.mean((1, 2))
    return found


@infer.rule(RegionProposal)
def _infer_proposals(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(DType.F32, (None, 5)), (DType.F32, (None, 1))]


@infer.rule(PositionSensitivePooling)
def _infer_pooled(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    regions, bins = infer.sizes(infer.operand(node, 1)), infer.number(node, "bins")
    count = regions[0] if regions else None
    return [(infer.operand(node, 0).dtype, (count, infer.number(node, "channels"), bins, bins))]
