"""Dropout in training mode (Srivastava et al. 2014). For inference it is converted to nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer


@register("DropoutTraining")
class DropoutTraining(Operator):
    """Inputs ``x, ratio?, training?``; outputs ``x * mask / (1 - ratio)`` and the mask (bool).

    The same ``seed`` (numpy's RandomState) gives the same mask in every run; without one every run differs.
    """

    draws = True
    in_mnn = False
    attributes = {"seed": None, "ratio": 0.5}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, given, training = operand(b, inputs, 0), optional(inputs, 1), optional(inputs, 2)
        active = training is not None and bool(b.value(training, "the training mode").reshape(-1)[0])
        ratio = self.float_attr(node, "ratio")
        if active and given is not None:
            ratio = float(b.value(given, "the ratio").reshape(-1)[0])
        if not 0 <= ratio < 1:
            raise ShapeError(f"{b.where}: ratio {ratio}, expected one in [0, 1)")
        if not active or ratio == 0:
            return [x, b.expand(b.const(True), x.shape)]
        seed = node.attrs.get("seed")

        def draw(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            state = np.random.RandomState(None if seed is None else int(seed) % 2**32)  # type: ignore[call-overload]
            return [state.uniform(0.0, 1.0, x.shape) >= ratio]

        mask = b.host("dropout", draw, [], (DType.BOOL, x.shape), pure=False)[0]
        scale = 1.0 / (1.0 - ratio)

        out = b.map(lambda s, a, m: s("select", m, s("mul", a, s.const(scale, x.dtype)), s.const(0, x.dtype)), x, mask)
        return [out, mask]


@infer.rule(DropoutTraining)
def _infer_dropout(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    return [(x.dtype, infer.sizes(x)), (DType.BOOL, infer.sizes(x))]
