"""Contractions on tiles within programs, against the reference implementation; with a plain form elsewhere."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.backends.cpu.amx.cost import Plan, plan_rows, plan_window
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.grouping import ask_ahead
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.low_precision import DEEP
from MNN.backends.cpu.products.dot import DOT2
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets import named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import Build, built, cheap_tiles
from tests.hostile.checked import CheckedProgram

TOLERANCE = {"high": 1e-6, "fp16": 1e-6, "normal": 3e-5, "low": 2e-2}
PRECISIONS = pytest.mark.parametrize("precision", list(TOLERANCE))
"""``fp16``: ``high`` where tiles multiply fp16."""


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)


def run(build: Build, *arrays: np.ndarray, precision: str = "normal", threads: int = 1) -> Program:
    """Runs ``build`` compiled and by meaning, and compares."""
    b, inputs, (made,), numbers = built(build, *arrays)
    library = shared_library(cache=True)
    half = precision == "fp16"
    with mock.patch.object(amx, "splits_in_fp16", return_value=half):
        options = Options(threads, "high" if half else precision)
        program = compile_stage(b.prims, inputs, [made], library.target, options, ConstantPool())
    bound = BoundProgram(program, library, threads)
    for _ in range(2):
        (found,) = bound.run(list(arrays), threads)
        want = numbers[made].astype(np.float64)
        error = np.abs(found.astype(np.float64) - want).max() / np.abs(want).max()
        assert error <= TOLERANCE[precision], error
    assert any(isinstance(c.kernel, AmxSpec) and c.kernel.half == half for c in program.commands), "no tiles were used"
    return program


def randn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@PRECISIONS
@pytest.mark.parametrize(
    ("c", "o", "kernel", "stride", "groups", "hw"),
    [
        (3, 20, 7, 2, 1, 21),
        (32, 40, 3, 1, 1, 9),
        (48, 16, 3, 2, 1, 12),
        (64, 33, 1, 1, 1, 7),
        (32, 32, 3, 1, 2, 6),
        (64, 96, 3, 1, 8, 7),
    ],
)
def test_convolution(precision: str, c: int, o: int, kernel: int, stride: int, groups: int, hw: int) -> None:
    w, bias = randn(o, c // groups, kernel, kernel), randn(1, o, 1, 1)

    def build(b: Builder, x: Tensor, other: Tensor) -> Tensor:
        y = b.conv(x, b.const(w), (stride, stride), (1, 1), groups, (kernel // 2,) * 4)
        y = b.op("add", b.op("add", y, b.const(bias)), other)
        return b.op("max", y, b.like(0.0, y))

    side = (hw + 2 * (kernel // 2) - kernel) // stride + 1
    for threads in (1, 2):
        run(build, randn(2, c, hw, hw), randn(2, o, side, side), precision=precision, threads=threads)


@pytest.mark.parametrize("shape", [(300,), (60, 50), (6, 7, 8)], ids=["1d", "2d", "3d"])
def test_dimensions_and_dilation(shape: tuple[int, ...]) -> None:
    dims = len(shape)
    w = randn(24, 20, *(3,) * dims)
    run(lambda b, x: b.conv(x, b.const(w), (1,) * dims, (2,) * dims, 1, (2,) * 2 * dims), randn(1, 20, *shape))


def test_regions_cut_along_another_dimension() -> None:
    """Regions that are some lines of every frame of a film."""
    w, bias = randn(24, 40, 5, 1, 1), randn(1, 24, 1, 1, 1)

    def build(b: Builder, x: Tensor, other: Tensor) -> Tensor:
        y = b.conv(x, b.const(w), (1, 1, 1), (1, 1, 1), 1, (2, 0, 0, 2, 0, 0))
        return b.op("add", b.op("add", y, b.const(bias)), other)

    with mock.patch.object(amx, "orders", return_value=[(1, 0, 2)]):
        program = run(build, randn(2, 40, 6, 30, 17), randn(2, 24, 6, 30, 17), threads=2)
    assert any("pixels" in choice.name for command in program.commands for choice in command.choices)


def test_few_frames_are_brought_once() -> None:
    """A window that reaches over many frames is cut along the lines, which bring nothing twice."""
    w = Window(1, (16, 56, 56), (20, 56, 56), (5, 1, 1), (1, 1, 1), (1, 1, 1), 0, (1, 1, 1), 96)
    target = replace(named_target("avx512"), l2_bytes=2 << 20)
    along = {order: plan_window(target, w.turned(order), 64, 1, 1).time for order in amx.orders(w)}
    assert min(along, key=along.__getitem__) == (1, 0, 2)


@PRECISIONS
@pytest.mark.parametrize(("left", "right"), [((30, 70), (70, 40)), ((2, 3, 17, 33), (33, 50)), ((1, 64), (64, 100))])
def test_matrix_product(precision: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    w, bias = randn(*right), randn(right[-1])
    run(lambda b, x: b.op("add", b.matmul(x, b.const(w)), b.const(bias)), randn(*left), precision=precision)


@pytest.mark.parametrize(
    ("left", "right"), [((3, 20, 40), (3, 40, 30)), ((2, 3, 20, 40), (1, 3, 40, 30)), ((20, 40), (2, 40, 30))]
)
def test_right_side_computed_at_run_time(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    run(lambda b, x, y: b.matmul(x, y), randn(*left), randn(*right), threads=2)
    run(lambda b, x: b.matmul(x, b.const(randn(*right))), randn(*left))


def test_packed_weights_are_shared() -> None:
    """Two products with the same weights, of different extents, pack them once."""
    w = randn(64, 48)
    b, pool = Builder(), ConstantPool()
    x = Tensor(DType.F32, (40, 64))
    y = Tensor(DType.F32, (10, 64))
    right = b.const(w)
    outputs = [b.matmul(x, right), b.matmul(y, right)]
    library = shared_library(cache=True)
    program = compile_stage(b.prims, [x, y], outputs, library.target, Options(), pool)
    buffers = {id(c.args["b"].buffer) for c in program.commands}  # type: ignore[union-attr]
    assert len(buffers) == 1


@pytest.mark.parametrize("precision", ["high", "normal", "low"])
def test_other_sizes_compile_no_kernels(precision: str) -> None:
    """Steps ask for more or fewer lines of weights, with kernels that are there."""
    w, target = randn(768, 512), named_target("avx512")
    pool, asked, kernels = ConstantPool(), set(), set()
    for rows in (49, 196, 300, 130, 70):
        b, x = Builder(), Tensor(DType.F32, (rows, 768))
        made = b.matmul(x, b.const(w))
        (product,) = [
            c
            for c in compile_stage(b.prims, [x], [made], target, Options(1, precision), pool).commands
            if isinstance(c.kernel, AmxSpec)
        ]
        asked.add(product.args["fetch"])
        kernels.add(product.kernel)
    assert len(asked) > 1
    assert len(kernels) == 1


def test_lines_are_asked_for_by_few_kinds_of_kernels() -> None:
    assert len({ask_ahead(lines, 1000) for lines in range(33)}) < 5
    for lines in range(33):
        assert ask_ahead(lines, 1000) >= lines
        assert ask_ahead(lines, 1000, made=[32], spare=1e6) == 32
        if lines > 1:
            assert ask_ahead(lines, 1000, made=[lines - 1], spare=1e3) == ask_ahead(lines, 1000), "too few"
            assert ask_ahead(lines, 10, made=[lines - 1], spare=1e3) == lines - 1, "of few steps, not worth a kernel"
    assert ask_ahead(1, 10**6, made=[32], spare=1e5) == 1, "asking 31 times more often costs more than is to spare"


def test_plans() -> None:
    target = named_target("avx512")
    for threads in (1, 2, 8):
        for m, n, k in [(1, 8, 1), (49, 512, 2048), (128, 3072, 768), (12544, 64, 64), (3136, 64, 576)]:
            plan = plan_rows(target, m, n, k, 1, 2, 1, threads)
            assert plan.rows % 16 == 0
            assert plan.nb % 32 == 0
            blocks = -(-m // plan.rows) * -(-n // plan.nb)
            assert m * n * k < 1e8 or blocks >= threads
        window = Window(1, (56, 56), (58, 58), (3, 3), (1, 1), (1, 1), 0, (58 * 64, 64), 64)
        planned = plan_window(target, window, 64, 2, threads)
        assert 1 <= planned.rows <= 56
        assert -(-56 // planned.rows) >= threads


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 768, 3072), (49, 2048, 512), (3136, 64, 256), (1, 1000, 2048)])
def test_threads_get_equal_shares(threads: int, m: int, n: int, k: int) -> None:
    """Large products come in as many blocks as keep all threads busy most of the time, and not in scraps."""
    target = named_target("avx512")
    for parts in (1, 2, 3):
        plan = plan_rows(target, m, n, k, 1, parts, 1, threads)
        heights = np.diff([*range(0, m, plan.rows), m])
        widths = np.diff([*range(0, n, plan.nb), n])
        ends = np.zeros(threads)
        for work in np.outer(heights, widths).reshape(-1):
            ends[ends.argmin()] += work
        assert ends.max() * threads <= 1.5 * m * n
        assert threads == 1 or heights.size * widths.size <= max(8 * threads, -(-m // 32))


@pytest.mark.parametrize("precision", ["fp16", "high", "normal"])
@pytest.mark.parametrize(("threads", "n", "chunk"), [(2, 100, 0), (2, 40, 32), (3, 70, 0), (3, 8, 0), (2, 300, 64)])
def test_rows_that_threads_share(
    precision: str, threads: int, n: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block has the last rows, of which it computes some columns; a sum in place must not be added twice."""
    m, k = 32 * threads + 21, 70
    plan = Plan(32 + 21, -(-n // 32) * 32, 1.0, 1.0, chunk, 21)
    monkeypatch.setattr(amx, "plan_rows", lambda *rest: plan)
    w, bias = randn(k, n), randn(n)

    def build(b: Builder, x: Tensor, y: Tensor) -> Tensor:
        added = b.op("exp", b.op("mul", y, b.const(np.float32(0.1))))
        product = b.op("add", b.matmul(x, b.const(w)), b.const(bias))
        return b.op("add", product, added)

    program = run(build, randn(m, k), randn(m, n), precision=precision, threads=threads)
    (command,) = (c for c in program.commands if isinstance(c.kernel, AmxSpec))
    assert command.blocks == threads
    assert command.args["shared"] == 2
    assert command.flops == 2 * m * n * k
    checked = CheckedProgram(program, shared_library(cache=True), threads)
    plain = BoundProgram(program, shared_library(cache=True), threads)
    data = [randn(m, k), randn(m, n)]
    np.testing.assert_array_equal(checked.run(data, 1)[0], plain.run(data, threads)[0])
    assert command.kernel is not None
    traffic = command.kernel.traffic(command.values())
    assert traffic is not None
    assert traffic["c"] == m * n * 4


@pytest.mark.parametrize(
    ("m", "k", "threads", "own", "shared"), [(197, 384, 2, 96, 5), (784, 128, 4, 192, 16), (289, 384, 2, 128, 33)]
)
def test_rows_that_do_not_come_out_even_are_shared(m: int, k: int, threads: int, own: int, shared: int) -> None:
    def planned(n: int = 73728 // k, batch: int = 1, threads: int = threads, direct: bool = False) -> Plan:
        return plan_rows(named_target("avx512"), m, n, k, 1, 2, batch, threads, direct, half=not direct)

    plan = planned()
    assert (plan.rows, plan.shared, plan.nb) == (own + shared, shared, 73728 // k)
    assert planned(batch=4).shared == planned(threads=1).shared == planned(direct=True).shared == 0
    assert planned(n=10**6 // k).shared == 0, "a right side that does not stay in the cache"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "k"), [(16, 32), (33, 64), (100, 96)])
def test_rows_of_bf16_are_not_copied(threads: int, m: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "MNN.backends.cpu.products.operand_types.group_of", lambda target, dtype: DOT2
    )  # as where there are tiles
    left = randn(m, k).astype(DType.BF16.numpy)
    w = randn(k, 40).astype(DType.BF16.numpy)
    program = run(lambda b, x: b.matmul(x, b.const(w)), left, precision="low", threads=threads)
    kernels = [c.kernel for c in program.commands if isinstance(c.kernel, AmxSpec)]
    assert kernels
    assert all(kernel.direct for kernel in kernels)


@pytest.mark.parametrize("precision", ["high", "normal"])
@pytest.mark.parametrize("half", [False, True], ids=["bf16", "fp16"])
@pytest.mark.parametrize(("count", "first"), [*DEEP.items(), (min(DEEP) - 1, 0)])
def test_first_products_of_a_deep_network(
    count: int, first: int, half: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of the first layers pass through all others: ``normal`` computes them as ``high`` does."""
    monkeypatch.setattr(amx, "splits_in_fp16", lambda target: half)
    b = Builder()
    x = given = Tensor(DType.F32, (20, 32))
    for i in range(count):
        x = b.matmul(x, b.const(np.full((32, 32), i, np.float32)))
    target = named_target("avx512")
    program = compile_stage(b.prims, [given], [x], target, Options(1, precision), ConstantPool())
    parts = [(c.kernel.parts, c.kernel.half) for c in program.commands if isinstance(c.kernel, AmxSpec)]
    exact = (2, True) if half else (3, False)
    assert parts == [exact] * first + [exact if precision == "high" else (2, False)] * (count - first)


@pytest.mark.parametrize("threads", [1, 2])
def test_long_sums_of_few_pixels_are_tall(threads: int) -> None:
    channels = 400 * shared_library(cache=True).target.l2_bytes >> 20
    w, bias = randn(40, channels, 3, 3), randn(1, 40, 1, 1)

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.op("add", b.conv(x, b.const(w), (1, 1), (1, 1), 1, (1,) * 4), b.const(bias))

    program = run(build, randn(1, channels, 7, 7), threads=threads)
    assert any(isinstance(c.kernel, AmxSpec) and c.kernel.tall for c in program.commands)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "large", "w24"), [(49, 1.0, True), (300, 1.0, False), (49, 300.0, False)])
def test_second_parts_of_weights_are_bytes_for_few_rows(threads: int, rows: int, large: float, w24: bool) -> None:
    """Weights too large for the second-level cache, of sizes that can be kept so."""
    w = randn(1024, 1024)
    w[3, 5] = large

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.op("max", b.matmul(x, b.const(w)), b.const(np.float32(0)))

    program = run(build, randn(rows, 1024), threads=threads)
    assert [c.kernel.w24 for c in program.commands if isinstance(c.kernel, AmxSpec)] == [w24]


def test_more_rows_keep_second_parts_as_they_are() -> None:
    w, library, pool = randn(1024, 1024), shared_library(cache=True), ConstantPool()
    kept = []
    for rows in (49, 200, 30):
        b, inputs, outputs, _ = built(lambda b, x: b.matmul(x, b.const(w)), randn(rows, 1024))
        program = compile_stage(b.prims, inputs, outputs, library.target, Options(1, "normal"), pool)
        kept += [(c.kernel.w24, c.args["b"]) for c in program.commands if isinstance(c.kernel, AmxSpec)]
    assert len({(w24, id(ref.buffer)) for w24, ref in kept}) == 1, "weights were packed again"
    assert kept[0][0]


@pytest.mark.parametrize("ends", ["log", "exp, then log", "nothing"])
def test_products_before_logarithms_are_exact(ends: str) -> None:
    """A spectrum and its bands, and what becomes of the logarithms."""
    spectrum, bands, last = randn(256, 256), np.abs(randn(256, 64)), randn(64, 64)

    def build(b: Builder, x: Tensor) -> Tensor:
        y = b.matmul(x, b.const(spectrum))
        y = b.matmul(b.op("mul", y, y), b.const(bands))
        if ends == "exp, then log":
            y = b.op("exp", b.op("mul", y, b.const(np.float32(1e-4))))
        if ends != "nothing":
            y = b.op("log", b.op("add", y, b.const(np.float32(1))))
        return b.matmul(y, b.const(last))

    program = run(build, randn(48, 256))
    parts = [c.kernel.parts for c in program.commands if isinstance(c.kernel, AmxSpec)]
    assert parts == ([3, 3, 2] if ends == "log" else [2, 2, 2])


def test_chains_are_weighed_against_tiles() -> None:
    """In bf16 a chain of vector kernels is far behind tiles; what these take counts although no chain holds them."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1, 16, 112, 112)).astype(np.float32)
    wide, deep, back = (
        (rng.normal(size=shape) / np.sqrt(shape[1] * shape[2] ** 2)).astype(np.float32)
        for shape in ((96, 16, 1, 1), (96, 1, 3, 3), (24, 96, 1, 1))
    )

    def build(b: Builder, x: Tensor) -> Tensor:
        y = b.conv(x, b.const(wide), (1, 1), (1, 1), 1, (0, 0, 0, 0))
        y = b.conv(y, b.const(deep), (2, 2), (1, 1), 96, (1, 1, 1, 1))
        return b.conv(y, b.const(back), (1, 1), (1, 1), 1, (0, 0, 0, 0))

    program = run(build, x, precision="low")
    assert not any(c.stages for c in program.commands)
    assert sum(isinstance(c.kernel, AmxSpec) for c in program.commands) == 2
