from __future__ import annotations

import pytest

from MNN.ir.graph import Value
from tests.passes.build import Maker, fires, ops, stays


def mean(m: Maker, x: Value, axes: list[int], keep: bool = True) -> Value:
    return m.op("Reduction", x, operation="MEAN", dim=axes, keepDims=keep)


def normal(m: Maker, x: Value, axes: list[int], square: str = "POW", end: str = "div", rms: bool = False) -> Value:
    centred = x if rms else m.binary("SUB", x, mean(m, x, axes))
    squares = {
        "POW": lambda: m.binary("POW", centred, 2.0),
        "MUL": lambda: m.binary("MUL", centred, centred),
        "SQUARE": lambda: m.op("UnaryOp", centred, opType="SQUARE"),
    }[square]()
    inner = m.binary("ADD", mean(m, squares, axes), 1e-5)
    if end == "rsqrt":
        return m.binary("MUL", m.op("UnaryOp", inner, opType="RSQRT"), centred)
    root = m.op("UnaryOp", inner, opType="SQRT")
    if end == "reciprocal":
        return m.binary("MUL", centred, m.op("UnaryOp", root, opType="RECIPROCAL"))
    if end == "one over":
        return m.binary("MUL", centred, m.binary("REALDIV", m.const(1.0), root))
    return m.binary("REALDIV", centred, root)


@pytest.mark.parametrize("square", ["POW", "MUL", "SQUARE"])
@pytest.mark.parametrize("end", ["div", "rsqrt", "reciprocal", "one over"])
@pytest.mark.parametrize("rms", [False, True])
def test_every_spelling(square: str, end: str, rms: bool) -> None:
    m = Maker()
    y = normal(m, m.input("n", 5, 8), [-1], square, end, rms)
    after = fires("layer-norm", m.done(m.binary("ADD", m.binary("MUL", y, m.noise(8)), m.noise(8))))
    assert ops(after) == ["LayerNorm"]
    assert bool(after.nodes[0].attrs.get("useRMSNorm")) is rms


def test_several_axes_and_parts_of_the_affine() -> None:
    m = Maker()
    y = normal(m, m.input(2, 3, 4, 5), [2, 3])
    assert ops(fires("layer-norm", m.done(m.binary("ADD", y, m.noise(4, 5))))) == ["LayerNorm"]
    m = Maker()
    y = normal(m, m.input(2, 3, 4, 5), [3])
    assert ops(fires("layer-norm", m.done(m.binary("MUL", m.noise(4, 5), y)))) == ["LayerNorm", "MUL"]


@pytest.mark.parametrize("case", ["axis", "shared", "no keepdims", "sum"])
def test_stays(case: str) -> None:
    m = Maker()
    x = m.input(4, 4, 4)
    axes = [1] if case == "axis" else [-1]
    if case in ("no keepdims", "sum"):
        operation, keep = ("SUM", True) if case == "sum" else ("MEAN", False)
        inner = m.op("Reduction", m.binary("MUL", x, x), operation=operation, dim=[-1], keepDims=keep)
        root = m.op("UnaryOp", m.binary("ADD", inner, 1e-5), opType="SQRT")
        graph = m.done(m.binary("REALDIV", x, root))
    else:
        y = normal(m, x, axes)
        more = [n.outputs[0] for n in m.graph.nodes if n.op == "Reduction"][:1] if case == "shared" else []
        graph = m.done(y, *more)
    stays("layer-norm", graph)


def test_a_mean_over_other_axes_is_not_part_of_it() -> None:
    m = Maker()
    x = m.input(4, 4, 4)
    centred = m.binary("SUB", x, mean(m, x, [-2]))
    root = m.op("UnaryOp", m.binary("ADD", mean(m, m.binary("MUL", centred, centred), [-1]), 1e-5), opType="SQRT")
    after = fires("layer-norm", m.done(m.binary("REALDIV", centred, root)))
    assert ops(after) == ["Reduction", "SUB", "LayerNorm"]
    assert after.nodes[-1].attrs["useRMSNorm"] is True


def scaled(m: Maker, x: Value, axes: list[int], gamma: bool, beta: str, negative: bool, size: int = 8) -> Value:
    """As Keras and ``tf.nn.batch_normalization`` have it."""
    middle = mean(m, x, axes)
    variance = mean(m, m.binary("SquaredDifference", x, middle), axes)
    factor = m.op("UnaryOp", m.binary("ADD", variance, 1e-4), opType="RSQRT")
    factor = m.binary("MUL", factor, m.noise(1, 1, size)) if gamma else factor
    shift = m.binary("MUL", m.op("UnaryOp", middle, opType="NEG") if negative else middle, factor)
    product = m.binary("MUL", x, factor)
    if beta == "inside":
        both = m.binary("ADD", shift, m.noise(size)) if negative else m.binary("SUB", m.noise(size), shift)
        return m.binary("ADD", product, both)
    y = m.binary("ADD", product, shift) if negative else m.binary("SUB", product, shift)
    return m.binary("ADD", y, m.noise(size)) if beta else y


@pytest.mark.parametrize("gamma", [False, True])
@pytest.mark.parametrize("beta", ["", "inside", "after"])
@pytest.mark.parametrize("negative", [False, True])
def test_scales_that_are_multiplied_first(gamma: bool, beta: str, negative: bool) -> None:
    m = Maker()
    after = fires("scaled-layer-norm", m.done(scaled(m, m.input("n", 5, 8), [-1], gamma, beta, negative)))
    assert ops(after) == ["LayerNorm"]
    assert len(after.nodes[0].inputs) == 1 + (gamma or bool(beta)) + bool(beta)


@pytest.mark.parametrize("case", ["axis", "other mean", "shared", "turned"])
def test_other_sums_stay(case: str) -> None:
    m = Maker()
    x = m.input(4, 8, 8)
    if case in ("axis", "shared"):
        y = scaled(m, x, [1] if case == "axis" else [-1], True, "inside", True)
        shared = [n.outputs[0] for n in m.graph.nodes if n.op == "Reduction"][:1] if case == "shared" else []
        return stays("scaled-layer-norm", m.done(y, *shared))
    middle = mean(m, x, [-1])
    variance = mean(m, m.binary("SquaredDifference", x, mean(m, x, [-2]) if case == "other mean" else middle), [-1])
    factor = m.op("UnaryOp", m.binary("ADD", variance, 1e-4), opType="RSQRT")
    sides = m.binary("MUL", x, factor), m.binary("MUL", middle, factor)
    return stays("scaled-layer-norm", m.done(m.binary("SUB", *(sides[::-1] if case == "turned" else sides))))
