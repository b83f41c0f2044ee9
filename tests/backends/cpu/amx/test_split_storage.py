"""Tensors kept in two bf16 parts between products on tiles: which, and that nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.program import Program
from MNN.backends.cpu.amx import split_storage
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import Build, cheap_tiles, check

PARTS = DType.BF16X2
SIDE = 12


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles everywhere, and nothing that speaks against parts but that something cannot read them."""
    cheap_tiles(monkeypatch)
    for cost in ("_STORE", "_OPERAND", "_POOL"):
        monkeypatch.setattr(split_storage, cost, 0.0)
    monkeypatch.setattr(split_storage, "_MOVE", -4.0)


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def conv(b: Builder, x: Tensor, o: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu: bool = True) -> Tensor:
    c, half = x.shape[1] // groups, kernel // 2
    w = randn(o, c, kernel, kernel) / np.float32(np.sqrt(c * kernel * kernel))
    y = b.conv(x, b.const(w), (stride, stride), (1, 1), groups, (half,) * 4)
    y = b.op("add", y, b.const(randn(1, o, 1, 1) * np.float32(0.1)))
    return b.op("max", y, b.const(np.float32(0))) if relu else y


def kept(program: Program) -> list[str]:
    """The kernels that write tensors in parts."""
    return [type(c.kernel).__name__ for c in program.commands if getattr(c.kernel, "out", None) is PARTS]


def readers(program: Program) -> list[bool]:
    """Of the products that read parts, which take their tiles from them directly."""
    return [c.kernel.direct for c in program.commands if isinstance(c.kernel, AmxSpec) and c.kernel.a is PARTS]


def run(build: Build, channels: int = 64, side: int = SIDE, threads: int = 1, precision: str = "normal") -> Program:
    return check(build, randn(1, channels, side, side), tol=1e-4, threads=threads, precision=precision)


@pytest.mark.parametrize("threads", [1, 2])
def test_residual_block(threads: int) -> None:
    """The sum of a block is read by the next block's product and by its sum."""

    def build(b: Builder, x: Tensor) -> Tensor:
        y = conv(b, x, 128)
        for _ in range(2):
            z = conv(b, conv(b, conv(b, y, 32), 32, 3), 128, relu=False)
            y = b.op("max", b.op("add", y, z), b.const(np.float32(0)))
        return conv(b, y, 40)

    program = run(build, threads=threads)
    assert kept(program).count("AmxSpec") == 7  # all but the last
    assert readers(program).count(True) == 5  # 3x3 windows bring theirs
    sums = [c.kernel for c in program.commands if isinstance(c.kernel, AmxSpec) and "mn" in c.kernel.operands]
    assert all(s.epilogue is not None and PARTS in s.epilogue.args for s in sums)
    assert len(sums) == 2


def test_other_sizes_and_batches() -> None:
    def build(b: Builder, x: Tensor) -> Tensor:
        return conv(b, conv(b, conv(b, x, 64), 96, 3, 2), 33)

    for shape in ((1, 64, 8, 9), (3, 64, 17, 5), (2, 64, 4, 4)):
        program = check(build, randn(*shape), tol=1e-4)
        assert kept(program) == ["AmxSpec", "AmxSpec"]


def test_pools_and_concatenations() -> None:
    """Branches of one concatenation, inside the border of the pool that reads it."""

    def build(b: Builder, x: Tensor) -> Tensor:
        parts = [conv(b, x, 64), conv(b, conv(b, x, 32), 96, 3), conv(b, x, 32)]
        y = b.concat(parts, 1)
        pooled = b.window("max", b.pad(y, (0, 0, 1, 1), (0, 0, 1, 1), -np.inf), (3, 3), (1, 1), (1, 1))
        return b.concat([conv(b, y, 64), conv(b, pooled, 64)], 1)

    program = run(build, side=17)
    assert "WindowSpec" in kept(program)
    assert kept(program).count("AmxSpec") == 4
    assert any(isinstance(c.kernel, WindowSpec) and c.kernel.dtype is PARTS for c in program.commands)
    assert readers(program).count(True) == 2  # one of them from within the border


def test_depthwise_convolutions_write_parts_and_read_f32() -> None:
    def build(b: Builder, x: Tensor) -> Tensor:
        return conv(b, conv(b, conv(b, x, 96), 96, 3, groups=96), 64)

    program = run(build)
    assert kept(program) == ["WindowSpec"]
    assert [c.kernel.dtype for c in program.commands if isinstance(c.kernel, WindowSpec)] == [DType.F32]


def test_slices_of_whole_thirty_twos() -> None:
    def build(cut: int) -> Build:
        def made(b: Builder, x: Tensor) -> Tensor:
            y = conv(b, x, 128)
            left, right = (b.slice(y, (0, at, 0, 0), (1, n, SIDE, SIDE)) for at, n in ((0, cut), (cut, 128 - cut)))
            return conv(b, b.concat([left, conv(b, right, 64)], 1), 32)

        return made

    assert kept(run(build(64))) == ["AmxSpec", "AmxSpec"]
    assert kept(run(build(48))) == []


UNFIT = {
    "odd channels": lambda b, x: conv(b, conv(b, x, 48), 64),
    "an operator between": lambda b, x: conv(b, b.reduce("sum", conv(b, x, 64), (2,), True), 64),
    "broadcast": lambda b, x: b.op("add", conv(b, x, 64), conv(b, b.reduce("max", x, (2, 3), True), 64)),
    "groups": lambda b, x: conv(b, conv(b, x, 64), 64, 3, groups=2),
    "results": lambda b, x: conv(b, x, 64),
    "other views": lambda b, x: b.permute(conv(b, conv(b, x, 64), 64), (0, 2, 3, 1)),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_stays(name: str) -> None:
    """At most the tensor before the case's last product is kept in parts."""
    found = kept(run(UNFIT[name]))
    assert len(found) == (1 if name == "other views" else 0)


@pytest.mark.parametrize("precision", ["high", "low"])
def test_other_precisions_have_no_parts(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(b: Builder, x: Tensor) -> Tensor:
        return conv(b, conv(b, x, 64), 64)

    program = check(build, randn(1, 64, SIDE, SIDE), tol=3e-2 if precision == "low" else 1e-5, precision=precision)
    assert not kept(program)


def test_what_costs_more_than_it_gains_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_storage, "_STORE", 1e6)
    assert not kept(run(lambda b, x: conv(b, conv(b, x, 64), 64)))


def test_exact_products_read_f32(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first products of a deep network are of three parts."""
    from MNN.backends.cpu import low_precision as precision

    monkeypatch.setattr(precision, "DEEP", {3: 2})
    program = run(lambda b, x: conv(b, conv(b, conv(b, x, 64), 64), 64))
    kernels = [c.kernel for c in program.commands if isinstance(c.kernel, AmxSpec)]
    assert [(k.a, k.parts) for k in kernels] == [(DType.F32, 3), (DType.F32, 3), (PARTS, 2)]
