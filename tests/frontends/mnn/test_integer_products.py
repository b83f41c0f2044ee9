"""What the official engine gets for products of integers: sums of floats that never pass what floats count."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.frontends.mnn.official.rules import quantized
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session

BYTES = {DType.U8: (0, 256), DType.I8: (-128, 128)}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_integers_are_exact(seed: int, constant: bool) -> None:
    """Odd sums beyond 2^24, which one sum of floats rounds."""
    rng = np.random.default_rng(seed)
    kinds = [list(BYTES)[int(rng.integers(2))] for _ in range(2)]
    depth = int(rng.integers(600, 4000))
    x, w = (rng.integers(low + (high - low) * 3 // 4, high, s, dtype=k.numpy) for k, s, (low, high) in zip(
        kinds, ((3, depth), (depth, 2)), (BYTES[k] for k in kinds), strict=True
    ))  # fmt: skip
    zero = [int(BYTES[k][0]) for k in kinds]
    operands = [Value(n, k, a.shape, a if held else None) for n, k, a, held in zip(
        "xw", kinds, (x, w), (False, constant), strict=True
    )]  # fmt: skip
    operands += [Value(f"{n}0", k, (), np.asarray(z, k.numpy)) for n, k, z in zip("xw", kinds, zero, strict=True)]
    wanted = (x.astype(np.int64) - zero[0]) @ (w.astype(np.int64) - zero[1])
    assert wanted.max() > 1 << 24
    out = Value("y", DType.I32, (3, 2))
    nodes = quantized.matmul_integer(Node("MatMulInteger", "n", operands, [out]))
    assert nodes is not None
    assert np.array_equal(_found(nodes, operands, x, w), wanted)

    images, filters = (Value(v.name, v.dtype, s, None if v.data is None else v.array().T.reshape(s)) for v, s in (
        (operands[0], (3, depth, 1, 1)), (operands[1], (2, depth, 1, 1)),
    ))  # fmt: skip
    out = Value("y", DType.I32, (3, 2, 1, 1))
    given = [images, filters, *operands[2:]]
    nodes = quantized.conv_integer(Node("ConvInteger", "n", list(given), [out]))
    assert nodes is not None
    assert np.array_equal(_found(nodes, given, x[..., None, None], w.T[..., None, None])[..., 0, 0], wanted)


def test_sums_that_digits_cannot_hold_are_not_written() -> None:
    x, w, out = Value("x", DType.U8, (1, 20000)), Value("w", DType.U8, (20000, 2)), Value("y", DType.I32, (1, 2))
    assert quantized.matmul_integer(Node("MatMulInteger", "n", [x, w], [out])) is None


def _found(nodes: list[Node], operands: list[Value], x: np.ndarray, w: np.ndarray) -> np.ndarray:
    inputs = [v for v in operands if v.data is None]
    graph = Graph("g", inputs, [nodes[-1].outputs[0]], nodes)
    feeds = {"x": x, "w": np.ascontiguousarray(w)}
    (found,) = Session(graph, Config(reference=True)).run({v.name: feeds[v.name] for v in inputs}).values()
    return np.asarray(found)
