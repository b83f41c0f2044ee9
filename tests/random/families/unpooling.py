"""MaxUnpool of what MaxPool gives."""

from __future__ import annotations

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import Geometry, patches


def case(draw: Draw) -> Case:
    count = draw.int(1, 3)
    kernel = draw.ints(count, 1, 3)
    strides = [draw.int(1, k + 1) for k in kernel]
    pads = [draw.int(0, k - 1) for k in kernel * 2] if draw.flag(0.4) else [0] * 2 * count
    # sizes that the inverse gets back
    windows = draw.ints(count, 1, 5)
    extents = [
        (n - 1) * s + k - a - z
        for n, s, k, a, z in zip(windows, strides, kernel, pads[:count], pads[count:], strict=True)
    ]
    while min(extents) < 1:
        extents, pads = [(n - 1) * s + k for n, s, k in zip(windows, strides, kernel, strict=True)], [0] * 2 * count
    seen = draw.normal(draw.int(1, 2), draw.int(1, 4), *extents)
    made = Geometry(kernel, strides, [1] * count, pads)
    found, _ = patches(seen, made, pads, False, -np.inf)
    places, _ = patches(np.arange(seen.size).reshape(seen.shape), made, pads, False, -1)
    best = found.argmax(-1)[..., None]
    x, indices = np.take_along_axis(found, best, -1)[..., 0], np.take_along_axis(places, best, -1)[..., 0]
    inputs = [Operand(x), Operand(indices.astype(np.int64))]
    attributes = {"kernel_shape": kernel}
    if strides != [1] * count or draw.flag():
        attributes["strides"] = strides
    if any(pads):
        attributes["pads"] = pads
    shape, excuse = list(seen.shape), ""
    if draw.flag(0.4):
        shape = [*seen.shape[:2], *(n + draw.int(0, 2) for n in extents)]
        inputs.append(Operand(np.array(shape, np.int64), draw.flag(0.2)))
        if shape != list(seen.shape):
            excuse = "indices are counted in the larger output, where onnx's own case counts in what MaxPool saw"

    def oracle(arrays: list[np.ndarray]) -> list[np.ndarray]:
        flat = np.zeros(seen.size, np.float32)
        flat[arrays[1].reshape(-1)] = arrays[0].reshape(-1)
        back = flat.reshape(seen.shape)
        return [np.pad(back, [(0, n - m) for n, m in zip(shape, seen.shape, strict=True)])]

    return Case("MaxUnpool", inputs, attributes, opset=draw.choice([11, 22]), oracle=oracle, excuse=excuse)
