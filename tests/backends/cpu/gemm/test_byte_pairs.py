"""Sums of pairs of bytes in 16 bits: exactly the integers, whatever weights are, and where they are taken."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.packing.byte_pairs import fitting, pack_byte_pairs, shift_of, sums_byte_pairs
from MNN.backends.cpu.targets import Target, named_target
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of
from MNN.ops.core.builder import Builder
from tests.backends.cpu import util
from tests.compiler.checks import built

I8, U8, I32, F32 = DType.I8, DType.U8, DType.I32, DType.F32
TARGETS = [t for t in util.TARGETS if t.family == "x86" and sums_byte_pairs(t)]


def drawn(rng: np.random.Generator, dtype: DType, *shape: int, size: float = 1.0) -> np.ndarray:
    """Numbers of 8 bits, a third of them the largest or the smallest; ``size``: that part of the range."""
    info = np.iinfo(dtype.numpy)
    low, high = int(info.min * size), int(info.max * size)
    found = rng.integers(low, high + 1, shape)
    ends = rng.random(shape)
    return np.where(ends < 0.17, low, np.where(ends < 0.33, high, found)).astype(dtype.numpy)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("a", [U8, I8], ids=["u8", "i8"])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 17, 4), (23, 50, 36), (30, 100, 64)])
@pytest.mark.parametrize("tile", [(1, 1), (5, 2), (3, 3)], ids=str)
def test_exact_products(target: Target, a: DType, tile: tuple[int, int], m: int, n: int, k: int) -> None:
    body = body_of([I32, I32], lambda b, s, bias: b("add", s, bias))
    spec = ContractSpec(a, I8, I32, I32, *tile, epilogue=body, operands=("n",), group=4, byte_pairs=True)
    rng, nr = np.random.default_rng(m + k), spec.nr(target)
    left, right = drawn(rng, a, m, k + 3), drawn(rng, I8, k, n)
    right[: k // 2] = drawn(rng, I8, k // 2, n, size=0.5)  # these fit, others do not
    fits = fitting(right)
    assert fits[: k // 8].all()
    assert not fits.all()
    packed, c = pack_byte_pairs(right, nr, shift_of(a)), np.full((m, n + 2), 7, np.int32)
    bias = rng.integers(-1000, 1000, n).astype(np.int32)
    arrays = {
        "a": left, "b": packed, "c": c, "op0": bias, "rows_a": (np.arange(m) * (k + 3)).astype(np.int32),
        "rows_c": (np.arange(m) * (n + 2)).astype(np.int32), "taps": np.array([2], np.int32),
        "batch": np.zeros((1, 4), np.int64),
    }  # fmt: skip
    slots = {
        "n_taps": 1, "k": k, "ldb": 4 * nr, "panel": packed.shape[1], "m": m, "n": n, "n_batch": 1,
        "mb": 2 * tile[0], "nb": nr, "ub": tile[0],
    }  # fmt: skip
    slots |= {name: array.ctypes.data for name, array in arrays.items()}
    for checked in (False, True):
        util.call(spec, target, slots, spec.blocks(m, n, 1, tile[0], nr), list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    exact = left[:, 2 : k + 2].astype(np.int64) @ right.astype(np.int64) + bias
    np.testing.assert_array_equal(c[:, :n], exact)


def test_which_pairs_fit() -> None:
    """Those whose sums fit in 16 bits with any u8: the extremes are found by trying them."""
    rng = np.random.default_rng(3)
    pairs = np.concatenate([rng.integers(-128, 128, (2, 500)), [[1, 2, -1, -128, 64], [127, 127, -128, 127, 64]]], 1)
    most, least = (255 * pairs.clip(*ends).sum(0) for ends in ((0, None), (None, 0)))
    wide = np.concatenate([pairs, np.zeros_like(pairs)]).astype(np.int8)
    np.testing.assert_array_equal(fitting(wide)[0], (most < 1 << 15) & (least >= -(1 << 15)))


@pytest.mark.parametrize("seed", range(4))
def test_where_they_are_taken(seed: int) -> None:
    """Convolutions of one pixel, with strides, and matrix products: weights decide, and results are the integers."""
    target, rng = named_target("avx2"), np.random.default_rng(seed)
    narrow, matrix, u8 = seed % 2 == 0, seed // 2 == 1, seed != 2
    k, n, rows, step = 4 * int(rng.integers(2, 30)), int(rng.integers(8, 70)), int(rng.integers(6, 15)), 1 + seed % 2
    shape = (2, rows, k) if matrix else (1, k, rows, 5)
    x = drawn(rng, U8 if u8 else I8, *shape)
    weights = drawn(rng, I8, *((k, n) if matrix else (n, k, 1, 1)), size=0.5 if narrow else 1.0)

    def build(b: Builder, x: Tensor) -> Tensor:
        right = b.const(weights)
        return b.matmul(x, right) if matrix else b.conv(x, right, (step, step), (1, 1), 1, (0, 0, 0, 0))

    b, inputs, outputs, numbers = built(build, x)
    library = Library(target)
    program = compile_stage(b.prims, inputs, outputs, target, Options(), ConstantPool())
    np.testing.assert_array_equal(BoundProgram(program, library).run([x], 1)[0], numbers[outputs[0]])
    kernels = [c.kernel for c in program.commands if isinstance(c.kernel, ContractSpec)]
    assert [kernel.byte_pairs for kernel in kernels] == [narrow]


@pytest.mark.parametrize("bad", [{"group": 2, "a": DType.I16, "b": DType.I16}, {"b_packed": False}, {"a": F32}])
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    good = ContractSpec(U8, I8, I32, I32, 4, 2, group=4, byte_pairs=True)
    with pytest.raises(ValueError, match=r"pairs of bytes|no contraction"):
        ContractSpec(**{**good.__dict__, **bad})  # type: ignore[arg-type]
