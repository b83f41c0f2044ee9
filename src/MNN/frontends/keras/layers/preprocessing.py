"""Layers that prepare data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, cast
from MNN.frontends.common.terms import Term, size_of
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.reshaping import KERNELS, cut, resampled, resized
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.registry import keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

MAX_SIDE = 1 << 16
"""How large pictures may become that are filled up."""


@keras_layer("Resizing")
def resizing(ctx: KerasContext, node: KerasNode) -> Value:
    first = node.get("data_format", "channels_last") == "channels_first"
    return resized_as(ctx, node, node.input(0), [node.int_attr("height"), node.int_attr("width")], first)


def resized_as(ctx: KerasContext, node: KerasNode, x: Value, size: list[int], first: bool) -> Value:
    """Pictures in another size by any method, cut or filled up to the shape that is wanted before."""
    how = node.choice_attr("interpolation", "bilinear", "nearest", "area", *KERNELS)
    single, spatial = ctx.rank(x) == 3, _spatial(ctx, node, x, first)
    x = ctx.op("Unsqueeze", x, squeezeDims=[0]) if single else x
    known = [n for n in spatial if isinstance(n, int)]
    weighed = how not in ("nearest", "area") and (how not in ("bilinear", "bicubic") or node.bool_attr("antialias"))
    cropped, filled = node.bool_attr("crop_to_aspect_ratio"), node.bool_attr("pad_to_aspect_ratio")
    if min(size) < 1:
        raise FormatError(f"{node.where}: pictures of {size}")
    if 0 in known:
        raise node.unsupported("pictures without pixels", "save the model with the sizes of its pictures")
    if (cropped or filled) and len(known) < 2:
        x = _to_open_aspect(ctx, node, x, size, first, cropped)
    elif cropped:
        x = _cut_to_aspect(ctx, x, known, size, first)
    elif filled:
        x = _filled_to_aspect(ctx, node, x, known, size, first)
    target = ctx.const(size, DType.I32)
    if weighed or how == "area":
        y = resampled(ctx, x, target, how, first, node.bool_attr("antialias"))
    else:
        y = resized(ctx, x, target, how, first)
    return ctx.op("Squeeze", y, squeezeDims=[0]) if single else y


def _spatial(ctx: KerasContext, node: KerasNode, x: Value, first: bool) -> list[Any]:
    rank = ctx.sizes(x, node.where)
    if rank not in (3, 4):
        raise FormatError(f"{node.where}: pictures of {rank} axes, expected 3 or 4")
    begin = rank - 2 if first else rank - 3
    return list((x.shape or ())[begin : begin + 2])


def _aspect(known: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """How high and how wide a picture would be with the shape that is wanted, one side kept; as Keras rounds it."""
    height, width = known
    ratio = [np.float32(width * size[0]) / np.float32(size[1]), np.float32(height * size[1]) / np.float32(size[0])]
    return int(ratio[0]), int(ratio[1])


def _cut_to_aspect(ctx: KerasContext, x: Value, known: Sequence[int], size: Sequence[int], first: bool) -> Value:
    kept = [max(min(n, a), 1) for n, a in zip(known, _aspect(known, size), strict=True)]
    begins = [(n - k) // 2 for n, k in zip(known, kept, strict=True)]
    axis = 2 if first else 1
    cuts = [(axis + i, b, b + k) for i, (b, k) in enumerate(zip(begins, kept, strict=True))]
    return cut(ctx, x, cuts)


def _filled_to_aspect(
    ctx: KerasContext, node: KerasNode, x: Value, known: Sequence[int], size: Sequence[int], first: bool
) -> Value:
    wanted = [max(n, a) for n, a in zip(known, _aspect(known, size), strict=True)]
    borders = [(w - n) // 2 for n, w in zip(known, wanted, strict=True)]
    if max(wanted) > MAX_SIDE:
        raise node.unsupported(f"pictures filled up to {wanted}", "use a shape that is closer to theirs")
    inner = [n for b in borders for n in (b, b)]
    pads = [0, 0, 0, 0, *inner] if first else [0, 0, *inner, 0, 0]
    value = ctx.const_like(node.float_attr("fill_value", 0.0), x)
    y = ctx.op("Padding", x, ctx.const(pads, DType.I32), value, mode="CONSTANT")
    y.dtype = x.dtype
    return y


def _to_open_aspect(
    ctx: KerasContext, node: KerasNode, x: Value, size: Sequence[int], first: bool, cropped: bool
) -> Value:
    """The same two for pictures whose sizes are known only when the model runs."""
    axis = 2 if first else 1
    now = [Term(ctx, size_of(ctx, x, axis + i)) for i in (0, 1)]
    pieces: list[Value] = []
    for i in (0, 1):
        product = cast(ctx, (now[1 - i] * size[i]).value, DType.F32)
        aspect = cast(ctx, (Term(ctx, product) / float(size[1 - i])).value, DType.I32)
        kept = binary(ctx, "MINIMUM" if cropped else "MAXIMUM", now[i].value, aspect)
        kept = binary(ctx, "MAXIMUM", kept, 1)
        between = binary(ctx, "SUB", now[i].value, kept) if cropped else binary(ctx, "SUB", kept, now[i].value)
        border = binary(ctx, "FLOORDIV", between, 2)
        pieces += [border, kept] if cropped else [border, border]
    none = ctx.const(0, DType.I32)
    if cropped:
        whole = ctx.const(-1, DType.I32)
        places = ([*[v] * axis, *pieces[i::2], *[v] * (2 - axis)] for i, v in enumerate((none, whole)))
        return ctx.tf_like("Slice", x, *(ctx.op("Pack", *p, axis=0) for p in places))
    pads = ctx.op("Pack", *[none] * (2 * axis), *pieces, *[none] * (2 * (2 - axis)), axis=0)
    y = ctx.op("Padding", x, pads, ctx.const_like(node.float_attr("fill_value", 0.0), x), mode="CONSTANT")
    y.dtype = x.dtype
    return y


@keras_layer("CenterCrop")
def center_crop(ctx: KerasContext, node: KerasNode) -> Value:
    """The middle; pictures that are smaller on a side are cut to the shape that is wanted, and resized."""
    return middle(ctx, node, node.input(0))


def middle(ctx: KerasContext, node: KerasNode, x: Value, resize: bool = False) -> Value:
    """``resize``: larger pictures are resized, too."""
    first = node.get("data_format", "channels_last") == "channels_first"
    if x.dtype is not None and not x.dtype.is_float:
        x = ctx.cast(x, DType.F32)
    wanted, rank = [node.int_attr(key) for key in ("height", "width")], ctx.sizes(x, node.where)
    spatial, axis = _spatial(ctx, node, x, first), rank - 2 if first else rank - 3
    if all(isinstance(n, int) for n in spatial):
        if not resize and all(n >= w for n, w in zip(spatial, wanted, strict=True)):
            begins = [(n - w) // 2 for n, w in zip(spatial, wanted, strict=True)]
            return cut(ctx, x, [(axis + i, b, b + w) for i, (b, w) in enumerate(zip(begins, wanted, strict=True))])
        whole = {"interpolation": "bilinear", "crop_to_aspect_ratio": True}
        return resized_as(ctx, KerasNode(replace(node.part, config=whole), [], {}), x, wanted, first)
    if resize:
        whole = {"interpolation": "bilinear", "crop_to_aspect_ratio": True}
        return resized_as(ctx, KerasNode(replace(node.part, config=whole), [], {}), x, wanted, first)
    now = ctx.op("Shape", x, hasStart=True, start=axis, hasEnd=True, end=axis + 2)
    now.dtype = DType.I32
    begin = binary(ctx, "FLOORDIV", binary(ctx, "SUB", now, ctx.const(wanted, DType.I32)), 2)
    parts = [ctx.const([0] * axis, DType.I32), begin, ctx.const([0] * (rank - axis - 2), DType.I32)]
    begins_at = ctx.op("Concat", *(p for p in parts if p is begin or p.array().size), axis=0)
    return ctx.tf_like("Slice", x, begins_at, ctx.const([-1] * axis + wanted + [-1] * (rank - axis - 2), DType.I32))


@keras_layer("RandomCrop")
def random_crop(ctx: KerasContext, node: KerasNode) -> Value:
    """When a model is used, Keras 3 leaves pictures as they are; Keras 2 resizes what is left in the middle."""
    return middle(ctx, node, node.input(0), resize=True) if ctx.of_old else node.input(0)


@keras_layer("IntegerLookup")
def integer_lookup(ctx: KerasContext, node: KerasNode) -> Value:
    """The places of numbers in a vocabulary: behind that of the mask, if there is one, and that of all unknown ones."""
    words, x = node.config.get("vocabulary"), node.input(0)
    mode = node.choice_attr("output_mode", "int", "int", "one_hot", "multi_hot", "count")
    if not isinstance(words, list) or not words or not all(isinstance(w, int) for w in words):
        raise node.unsupported("a vocabulary that is not in the file", "save the model with vocabulary=[...]")
    if node.int_attr("num_oov_indices", 1) != 1 or node.bool_attr("invert"):
        raise node.unsupported("places that are hashed, or looked up", "use num_oov_indices=1 and invert=False")
    mask, rank = node.config.get("mask_token"), ctx.sizes(x, node.where)
    table = np.asarray([w for w in words if w not in (mask, node.get("oov_token", -1))], np.int64)
    unknown, count = int(mask is not None and mode == "int"), len(table) + 1
    places = np.arange(count - 1, dtype=np.int32) + unknown + 1
    if mask is not None:  # first of all, or nowhere where places are counted
        table, places = np.append(table, np.int64(int(mask))), np.append(places, np.int32(unknown - 1))
    line = ctx.op("Unsqueeze", ctx.cast(x, DType.I64), squeezeDims=[-1])
    line.dtype = DType.I64
    hit = ctx.op("BinaryOp", line, ctx.const(table), opType="EQUAL")
    hit.dtype = DType.BOOL
    weight = binary(ctx, "MUL", ctx.cast(hit, DType.I32), ctx.const(places - unknown))
    found = ctx.op("Reduction", weight, operation="SUM", dim=[rank], keepDims=False)
    found.dtype = DType.I32
    if mode == "int":
        return ctx.cast(binary(ctx, "ADD", found, unknown), DType.I64)
    if mode == "one_hot" and rank > 1 and (x.shape or ())[-1] == 1:
        found = ctx.op("Squeeze", found, squeezeDims=[rank - 1])
        found.dtype = DType.I32
    return ctx.cast(_encoded(ctx, found, count, mode, rank), DType.I64)


@keras_layer("CategoryEncoding")
def category_encoding(ctx: KerasContext, node: KerasNode) -> Value:
    """One place for each category: one-hot, whether it is there (multi-hot), or how often (count)."""
    x, count = node.input(0), node.int_attr("num_tokens")
    mode = node.choice_attr("output_mode", "multi_hot", "multi_hot", "one_hot", "count")
    weights = node.tensor_kwarg("count_weights")
    numbers = ctx.cast(x, DType.I32)
    rank, shape = ctx.sizes(x, node.where), x.shape or ()
    if mode == "one_hot" and rank and shape[-1] == 1 and rank > 1:
        numbers = ctx.op("Squeeze", numbers, squeezeDims=[rank - 1])
    return _encoded(ctx, numbers, count, mode, rank, weights)


def _encoded(
    ctx: KerasContext, numbers: Value, count: int, mode: str, rank: int, weights: Value | None = None
) -> Value:
    """A place for each of ``count`` categories, in floats."""
    line = ctx.const(np.arange(count, dtype=np.int32))
    hot = ctx.op("BinaryOp", ctx.op("Unsqueeze", numbers, squeezeDims=[-1]), line, opType="EQUAL")
    hot.dtype = DType.BOOL
    out = ctx.cast(hot, DType.F32)
    if mode == "one_hot":
        return out
    if weights is not None:
        out = binary(ctx, "MUL", out, ctx.op("Unsqueeze", ctx.cast(weights, DType.F32), squeezeDims=[-1]))
    if rank == 1 and mode == "multi_hot":
        return out
    kind = "MAXIMUM" if mode == "multi_hot" else "SUM"
    found = ctx.op("Reduction", out, operation=kind, dim=[max(rank - 1, 0)], keepDims=False)
    found.dtype = DType.F32
    return found


@keras_layer("Discretization")
def discretization(ctx: KerasContext, node: KerasNode) -> Value:
    """How many of the boundaries a number has reached."""
    x = node.input(0)
    bounds = node.config.get("bin_boundaries")
    mode = node.choice_attr("output_mode", "int", "int", "one_hot", "multi_hot", "count")
    if not isinstance(bounds, list):
        raise node.unsupported("boundaries learnt from data", "save the model with bin_boundaries")
    x = x if x.dtype is not None and x.dtype.is_float else ctx.cast(x, DType.F32)
    reached = ctx.op(
        "BinaryOp", ctx.op("Unsqueeze", x, squeezeDims=[-1]), ctx.const(np.asarray(bounds, np.float32)),
        opType="GREATER_EQUAL",
    )  # fmt: skip
    reached.dtype = DType.BOOL
    rank = ctx.sizes(x, node.where)
    out = ctx.op("Reduction", ctx.cast(reached, DType.I32), operation="SUM", dim=[rank], keepDims=False)
    out.dtype = DType.I32
    if mode == "int":
        return ctx.cast(out, DType.I64) if ctx.of_old else out
    if mode == "one_hot" and rank > 1 and (x.shape or ())[-1] == 1:
        out = ctx.op("Squeeze", out, squeezeDims=[rank - 1])
        out.dtype = DType.I32
    return _encoded(ctx, out, len(bounds) + 1, mode, rank)
