"""Compiled programs against the reference implementation of their primitives."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.dtype import DType
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check

pytestmark = pytest.mark.usefixtures("without_tiles")

rng = np.random.default_rng(0)


def randn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def relu(b: Builder, x):
    return b.op("max", x, b.like(0.0, x))


def conv_block(b: Builder, x, out, k, stride=1, groups=1, pad=None, act=True):
    w = b.const(randn(out, x.shape[1] // groups, k, k) / k)
    pad = k // 2 if pad is None else pad
    y = b.conv(x, w, (stride, stride), (1, 1), groups, (pad,) * 4)
    y = b.op("add", y, b.const(randn(1, out, 1, 1)))
    return relu(b, y) if act else y


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("c", "o", "k", "stride", "groups", "hw"),
    [
        (3, 32, 3, 2, 1, 33),
        (16, 40, 1, 1, 1, 9),
        (24, 24, 3, 1, 24, 14),
        (8, 12, 5, 2, 4, 11),
        (64, 64, 3, 1, 1, 28),
        (20, 20, 3, 2, 20, 15),
        (1, 6, 3, 1, 1, 8),
        (6, 1, 3, 1, 1, 8),
        (48, 17, 1, 2, 1, 7),
    ],
)
def test_convolution(c, o, k, stride, groups, hw, threads):
    program = check(lambda b, x: conv_block(b, x, o, k, stride, groups), randn(2, c, hw, hw + 2), threads=threads)
    assert program.flops > 0


def test_residual_network_is_fused():
    def build(b, x):
        x = conv_block(b, x, 32, 3)
        y = conv_block(b, x, 16, 1)
        y = conv_block(b, y, 16, 3, groups=16)
        y = conv_block(b, y, 32, 1, act=False)
        y = relu(b, b.op("add", x, y))
        return b.reduce("mean", y, (2, 3))

    program = check(build, randn(1, 3, 20, 20))
    kernels = [type(c.kernel).__name__ for c in program.commands]
    assert kernels.count("ContractSpec") == 3
    assert kernels.count("WindowSpec") == 1


@pytest.mark.parametrize("dims", [1, 3])
def test_other_dimensions(dims):
    def build(b, x):
        w = b.const(randn(8, x.shape[1], *(3,) * dims))
        return b.conv(x, w, (2,) * dims, (1,) * dims, 1, (1,) * (2 * dims))

    check(build, randn(2, 5, *(9,) * dims))


def test_dilated_and_transposed_weights():
    check(lambda b, x, w: b.conv(x, w, (1, 1), (2, 2), 1, (2, 2, 2, 2)), randn(1, 4, 10, 10), randn(6, 4, 3, 3))


def test_grouped_with_computed_weights():
    check(lambda b, x, w: b.conv(x, w, (1, 1), (1, 1), 2, (1, 1, 1, 1)), randn(1, 4, 8, 8), randn(6, 2, 3, 3))


def test_dense_block_concatenates_in_place():
    def build(b, x):
        x = conv_block(b, x, 16, 3)
        for _ in range(3):
            y = conv_block(b, x, 8, 3)
            x = b.concat([x, y], 1)
        return conv_block(b, x, 10, 1)

    check(build, randn(1, 3, 12, 12))


def test_steps_write_into_their_sequence():
    """What a step computes goes into the concatenation of all steps at once, also through a reshape."""
    steps = 4

    def build(b, x, w):
        outputs = []
        for _ in range(steps):
            x = b.op("tanh", b.matmul(x, w))
            outputs.append(b.reshape(x, (1, *x.shape)))
        return b.concat(outputs, 0), x

    program = check(build, randn(2, 3, 8), randn(2, 8, 8) / 3)
    copied_out = 1  # the last step is an output of its own
    assert len(program.commands) <= steps + copied_out


def test_shuffle_units():
    def build(b, x):
        n, _, h, w = x.shape
        x = conv_block(b, x, 32, 1)
        left = b.slice(x, (0, 0, 0, 0), (n, 16, h, w))
        right = conv_block(b, b.slice(x, (0, 16, 0, 0), (n, 16, h, w)), 16, 3, groups=16)
        x = b.concat([left, right], 1)
        x = b.reshape(b.permute(b.reshape(x, (n, 2, 16, h, w)), (0, 2, 1, 3, 4)), (n, 32, h, w))
        return conv_block(b, x, 8, 1)

    check(build, randn(2, 4, 7, 7))


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 64, 33), (1, 1000), (4, 1)])
def test_softmax(shape):
    def build(b, x):
        top = b.reduce("max", x, (-1,))
        e = b.op("exp", b.op("sub", x, top))
        return b.op("div", e, b.reduce("sum", e, (-1,)))

    program = check(build, randn(*shape))
    assert len(program.commands) == 1


@pytest.mark.parametrize("axes", [(-1,), (1, 2), (1,), (0,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["sum", "max", "min", "mean", "prod"])
def test_reductions(op, axes):
    check(lambda b, x: b.reduce(op, b.op("abs", x), axes), randn(5, 6, 37))


def layer_norm(b, x):
    mean = b.reduce("mean", x, (-1,))
    d = b.op("sub", x, mean)
    var = b.reduce("mean", b.op("mul", d, d), (-1,))
    y = b.op("mul", d, b.op("rsqrt", b.op("add", var, b.like(1e-5, x))))
    return b.op("add", b.op("mul", y, b.const(randn(x.shape[-1]))), b.const(randn(x.shape[-1])))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "prod"])
@pytest.mark.parametrize(("rows", "threads", "folds"), [(784, 2, 2), (49, 3, 2), (47, 2, 1), (784, 1, 1), (8, 2, 1)])
def test_threads_fold_their_own_rows(op, rows, threads, folds):
    def build(b, x, y):
        z = b.reduce(op, relu(b, b.op("mul", x, y)), (0, 1))
        return b.op("add", z, b.const(randn(1, 1, 96)))

    # Sums of wide ranges: rounding differs by order.
    x = 1 + 0.01 * np.abs(randn(rows, 7, 96)) if op == "prod" else randn(rows, 7, 96)
    y = np.ones((7, 96), np.float32) if op == "prod" else randn(7, 96)
    program = check(build, x, y, threads=threads, tol=1e-4)
    assert sum(type(c.kernel).__name__ == "FoldSpec" for c in program.commands) == folds


def test_transformer_block():
    heads, dim = 4, 16

    def build(b, x):
        n, s, c = x.shape

        def linear(v, out):
            return b.op("add", b.matmul(v, b.const(randn(v.shape[-1], out) / 8)), b.const(randn(out)))

        y = layer_norm(b, x)
        q, k, v = (b.permute(b.reshape(linear(y, c), (n, s, heads, dim)), (0, 2, 1, 3)) for _ in range(3))
        scores = b.op("mul", b.matmul(q, b.permute(k, (0, 1, 3, 2))), b.const(np.float32(dim**-0.5)))
        e = b.op("exp", b.op("sub", scores, b.reduce("max", scores, (-1,))))
        attention = b.matmul(b.op("div", e, b.reduce("sum", e, (-1,))), v)
        x = b.op("add", x, linear(b.reshape(b.permute(attention, (0, 2, 1, 3)), (n, s, c)), c))
        h = linear(layer_norm(b, x), 4 * c)
        half = b.const(np.float32(0.5))
        bell = b.op("erf", b.op("mul", h, b.like(0.70710678, h)))
        gelu = b.op("mul", b.op("mul", h, half), b.op("add", bell, b.like(1.0, h)))
        return b.op("add", x, linear(gelu, c))

    check(build, randn(2, 19, 64), tol=3e-5)


@pytest.mark.parametrize(
    ("a", "z"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (1, 6, 4, 5)), ((1, 300), (300, 70)), ((7, 20), (20, 1))],
)
def test_matmul(a, z):
    check(lambda b, x, y: b.matmul(x, y), randn(*a), randn(*z))
    check(lambda b, x: b.matmul(x, b.const(randn(*z))), randn(*a))


def test_matmul_of_transposed():
    check(lambda b, x, y: b.matmul(b.permute(x, (1, 0)), b.permute(y, (1, 0))), randn(9, 5), randn(12, 9))


@pytest.mark.parametrize("op", ["max", "sum"])
def test_pooling(op):
    def build(b, x):
        x = conv_block(b, x, 16, 1)
        x = b.pad(x, (0, 0, 1, 1), (0, 0, 1, 0), -np.inf if op == "max" else 0.0)
        return b.window(op, x, (3, 2), (2, 2), (1, 1))

    check(build, randn(1, 3, 15, 16))


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (3, 1, 0, 2), (1, 0, 2, 3), (0, 3, 1, 2)])
def test_transposition(perm):
    check(lambda b, x: b.permute(x, perm), randn(3, 17, 20, 33))


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64", "i8", "u8", "i32", "i64", "bool"])
def test_elementwise_types(dtype):
    kind = DType(dtype)
    x, y = ((rng.integers(0, 5, (3, 1, 19))).astype(kind.numpy), (rng.integers(1, 5, (4, 19))).astype(kind.numpy))
    op = "and" if kind is DType.BOOL else "mul"
    check(lambda b, p, q: [b.op(op, p, q), b.cast(p, DType.F32), b.op("eq", p, q)], x, y)


def test_gather_and_take():
    index = np.array([[3, -1, 0], [2, 2, -4]], dtype=np.int64)
    check(lambda b, x, i: [b.take(x, i, 0), b.take(x, i, 1), b.take(x, i, 2)], randn(4, 5, 20), index)


def test_scatter():
    def build(b, x, u, i):
        return b.scatter("add", x, u, [b.reshape(i, (3, 1))], [0], [-1, 1])

    check(build, randn(5, 6), randn(3, 6), np.array([1, 4, 1], dtype=np.int64))


@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums(axis, exclusive, reverse):
    check(lambda b, x: b.scan("add", x, axis, exclusive, reverse), randn(3, 6, 17))


@pytest.mark.parametrize("op", ["argmax", "argmin", "argmax_last"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_argreduce(op, axis):
    check(lambda b, x: b.argreduce(op, x, axis), rng.integers(0, 4, (4, 5, 21)).astype(np.float32))


def test_views_of_views():
    def build(b, x):
        y = b.slice(x, (1, 30, 0), (2, 10, 5), (1, -2, 1))
        y = b.permute(y, (2, 0, 1))
        return b.expand(b.reshape(y, (5, 2, 1, 10)), (5, 2, 3, 10))

    check(build, randn(4, 33, 6))


def test_outputs_that_are_inputs_of_other_kernels():
    def build(b, x):
        y = conv_block(b, x, 8, 3)
        return [y, b.reshape(y, (1, -1)), relu(b, y)]

    check(build, randn(1, 3, 6, 6))
