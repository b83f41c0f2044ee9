"""Col2Im in 1 to 3 dimensions: blocks are added up to an image."""

from __future__ import annotations

import itertools

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.windows import geometry, rank, sizes


def case(draw: Draw) -> Case:
    count = rank(draw)
    made = geometry(draw, count)
    made.auto_pad = "NOTSET"
    extents = sizes(draw, made)
    pads = made.pads
    places = [
        (n + a + z - span) // s + 1
        for n, a, z, span, s in zip(extents, pads[:count], pads[count:], made.spans, made.strides, strict=True)
    ]
    channels, batch = draw.int(1, 4), draw.int(1, 3)
    taps = int(np.prod(made.kernel))
    x = draw.normal(batch, channels * taps, int(np.prod(places)))

    def oracle(arrays: list[np.ndarray]) -> list[np.ndarray]:
        blocks = arrays[0].astype(np.float64).reshape(batch, channels, *made.kernel, *places)
        padded = [n + a + z for n, a, z in zip(extents, pads[:count], pads[count:], strict=True)]
        total = np.zeros((batch, channels, *padded))
        for tap in itertools.product(*(range(k) for k in made.kernel)):
            cut = tuple(
                slice(t * d, t * d + (o - 1) * s + 1, s)
                for t, d, s, o in zip(tap, made.dilations, made.strides, places, strict=True)
            )
            total[(slice(None), slice(None), *cut)] += blocks[(slice(None), slice(None), *tap)]
        inner = tuple(slice(a, a + n) for a, n in zip(pads[:count], extents, strict=True))
        return [total[(slice(None), slice(None), *inner)]]

    attributes = made.attributes(draw)
    fed = draw.flag(0.2)
    inputs = [Operand(x), Operand(np.array(extents, np.int64), fed), Operand(np.array(made.kernel, np.int64), fed)]
    # onnx's own reference agrees with the oracle there
    dilated = any(d > 1 and k > 1 for d, k in zip(made.dilations, made.kernel, strict=True))
    excuse = "dilations in 1 and 3 dimensions: it puts elements in wrong places" if dilated and count != 2 else ""
    return Case("Col2Im", inputs, attributes, opset=18, scale="products", oracle=oracle, excuse=excuse)
