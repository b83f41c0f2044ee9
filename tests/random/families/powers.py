"""LpPool in 1 to 3 dimensions."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import geometry, patches, pool_excuse, rank, resolved, sizes


def case(draw: Draw) -> Case:
    count = rank(draw)
    opset = draw.choice([11, 18, 22])  # dilations and ceil_mode are there since 18
    made = geometry(draw, count, dilated=opset > 11 and draw.flag(), pads_below_kernel=True)
    x = draw.normal(draw.often(1, [2, 3], 0.7), draw.channels(), *sizes(draw, made))
    ceil, p = opset > 11 and draw.flag(0.4), draw.choice([1, 2, 2, 3, 4])
    attributes = made.attributes(draw) | {"kernel_shape": made.kernel}
    if opset == 11:
        attributes.pop("dilations", None)
    if p != 2 or draw.flag():
        attributes["p"] = p
    if ceil:
        attributes["ceil_mode"] = 1
    pads = resolved(made, x.shape[2:])

    def oracle(arrays: list[np.ndarray]) -> list[np.ndarray]:
        windows, _ = patches(np.abs(arrays[0].astype(np.float64)) ** p, made, pads, ceil, 0.0)
        return [windows.sum(-1) ** (1 / p)]

    return Case(
        "LpPool",
        [Operand(x)],
        attributes,
        opset=opset,
        scale="products",
        slack=4,
        oracle=oracle,
        excuse=pool_excuse(made, x.shape[2:]),
    )
