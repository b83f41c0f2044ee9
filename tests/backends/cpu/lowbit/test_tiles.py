"""Weights in few bits on matrix units, in programs: taken apart in every run, panel by panel."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.program import Program, Ref
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.lowbit import emit_strips
from MNN.backends.cpu.lowbit.emit_strips import LANES
from MNN.backends.cpu.lowbit.layout import layout_of
from MNN.backends.cpu.lowbit.strips import STRIP, StripRowsSpec, StripTilesSpec, step_bytes
from MNN.backends.cpu.products.load_balance import longest
from MNN.backends.cpu.targets.base import host_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.builder import Builder
from MNN.ops.linear.compressed import compressed_matmul
from tests.compiler.checks import cheap_tiles, check

TOLERANCE = {"high": 2e-6, "normal": 3e-5, "low": 2e-2}
CASES = [
    (4, "none", 4, 100, "normal"), (4, "i8", 2, 64, "high"), (4, "offset", 1, 70, "normal"),
    (8, "none", 1, 161, "normal"), (8, "offset", 4, 32, "low"), (8, "i8", 2, 9, "high"), (2, "i8", 8, 130, "normal"),
    (2, "offset", 4, 48, "low"),
]  # fmt: skip
pytestmark = pytest.mark.usefixtures("without_tiles")


def weight(width: int, zeros: str, n: int, k: int, blocks: int) -> QuantizedArray:
    rng, half = np.random.default_rng(n), 1 << (width - 1)
    values, scale = rng.integers(-half, half, (n, k)).astype(np.int8), rng.uniform(0.01, 0.1, (n, blocks))
    offsets = {
        "none": None,
        "i8": scale.astype(np.float32) * rng.integers(-half, half, (n, blocks)).astype(np.float32),
        "offset": rng.normal(size=(n, blocks)).astype(np.float32) * 0.1,
    }
    return QuantizedArray.of(values, scale.astype(np.float32), offsets[zeros], width, (n, k))


def product(b: Builder, x: Tensor, w: QuantizedArray) -> Tensor:
    found = compressed_matmul(b, x, w)
    assert found is not None
    return found


def kernels_of(program: Program) -> list[type[KernelSpec]]:
    return [type(c.kernel) for c in program.commands if c.kernel is not None]


needs_wide_vectors = pytest.mark.usefixtures("wide_vectors")


@pytest.mark.parametrize(("width", "zeros", "blocks", "n", "precision"), CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_panels_of_every_kind_of_code(
    width: int, zeros: str, blocks: int, n: int, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With operands of all kinds behind the sums, in one block and in several; nothing of the size of floats is
    kept."""
    cheap_tiles(monkeypatch)
    k, rows, rng = 128, 77, np.random.default_rng(blocks)
    w = weight(width, zeros, n, k, blocks)
    x, bias, more, each = (
        rng.normal(size=s).astype(np.float32) for s in ((rows, k), (n,), (rows, n), (rows, 1))
    )  # fmt: skip

    def build(b: Builder, x: Tensor, more: Tensor, each: Tensor) -> Tensor:
        return b.op("mul", b.op("add", b.op("add", product(b, x, w), b.const(bias)), more), each)

    found = emit_strips.cut
    for block in ({}, {"mb": 32, "chunk": 3}, {"nb": 32, "chunk": 2}):
        monkeypatch.setattr(emit_strips, "cut", lambda *args, block=block: replace(found(*args), **block))
        program = check(build, x, more, each, tol=TOLERANCE[precision], threads=threads, precision=precision)
        if host_target().lanes(DType.F32) != LANES:
            assert StripTilesSpec not in kernels_of(program)
            continue
        assert kernels_of(program)[-2:] == [StripRowsSpec, StripTilesSpec]
        held = {id(r.buffer): r.buffer for c in program.commands for r in c.args.values() if isinstance(r, Ref)}
        constants = [b.nbytes for b in held.values() if b.const is not None]
        assert max(constants) <= -(-n // 64) * 64 * (k * width // 8 + 8 * blocks)


@needs_wide_vectors
@pytest.mark.parametrize("row_bits", [0, 8, 12])
def test_rows_that_may_be_rounded_take_one_part(row_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    w = replace(weight(4, "i8", 96, 128, 4), row_bits=row_bits)
    x = np.random.default_rng(0).normal(size=(77, 128)).astype(np.float32)
    program = check(lambda b, x: product(b, x, w), x, tol=2e-2 if row_bits else 3e-5)
    parts = [c.kernel.parts for c in program.commands if isinstance(c.kernel, (StripRowsSpec, StripTilesSpec))]
    assert parts == [1 if row_bits else 2] * 2


@needs_wide_vectors
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["high", "normal", "low"])
@pytest.mark.parametrize("n", [16, 80, 96])
def test_halves_that_are_joined_are_never_stored(
    n: int, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions of both halves of a product become a part of it, in any order of the two."""
    cheap_tiles(monkeypatch)
    w = weight(4, "i8", 2 * n, 128, 4)
    x = np.random.default_rng(n).normal(size=(77, 128)).astype(np.float32)

    def build(b: Builder, x: Tensor, swapped: bool) -> Tensor:
        both = product(b, x, w)
        gate, up = (b.slice(both, [0, first], [77, n]) for first in ((n, 0) if swapped else (0, n)))
        return b.op("mul", b.op("tanh", b.op("mul", gate, b.const(np.float32(0.3)))), up)

    for swapped in (False, True):
        program = check(functools.partial(build, swapped=swapped), x, tol=TOLERANCE[precision] * 2, threads=threads,
                        precision=precision)  # fmt: skip
        assert kernels_of(program)[-2:] == [StripRowsSpec, StripTilesSpec]


@needs_wide_vectors
@pytest.mark.parametrize("what", ["another user", "another operand", "unlike halves", "an odd number"])
def test_other_uses_of_halves(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like halves, and is more than that, is computed as it always was."""
    cheap_tiles(monkeypatch)
    n = 24 if what == "an odd number" else 48
    w = weight(4, "none", 2 * n, 128, 4)
    x = np.random.default_rng(n).normal(size=(77, 128)).astype(np.float32)

    def build(b: Builder, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        both = product(b, x, w)
        first = 1 if what == "unlike halves" else 0
        gate, up = b.slice(both, [0, first], [77, n]), b.slice(both, [0, n], [77, n])
        found = b.op("mul", b.op("tanh", gate), up)
        if what == "another operand":
            found = b.op("add", found, b.slice(x, [0, 0], [77, n]))
        return (found, b.op("neg", gate)) if what == "another user" else found

    kernels = kernels_of(check(build, x, tol=6e-5))
    assert StripTilesSpec in kernels
    assert MapSpec in kernels


@needs_wide_vectors
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("row_bits", [0, 12])
@pytest.mark.parametrize("kept", [False, True])
def test_what_joins_halves_is_stored_as_it_is_multiplied(
    row_bits: int, kept: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bf16 where nothing but products that round it reads it, which then give the same numbers; not where it is a
    result, too, or where rows are not rounded."""
    cheap_tiles(monkeypatch)
    joining = replace(weight(4, "none", 192, 128, 4), row_bits=row_bits)
    last = replace(weight(4, "i8", 70, 96, 3), row_bits=row_bits)
    x = np.random.default_rng(threads).normal(size=(77, 128)).astype(np.float32)

    def build(b: Builder, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        both = product(b, x, joining)
        gate, up = (b.slice(both, [0, first], [77, 96]) for first in (0, 96))
        inner = b.op("mul", b.op("tanh", b.op("mul", gate, b.const(np.float32(0.3)))), up)
        return (product(b, inner, last), inner) if kept else product(b, inner, last)

    program = check(build, x, tol=2e-2 if row_bits else 6e-5, threads=threads)
    tiles = [c for c in program.commands if isinstance(c.kernel, StripTilesSpec)]
    rounded = DType.BF16 if row_bits and not kept else DType.F32
    assert [c.kernel.out for c in tiles if isinstance(c.kernel, StripTilesSpec)] == [rounded, DType.F32]
    rows = [c.kernel.x for c in program.commands if isinstance(c.kernel, StripRowsSpec)]
    assert rows == [DType.F32, rounded]


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("sides", [1, 2])
def test_threads_share_products_evenly(parts: int, sides: int) -> None:
    """Whatever the sizes: no thread has more than a ninth, or a panel of weights for all rows, beyond its share; and a
    block's rows and chunk stay in the second-level cache beside two panels."""
    rng, target = np.random.default_rng(parts + 4 * sides), host_target()
    for _ in range(60):
        m, blocks, threads = int(rng.integers(20, 1500)), int(rng.integers(2, 300)), int(rng.choice([1, 2, 3, 4, 8]))
        n = int(rng.integers(2, 200)) * 32
        layout = layout_of(target, 32 * blocks, 4, blocks, "none")
        cut = emit_strips.cut(target, m, n, layout, parts, sides, threads)
        assert (cut.mb % STRIP, cut.nb % (STRIP // sides)) == (0, 0)
        assert 0 < cut.chunk <= blocks
        held = (cut.mb // STRIP + 2) * cut.chunk * step_bytes(parts)
        assert cut.chunk == 1 or held <= target.l2_bytes
        strips, panels = -(-m // STRIP), -(-n * sides // STRIP)
        most = longest(strips, cut.mb // STRIP, panels, cut.nb * sides // STRIP, threads)
        assert most <= strips * panels / threads * (1 + 1 / 9) + strips * layout.columns // STRIP + panels
