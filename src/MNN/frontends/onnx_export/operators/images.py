"""Pooling, resizing, sampling, regions."""

from __future__ import annotations

from MNN.frontends.onnx_export.exporter import Exporter, exports
from MNN.frontends.onnx_export.padding import MODES, both_ends, padding, without_last
from MNN.ir.dtype import DType
from MNN.ir.graph import Node

_CTM = {
    "AlignCorners": "align_corners", "HalfPixels": "half_pixel", "PytorchHalfPixels": "pytorch_half_pixel",
    "Asymmetric": "asymmetric", "TensorflowHalfPixels": "tf_half_pixel_for_nn",
}  # fmt: skip
_TYPES = {1: ("nearest", "floor"), 2: ("linear", None), 3: ("cubic", None), 4: ("nearest", "round_prefer_floor")}


@exports("Pooling", "Pooling3D")
def pooling(e: Exporter, node: Node) -> str:
    average = e.text(node, "type") == "AVEPOOL"
    mode, x = MODES.get(e.text(node, "padType"), "NOTSET"), e.required(node, 0)
    if e.flag(node, "isGlobal"):
        return e.op("GlobalAveragePool" if average else "GlobalMaxPool", e.name(x))
    if node.op == "Pooling3D":
        kernel, strides = e.list_of(node, "kernels"), e.list_of(node, "strides") or [1, 1, 1]
        pads = e.list_of(node, "pads")
    else:
        kernel = [e.integer(node, "kernelY"), e.integer(node, "kernelX")]
        strides = [e.integer(node, "strideY") or 1, e.integer(node, "strideX") or 1]
        pads = e.list_of(node, "pads") or [e.integer(node, "padY"), e.integer(node, "padX")]
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": strides}
    attrs |= padding(mode, pads, x, kernel, strides, [1] * len(kernel))
    if node.op == "Pooling":
        how = e.text(node, "countType")
        counted = average and (how == "INCLUDE_PADDING" or (how == "DEFAULT" and mode == "NOTSET"))
        attrs["count_include_pad"] = 1 if counted else None
        if e.flag(node, "ceilModel") and mode == "NOTSET":
            fewer = without_last(both_ends(pads, 2), x, kernel, strides, counted)
            attrs |= {"ceil_mode": 1} if fewer is None else {"pads": fewer}
    return e.op("AveragePool" if average else "MaxPool", e.name(x), **attrs)


@exports("MaxPool", "AveragePool", "LpPool")
def onnx_pooling(e: Exporter, node: Node) -> list[str]:
    kernel, x = e.list_of(node, "kernel_shape"), e.required(node, 0)
    strides, dilations = (e.list_of(node, key) or [1] * len(kernel) for key in ("strides", "dilations"))
    mode = MODES.get(e.text(node, "padMode"), "NOTSET")
    attrs: dict[str, object] = {
        "kernel_shape": kernel, "strides": strides, "dilations": dilations,
        "ceil_mode": 1 if e.flag(node, "ceil_mode") else None,
        **padding(mode, e.list_of(node, "pads"), x, kernel, strides, dilations),
    }  # fmt: skip
    if node.op == "LpPool":
        attrs["p"] = e.integer(node, "p")
    elif node.op == "AveragePool":
        attrs["count_include_pad"] = 1 if e.flag(node, "count_include_pad") else None
    else:
        attrs["storage_order"] = e.integer(node, "storage_order") or None
    return e.emit(node.op, [e.name(x)], len(node.outputs), **attrs)


@exports("GlobalLpPool")
def global_lp(e: Exporter, node: Node) -> str:
    return e.op("GlobalLpPool", e.input(node, 0), p=e.integer(node, "p"))


@exports("MaxUnpool")
def max_unpool(e: Exporter, node: Node) -> str:
    return e.op(
        "MaxUnpool", e.input(node, 0), e.i64(node, 1), "" if e.value(node, 2) is None else e.i64(node, 2),
        kernel_shape=e.list_of(node, "kernel_shape"), strides=e.list_of(node, "strides") or None,
        pads=e.list_of(node, "pads") or None,
    )  # fmt: skip


@exports("Interp", "Interp3D")
def interp(e: Exporter, node: Node) -> str:
    mode, rounding = _TYPES.get(e.integer(node, "resizeType"), ("", None))
    ctm = e.text(node, "ctm")
    if not mode or (ctm != "NotSet" and ctm not in _CTM):
        raise e.unsupported(node, f"resizing of type {e.integer(node, 'resizeType')}, {ctm}")
    if ctm != "NotSet":
        transform = _CTM[ctm]
    elif e.flag(node, "halfPixelCenters") and mode != "nearest":
        transform = "half_pixel"
    else:
        transform = "align_corners" if e.flag(node, "alignCorners") else "asymmetric"
    x, given = e.required(node, 0), e.value(node, 1)
    attrs: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": transform, "nearest_mode": rounding}
    if mode == "cubic":
        attrs["cubic_coeff_a"] = e.number(node, "cubicCoeffA")
    words = x.dtype is DType.I16  # of which ONNX Runtime has no such kernel
    operand = e.cast(e.name(x), DType.I32) if words else e.name(x)
    if given is None:
        made = e.op("Resize", operand, "", *_sizes(e, node), **attrs)
    else:
        made = _by_operand(e, node, operand, attrs)
    return e.cast(made, DType.I16) if words else made


def _by_operand(e: Exporter, node: Node, operand: str, attrs: dict[str, object]) -> str:
    x, given = e.required(node, 0), e.required(node, 1)
    if given.dtype is not None and given.dtype.is_float:
        scales = e.name(given) if given.dtype is DType.F32 else e.cast(e.name(given), DType.F32)
        return e.op("Resize", operand, "", scales, **attrs)
    whole = given.shape is not None and given.shape == (e.rank(x),)
    sizes = e.i64(node, 1)
    if not whole:
        sizes = e.op("Concat", e.op("Shape", e.name(x), end=2), sizes, axis=0)
    return e.op("Resize", operand, "", "", sizes, **attrs)


def _sizes(e: Exporter, node: Node) -> tuple[str, ...]:
    """Scales, or an empty name and sizes, from attributes."""
    x = e.required(node, 0)
    names = ("Depth", "Height", "Width")[-(e.rank(x) - 2) :]
    outs = [e.integer(node, f"output{n}") for n in names]
    if all(outs):
        front = e.op("Shape", e.name(x), end=2)
        return "", e.op("Concat", front, e.const(outs), axis=0)
    scales = [e.number(node, f"{n.lower()}Scale") for n in names]
    return (e.const([1.0, 1.0, *scales]),)


@exports("OnnxResize")
def onnx_resize(e: Exporter, node: Node) -> str:
    mode, transform = e.text(node, "mode"), e.text(node, "coordinate_transformation_mode")
    sizes = "" if e.value(node, 3) is None else e.i64(node, 3)
    return e.op(
        "Resize", e.input(node, 0), e.input(node, 1) if transform == "tf_crop_and_resize" else "", e.input(node, 2),
        sizes, mode=mode, coordinate_transformation_mode=transform,
        nearest_mode=e.text(node, "nearest_mode") if mode == "nearest" else None,
        cubic_coeff_a=e.number(node, "cubic_coeff_a") if mode == "cubic" else None,
        exclude_outside=1 if e.flag(node, "exclude_outside") else None,
        extrapolation_value=e.number(node, "extrapolation_value") or None,
        antialias=1 if e.flag(node, "antialias") else None, axes=e.list_of(node, "axes") or None,
        keep_aspect_ratio_policy=None if sizes == "" else e.text(node, "keep_aspect_ratio_policy"),
    )  # fmt: skip


@exports("GridSample", "OnnxGridSample")
def grid_sample(e: Exporter, node: Node) -> str:
    mode = {"NEAREST": "nearest", "CUBIC": "cubic"}.get(e.text(node, "mode"), "linear")
    padding = {"CLAMP": "border", "REFLECTION": "reflection"}.get(e.text(node, "paddingMode"), "zeros")
    if e.flag(node, "backward"):
        raise e.unsupported(node, "gradient of sampling")
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": e.flag(node, "alignCorners")}
    return e.op("GridSample", e.input(node, 0), e.input(node, 1), **attrs)


@exports("AffineGrid")
def affine_grid(e: Exporter, node: Node) -> str:
    return e.op("AffineGrid", e.input(node, 0), e.i64(node, 1), align_corners=e.flag(node, "alignCorners"))


@exports("ROIAlign")
def roi_align(e: Exporter, node: Node) -> str:
    if e.value(node, 2) is None:
        raise e.unsupported(node, "regions without the numbers of their images")
    return e.op(
        "RoiAlign", e.input(node, 0), e.input(node, 1), e.i64(node, 2), output_height=e.integer(node, "pooledHeight"),
        output_width=e.integer(node, "pooledWidth"), spatial_scale=e.number(node, "spatialScale"),
        sampling_ratio=max(e.integer(node, "samplingRatio"), 0),
        coordinate_transformation_mode="half_pixel" if e.flag(node, "aligned") else "output_half_pixel",
        mode="max" if e.text(node, "poolType") == "MAXPOOL" else "avg",
    )  # fmt: skip


@exports("ROIPooling")
def roi_pooling(e: Exporter, node: Node) -> str:
    shape = [e.integer(node, "pooledHeight"), e.integer(node, "pooledWidth")]
    scale = e.number(node, "spatialScale")
    return e.op("MaxRoiPool", e.input(node, 0), e.input(node, 1), pooled_shape=shape, spatial_scale=scale)


@exports("DeformConv")
def deform_conv(e: Exporter, node: Node) -> str:
    operands = [e.input(node, i) for i in range(5)]
    return e.op(
        "DeformConv", *operands, strides=e.list_of(node, "strides") or None, pads=e.list_of(node, "pads") or None,
        dilations=e.list_of(node, "dilations") or None, group=e.integer(node, "group") or 1,
        offset_group=e.integer(node, "offset_group") or 1,
    )  # fmt: skip


@exports("OnnxCol2Im")
def col2im(e: Exporter, node: Node) -> str:
    return e.op(
        "Col2Im", e.input(node, 0), e.i64(node, 1), e.i64(node, 2), dilations=e.list_of(node, "dilations") or None,
        pads=e.list_of(node, "pads") or None, strides=e.list_of(node, "strides") or None,
    )  # fmt: skip
