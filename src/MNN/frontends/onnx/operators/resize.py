"""Resize and Upsample."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands, scales_or_sizes
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.images.resize_tables import ROUNDINGS, TRANSFORMS

_CTM = {
    "half_pixel": "HalfPixels", "pytorch_half_pixel": "PytorchHalfPixels", "align_corners": "AlignCorners",
    "asymmetric": "Asymmetric", "tf_half_pixel_for_nn": "TensorflowHalfPixels",
}  # fmt: skip
_TYPES = {("nearest", "floor"): 1, ("nearest", "round_prefer_floor"): 4}


def _mode(node: OnnxNode) -> str:
    mode = node.choice_attr("mode", "nearest", "nearest", "linear", "bilinear", "cubic")
    return "linear" if mode == "bilinear" else mode


@onnx_op("Resize", since=11, operands=Operands(lists=(1, 2, 3), check=scales_or_sizes))
def resize(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    roi, scales, sizes = (_given(node.optional(i)) for i in (1, 2, 3))
    mode = _mode(node)
    transform = node.choice_attr("coordinate_transformation_mode", "half_pixel", *TRANSFORMS)
    rounding = node.choice_attr("nearest_mode", "round_prefer_floor", *ROUNDINGS)
    axes, policy = node.ints_attr("axes", None), node.str_attr("keep_aspect_ratio_policy", "stretch")
    antialias, exclude = node.bool_attr("antialias", False), node.bool_attr("exclude_outside", False)
    cubic, outside = node.float_attr("cubic_coeff_a", -0.75), node.float_attr("extrapolation_value", 0.0)
    kind = {"linear": 2, "cubic": 3}.get(mode) or _TYPES.get((mode, rounding))
    plain = kind and transform in _CTM and not axes and not antialias and not exclude and policy == "stretch"
    if plain and ctx.rank(x) in (4, 5):
        return _interp(ctx, x, sizes if sizes is not None else scales, kind or 0, transform, cubic)
    return ctx.op(
        "OnnxResize", x, roi, scales, sizes, mode=mode, coordinate_transformation_mode=transform, nearest_mode=rounding,
        cubic_coeff_a=cubic, exclude_outside=exclude, extrapolation_value=outside, antialias=antialias, axes=axes,
        keep_aspect_ratio_policy=policy,
    )  # fmt: skip


@onnx_op("Resize", since=10)
@onnx_op("Upsample", operands=Operands(lists=(1,)))
def upsample(ctx: Context, node: OnnxNode) -> Value:
    """Scales only; output ``i`` comes from input ``i / scale``."""
    x, scales = node.input(0), node.optional(1)
    if scales is None:
        listed = node.floats_attr("scales", None)
        if listed is None:
            listed = [1.0, 1.0, node.float_attr("height_scale"), node.float_attr("width_scale")]
        scales = ctx.const(listed, DType.F32)
    mode = _mode(node)
    if ctx.rank(x) in (4, 5):
        return _interp(ctx, x, scales, {"nearest": 1, "linear": 2, "cubic": 3}[mode], "asymmetric", -0.75)
    return ctx.op(
        "OnnxResize", x, None, scales, None, mode=mode, coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip


def _interp(ctx: Context, x: Value, sizes: Value | None, kind: int, transform: str, cubic: float) -> Value:
    return ctx.op(
        "Interp3D" if ctx.rank(x) == 5 else "Interp", x, sizes, resizeType=kind, ctm=_CTM[transform],
        alignCorners=transform == "align_corners", halfPixelCenters=transform == "half_pixel",
        cubicCoeffA=cubic if kind == 3 else None,
    )  # fmt: skip


def _given(value: Value | None) -> Value | None:
    """An operand; None for one that is there but empty."""
    return None if value is None or value.shape == (0,) else value
