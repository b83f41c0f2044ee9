"""Tensors that are dequantised, as passes see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.passes.patterns import attribute, plain
from MNN.passes.rewrite import Rewriter

BYTES = (DType.I8, DType.U8)
_INTEGERS = (*BYTES, DType.I16)


@dataclass(frozen=True)
class Numbers:
    """Integers and what they stand for: ``(integers - zero) * scale``, one scale or one per index of ``axis``."""

    integers: Value
    scale: Value
    zero: Value | None
    axis: int

    @property
    def scales(self) -> np.ndarray:
        found = plain(self.scale)
        assert found is not None
        return found

    @property
    def one(self) -> bool:
        """Whether there is one scale for all."""
        return self.scales.size == 1

    @property
    def dtype(self) -> DType:
        data = plain(self.integers)
        found = DType.of(data) if data is not None else self.integers.dtype
        if found is None and self.zero is not None:
            found = self.zero.dtype
        return found or DType.U8

    def zero_point(self, rw: Rewriter) -> Value:
        """The zero point as an operand."""
        if self.zero is not None:
            return self.zero
        return rw.constant(f"{self.integers.name}/zero", np.zeros((), self.dtype.numpy))


def numbers(rw: Rewriter, value: Value | None) -> Numbers | None:
    """What a value is dequantised from, with constant scales and zero points."""
    node = rw.made_by(value, "DequantizeLinear")
    return None if node is None or node.inputs[0] is None else parameters(node, node.inputs[0])


def parameters(node: Node, integers: Value) -> Numbers | None:
    """What a node that quantises or dequantises says of its integers of 8 or 16 bits, if it is plain."""
    scale, zero = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    scales, zeros = plain(scale), None if zero is None else plain(zero)
    block, kind = node.attrs.get("block_size"), node.attrs.get("dtype", "DT_INVALID")
    if scales is None or scale is None or scales.dtype != np.float32 or scales.ndim > 1 or block or not scales.size:
        return None
    if (zero is not None and zeros is None) or kind not in ("DT_INVALID", "DT_FLOAT", None):
        return None
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    found = Numbers(integers, scale, zero, int(attribute(node, "axis")))
    fits = zeros is None or (zeros.size == scales.size and DType.of(zeros) is found.dtype)
    return found if fits and found.dtype in _INTEGERS else None


def found_while_running(rw: Rewriter, value: Value | None) -> Numbers | None:
    """Bytes that a value is dequantised from with one scale that is known only when the model runs, and a zero point
    of their type (dynamic quantisation)."""
    node = rw.made_by(value, "DequantizeLinear")
    if node is None or len(node.inputs) < 3 or node.attrs.get("block_size"):
        return None
    integers, scale, zero = node.inputs[:3]
    if integers is None or scale is None or zero is None or plain(scale) is not None or plain(integers) is not None:
        return None
    alone = all(v.shape is not None and all(d == 1 for d in v.shape) and len(v.shape) < 2 for v in (scale, zero))
    if not alone or scale.dtype is not DType.F32 or integers.dtype not in BYTES or zero.dtype is not integers.dtype:
        return None
    return Numbers(integers, scale, zero, 0)


def same(x: Numbers, y: Numbers) -> bool:
    """Whether equal integers stand for equal numbers."""
    zeros = [0 if n.zero is None else int(np.asarray(plain(n.zero)).reshape(-1)[0]) for n in (x, y)]
    return x.one and y.one and x.dtype is y.dtype and zeros[0] == zeros[1] and x.scales.item() == y.scales.item()
