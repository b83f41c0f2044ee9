"""Attention as one command: masks, scales, shared key heads, layouts, sizes; against the reference implementation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.chain import ChainSpec
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.reducing.softmax import softmax
from MNN.ops.sequences.attention import Scores
from MNN.reference.primitives import evaluate
from tests.hostile.checked import CheckedProgram


def check(
    build, *arrays: np.ndarray, threads: int = 1, l2: int = 1 << 20, checked: bool = False, tuned=None,
    precision: str = "normal", tol: float = 1e-5,
) -> Program:  # fmt: skip
    """Compiles for a second-level cache of ``l2`` bytes, compares all outputs with their meaning."""
    b = Builder()
    inputs = [Tensor(DType.of(a), a.shape, name=f"x{i}") for i, a in enumerate(arrays)]
    outputs = list(build(b, *inputs))
    numbers = dict(zip(inputs, arrays, strict=True))
    for prim in b.prims:
        values = [t.const if t.const is not None else numbers[t] for t in prim.inputs]
        numbers.update(
            zip(prim.outputs, evaluate(prim, values, [(t.dtype, t.shape) for t in prim.outputs]), strict=True)
        )
    library = shared_library(cache=True)
    target = dataclasses.replace(library.target, l2_bytes=l2)
    program = compile_stage(
        b.prims, inputs, outputs, target, Options(threads, precision, tuned=tuned or {}), ConstantPool()
    )
    bound = (CheckedProgram if checked else BoundProgram)(program, library)
    for _ in range(2):
        for tensor, found in zip(outputs, bound.run(list(arrays), threads), strict=True):
            want = numbers[tensor]
            np.testing.assert_allclose(found, want, rtol=0, atol=tol * np.abs(want).max())
    return program


def chains(program: Program) -> int:
    return sum(isinstance(c.kernel, ChainSpec) for c in program.commands)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def attention(b: Builder, q: Tensor, k: Tensor, v: Tensor, **more) -> Tensor:
    scores = Scores(q, k, v, 0.3, **more)
    scores.check(b)
    return scores.mix(b, scores.weights(b, scores.masked(b, scores.raw(b))))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("l2", [1 << 20, 16 << 10])
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize(("rows", "keys"), [(1, 5), (7, 9), (50, 33), (197, 197), (130, 300)])
def test_lengths(rows: int, keys: int, threads: int, l2: int, checked: bool) -> None:
    arrays = normal(2, 3, rows, 20), normal(2, 3, keys, 20, seed=1), normal(2, 3, keys, 17)
    program = check(lambda b, *x: [attention(b, *x)], *arrays, threads=threads, l2=l2, checked=checked)
    assert chains(program) == 1
    (chain,) = (c for c in program.commands if c.stages)
    if (rows, l2) == (130, 16 << 10):
        assert chain.inner > 8
    assert chain.choice is not None


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("heads_last", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("mask", ["none", "keys", "causal", "bias", "full bias", "bool full"])
def test_masks_layouts_and_shared_heads(mask: str, groups: int, heads_last: bool, checked: bool) -> None:
    batch, heads, rows, keys, size = 2, 4, 37, 45, 16
    rng = np.random.default_rng(0)
    masks = {
        "keys": rng.random((batch, 1, 1, keys)) < 0.7,
        "causal": np.tril(np.ones((rows, keys), bool), 4)[None, None],
        "bias": normal(1, 1, rows, keys),
        "full bias": normal(batch, heads, rows, keys),
        "bool full": rng.random((batch, heads, rows, keys)) < 0.5,
    }

    def build(b: Builder, q: Tensor, k: Tensor, v: Tensor, *given: Tensor) -> list[Tensor]:
        if heads_last:
            q, k, v = (b.permute(t, (0, 2, 1, 3)) for t in (q, k, v))
        more = {} if not given else {"bias": given[0]} if "bias" in mask else {"allowed": [given[0]]}
        y = attention(b, q, k, v, **more)
        if heads_last:
            y = b.reshape(b.permute(y, (0, 2, 1, 3)), (batch, rows, heads * size))
        return [y]

    arrays = [normal(batch, n, t, size, seed=t) for n, t in ((heads, rows), (groups, keys), (groups, keys))]
    if heads_last:
        arrays = [np.ascontiguousarray(a.transpose(0, 2, 1, 3)) for a in arrays]
    given = [masks[mask]] if mask in masks else []
    assert chains(check(build, *arrays, *given, threads=2, l2=32 << 10, checked=checked)) == 1


def test_results_that_somebody_else_wants_stay_whole() -> None:
    def build(b: Builder, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        scores = b.matmul(q, b.permute(k, (0, 2, 1)))
        weights = softmax(b, scores, 2)
        return [b.matmul(weights, v), weights]

    arrays = normal(3, 20, 8), normal(3, 20, 8, seed=1), normal(3, 20, 8, seed=2)
    assert chains(check(build, *arrays)) == 0
    assert chains(check(lambda b, *x: build(b, *x)[:1], *arrays)) == 1


def test_weights_that_are_their_own_values_stay_whole() -> None:
    def build(b: Builder, q: Tensor) -> list[Tensor]:
        weights = softmax(b, b.matmul(q, b.permute(q, (0, 2, 1))), 2)
        return [b.matmul(weights, weights)]

    assert chains(check(build, normal(2, 19, 8))) == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tokens", [60, 400])
@pytest.mark.parametrize("ends", ["none", "queries", "values", "all"])
def test_one_tensor_is_queries_keys_and_values(ends: str, tokens: int, threads: int) -> None:
    """As in non-local blocks: each is a view of it, or of a copy in another order."""

    def build(b: Builder, x: Tensor) -> list[Tensor]:
        q, k, v = b.permute(x, (0, 2, 1)), x, b.permute(x, (0, 2, 1))
        if ends in ("queries", "all"):
            q = b.slice(q, (0, 0, 0), (2, tokens, 4))
            k = b.slice(k, (0, 1, 0), (2, 4, tokens))
        if ends in ("values", "all"):
            v = b.slice(v, (0, 0, 2), (2, tokens, 5))
        return [b.matmul(softmax(b, b.matmul(q, k), 2), v)]

    assert chains(check(build, normal(2, 8, tokens), threads=threads)) <= 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("heads_last", [False, True])
@pytest.mark.parametrize("tokens", [9, 130])
def test_scores_with_an_epilogue(tokens: int, heads_last: bool, threads: int) -> None:
    """What is added before another shape is taken goes to the product, as in DeBERTa."""

    def build(b: Builder, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, more: Tensor) -> list[Tensor]:
        k, v = (b.permute(t, (1, 0, 2)) if heads_last else t for t in (k, v))
        scores = b.map(lambda m, x, y: m("add", x, y), b.matmul(q, b.permute(k, (0, 2, 1))), bias)
        weights = softmax(b, b.map(lambda m, x, y: m("add", x, y), b.reshape(scores, (2, 4, tokens, tokens)), more), 3)
        return [b.matmul(b.reshape(weights, (8, tokens, tokens)), v)]

    heads = [normal(8, tokens, 16, seed=i) for i in range(3)]
    if heads_last:
        heads[1:] = [np.ascontiguousarray(a.transpose(1, 0, 2)) for a in heads[1:]]
    biases = normal(8, tokens, tokens), normal(2, 1, tokens, tokens)
    assert chains(check(build, *heads, *biases, threads=threads, l2=32 << 10)) == 1


def test_two_in_a_row() -> None:
    def build(b: Builder, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        first = b.matmul(softmax(b, b.matmul(q, k), 2), v)
        return [b.matmul(softmax(b, first, 2), v)]

    arrays = normal(2, 19, 8), normal(2, 8, 21, seed=1), normal(2, 21, 21, seed=2)
    assert chains(check(build, *arrays)) == 1


def test_tuning_may_say_no() -> None:
    arrays = normal(2, 3, 40, 20), normal(2, 3, 50, 20, seed=1), normal(2, 3, 50, 17)
    program = check(lambda b, *x: [attention(b, *x)], *arrays)
    (choice,) = (c.choice for c in program.commands if c.stages)
    assert choice is not None
    assert choice.rejected == ("three kernels",)
    program = check(lambda b, *x: [attention(b, *x)], *arrays, tuned={choice.signature: "three kernels"})
    assert chains(program) == 0


def test_scores_take_no_room_in_the_arena() -> None:
    arrays = normal(1, 4, 700, 16), normal(1, 4, 700, 16, seed=1), normal(1, 4, 700, 16, seed=2)
    program = check(lambda b, *x: [attention(b, *x)], *arrays, l2=256 << 10)
    assert program.arena_bytes < 4 * 700 * 700 * 4
