"""What lies between is larger than the type has, or exactly what programs take the whole part of: torch's operators are
one function each, where ours are several."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.frontends.torch.test_numbers import model

HALVES = [(np.float16, 2e-3, 300.0, 0.0), (ml_dtypes.bfloat16, 5e-3, 1.0, 20.0)]
WIDE = {
    "std": lambda x, y: x.std(-1, ddof=1),
    "linalg_vector_norm": lambda x, y: np.sqrt((x * x).sum(-1)),
    "cosine_similarity": lambda x, y: (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1)),
    "pairwise_distance": lambda x, y: np.sqrt(((x - y + 1e-6) ** 2).sum(-1)),
}
GIVEN: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "std": ([[-1]], {}), "linalg_vector_norm": ([2, [-1]], {}), "cosine_similarity": ([-1], {}),
    "pairwise_distance": ([], {}),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "tolerance", "large", "middle"), HALVES)
@pytest.mark.parametrize("name", WIDE)
def test_squares_of_halves(name: str, kind: Any, tolerance: float, large: float, middle: float) -> None:
    """They are larger than f16 has, or what they differ in is beyond the digits of bf16."""
    rng = np.random.default_rng(1)
    x, y = (np.asarray(rng.standard_normal((4, 50)) * large + middle, kind) for _ in range(2))
    operands = [x] if name in ("std", "linalg_vector_norm") else [x, y]
    args, named = GIVEN[name]
    (found,) = model(name, [x.shape] * len(operands), [kind] * len(operands), *args, **named)(*operands)
    wanted = WIDE[name](x.astype(np.float64), y.astype(np.float64))
    assert found.dtype == kind
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance)


@pytest.mark.parametrize(("kind", "tolerance", "large"), [(np.float16, 2e-3, 60.0), (ml_dtypes.bfloat16, 2e-2, 6.0)])
def test_scores_of_attention_keep_their_range_and_digits(kind: Any, tolerance: float, large: float) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (np.asarray(rng.standard_normal((2, 3, n, 64)) * s, kind) for n, s in ((4, large), (9, large), (9, 1)))
    run = model("scaled_dot_product_attention", [q.shape, k.shape, v.shape], [kind] * 3)
    (found,) = run(q, k, v)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / 8
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = shares / shares.sum(-1, keepdims=True) @ v.astype(np.float64)
    assert found.dtype == kind
    np.testing.assert_allclose(found.astype(np.float64), wanted, atol=tolerance)


def test_attention_with_a_scale_of_zero_takes_the_mean() -> None:
    q, v = np.ones((1, 2, 4), np.float32), np.arange(24, dtype=np.float32).reshape(1, 6, 4)
    (found,) = model("scaled_dot_product_attention", [q.shape, v.shape, v.shape], [np.float32] * 3, scale=0.0)(q, v, v)
    np.testing.assert_allclose(found, np.broadcast_to(v.mean(1, keepdims=True), (1, 2, 4)))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("name", "base"), [("log2", 2), ("log10", 10)])
def test_logarithms_of_powers_are_whole(name: str, base: int, kind: Any) -> None:
    info = np.finfo(kind)
    first, last = (math.ceil(math.log(info.tiny, base)), min(math.floor(math.log(info.max, base)), 1023))
    whole = np.arange(first, last + 1)
    powers = np.array([float(f"1e{n}") if base == 10 else math.ldexp(1.0, int(n)) for n in whole], kind)
    (found,) = model(name, [powers.shape], [kind], reference=False)(powers)
    np.testing.assert_array_equal(found, whole)
    other = np.array([0.0, -1.0, np.nan, np.inf, info.max, 3.0], kind)
    with np.errstate(all="ignore"):
        wanted = np.log2(other.astype(np.float64)) if base == 2 else np.log10(other.astype(np.float64))
    np.testing.assert_allclose(model(name, [other.shape], [kind])(other)[0], wanted, rtol=4 * info.eps)


def test_infinities_and_numbers_that_are_none() -> None:
    inf, nan = math.inf, math.nan
    x, y = (np.array(v, np.float32) for v in ([5, -5, 5, -5, 7, inf], [inf, inf, -inf, -inf, -2, 2]))
    (found,) = model("floor_divide", [x.shape] * 2, [np.float32] * 2)(x, y)
    np.testing.assert_array_equal(found, [0, -1, -1, 0, -4, nan])
    x, y = (np.array(v, np.float32) for v in ([inf, nan, -inf, nan, 3, 3e38], [nan, inf, 1, 2, 4, 1]))
    (found,) = model("hypot", [x.shape] * 2, [np.float32] * 2)(x, y)
    np.testing.assert_array_equal(found, np.array([inf, inf, inf, nan, 5, 3e38], np.float32))
    x, y = (np.array(v, np.float32) for v in ([nan, 1, 2, 3], [0, nan, 4, 1]))
    (found,) = model("clamp", [x.shape] * 2, [np.float32] * 2)(x, y)
    np.testing.assert_array_equal(found, [nan, nan, 4, 3])


def test_products_that_are_scaled_afterwards() -> None:
    x = np.array([1.0, 3e38, -2e37], np.float32)
    (found,) = model("softplus", [x.shape], [np.float32], 100.0)(x)
    np.testing.assert_array_equal(found, np.array([1.0, 3e38, 0.0], np.float32))
    y = np.full(3, 4.0, np.float32)
    (found,) = model("addcmul", [x.shape] * 3, [np.float32] * 3, value=0.25)(np.zeros_like(x), x, y)
    np.testing.assert_allclose(found, x)
