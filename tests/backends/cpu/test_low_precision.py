"""Low precision: what is stored in 16 bits, what must not be, and that results keep the accuracy of bf16."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.low_precision import Narrowing, storage
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.targets import host_target, named_target
from MNN.compiler.copies import own_copy
from MNN.compiler.fuse import Fuser
from MNN.compiler.layout import assign_layouts
from MNN.compiler.usage import consumers, live
from MNN.ir.dtype import DType
from MNN.ir.prims import MatMul, Tensor
from MNN.ops.core.builder import Builder
from tests.backends.cpu.test_compile import conv_block, randn, relu
from tests.compiler.checks import check

pytestmark = pytest.mark.usefixtures("without_tiles")

HOST = host_target()
TOLERANCE = 0.02
"""Of the largest output, for a few roundings to 8 bits one after the other."""


def low(build, *arrays, tol=TOLERANCE, **more):
    return check(build, *arrays, tol=tol, precision="low", **more)


def pairs(program) -> list[int]:
    """Products summed at once, of every contraction."""
    return [c.kernel.group for c in program.commands if c.kernel is not None and hasattr(c.kernel, "group")]


def narrowed(build, *inputs: Tensor, dtype: DType = DType.BF16) -> set[str]:
    """Names of the tensors that would be stored in 16 bits."""
    b = Builder()
    made = build(b, *inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    kept, outputs = own_copy(live(b.prims, outputs), outputs)
    chosen = Narrowing(kept, inputs, outputs, dtype)
    uses = consumers(chosen.prims)
    groups = Fuser(chosen.prims, uses, assign_layouts(chosen.prims, inputs, uses), outputs).groups()
    found = chosen.apply(groups)
    assert all(t.dtype is dtype for t in found)
    assert all(t.dtype is not dtype for t in (*inputs, *outputs, *(t for q in b.prims for t in q.outputs)))
    return {t.name for t in found}


def named(tensor: Tensor, name: str) -> Tensor:
    tensor.name = name
    return tensor


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("c", "o", "k", "stride", "groups", "hw"),
    [
        (3, 32, 3, 2, 1, 33), (16, 40, 1, 1, 1, 19), (24, 24, 3, 1, 24, 24), (8, 12, 5, 2, 4, 21),
        (64, 64, 3, 1, 1, 28),
        (1, 16, 5, 1, 1, 28), (7, 33, 3, 1, 1, 20), (5, 9, 1, 1, 1, 40), (30, 30, 3, 1, 2, 20), (3, 8, 7, 1, 1, 30),
    ],
)  # fmt: skip
def test_convolution(c, o, k, stride, groups, hw, threads):
    def build(b, x):
        x = conv_block(b, b.op("mul", x, b.like(0.5, x)), o, k, stride, groups)
        return conv_block(b, x, 24, 1)

    program = low(build, randn(2, c, hw, hw + 2), threads=threads)
    if group_of(HOST, DType.BF16) > 1:
        assert 2 in pairs(program)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 512, 1000), (37, 65, 130), (64, 33, 100), (197, 64, 197), (5, 700, 1)])
def test_matrix_product(m, k, n):
    low(lambda b, x: b.matmul(x, b.const(randn(k, n))), randn(3, m, k))
    low(lambda b, x, y: b.matmul(x, y), randn(2, 3, m, k), randn(2, 3, k, n))
    low(lambda b, x, y: b.matmul(x, b.permute(y, (0, 2, 1))), randn(2, m, k), randn(2, n, k))


def test_network_with_all_kinds_of_kernels():
    def build(b, x):
        x = conv_block(b, x, 32, 3)
        y = conv_block(b, x, 32, 3, groups=32)
        y = b.concat([conv_block(b, y, 24, 1), b.window("max", y, (1, 1), (1, 1), (1, 1))], 1)
        y = relu(b, b.op("add", conv_block(b, x, 56, 1), y))
        gate = b.reduce("mean", y, (2, 3))
        return b.op("mul", y, gate)

    low(build, randn(2, 3, 24, 26))


def test_softmax_and_normalisation_in_rows():
    def build(b, x):
        y = b.matmul(x, b.const(randn(96, 96) / 10))
        z = b.op("sub", y, b.reduce("mean", y, (2,)))
        z = b.op("div", z, b.op("sqrt", b.op("add", b.reduce("mean", b.op("mul", z, z), (2,)), b.like(1e-5, z))))
        e = b.op("exp", b.op("sub", z, b.reduce("max", z, (2,))))
        return b.matmul(b.op("div", e, b.reduce("sum", e, (2,))), b.const(randn(96, 40)))

    low(build, randn(2, 70, 96))


@pytest.mark.parametrize(("shape", "axes"), [((110, 61, 47), (1,)), ((110, 47, 61), (2,)), ((4200, 5, 7), (1, 2))])
def test_variances_as_differences_of_moments(shape, axes):
    """The mean of squares less the square of the mean, both four hundred times as large as what is left, and so many of
    them that other tensors of this size are stored in 16 bits."""

    def build(b, x):
        y = b.op("mul", b.op("abs", x), b.like(1.25, x))
        mean, squares = (b.reduce("mean", t, axes) for t in (y, b.op("mul", y, y)))
        variance = b.op("sub", squares, b.op("mul", mean, mean))
        return b.op("div", b.op("sub", y, mean), b.op("sqrt", b.op("add", variance, b.like(1e-6, y))))

    low(build, np.random.default_rng(7).normal(1.0, 0.05, shape).astype(np.float32), tol=0.03)


def test_what_may_leave_the_range_of_f16_stays_wide():
    def build(b, x, scale):
        y = named(b.matmul(x, b.const(randn(64, 128))), "product")
        square = named(b.op("mul", y, y), "square")
        shifted = named(b.op("add", y, b.like(-50000.0, y)), "shifted")
        scaled = named(b.op("mul", y, b.op("div", b.like(1.0, scale), scale)), "scaled")
        return [b.matmul(t, b.const(randn(128, 64))) for t in (y, square, shifted, scaled)]

    given = Tensor(DType.F32, (100, 64), name="x"), Tensor(DType.F32, (), name="scale")
    assert {"square", "shifted", "scaled"} & narrowed(build, *given, dtype=DType.F16) == set()
    assert "product" in narrowed(build, *given, dtype=DType.F16)
    assert {"square", "scaled"} <= narrowed(build, *given)


def test_tensors_between_kernels_are_narrow_and_outputs_are_not():
    def build(b, x):
        y = named(b.matmul(x, b.const(randn(64, 128))), "between")
        z = named(b.matmul(y, b.const(randn(128, 64))), "other")
        return b.op("add", z, b.op("exp", z)), named(b.matmul(z, b.const(randn(64, 100))), "result")

    found = narrowed(build, Tensor(DType.F32, (100, 64), name="x"))
    assert {"between", "other", "x in 16 bits"} <= found
    assert "result" not in found


def test_numbers_that_must_stay_wide():
    index = Tensor(DType.I32, (100, 64), name="index")
    x = Tensor(DType.F32, (100, 64), name="x")

    def build(b, x, index):
        positions = named(b.cast(index, DType.F32), "positions")
        angle = named(b.op("mul", b.matmul(positions, b.const(randn(64, 64))), b.op("abs", x)), "angle")
        masked = named(b.op("mul", b.op("abs", x), b.like(-3.4e38, x)), "mask")
        running = named(b.scan("add", b.matmul(x, b.const(randn(64, 64))), 0), "running")
        down = named(b.op("floor", b.reshape(angle, (64, 100))), "floor")
        return [
            b.matmul(t, b.const(randn(t.shape[-1], 70))) for t in (b.op("sin", angle), masked, running, down, positions)
        ]

    found = narrowed(build, x, index)
    assert not found & {"positions", "angle", "mask", "running", "floor"}
    assert not found & {f"{name} in 16 bits" for name in ("positions", "mask", "running", "floor")}


def test_what_the_host_computes_gets_f32():
    def build(b, x):
        x = b.op("abs", b.conv(x, b.const(randn(16, 16, 1, 1, 1)), (1, 1, 1), (1, 1, 1), 1, (0,) * 6))
        x = b.window("max", x, (2, 2, 2), (2, 2, 2), (1, 1, 1))  # no kernel has windows in three dimensions
        return b.conv(x, b.const(randn(8, 16, 1, 1, 1)), (1, 1, 1), (1, 1, 1), 1, (0,) * 6)

    low(build, randn(1, 16, 8, 8, 8), hosts=1)


def test_where_low_is_normal():
    assert storage(named_target("avx2"), "low") is None
    assert storage(named_target("neon"), "low") is None
    amx = dataclasses.replace(
        named_target("avx512"), features=(*named_target("avx512").features, "amx-tile", "amx-bf16")
    )
    assert storage(amx, "low") is DType.BF16
    assert storage(amx, "normal") is None


def test_copies_do_not_touch_the_original():
    b = Builder()
    x = Tensor(DType.F32, (4, 4))
    y = b.op("exp", b.matmul(x, b.const(randn(4, 4))))
    prims, (out,) = own_copy(b.prims, [y])
    assert out is not y
    assert out.producer is prims[-1]
    assert isinstance(prims[0], MatMul)
    assert prims[0].inputs[0] is x
    assert prims[1].inputs[0] is prims[0].outputs[0] is not b.prims[0].outputs[0]
    assert y.producer is b.prims[-1]
