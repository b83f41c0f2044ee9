"""What a convolution that is trained for integers computes with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.expr import build
from MNN.expr.layers import relu, relu6
from MNN.expr.node import UnwrittenError
from MNN.expr.types import NC4HW4
from MNN.expr.var import Var
from MNN.nn.module import Module

_MOMENTUM = 0.99
_FEATURE_LIMIT, _SMALLEST_WEIGHT = 127.0, 1e-6
"""As ``FakeQuantizeFeatures`` and ``FakeQuantizeWeights`` have them."""


class Quantizer(Module):
    """What a convolution computes with in the place of its operands. The range of its input is a statistic, which
    steps of an optimizer keep."""

    def __init__(self, bits: int, method: str) -> None:
        super().__init__()
        self.low = self.register_statistic(np.zeros((), np.float32))
        self.high = self.register_statistic(np.zeros((), np.float32))
        self._bits, self._method = bits, method

    def convolution(self, plain: Var) -> Var:
        """What an expression is that is a convolution of Vars: on operands in steps while this is trained, else on
        integers."""
        expr = plain._expr
        x, weight, bias = (*(None if r is None else Var(r[0], r[1], NC4HW4) for r in expr.inputs), None)[:3]
        assert x is not None
        assert weight is not None
        if self.is_training:
            steps = build.apply_all(
                "FakeQuantizeFeatures", [x, self.low, self.high], 3, method=self._method, momentum=_MOMENTUM
            )[0]
            rounded = build.apply("FakeQuantizeWeights", weight, bits=self._bits)
            return build.apply(expr.op, steps, rounded, bias, layout=NC4HW4, **expr.attrs)
        return self._in_integers(x, weight, bias, expr.attrs)

    def _in_integers(self, x: Var, weight: Var, bias: Var | None, attrs: Mapping[str, Any]) -> Var:
        from MNN.ops.quantized.convolution import quantized_attributes  # running what is stored needs no operators

        codes, scales = self._codes(weight.read())
        scale, zero = self._steps(x)
        integers = build.apply("QuantizeLinear", x, build.leaf(scale), build.leaf(zero), layout=NC4HW4, dtype="DT_INT8")
        sums = build.apply(
            "ConvInteger", integers, build.leaf(codes), build.leaf(zero), layout=NC4HW4, **quantized_attributes(attrs)
        )
        across = (1, -1, 1, 1)
        found = build.binary("MUL", build.floats(sums), build.leaf((scales * scale).reshape(across)))
        if bias is not None:
            found = build.binary("ADD", found, build.leaf(bias.read().reshape(across)))
        if attrs.get("relu6"):
            return relu6(found)
        return relu(found) if attrs.get("relu") else found

    def _codes(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights as integers, and their steps by output channel."""
        limit = np.float32(2 ** (self._bits - 1) - 1)
        largest = np.abs(weight).reshape(len(weight), -1).max(1)
        scales = np.maximum(largest, np.float32(_SMALLEST_WEIGHT)) / limit
        codes = np.round(weight / scales.reshape(-1, *[1] * (weight.ndim - 1)))
        return np.clip(codes, -limit, limit).astype(np.int8), scales

    def _steps(self, x: Var) -> tuple[np.ndarray, np.ndarray]:
        """The step of features, and the integer that is 0. A range that is not known yet is that of ``x``."""
        low, high = float(self.low.read()), float(self.high.read())
        if low == high == 0:
            try:
                seen = x.read()
            except UnwrittenError as error:
                raise MNNError(
                    "a quantised convolution has seen no numbers yet, so that the range of its input is not known: "
                    "train it first, or run the module on examples"
                ) from error
            low, high = min(float(seen.min()), 0.0), max(float(seen.max()), 0.0)
            self.low.write(np.float32(low))
            self.high.write(np.float32(high))
        step = np.float32((np.float32(high) - np.float32(low)) / np.float32(2 * _FEATURE_LIMIT)) or np.float32(1)
        zero = np.round(np.float32(-low) / step - np.float32(_FEATURE_LIMIT))
        return np.asarray(step, np.float32), np.asarray(np.clip(zero, -128, 127), np.int8)


__all__ = ["Quantizer"]
