"""Weights in few bits on matrix units: taken apart in every run, some columns at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from MNN.backends.base.program import Ref
from MNN.backends.cpu.amx.spec import AmxSpec
from MNN.backends.cpu.lowbit import emit_tiles
from MNN.backends.cpu.lowbit.tile_panels import LANES, TilePanelsSpec
from MNN.backends.cpu.targets.base import host_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.builder import Builder
from MNN.ops.linear.compressed import compressed_matmul
from tests.compiler.checks import cheap_tiles, check

TOLERANCE = {"high": 2e-6, "normal": 3e-5, "low": 2e-2}
CASES = [
    (4, "none", 4, 100, "normal"), (4, "i8", 2, 64, "high"), (4, "f32", 1, 70, "normal"), (8, "none", 1, 161, "normal"),
    (8, "f32", 4, 32, "low"), (8, "i8", 2, 9, "high"), (2, "i8", 8, 130, "normal"), (2, "f32", 4, 48, "low"),
]  # fmt: skip
pytestmark = pytest.mark.usefixtures("without_tiles")


def weight(width: int, zeros: str, n: int, k: int, blocks: int) -> QuantizedArray:
    rng, half = np.random.default_rng(n), 1 << (width - 1)
    values, scale = rng.integers(-half, half, (n, k)).astype(np.int8), rng.uniform(0.01, 0.1, (n, blocks))
    offsets = {
        "none": None,
        "i8": scale.astype(np.float32) * rng.integers(-half, half, (n, blocks)).astype(np.float32),
        "f32": rng.normal(size=(n, blocks)).astype(np.float32) * 0.1,
    }
    return QuantizedArray.of(values, scale.astype(np.float32), offsets[zeros], width, (n, k))


@pytest.mark.parametrize(("width", "zeros", "blocks", "n", "precision"), CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_columns_after_each_other(
    width: int, zeros: str, blocks: int, n: int, precision: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panels of every kind of code, with operands of all kinds behind the sums, in one piece and in several; nothing
    of the size of floats is kept."""
    cheap_tiles(monkeypatch)
    k, rows, rng = 128, 77, np.random.default_rng(blocks)
    w = weight(width, zeros, n, k, blocks)
    x, bias, more, each = (
        rng.normal(size=s).astype(np.float32) for s in ((rows, k), (n,), (rows, n), (rows, 1))
    )  # fmt: skip

    def build(b: Builder, x: Tensor, more: Tensor, each: Tensor) -> Tensor:
        product = compressed_matmul(b, x, w)
        assert product is not None
        return b.op("mul", b.op("add", b.op("add", product, b.const(bias)), more), each)

    for at_once in (emit_tiles._AT_ONCE, 1):
        monkeypatch.setattr(emit_tiles, "_AT_ONCE", at_once)
        program = check(build, x, more, each, tol=TOLERANCE[precision], threads=threads, precision=precision)
        kernels = [type(c.kernel) for c in program.commands if c.kernel is not None]
        if host_target().lanes(DType.F32) != LANES:
            assert AmxSpec not in kernels
            continue
        pieces = 1 if at_once > 1 else max(-(-(n - 7) // 64), 1)  # fewer than 8 columns are no piece of their own
        assert kernels.count(AmxSpec) == kernels.count(TilePanelsSpec) == pieces
        held = {id(r.buffer): r.buffer for c in program.commands for r in c.args.values() if isinstance(r, Ref)}
        constants = [b.nbytes for b in held.values() if b.const is not None]
        assert max(constants) <= -(-n // 64) * 64 * (k * width // 8 + 8 * blocks)


@pytest.mark.parametrize("rounds", [False, True])
def test_rows_that_may_be_rounded_take_one_part(rounds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    if host_target().lanes(DType.F32) != LANES:
        pytest.skip("vectors of this processor are narrower than tiles")
    w = replace(weight(4, "i8", 96, 128, 4), row_bits=8 if rounds else 12)
    x = np.random.default_rng(0).normal(size=(77, 128)).astype(np.float32)

    def build(b: Builder, x: Tensor) -> Tensor:
        product = compressed_matmul(b, x, w)
        assert product is not None
        return product

    program = check(build, x, tol=2e-2 if rounds else 3e-5)
    kernels = [c.kernel for c in program.commands if isinstance(c.kernel, (AmxSpec, TilePanelsSpec))]
    assert [kernel.parts for kernel in kernels] == [1 if rounds else 2] * 2
