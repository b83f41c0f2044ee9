"""Single-shot detection (Liu et al., arXiv:1512.02325)."""

from __future__ import annotations

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.message import Message
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.ir.graph import Value

ALL = (1 << 31) - 1
"""How many boxes are kept where the file does not limit them."""


@caffe_layer("PriorBox")
def prior_box(ctx: Context, node: CaffeNode) -> Value:
    """Boxes around every place of the first blob, in an image that is as large as the second: ``[1, 2, boxes * 4]``."""
    param = node.params("prior_box_param")
    smallest, largest = param.numbers("min_size"), param.numbers("max_size")
    variances = param.numbers("variance") or [0.1]
    if not smallest or min(smallest) <= 0 or (largest and len(largest) != len(smallest)):
        raise node.malformed(f"smallest sizes {smallest} and largest sizes {largest}")
    if len(variances) not in (1, 4):
        raise node.malformed(f"{len(variances)} variances, expected 1 or 4")
    height, width = _sides(node, param, "img_size", "img")
    steps = _sides(node, param, "step", "step")
    if bool(height) != bool(width) or bool(steps[0]) != bool(steps[1]):
        raise node.malformed("a height without a width")
    if any(s != int(s) for s in steps):
        raise node.unsupported(f"steps of {steps[0]} and {steps[1]} pixels", "leave them out, or use whole ones")
    boxes = ctx.op(
        "PriorBox", node.input(0), node.input(1), flip=param.flag("flip", True), clip=param.flag("clip", False),
        # as in Caffe, which takes whole pixels of them
        minSizes=[float(int(s)) for s in smallest], maxSizes=[float(int(s)) for s in largest],
        aspectRatios=param.numbers("aspect_ratio"), variances=variances * (4 // len(variances)),
        imageHeight=int(height), imageWidth=int(width), stepHeight=int(steps[0]), stepWidth=int(steps[1]),
        offset=param.number("offset", 0.5),
    )  # fmt: skip
    return ctx.op("Squeeze", boxes, squeezeDims=[3])


def _sides(node: CaffeNode, param: Message, name: str, stem: str) -> tuple[float, float]:
    """One number for both sides, or one each; 0 where none is given."""
    both = param.number(name, 0.0)
    sides = param.number(f"{stem}_h", both), param.number(f"{stem}_w", both)
    if min(sides) < 0:
        raise node.malformed(f"{name} of {sides[0]} and {sides[1]}")
    return sides


@caffe_layer("DetectionOutput")
def detection_output(ctx: Context, node: CaffeNode) -> Value:
    """Boxes found: ``[1, 1, found, 7]`` with the number of the sample, label, score and corners, best first."""
    param = node.params("detection_output_param")
    suppression = param.message("nms_param")
    for training in ("save_output_param", "visualize", "visualize_threshold", "save_file", "normalized_bbox"):
        param.has(training)
    attrs = {
        "classCount": param.integer("num_classes", 0),
        "nmsThresholdold": suppression.number("nms_threshold", 0.3),
        "nmsTopK": max(suppression.integer("top_k", 0), 0),
        "keepTopK": param.integer("keep_top_k", -1),
        "confidenceThreshold": param.number("confidence_threshold", -3.4e38),
        "shareLocation": int(param.flag("share_location", True)),
        "backgroundLable": param.integer("background_label_id", 0),
        "varianceEncodedTarget": int(param.flag("variance_encoded_in_target", False)),
        "codeType": {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3}[
            node.choice(param, "code_type", "CORNER", "CORNER", "CENTER_SIZE", "CORNER_SIZE")
        ],
    }  # fmt: skip
    decay = suppression.number("eta", 1.0)
    if attrs["classCount"] < 1 or not 0 < decay <= 1:
        raise node.malformed(f"{attrs['classCount']} classes and an eta of {decay}")
    plain = (
        node.size(0) == 1
        and decay == 1
        and attrs["shareLocation"] == 1
        and attrs["backgroundLable"] == 0
        and attrs["varianceEncodedTarget"] == 0
        and attrs["codeType"] == 2
    )
    operands = [node.input(i) for i in range(3)]
    if plain:
        attrs["keepTopK"] = attrs["keepTopK"] if attrs["keepTopK"] > 0 else ALL
        found = ctx.op("DetectionOutput", *operands, **attrs)
        return ctx.op("Padding", found, ctx.const([0, 0, 0, 0, 0, 0, 1, 0]))
    return ctx.op("SsdDetectionOutput", *operands, eta=decay, **attrs)
