"""Boxes: priors, detections of SSD and YOLO networks, regions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.ncnn.context import SHAPES, Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.ir.graph import Value

_GIVEN = -233
_MANY = 1 << 30


@ncnn_layer("PriorBox")
def prior_box(ctx: Context, node: NcnnNode) -> Value:
    """Boxes around every place of a feature map, and their variances: ``[2, boxes * 4]``; of one operand in the manner
    of MXNet, without variances and size: ``[boxes * 4]``."""
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    height, width = (ctx.known_extent(node, x, i, "the size of a feature map") for i in (2, 3))
    least, most, ratios = p.floats(0), p.floats(1), p.floats(2)
    if not least or min(ratios, default=1.0) <= 0 or (most and len(most) != len(least)):
        raise node.malformed(f"sizes {least}, {most} and ratios {ratios}")
    if len(node.inputs) == 1 and p.integer(9) == _GIVEN and p.integer(10) == _GIVEN and not most:
        return ctx.const(_multibox(node, width, height, least, ratios)[None])
    image_w, image_h = (p.integer(9), p.integer(10))
    if _GIVEN in (image_w, image_h):
        image = ctx.expect(node, node.input(1), 3)
        image_h, image_w = (
            ctx.known_extent(node, image, i, "the size of the image") if n == _GIVEN else n
            for i, n in ((2, image_h), (3, image_w))
        )
    if min(image_w, image_h) < 1:
        raise node.malformed(f"an image of {image_h} x {image_w}")
    steps = []
    for given, whole, count in ((p.real(12, _GIVEN), image_h, height), (p.real(11, _GIVEN), image_w, width)):
        step = whole / count if given == _GIVEN else given
        steps.append(math.ceil(step) if given == _GIVEN and p.flag(14) else step)
    extents: list[tuple[float, float]] = []
    for k, size in enumerate(least):
        extents.append((size, size))
        extents += [(math.sqrt(size * most[k]),) * 2] if most else []
        for ratio in ratios:
            pair = (size * math.sqrt(ratio), size / math.sqrt(ratio))
            extents += [pair, pair[::-1]] if p.flag(7, True) else [pair]
    offset = p.real(13)
    shift = [offset * (s - 1) if p.flag(15) else offset * s for s in steps]
    boxes = _grid(node, width, height, (steps[1], steps[0]), (shift[1], shift[0]), extents)
    boxes /= np.asarray([image_w, image_h, image_w, image_h], np.float32)
    boxes = np.clip(boxes, 0, 1) if p.flag(8) else boxes
    variances = [p.real(3, 0.1), p.real(4, 0.1), p.real(5, 0.2), p.real(6, 0.2)]
    spread = np.tile(np.asarray(variances, np.float32), boxes.size // 4)
    return ctx.const(np.stack([boxes.reshape(-1), spread])[None])


def _multibox(node: NcnnNode, width: int, height: int, sizes: Sequence[float], ratios: Sequence[float]) -> np.ndarray:
    p = node.params
    steps = [
        1 / n if given == _GIVEN else given for given, n in ((p.real(11, _GIVEN), width), (p.real(12, _GIVEN), height))
    ]
    shape = height / width
    extents = [(size * shape, size) for size in sizes]
    extents += [(sizes[0] * shape * math.sqrt(r), sizes[0] / math.sqrt(r)) for r in ratios[1:]]
    offset = p.real(13)
    boxes = _grid(node, width, height, steps, [offset * s for s in steps], extents)
    return np.clip(boxes, 0, 1).reshape(-1) if p.flag(8) else boxes.reshape(-1)


def _grid(
    node: NcnnNode, width: int, height: int, steps: Sequence[float], shift: Sequence[float],
    extents: Sequence[tuple[float, float]],
) -> np.ndarray:  # fmt: skip
    """Boxes (x0, y0, x1, y1) of these extents around each place."""
    if width * height * len(extents) > 1 << 22:
        raise node.malformed(f"{len(extents)} boxes at each of {height} x {width} places")
    half = np.asarray(extents, np.float32).reshape(1, 1, -1, 2) / 2
    x = (np.arange(width) * steps[0] + shift[0]).astype(np.float32)[None, :, None]
    y = (np.arange(height) * steps[1] + shift[1]).astype(np.float32)[:, None, None]
    boxes = np.empty((height, width, len(extents), 4), np.float32)
    boxes[..., 0], boxes[..., 2] = x - half[..., 0], x + half[..., 0]
    boxes[..., 1], boxes[..., 3] = y - half[..., 1], y + half[..., 1]
    return boxes


@ncnn_layer("DetectionOutput")
def detection_output(ctx: Context, node: NcnnNode) -> Value:
    """Operands: locations, confidences, priors ``[2, boxes * 4]``; gives rows of class, score and corners."""
    p = node.params
    if p.integer(0) == _GIVEN:
        raise node.unsupported("detections in the manner of MXNet")
    location, confidence = (ctx.reshape(node.input(i), [-1]) for i in (0, 1))
    priors = ctx.op("Reshape", node.input(2), ctx.const([1, 2, -1, 1]))
    found = ctx.op(
        "DetectionOutput", location, confidence, priors, classCount=p.integer(0), nmsThresholdold=p.real(1, 0.05),
        nmsTopK=p.integer(2, 300), keepTopK=p.integer(3, 100), confidenceThreshold=p.real(4, 0.5), shareLocation=1,
        codeType=2,
    )  # fmt: skip
    return ctx.op("Reshape", found, ctx.const([1, -1, 6]))


@ncnn_layer("YoloDetectionOutput", "Yolov3DetectionOutput")
def yolo_detection_output(ctx: Context, node: NcnnNode) -> Value:
    """Operands: feature maps of YOLO v2 or v3; gives rows of class (from 1), score and corners, best first."""
    p, third = node.params, node.op.startswith("Yolov3")
    classes, count = p.integer(0, 20), p.integer(1, 5)
    biases, mask, scales = p.floats(4), [int(v) for v in p.floats(5)], p.floats(6)
    rows = []
    for number, x in enumerate(node.inputs):
        ctx.expect(node, x, 3)
        height, width = (ctx.known_extent(node, x, i, "the size of a feature map") for i in (2, 3))
        which = mask[number * count : (number + 1) * count] if third else list(range(count))
        if len(which) < count or min(which, default=-1) < 0 or 2 * max(which, default=0) + 1 >= len(biases):
            raise node.malformed(f"{len(biases)} sizes of boxes for {count} boxes at a place")
        if third and number >= len(scales):
            raise node.malformed(f"{len(scales)} scales for {len(node.inputs)} feature maps")
        anchors = np.asarray([biases[2 * i : 2 * i + 2] for i in which], np.float32)
        factor = scales[number] if third else 1.0
        rows.append(_boxes(ctx, x, anchors, (height, width), classes, factor, third))
    table = ctx.op("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]
    return _kept(ctx, table, p.real(2, 0.01), p.real(3, 0.45))


def _boxes(
    ctx: Context, x: Value, anchors: np.ndarray, size: tuple[int, int], classes: int, factor: float, third: bool
) -> Value:
    """Rows of class, score, x0, y0, x1, y1 of all places of a feature map."""
    count, (height, width) = len(anchors), size
    parts = ctx.op("Reshape", x, ctx.const([count, classes + 5, height * width]))
    x_, y_, w_, h_, score, names = ctx.emit(
        "Slice", [parts], 6, axis=1, slicePoints=[1, 1, 1, 1, 1, classes], sourceType="TORCH"
    )
    columns = np.tile(np.arange(width, dtype=np.float32), height).reshape(1, 1, -1)
    lines = np.repeat(np.arange(height, dtype=np.float32), width).reshape(1, 1, -1)
    centres = [
        ctx.binary("MUL", ctx.binary("ADD", ctx.op("Sigmoid", v), ctx.const(grid)), 1 / n)
        for v, grid, n in ((x_, columns, width), (y_, lines, height))
    ]
    sizes = [
        ctx.binary(
            "MUL", ctx.unary("EXP", v), ctx.const((anchors[:, i] / (n * factor)).reshape(-1, 1, 1).astype(np.float32))
        )
        for i, (v, n) in enumerate(((w_, width), (h_, height)))
    ]
    half = [ctx.binary("MUL", v, 0.5) for v in sizes]
    low = [ctx.binary("SUB", c, h) for c, h in zip(centres, half, strict=True)]
    high = [ctx.binary("ADD", c, h) for c, h in zip(centres, half, strict=True)]
    best = ctx.op("ArgMax", names, axis=1)
    label = ctx.binary("ADD", ctx.op("Unsqueeze", ctx.op("Cast", best, dstT="DT_FLOAT"), squeezeDims=[1]), 1.0)
    if third:  # as ncnn has it: 1 / (1 + exp(-box) * (1 + exp(-class)))
        peak = ctx.op("Reduction", names, operation="MAXIMUM", dim=[1], keepDims=True)
        inner = ctx.binary("ADD", ctx.unary("EXP", ctx.unary("NEG", peak)), 1.0)
        product = ctx.binary("MUL", ctx.unary("EXP", ctx.unary("NEG", score)), inner)
        sure = ctx.unary("RECIPROCAL", ctx.binary("ADD", product, 1.0))
    else:
        likely = ctx.op("Reduction", ctx.op("Softmax", names, axis=1), operation="MAXIMUM", dim=[1], keepDims=True)
        sure = ctx.binary("MUL", ctx.op("Sigmoid", score), likely)
    table = ctx.op("Concat", label, sure, *low, *high, axis=1)  # [count, 6, places]
    return ctx.op("Reshape", ctx.op("Permute", table, dims=[0, 2, 1]), ctx.const([-1, 6]))


def _kept(ctx: Context, table: Value, least: float, overlap: float) -> Value:
    """Rows that stay, best first: boxes of all classes suppress each other."""
    score = ctx.op("Reshape", _columns(ctx, table, 1, 2), ctx.const([-1]))
    below = float(np.nextafter(np.float32(least), np.float32(-np.inf)))  # a score as low as the limit stays
    places = ctx.op(
        "NonMaxSuppressionV2", _columns(ctx, table, 2, 6), score, ctx.const(np.int32(_MANY)),
        ctx.const(np.float32(min(max(overlap, 0.0), 1.0))), ctx.const(np.float32(below)),
    )  # fmt: skip
    rows = ctx.op("GatherV2", table, places, ctx.const(np.int32(0)))
    return ctx.op("Unsqueeze", rows, squeezeDims=[0])


def _columns(ctx: Context, table: Value, start: int, end: int) -> Value:
    return ctx.op("StridedSlice", table, ctx.const([start]), ctx.const([end]), ctx.const([1]), fromType=1)


@ncnn_layer("ROIPooling", "ROIAlign")
def regions(ctx: Context, node: NcnnNode) -> Value:
    """Operands: the image, corners of one box."""
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    box = ctx.op("Reshape", node.input(1), ctx.const([-1, 4]))
    if box.shape is not None and box.shape[0] not in (1, None) and isinstance(box.shape[0], int):
        raise node.unsupported(f"{box.shape[0]} boxes at once", SHAPES)
    image = ctx.const(np.zeros(1, np.int32))
    given: dict[str, object] = {
        "pooledWidth": p.integer(0), "pooledHeight": p.integer(1), "spatialScale": p.real(2, 1.0),
    }  # fmt: skip
    if node.op == "ROIPooling":
        return ctx.op("ROIPooling", x, box, image, **given)
    if p.integer(5) != 1:
        raise node.unsupported("version 0", "write the network with version 1 (parameter 5), as detectron2 has it")
    return ctx.op("ROIAlign", x, box, image, samplingRatio=p.integer(3), aligned=p.flag(4), poolType="AVEPOOL", **given)
