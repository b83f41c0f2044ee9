"""AveragePool in 1 to 3 dimensions."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import geometry, patches, pool_excuse, rank, resolved, sizes


def case(draw: Draw) -> Case:
    count = rank(draw)
    opset = draw.choice([11, 19, 22])  # dilations are there since 19
    made = geometry(draw, count, dilated=opset > 11 and draw.flag(), pads_below_kernel=True)
    x = draw.normal(draw.often(1, [2, 3], 0.7), draw.channels(), *sizes(draw, made))
    include, ceil = draw.flag(), draw.flag(0.4)
    attributes = made.attributes(draw) | {"kernel_shape": made.kernel}
    if opset == 11:
        attributes.pop("dilations", None)
    if include or draw.flag(0.3):
        attributes["count_include_pad"] = int(include)
    if ceil or draw.flag(0.3):
        attributes["ceil_mode"] = int(ceil)
    pads = resolved(made, x.shape[2:])

    def oracle(arrays: list[np.ndarray]) -> list[np.ndarray]:
        windows, kinds = patches(arrays[0].astype(np.float64), made, pads, ceil, 0.0)
        counts = (kinds >= (1 if include else 2)).sum(-1)
        return [windows.sum(-1) / np.maximum(counts, 1)]

    return Case(
        "AveragePool",
        [Operand(x)],
        attributes,
        opset=opset,
        scale="products",
        oracle=oracle,
        excuse=pool_excuse(made, x.shape[2:]),
    )
