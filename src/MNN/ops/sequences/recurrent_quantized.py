"""Recurrent layers with quantised weights, as ONNX Runtime's quantiser writes them."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank
from MNN.ops.inference import infer
from MNN.ops.sequences.recurrent import OnnxRecurrent, infer_recurrent


@register("DynamicQuantizeLSTM")
class DynamicQuantizeLSTM(OnnxRecurrent):
    """An LSTM with i8 weights ``W[D, 4*H, I]`` and ``R[D, 4*H, H]`` (zero points taken off), the operands of OnnxLSTM
    and then the scales of W and of R, ``[D, 4*H]``.

    What is multiplied is quantised to u8, as DynamicQuantizeLinear does: X at once, and in every step each sequence's
    state. (ONNX Runtime quantises the states of a batch together, or of as many sequences as a thread has.)
    """

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        w, r, *scales = (operand(b, inputs, i, name) for i, name in ((1, "W"), (2, "R"), (8, "scale"), (9, "scale")))
        for t, s in zip((w, r), scales, strict=True):
            require_rank(b, t, 3, name="weights")
            if t.dtype is not DType.I8 or s.shape != t.shape[:2]:
                found = f"{t.dtype.value} weights {list(t.shape)} with scales {list(s.shape)}"
                raise ShapeError(f"{b.where}: {found}; expected i8 and {list(t.shape[:2])}")
        return self.layer(b, node, "LSTM", inputs, w, r, (scales[0], scales[1]))


infer.rule(DynamicQuantizeLSTM)(infer_recurrent)
