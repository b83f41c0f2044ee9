"""Pooling over everything."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    count = draw.int(1, 3)
    op = draw.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    x = draw.normal(draw.int(1, 3), draw.channels(40), *draw.ints(count, 1, {1: 60, 2: 16, 3: 8}[count]))
    axes, p = tuple(range(2, x.ndim)), draw.choice([1, 2, 3])

    def oracle(arrays: list[np.ndarray]) -> list[np.ndarray]:
        wide = arrays[0].astype(np.float64)
        if op == "GlobalMaxPool":
            return [wide.max(axes, keepdims=True)]
        if op == "GlobalAveragePool":
            return [wide.mean(axes, keepdims=True)]
        return [(np.abs(wide) ** p).sum(axes, keepdims=True) ** (1 / p)]

    attributes = {"p": p} if op == "GlobalLpPool" else {}
    scale = "largest" if op == "GlobalMaxPool" else "products"
    opset = draw.choice([7, 18 if op == "GlobalLpPool" else 22])  # of GlobalLpPool-22 ONNX Runtime has no form
    return Case(op, [Operand(x)], attributes, opset=opset, scale=scale, slack=4, oracle=oracle)
