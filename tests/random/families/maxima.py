"""MaxPool in 1 to 3 dimensions, with indices of both orders, of floats and small integers."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import geometry, patches, pool_excuse, rank, resolved, sizes


def case(draw: Draw) -> Case:
    count = rank(draw)
    made = geometry(draw, count, dilated=draw.flag(), pads_below_kernel=True)
    shape = (draw.often(1, [2, 3], 0.7), draw.channels(), *sizes(draw, made))
    kind = draw.often("f", ["i1", "u1", "f8"], 0.7)
    lowest = -np.inf if kind[0] == "f" else np.iinfo(kind).min
    x = draw.normal(*shape, dtype=kind) if kind[0] == "f" else draw.rng.integers(0, 100, shape).astype(kind)
    if draw.flag(0.1):  # numbers as low as what stands for the padding
        x[draw.rng.random(shape) < 0.8] = lowest
    ceil, indices, columns = draw.flag(0.4), draw.flag(0.4), draw.flag(0.3)
    attributes = made.attributes(draw) | {"kernel_shape": made.kernel}
    if ceil:
        attributes["ceil_mode"] = 1
    if indices and columns:
        attributes["storage_order"] = 1
    pads = resolved(made, shape[2:])
    best, kinds = patches(x, made, pads, ceil, lowest)
    excuse = pool_excuse(made, shape[2:])
    if not (kinds == 2).any(-1).all():  # a window of padding alone has a maximum of sorts, but no index
        indices = False
    if (indices or kind[0] == "f") and (best.max(-1) == lowest).any():
        excuse = "a window of the lowest numbers alone gets no index, and its infinity becomes the lowest finite number"

    def oracle(arrays: list[np.ndarray]) -> list[np.ndarray]:
        windows, kinds = patches(arrays[0], made, pads, ceil, lowest)
        order = "F" if columns else "C"
        flat = np.arange(np.prod(shape[2:])).reshape(shape[2:], order=order)
        numbers = flat[None, None] + (np.arange(shape[0] * shape[1]) * flat.size).reshape(*shape[:2], *[1] * count)
        places, _ = patches(numbers, made, pads, ceil, -1)
        best = ((kinds == 2) & (windows == windows.max(-1)[..., None])).argmax(-1)[..., None]
        found = [windows.max(-1)]
        if indices:
            found.append(np.take_along_axis(places, best, -1)[..., 0].astype(np.int64))
        return found

    return Case(
        "MaxPool",
        [Operand(x)],
        attributes,
        outputs=2 if indices else 1,
        opset=draw.choice([12, 22]),
        oracle=oracle,
        excuse=excuse,
        low=not indices,  # which is the largest may depend on a rounding
    )
