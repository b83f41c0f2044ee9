"""Custom operators of detection networks."""

from __future__ import annotations

from typing import Any

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import CUSTOM, tflite_op
from MNN.ir.graph import Value


@tflite_op(f"{CUSTOM}TFLite_Detection_PostProcess")
def detection_post_process(ctx: Context, node: TfliteNode) -> list[Value]:
    given = node.custom()

    def number(key: str, default: Any = None) -> Any:
        found = given.get(key, default)
        if not isinstance(found, (int, float)):
            raise node.malformed(f"its option '{key}' is {found!r}")
        return found

    return ctx.emit(
        "DetectionPostProcess", [ctx.real(node, i) for i in range(3)], 4, detections=int(number("max_detections")),
        classes=int(number("num_classes")), perDetection=int(number("max_classes_per_detection")),
        perClass=int(number("detections_per_class", 100)), regular=bool(number("use_regular_nms", False)),
        scales=[float(number(f"{axis}_scale")) for axis in "yxhw"], scoreLimit=float(number("nms_score_threshold")),
        overlapLimit=float(number("nms_iou_threshold")),
    )  # fmt: skip
