"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import RunError, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand
from MNN.ops.elementwise import narrow
from MNN.ops.inference import infer


def convert(b: Builder, x: Tensor, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """``x`` in ``dtype``: floats to integers truncate and saturate, numbers to and from text as numpy writes them.

    ``saturate`` and ``round_mode`` say how numbers become floats of 8 bits, see :mod:`MNN.ops.elementwise.narrow`.
    """
    if x.dtype is dtype:
        return x
    if dtype.is_narrow and x.dtype is not DType.STR and (not saturate or round_mode != "up"):
        if round_mode not in narrow.ROUND_MODES:
            raise ShapeError(f"{b.where}: rounding mode '{round_mode}' is not one of {', '.join(narrow.ROUND_MODES)}")
        how = (dtype, saturate, round_mode)
        return b.host("cast", lambda a: [narrow.cast(a[0], *how)], [x], (dtype, x.shape))[0]
    where = b.where
    if x.dtype is DType.STR:
        return b.host("parse", lambda a: [_parse(a[0], dtype, where)], [x], (dtype, x.shape))[0]
    if dtype is DType.STR:
        return b.host("format", lambda a: [_format(a[0])], [x], (dtype, x.shape))[0]
    return b.cast(x, dtype)


def _parse(texts: np.ndarray, dtype: DType, where: str) -> np.ndarray:
    try:
        if dtype.is_narrow:
            return narrow.cast(np.array([float(t) for t in texts.reshape(-1)], np.float32).reshape(texts.shape), dtype)
        if dtype.is_int:
            return np.array([int(t) for t in texts.reshape(-1)], dtype=dtype.numpy).reshape(texts.shape)
        return np.array([float(t) for t in texts.reshape(-1)]).reshape(texts.shape).astype(dtype.numpy)
    except (ValueError, OverflowError) as error:
        raise RunError(f"{where}: cannot read a {dtype.value} from text: {error}") from error


def _format(numbers: np.ndarray) -> np.ndarray:
    if DType.of(numbers) is DType.BF16 or DType.of(numbers).is_narrow:
        numbers = numbers.astype(np.float32)
    return numbers.astype(str).astype(object)


@register("Cast")
class Cast(Operator):
    """Converts to ``dstT``."""

    elementwise = True
    attributes = {"srcT": "DT_INVALID", "dstT": "DT_INVALID", "saturate": True, "roundMode": "up"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        dtype = from_data_type(self.str_attr(node, "dstT"), b.where)
        how = self.bool_attr(node, "saturate"), self.str_attr(node, "roundMode")
        return [convert(b, operand(b, inputs, 0), dtype, *how)]


@register("CastLike")
class CastLike(Operator):
    """Converts to the dtype of the second operand."""

    attributes = {"saturate": True, "roundMode": "up"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        how = self.bool_attr(node, "saturate"), self.str_attr(node, "roundMode")
        return [convert(b, operand(b, inputs, 0), operand(b, inputs, 1).dtype, *how)]


@register("BitCast")
class BitCast(Operator):
    """The same bits read as another type of the same width."""

    in_mnn = False
    attributes = {"dstT": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        dtype = from_data_type(self.str_attr(node, "dstT"), b.where)
        if DType.STR in (x.dtype, dtype) or dtype.size != x.dtype.size:
            raise ShapeError(f"{b.where}: bits of {x.dtype.value} cannot be read as {dtype.value}: the widths differ")

        def fn(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [np.ascontiguousarray(arrays[0]).view(dtype.numpy).reshape(x.shape)]

        return b.host("bitcast", fn, [x], (dtype, x.shape))


@infer.rule(Cast, BitCast)
def _infer_cast(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    from MNN.ops.core.datatypes import from_data_type

    x, dtype = infer.operand(node, 0), from_data_type(str(node.attrs["dstT"]))
    found = h.ints(x)
    if found is not None and dtype.is_int:
        h.numbers[node.outputs[0]] = found
    return [(dtype, infer.sizes(x))]


@infer.rule(CastLike)
def _infer_cast_like(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    return [(infer.operand(node, 1).dtype, infer.sizes(infer.operand(node, 0)))]
