"""Products of matrices, attention, recurrence."""

from __future__ import annotations

import numpy as np

from tests.frontends.ncnn.build import Weight
from tests.frontends.ncnn.cases.draw import Case, Draw, family
from tests.frontends.ncnn.cases.images import _activation


@family("InnerProduct")
def inner_product(d: Draw) -> Case:
    shape, outputs = d.shape(1, 4, 6), d.int(1, 9)
    width = shape[-1] if len(shape) == 2 and d.flag() else int(np.prod(shape))
    bias = d.flag()
    p = {0: outputs, 1: int(bias), 2: outputs * width} | _activation(d)
    weights = [d.weight(outputs * width)] + ([d.plain(outputs)] if bias else [])
    d.model.one("InnerProduct", [d.input(shape)], p, weights)
    return d.case(tolerance=1e-4)


@family("Embed")
def embed(d: Draw) -> Case:
    width, count, bias = d.int(1, 9), d.int(2, 9), d.flag()
    words = d.model.input(d.rng.integers(0, count, d.int(1, 7)).astype(np.int32))
    weights = [d.weight(width * count)] + ([d.plain(width)] if bias else [])
    d.model.one("Embed", [words], {0: width, 1: count, 2: int(bias), 3: width * count}, weights)
    return d.case()


@family("MatMul")
def matmul(d: Draw) -> Case:
    m, k, n = d.int(1, 6), d.int(1, 6), d.int(1, 6)
    swapped = d.flag()
    batch = [[], [d.int(2, 4)], [d.int(2, 3), d.int(2, 3)]][d.int(0, 2)]
    right = [n, k] if swapped else [k, n]
    left_shape, right_shape = d.one([
        ([*batch, m, k], [*batch, *right]), ([m, k], [*batch, *right]), ([*batch, m, k], right),
        ([k], [*batch, *right]), ([*batch, m, k], [k]), ([k], [k]), ([*[1] * len(batch), m, k], [*batch, *right]),
    ])  # fmt: skip
    d.model.one("MatMul", [d.input(left_shape), d.input(right_shape)], {0: int(swapped)})
    return d.case()


@family("Gemm")
def gemm(d: Draw) -> Case:
    m, n, k = d.int(1, 7), d.int(1, 7), d.int(1, 7)
    swap_a, swap_b = d.flag(), d.flag()
    constant = d.one([(0, 0), (0, 1), (1, 0)])
    p: dict[int, object] = {0: d.one([1.0, 0.5]), 1: d.one([1.0, 0.7]), 2: int(swap_a), 3: int(swap_b)}
    p |= {4: constant[0], 5: constant[1], 7: m, 8: n, 9: k, 14: int(d.flag())}
    names, weights = [], []
    shapes = ((k, m) if swap_a else (m, k), (n, k) if swap_b else (k, n))
    for held, shape in zip(constant, shapes, strict=True):
        if held:
            weights.append(d.weight(int(np.prod(shape))))
        else:
            names.append(d.input(list(shape)))
    kind = d.int(-1, 4)
    shape_c = {0: [1], 1: [m], 2: [m, 1], 3: [m, n], 4: [1, n]}.get(kind)
    p[10] = -1
    if d.flag():
        p |= {6: 1, 10: kind}
        if shape_c:
            weights.append(d.weight(int(np.prod(shape_c))))
    elif shape_c:
        names.append(d.input(shape_c))
    d.model.one("Gemm", names, p, weights)
    return d.case(tolerance=1e-4)


@family("Gemm square")
def square_gemm(d: Draw) -> Case:
    """A line as long as both sides is a row."""
    n, k = d.int(2, 6), d.int(1, 5)
    names = [d.input([n, k]), d.input([k, n]), d.input([n])]
    d.model.one("Gemm", names, {7: n, 8: n, 9: k, 10: -1, 14: int(d.flag())})
    return d.case(tolerance=1e-4)


@family("Einsum")
def einsum(d: Draw) -> Case:
    sizes = {c: d.int(1, 4) for c in "ijklm"}
    text = d.one(["ij,jk->ik", "ijk,jlk->il", "ij,ij->i", "ijl,jkl->ik", "ik,jk->ij", "ijm,klm->ijkl"])
    text = {"ij,jk->ik": "ik,kj->ij", "ijk,jlk->il": "ikl,kjl->ij", "ijl,jkl->ik": "ikl,kjl->ij"}.get(text, text)
    names = [d.input([sizes[c] for c in part]) for part in text.split("->")[0].split(",")]
    d.model.one("Einsum", names, {0: [ord(c) for c in text]})
    return d.case()


@family("MultiHeadAttention")
def attention(d: Draw) -> Case:
    heads = d.int(1, 3)
    width = heads * d.int(1, 4)
    length, other = d.int(1, 6), d.int(1, 6)
    kind = d.int(0, 2)
    kdim, vdim = (width, width) if kind == 0 else (d.int(1, 6), d.int(1, 6))
    if kind == 1:
        vdim = kdim
    names = [d.input([length, width])]
    keys = length if kind == 0 else other
    if kind:
        names.append(d.input([other, kdim]))
    if kind == 2:
        names.append(d.input([other, vdim]))
    p: dict[int, object] = {0: width, 1: heads, 2: width * width, 3: kdim, 4: vdim, 5: int(d.flag())}
    if p[5]:
        names.append(d.input([length, keys] if d.flag() else [heads, length, keys]))
    if d.flag():
        p[6] = 0.3
    weights: list[Weight] = []
    for rows, cols in ((width, width), (width, kdim), (width, vdim), (width, width)):
        weights += [d.weight(rows * cols), d.plain(rows)]
    d.model.one("MultiHeadAttention", names, p, weights)
    return d.case(tolerance=1e-4)


@family("SDPA")
def sdpa(d: Draw) -> Case:
    groups, width, out = d.int(1, 3), d.int(1, 6), d.int(1, 6)
    heads, length, other = groups * d.int(1, 2), d.int(1, 5), d.int(1, 5)
    names = [d.input([heads, length, width]), d.input([groups, other, width]), d.input([groups, other, out])]
    p: dict[int, object] = {5: int(d.flag()), 6: d.one([0.0, 0.4])}
    if p[5]:
        names.append(d.input([length, other] if d.flag() else [heads, length, other]))
    d.model.one("SDPA", names, p)
    return d.case(tolerance=1e-4)


@family("RotaryEmbed")
def rotary(d: Draw) -> Case:
    heads, length, half = d.int(1, 3), d.int(1, 5), d.int(1, 4)
    names = [d.input([heads, length, 2 * half]), d.input([length, half]), d.input([length, half])]
    d.model.one("RotaryEmbed", names, {0: int(d.flag())})
    return d.case()


@family("LSTM", "GRU", "RNN")
def recurrent(d: Draw, kind: str) -> Case:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    hidden, width, length, direction = d.int(1, 6), d.int(1, 6), d.int(1, 6), d.int(0, 2)
    both = 2 if direction == 2 else 1
    size = hidden * gates * both * width
    rows = 4 if kind != "RNN" else 1
    weights = [d.weight(size), d.weight(hidden * rows * both), d.weight(hidden * hidden * gates * both)]
    names, outputs = [d.input([length, width])], 1
    if d.flag():
        states = 2 if kind == "LSTM" else 1
        names += [d.input([both, hidden]) for _ in range(states)]
        outputs += states
    d.model.layer(kind, names, {0: hidden, 1: size, 2: direction}, weights, outputs)
    return d.case(tolerance=1e-4)
