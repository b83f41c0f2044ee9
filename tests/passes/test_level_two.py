"""attention and matmul-to-convolution."""

from __future__ import annotations

import pytest

from MNN.ir.graph import Value
from MNN.passes.manager import optimize, passes
from tests.passes.build import Maker, fires, noise_for, ops, stays


def scores(m: Maker, q: Value, k: Value, scale: float, mask: Value | None) -> Value:
    product = m.op("MatMul", q, k)
    if scale != 1:
        product = m.binary("REALDIV", product, 1 / scale)
    return product if mask is None else m.binary("ADD", product, mask)


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.125])
@pytest.mark.parametrize("masked", [None, (1, 1, 1, "t"), ("s", "t")])
def test_attention(scale: float, masked: tuple[int | str, ...] | None) -> None:
    m = Maker()
    lengths: tuple[int | str, int | str] = (5, 7) if masked is None else ("s", "t")
    q, k = m.input(1, 2, lengths[0], 4, name="q"), m.input(1, 2, 4, lengths[1], name="k")
    v = m.input(1, 2, lengths[1], 4, name="v")
    mask = m.input(*masked, name="mask") if masked else None
    weights = m.op("Softmax", scores(m, q, k, scale, mask), axis=-1)
    graph = m.done(m.op("MatMul", weights, v))
    after = fires("attention", graph, feeds=noise_for(graph, s=5, t=7))
    assert "Attention" in ops(after)
    assert "Softmax" not in ops(after)


STAYING = ("axis", "shared", "heads", "unknown length", "negative scale", "batch", "open batch", "mask of heads")


@pytest.mark.parametrize("case", STAYING)
def test_attention_stays(case: str) -> None:
    """Also where the official engine's operator would read the first sample or head of several."""
    m = Maker()
    length: int | str = "t" if case == "unknown length" else 4
    batch: int | str = {"batch": 3, "open batch": "b"}.get(case, 1)
    q = m.input(batch, 2, 4, 4, name="q")
    k, v = m.input(batch, 1 if case == "heads" else 2, 4, length, name="k"), m.input(batch, 2, length, 4, name="v")
    mask = m.input(1, 2, 4, 4, name="mask") if case == "mask of heads" else None
    weights = m.op(
        "Softmax", scores(m, q, k, -0.5 if case == "negative scale" else 0.5, mask), axis=2 if case == "axis" else 3
    )
    graph = m.done(m.op("MatMul", weights, v), *([weights] if case == "shared" else []))
    stays("attention", graph)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_products_become_convolutions(transposed: bool, bias: bool) -> None:
    m = Maker()
    x, w = m.input("n", 5, 8), m.noise(6, 8) if transposed else m.noise(8, 6)
    operands = [x, w, *([m.noise(6)] if bias else [])]
    graph = m.done(m.op("MatMul", *operands, **({"transposeB": True} if transposed else {})))
    assert ops(fires("matmul-to-convolution", graph)) == ["Reshape", "Convolution", "Reshape"]


@pytest.mark.parametrize("case", ["variable", "two unknown sizes", "batch of weights", "transposeA"])
def test_products_stay(case: str) -> None:
    m = Maker()
    x = m.input("n", "m" if case == "two unknown sizes" else 4, 4)
    w = (
        m.input(4, 4, name="w")
        if case == "variable"
        else m.noise(3, 4, 4)
        if case == "batch of weights"
        else m.noise(4, 4)
    )
    stays("matmul-to-convolution", m.done(m.op("MatMul", x, w, transposeA=case == "transposeA")))


def test_they_run_at_level_two_only() -> None:
    m = Maker()
    x = m.input(3, 8)
    graph = m.done(m.op("MatMul", x, m.noise(8, 6)))
    assert "matmul-to-convolution" not in optimize(graph, 1)
    assert ops(graph) == ["MatMul"]
    assert {p.name for p in passes().values() if p.level == 2} == {"attention", "matmul-to-convolution"}
