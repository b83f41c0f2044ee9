"""Products of bytes on tiles: exactly what the reference implementation gives, in all combinations of signs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.backends.cpu.amx.emission import emit_amx as amx
from MNN.backends.cpu.amx.emission import pairs_of_bytes
from MNN.backends.cpu.amx.spec import PANEL, PRODUCTS_OF_BYTES, AmxSpec
from MNN.backends.cpu.amx.tiles import BYTES
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.products import operand_types
from MNN.backends.cpu.targets import named_target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import Build, built, cheap_tiles
from tests.hostile.checked import CheckedProgram

SIGNS = pytest.mark.parametrize(
    ("left", "right"), [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)]
)


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_tiles(monkeypatch)
    monkeypatch.setattr(pairs_of_bytes, "has_tiles", lambda target, dot: True)
    # Processors without VNNI would widen bytes to 16 bits before there is a product.
    monkeypatch.setattr(operand_types, "uses_int16_dot", lambda target, rows: False)


def draw(rng: np.random.Generator, kind: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(kind)


def run(build: Build, x: np.ndarray, threads: int = 1, checked: bool = False) -> Program:
    """Runs ``build`` compiled and by meaning, and compares exactly."""
    b, inputs, (made,), numbers = built(build, x)
    library = shared_library(cache=True)
    program = compile_stage(b.prims, inputs, [made], library.target, Options(threads, "normal"), ConstantPool())
    bound = (CheckedProgram if checked else BoundProgram)(program, library, threads)
    for _ in range(2):
        (found,) = bound.run([x], threads)
        np.testing.assert_array_equal(found, numbers[made])
    return program


def specs(program: Program) -> list[AmxSpec]:
    return [c.kernel for c in program.commands if isinstance(c.kernel, AmxSpec)]


def quantised(b: Builder, sums: Tensor, out: DType) -> Tensor:
    """The end of a quantised layer: a scale, rounding, a zero, saturation."""
    real = b.op("mul", b.cast(sums, DType.F32), b.const(np.float32(3e-4)))
    low, high = (0, 255) if out is DType.U8 else (-128, 127)
    return b.cast(b.clamp(b.op("add", b.cast(b.op("round", real), DType.I32), b.like(7, sums)), low, high), out)


@SIGNS
@pytest.mark.parametrize("seed", range(6))
def test_random_convolutions(left: type, right: type, seed: int) -> None:
    rng = np.random.default_rng([seed, left(0).dtype.num, right(0).dtype.num])
    groups = int(rng.choice([1, 1, 2]))
    c, o = groups * 2 * int(rng.integers(1, 40)), groups * int(rng.integers(17, 70))
    kernel, stride, dilation = int(rng.choice([1, 2, 3, 5])), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    rank = int(rng.choice([1, 2, 2, 3]))
    sizes = [int(n) for n in rng.integers(9, {1: 200, 2: 24, 3: 12}[rank], rank)]
    pads = rng.integers(0, kernel // 2 + 1, 2 * rank).tolist()
    w = draw(rng, right, o, c // groups, *(kernel,) * rank)
    bias = rng.integers(-(10**5), 10**5, (1, o, *(1,) * rank)).astype(np.int32)
    if kernel * dilation - dilation >= min(sizes):
        dilation = 1

    def build(b: Builder, x: Tensor) -> Tensor:
        bordered = b.pad(x, (0, 0, *pads[:rank]), (0, 0, *pads[rank:]), 5)
        sums = b.conv(bordered, b.const(w), (stride,) * rank, (dilation,) * rank, groups, (0,) * 2 * rank)
        return quantised(b, b.op("add", sums, b.const(bias)), DType.of(np.zeros(0, left)))

    x = draw(rng, left, int(rng.integers(1, 3)), c, *sizes)
    found = specs(run(build, x, threads=1 + seed % 2, checked=seed % 3 == 0))
    assert found or groups > 1
    assert all(spec.right is not None for spec in found)
    assert groups > 1 or all(spec.ragged is (o % PANEL > 0) for spec in found)


@SIGNS
@pytest.mark.parametrize("seed", range(3))
def test_odd_channels_are_taken_along_lines(left: type, right: type, seed: int) -> None:
    rng = np.random.default_rng([seed, left(0).dtype.num, right(0).dtype.num, 7])
    c, o = 1 + 2 * int(rng.integers(0, 4)), int(rng.integers(8, 70))
    kernel, stride = [int(n) for n in rng.integers(2, 8, 2)], (int(rng.integers(1, 4)), 2)
    size = int(rng.integers(9, 30)), 2 * int(rng.integers(5, 20))
    w = draw(rng, right, o, c, *kernel)
    bias = rng.integers(-(10**5), 10**5, (1, o, 1, 1)).astype(np.int32)

    def build(b: Builder, x: Tensor) -> Tensor:
        sums = b.op("add", b.conv(x, b.const(w), stride, (1, 1), 1, (0, 0, 0, 0)), b.const(bias))
        return quantised(b, sums, DType.of(np.zeros(0, left)))

    x = draw(rng, left, int(rng.integers(1, 3)), c, *size)
    found = specs(run(build, x, threads=1 + seed % 2, checked=seed == 0))
    assert [spec.lines for spec in found] == [True]


@pytest.mark.parametrize(("c", "o", "groups"), [(128, 128, 32), (48, 96, 8), (36, 36, 9), (140, 70, 10)])
def test_small_groups_fill_lines(c: int, o: int, groups: int) -> None:
    rng = np.random.default_rng(c)
    w = draw(rng, np.int8, o, c // groups, 3, 3)

    def build(b: Builder, x: Tensor) -> Tensor:
        return quantised(b, b.conv(x, b.const(w), (1, 1), (1, 1), groups, (0,) * 4), DType.U8)

    program = run(build, draw(rng, np.uint8, 1, c, 12, 11), threads=2)
    assert len(specs(program)) == 1
    whole = next(command for command in program.commands if isinstance(command.kernel, AmxSpec))
    assert whole.args["n_batch"] < groups


@SIGNS
@pytest.mark.parametrize(
    ("m", "k", "n", "batch"), [(1, 64, 40, 1), (16, 64, 16, 1), (33, 130, 100, 2), (200, 256, 70, 1), (70, 4096, 48, 1)]
)
def test_matrix_products(left: type, right: type, m: int, k: int, n: int, batch: int) -> None:
    rng = np.random.default_rng(m * k * n)
    w = draw(rng, right, k, n)
    for threads in (1, 2):
        found = specs(run(lambda b, x: b.matmul(x, b.const(w)), draw(rng, left, batch, m, k), threads, threads == 2))
        assert [spec.right for spec in found] == [DType.of(w)]


def test_what_has_no_pairs_is_left_to_vectors() -> None:
    rng = np.random.default_rng(1)
    w, x = draw(rng, np.int8, 65, 40), draw(rng, np.uint8, 30, 65)
    assert not specs(run(lambda b, x: b.matmul(x, b.const(w)), x))


def test_weights_are_not_taken_for_bytes_in_another_product() -> None:
    """The same bytes as numbers of f32, beside them."""
    rng = np.random.default_rng(2)
    w = draw(rng, np.int8, 64, 40)

    def build(b: Builder, x: Tensor) -> Tensor:
        whole = b.cast(b.matmul(x, b.const(w)), DType.F32)
        return b.op("sub", b.matmul(b.cast(x, DType.F32), b.const(w.astype(np.float32))), whole)

    run(build, draw(rng, np.uint8, 40, 64))


@pytest.mark.parametrize(("kinds", "name"), list(zip(PRODUCTS_OF_BYTES, ("usd", "ssd", "uud", "sud"), strict=True)))
def test_instructions(kinds: tuple[DType, DType], name: str) -> None:
    plain = named_target("avx512")
    target = dataclasses.replace(plain, features=(*plain.features, "amx-tile", "amx-bf16", "amx-int8"))
    spec = AmxSpec(kinds[0], DType.I32, 1, right=kinds[1])
    assert f"tdpb{name}" in toolchain.assembly(spec.emit(target), target)
    assert spec.product in BYTES
    assert spec.product is not can.TILE_DOT_BF16
    assert amx.available(target)


@pytest.mark.parametrize(
    "wrong", [{"a": DType.U8}, {"a": DType.F32, "right": DType.I8}, {"a": DType.U8, "right": DType.F32}]
)
def test_bytes_are_multiplied_by_bytes(wrong: dict[str, DType]) -> None:
    with pytest.raises(ValueError, match="bytes are multiplied by bytes"):
        AmxSpec(**{"out": DType.I32, "parts": 1, **wrong})  # type: ignore[arg-type]
