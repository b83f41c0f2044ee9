"""Kernels of layers whose states lie in slots against the reference implementation, on this machine's targets and
AArch64, checked; and the matrix form against attention written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from MNN.backends.cpu.linear_attention.spec import COLUMNS, CausalConvolutionSpec, LinearAttentionSpec
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import CausalConvolution, LinearAttention, Prim, Tensor
from MNN.ir.verify_primitives import verify_primitives
from MNN.reference.primitives import evaluate
from tests.backends.cpu import qemu
from tests.backends.cpu.util import TARGETS, call

Array = np.ndarray


def segments(rng: np.random.Generator, slots: int) -> tuple[Array, int]:
    """Sequences of which some begin anew, some end nowhere, and one goes on from where another one ended; and a segment
    of nothing, with how many tokens there are."""
    found, first = [], 0
    for i in range(int(rng.integers(1, 5))):
        count = int(rng.choice([1, 1, 2, 3, 4, 5, 9, 17]))
        source = int(rng.choice([-1, i, found[-1][3] if found else 0]))
        found.append((first, count, source, int(rng.choice([-1, i, slots - 1 - i]))))
        first += count
    return np.array([*found, (0, 0, -1, 0)], np.int64), first


def outcome(make: Callable[..., Prim], given: list[Array], result: tuple[int, ...], **more: Any) -> list[Array]:
    """What the reference implementation gives."""
    prim = make([Tensor(DType.of(a), a.shape) for a in given], **more)
    types = [(DType.F32, given[0].shape), (DType.F32, result)]
    prim.outputs = [Tensor(*one, producer=prim) for one in types]
    verify_primitives([prim], prim.inputs, prim.outputs, "here")
    return [np.asarray(found) for found in evaluate(prim, given, types)]


def compare(found: list[Array], wanted: list[Array], table: Array, tolerance: float) -> None:
    """The pool, and the rows of tokens."""
    rows = [row for first, count, _, _ in table.tolist() for row in range(first, first + count)]
    for got, expected in ((found[0], wanted[0]), (found[1][rows], wanted[1][rows])):
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * max(1.0, float(np.abs(expected).max())))


def convolve(seed: int, target: Target, calls: Callable[..., None], **more: object) -> None:
    rng = np.random.default_rng(seed)
    columns, taps = int(rng.choice([1, 6, 24, 64, 250, 300, 512])), int(rng.integers(2, 6))
    table, tokens = segments(rng, 9)
    pool, both, w = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((9, taps - 1, columns), (tokens, columns + 5), (taps, columns))
    )
    x, y = both[:, :columns], np.full((tokens, columns), np.nan, np.float32)
    wanted = outcome(CausalConvolution, [pool, x, w, table], x.shape)
    slots = {"pool": pool.ctypes.data, "places": 9, "x": x.ctypes.data, "x_t": columns + 5, "w": w.ctypes.data}
    slots |= {"y": y.ctypes.data, "y_t": columns, "tokens": tokens, "segments": table.ctypes.data, "count": len(table)}
    blocks = -(-columns // COLUMNS)
    calls(CausalConvolutionSpec(columns, taps), target, slots, blocks, [pool, both, w, y, table], **more)
    compare([pool, y], wanted, table, 1e-6)


def sum_up(seed: int, target: Target, calls: Callable[..., None], **more: object) -> None:
    rng = np.random.default_rng(seed)
    groups, share = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    size, value_size = int(rng.choice([3, 8, 20, 64, 128])), int(rng.choice([1, 6, 16, 24, 64, 128]))
    delta, rows, heads = bool(rng.integers(2)), bool(rng.integers(2)), groups * share
    table, tokens = segments(rng, 9)

    def some(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    pool, q, k, v = (
        some(9, heads, size, value_size),
        *(some(tokens, n, s) for n, s in _heads(groups, heads, size, value_size)),
    )
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    weights = [rng.uniform(0.2, 1, (tokens, heads)).astype(np.float32) for _ in range(1 + delta)]
    if rows:
        weights[0] = rng.uniform(0.2, 1, (tokens, heads, size)).astype(np.float32)
    given = [pool, q, k, v, *weights, table]
    wanted = outcome(LinearAttention, given, v.shape, delta=delta)
    y = np.full(v.shape, np.nan, np.float32)
    spec = LinearAttentionSpec(heads, groups, size, value_size, delta, rows)
    slots = {"pool": pool.ctypes.data, "places": 9, "tokens": tokens, "segments": table.ctypes.data}
    slots |= {"count": len(table)}
    for name, array in zip(("q", "k", "v", "decay", *spec.more, "y"), (q, k, v, *weights, y), strict=True):
        slots |= {name: array.ctypes.data, f"{name}_t": array.strides[0] // 4, f"{name}_h": array.strides[1] // 4}
    calls(spec, target, slots, heads * value_size // spec.width(target), [*given, y], **more)
    compare([pool, y], wanted, table, 1e-5)


def _heads(groups: int, heads: int, size: int, value_size: int) -> tuple[tuple[int, int], ...]:
    return (groups, size), (groups, size), (heads, value_size)


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
@pytest.mark.parametrize("kernel", [convolve, sum_up])
def test_random(target: Target, kernel: Callable[..., None]) -> None:
    for seed in range(2):
        kernel(seed * 100 + TARGETS.index(target), target, call)


@pytest.mark.parametrize("kernel", [convolve, sum_up])
def test_checked(kernel: Callable[..., None]) -> None:
    """Exact bounds."""
    for target in (TARGETS[0], TARGETS[-1]):
        kernel(7, target, call, checked=True)
        kernel(8, target, call, checked=True)


def test_like_attention_written_out() -> None:
    """Without the rule of differences, results are scores of keys times values, as far as these have not decayed."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((7, 2, n)).astype(np.float32) for n in (5, 5, 4))
    decay = rng.uniform(0.3, 1, (7, 2)).astype(np.float32)
    given = [np.zeros((1, 2, 5, 4), np.float32), q, k, v, decay, np.array([[0, 7, -1, 0]], np.int64)]
    _, found = outcome(LinearAttention, given, v.shape)
    left = np.cumsum(np.log(decay), 0)
    for t in range(7):
        shares = np.einsum("hd,jhd->jh", q[t], k[: t + 1]) * np.exp(left[t] - left[: t + 1])
        np.testing.assert_allclose(found[t], np.einsum("jh,jhe->he", shares, v[: t + 1]), rtol=1e-4, atol=1e-5)


def test_differences_forget() -> None:
    """With the rule of differences and a share of 1, what a key stands for is what it was last given."""
    rng = np.random.default_rng(3)
    key = rng.standard_normal(6).astype(np.float32)
    key /= np.linalg.norm(key)
    v, ones = rng.standard_normal((5, 1, 4)).astype(np.float32), np.ones((5, 1), np.float32)
    keys = np.tile(key, (5, 1, 1))
    given = [np.zeros((1, 1, 6, 4), np.float32), keys, keys, v, ones, ones, np.array([[0, 5, -1, 0]], np.int64)]
    np.testing.assert_allclose(outcome(LinearAttention, given, v.shape, delta=True)[1], v, atol=1e-5)


@pytest.mark.parametrize("kernel", [convolve, sum_up])
def test_aarch64(kernel: Callable[..., None]) -> None:
    qemu.need_tools()
    kernel(11, named_target("neon"), qemu.call)
