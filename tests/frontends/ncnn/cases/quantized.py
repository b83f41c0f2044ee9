"""Layers with 8-bit weights and between floats and integers."""

from __future__ import annotations

import numpy as np

from tests.frontends.ncnn.build import Weight
from tests.frontends.ncnn.cases.draw import Case, Draw, family


def _bytes(d: Draw, count: int) -> Weight:
    return Weight(d.rng.integers(-127, 128, count), "bytes")


@family("Quantize")
def quantize(d: Draw) -> Case:
    shape = d.shape()
    count = d.one([1, shape[0]]) if len(shape) > 1 else 1
    d.model.one("Quantize", [d.input(shape)], {0: count}, [d.plain(count, 20, 70)])
    return d.case(steps=1)


@family("Convolution int8", "ConvolutionDepthWise int8")
def convolution(d: Draw, kind: str) -> Case:
    deep = "DepthWise" in kind
    group = d.int(2, 6) if deep else 1
    inputs, outputs = (group, group) if deep else (d.int(1, 8), d.int(1, 8))
    per = 1 if deep else inputs
    size = outputs * per * 9
    stored = d.flag()
    p: dict[int, object] = {0: outputs, 1: 3, 4: d.int(0, 1), 5: 1, 6: size, 8: 1, 9: d.int(0, 1)}
    p |= {7: group} if deep else {}
    weight = _bytes(d, size) if stored else Weight(d.array([size], -1, 1), "float")
    scales = d.plain(group if deep else outputs, 100, 127)
    d.model.one(kind.split()[0], [d.input([inputs, 6, 7])], p, [weight, d.plain(outputs), scales, d.plain(1, 40, 60)])
    return d.case(tolerance=2e-2)


@family("Convolution requantized")
def requantized(d: Draw) -> Case:
    """Two in a row, integers between them."""
    a, b, c = d.int(1, 8), d.int(1, 8), d.int(1, 8)
    x = d.input([a, 6, 7])
    scale = d.plain(1, 40, 60)
    x = d.model.one(
        "Convolution", [x], {0: b, 1: 3, 5: 1, 6: a * b * 9, 8: 101, 9: 1},
        [_bytes(d, a * b * 9), d.plain(b), d.plain(b, 400, 500), d.plain(1, 40, 60), scale],
    )  # fmt: skip
    d.model.one(
        "Convolution",
        [x],
        {0: c, 1: 1, 5: 1, 6: b * c, 8: 1},
        [_bytes(d, b * c), d.plain(c), d.plain(c, 100, 127), scale],
    )
    return d.case(tolerance=3e-2)


@family("InnerProduct int8")
def inner_product(d: Draw) -> Case:
    width, outputs = d.int(1, 20), d.int(1, 9)
    p = {0: outputs, 1: 1, 2: width * outputs, 8: 1}
    weights = [_bytes(d, width * outputs), d.plain(outputs), d.plain(outputs, 100, 127), d.plain(1, 40, 60)]
    d.model.one("InnerProduct", [d.input([width])], p, weights)
    return d.case(tolerance=2e-2)


@family("Embed int8")
def embed(d: Draw) -> Case:
    width, count = d.int(1, 9), d.int(2, 9)
    words = d.model.input(d.rng.integers(0, count, d.int(1, 7)).astype(np.int32))
    p = {0: width, 1: count, 3: width * count, 18: 2}
    d.model.one("Embed", [words], p, [_bytes(d, width * count), d.plain(1, 100, 127)])
    return d.case()


@family("Gemm int8")
def gemm(d: Draw) -> Case:
    m, n, k = d.int(1, 7), d.int(1, 7), d.int(4, 16)
    p = {3: int(d.flag()), 5: 1, 6: 1, 7: 0, 8: n, 9: k, 10: 4, 18: 2}
    d.model.one("Gemm", [d.input([m, k])], p, [_bytes(d, n * k), d.weight(n, "float"), d.plain(1, 100, 127)])
    return d.case(tolerance=3e-2)


@family("LSTM int8", "GRU int8", "RNN int8")
def recurrent(d: Draw, kind: str) -> Case:
    kind = kind.split()[0]
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    hidden, width, length = d.int(2, 6), d.int(2, 6), d.int(1, 5)
    rows = hidden * gates
    weights = [
        _bytes(d, rows * width),
        d.weight(hidden * (4 if kind != "RNN" else 1), "float"),
        _bytes(d, rows * hidden),
    ]
    weights += [d.plain(rows, 200, 300), d.plain(rows, 200, 300)]
    d.model.layer(kind, [d.input([length, width])], {0: hidden, 1: rows * width, 8: 2}, weights)
    return d.case(tolerance=5e-2)


@family("MultiHeadAttention int8")
def attention(d: Draw) -> Case:
    width, length = 8, d.int(2, 6)
    weights: list[Weight] = []
    for _ in range(4):
        weights += [_bytes(d, width * width), d.plain(width)]
    weights += [d.plain(width, 300, 400) for _ in range(3)] + [d.plain(1, 300, 400)]
    d.model.one("MultiHeadAttention", [d.input([length, width])], {0: width, 1: 2, 2: width * width, 18: 2}, weights)
    return d.case(tolerance=5e-2)
