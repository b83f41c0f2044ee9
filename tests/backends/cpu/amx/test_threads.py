"""Products on tiles by several threads: slices of the depth, and what each thread fetches for the next one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Command, Ref
from MNN.backends.cpu.amx import slices as amx_slices
from MNN.backends.cpu.amx.cost import Plan, plan_rows
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.slices import plan_slices
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.targets import named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.backends.cpu.amx.test_programs import PRECISIONS, randn, run
from tests.compiler.checks import built, cheap_tiles


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)


@pytest.fixture
def always_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(*sizes: object, **rest: object) -> Plan:
        plan = replace(cast("Plan", sizes[4]), time=math.inf)
        return plan_slices(*sizes[:4], plan, *sizes[5:], **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(amx, "plan_slices", always)
    monkeypatch.setattr(amx_slices, "LEAST_DEPTH", 64)


@PRECISIONS
@pytest.mark.usefixtures("always_slices")
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("threads", "ends"), [(2, "nothing"), (3, "bias and sum"), (4, "column")])
def test_products_in_slices(
    precision: str, threads: int, ends: str, chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice of the depth for each of several threads; the sum of their results has the epilogue."""
    if chunked:
        monkeypatch.setattr(amx_slices, "WHOLE", 0)
    w, bias, column = randn(64 * threads, 80), randn(80), randn(50, 1)

    def build(b: Builder, x: Tensor, other: Tensor) -> Tensor:
        y = b.matmul(x, b.const(w))
        if ends == "bias and sum":
            return b.op("max", b.op("add", b.op("add", y, b.const(bias)), other), b.like(0.0, y))
        return b.op("mul", y, b.const(column)) if ends == "column" else b.op("add", y, other)

    program = run(build, randn(50, 64 * threads), randn(50, 80), precision=precision, threads=threads)
    slots = [[c.args[s] for s in ("m_blocks", "chunks")] for c in program.commands if isinstance(c.kernel, AmxSpec)]
    assert slots == [[threads, 1 + chunked]]


@PRECISIONS
@pytest.mark.usefixtures("always_slices")
@pytest.mark.parametrize("images", [1, 2])
def test_slices_within_a_border(precision: str, images: int) -> None:
    """A pointwise convolution whose result lies inside the next one's border; not of two pictures, whose rows are not
    evenly apart along lines alone."""
    w, bias, window = randn(32, 128, 1, 1), randn(1, 32, 1, 1), randn(16, 32, 3, 3)

    def build(b: Builder, x: Tensor, other: Tensor) -> Tensor:
        y = b.conv(x, b.const(w), (1, 1), (1, 1), 1, (0,) * 4)
        y = b.op("max", b.op("add", b.op("add", y, b.const(bias)), other), b.like(0.0, y))
        return b.conv(y, b.const(window), (1, 1), (1, 1), 1, (1,) * 4)

    program = run(build, randn(images, 128, 7, 9), randn(images, 32, 7, 9), precision=precision, threads=2)
    first = next(c for c in program.commands if isinstance(c.kernel, AmxSpec))
    assert isinstance(first.kernel, AmxSpec)
    assert (first.kernel.epilogue is None) == (images == 1)


def test_slices_are_for_deep_products_alone() -> None:
    target = named_target("avx512")

    def slices(m: int, n: int, k: int, threads: int = 2, direct: bool = False) -> int:
        plan = plan_rows(target, m, n, k, 1, 1 if direct else 2, 1, threads, direct)
        return plan_slices(target, m, n, k, plan, threads, 1 if direct else 2, direct, False, False).slices

    assert slices(128, 768, 3072) == slices(197, 768, 3072) == 2
    assert slices(128, 768, 3072, threads=4) == 1, "a slice is not deep"
    assert slices(128, 768, 3072, threads=1) == 1
    assert slices(128, 768, 768) == slices(128, 768, 3072 + 32) == 1
    assert slices(4096, 768, 4096) == 1, "rows do not stay in the cache"
    assert slices(128, 768, 3072, direct=True) == 1, "columns are as good"


def test_other_sizes_keep_to_slices() -> None:
    w, target, pool, kernels = randn(2048, 320), named_target("avx512"), ConstantPool(), set()
    for rows in (64, 200, 20, 130):
        b, inputs, outputs, _ = built(lambda b, x: b.matmul(x, b.const(w)), randn(rows, 2048))
        program = compile_stage(b.prims, inputs, outputs, target, Options(2, "normal"), pool)
        new = {kernel for c in program.commands for kernel in c.kernels()}
        assert not kernels or new <= kernels, "a kernel was compiled for another size"
        kernels |= new
        assert [c.args["m_blocks"] for c in program.commands if isinstance(c.kernel, AmxSpec)] == [2]


def test_fetches_what_the_next_product_begins_with() -> None:
    left, right = randn(70, 40), randn(40, 50)

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.matmul(b.matmul(x, b.const(left)), b.const(right))

    for threads in (1, 2):
        program = run(build, randn(30, 70), threads=threads)
        first, second = (c for c in program.commands if isinstance(c.kernel, AmxSpec))
        assert first.args["b"] != second.args["b"]
        assert first.args["next"] == second.args["b"]
        assert second.args["next"] == second.args["b"]
        assert set(turns(second)) == {-1}


def turns(command: Command) -> list[int]:
    table = command.args["turns"]
    assert isinstance(table, Ref)
    assert table.buffer.const is not None
    return [int(number) for number in table.buffer.const]


def test_threads_fetch_what_each_of_them_begins_with() -> None:
    """Columns of the first product, then slices of the second one's depth, then rows."""
    x = Tensor(DType.F32, (128, 768))
    b, y = Builder(), x
    for shape in ((768, 3072), (3072, 768), (768, 64)):
        y = b.matmul(y, b.const(np.ones(shape, np.float32)))
    program = compile_stage(b.prims, [x], [y], named_target("avx512"), Options(2, "normal"), ConstantPool())
    first, second, third = (c for c in program.commands if isinstance(c.kernel, AmxSpec))
    assert (first.blocks, first.args["nb"], second.args["m_blocks"]) == (2, 1536, 2)
    assert turns(first) == [0, cast("int", second.args["panel"]) // 2]
    assert turns(second) == [0, 0]
    assert third.args["nb"] >= 64
