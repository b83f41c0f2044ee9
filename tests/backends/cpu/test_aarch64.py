"""The AArch64 code of the hand-shaped kernels gives numpy's results when executed (under qemu-user)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.gemm.code_half import FLUSH
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.products.register_tiles import choose_tile
from MNN.backends.cpu.targets import Target, named_target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.window.cost import choose_window
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.ir.dtype import DType
from tests.backends.cpu import qemu, util
from tests.backends.cpu.gemm import test_contraction as test_contract
from tests.backends.cpu.gemm import test_int8 as test_contract_int8
from tests.backends.cpu.lowbit import test_codebook, test_planes
from tests.backends.cpu.lowbit import test_int8 as test_compressed_int8
from tests.backends.cpu.lowbit import test_lowbit as test_compressed
from tests.backends.cpu.window import test_window

F32, F16 = DType.F32, DType.F16
TARGETS = pytest.mark.parametrize("target", [named_target("neon"), named_target("neon-fp16")], ids=lambda t: t.name)


def _with(name: str, features: tuple[str, ...]) -> Target:
    target = named_target(name)
    return dataclasses.replace(target, features=tuple(sorted({*target.features, *features})))


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu.need_tools()
    native = util.call

    def call(spec: object, target: Target, *rest: object) -> None:
        monkeypatch.setattr(util, "call", native)
        try:
            qemu.call(spec, target, *rest)  # type: ignore[arg-type]
        finally:
            monkeypatch.setattr(util, "call", call)

    monkeypatch.setattr(util, "call", call)


@TARGETS
@pytest.mark.parametrize(("m", "n", "k", "taps"), [(1, 40, 37, 1), (9, 33, 64, 1), (23, 50, 9, 3), (40, 16, 130, 1)])
def test_contractions(target: Target, m: int, n: int, k: int, taps: int) -> None:
    tile = choose_tile(target, m, n, k * taps)
    spec = ContractSpec(F32, F32, F32, F32, *tile, epilogue=test_contract.relu_bias(), operands=("n",))
    test_contract.check(test_contract.Problem(spec, m, n, k, taps), target, m, 16 * spec.nr(target))
    plain = dataclasses.replace(spec, b_packed=False)
    test_contract.check(test_contract.Problem(plain, m, n, k, taps, 2), target, 8, spec.nr(target))


@TARGETS
@pytest.mark.parametrize(
    ("a", "b", "acc", "tolerance"),
    [(F16, F16, F32, 2e-3), (DType.U8, DType.I8, DType.I32, 0), (DType.F64, DType.F64, DType.F64, 1e-15)],
    ids=lambda v: v.value if isinstance(v, DType) else "",
)
def test_element_types(target: Target, a: DType, b: DType, acc: DType, tolerance: float) -> None:
    spec = ContractSpec(a, b, acc, a if a is F16 else acc, 4, 2)
    test_contract.check(
        test_contract.Problem(spec, 10, 37, 19, 2), target, 10, 2 * spec.nr(target), tolerance=tolerance
    )


@pytest.mark.parametrize(("m", "n", "k", "taps"), [(1, 75, 200, 1), (2, 9, 7, 2), (9, 33, 2000, 1), (23, 50, 20, 9)])
def test_half_precision(m: int, n: int, k: int, taps: int) -> None:
    """Sums of f16 products: within the bound that the kernel's file states, and usually far from it."""
    target = named_target("neon-fp16")
    tile = choose_tile(target, m, n, k * taps, F16)
    bias = test_contract.relu_bias()
    spec = ContractSpec(F16, F16, F16, F32, *tile, epilogue=bias, operands=("n",))
    for packed in (True, False):
        problem = test_contract.Problem(dataclasses.replace(spec, b_packed=packed), m, n, k, taps, 1 + packed)
        found, expected, bound = problem.run(target, 8, 2 * spec.nr(target))
        off = np.abs(found - expected)
        assert (off <= (FLUSH + 3) * 2.0**-11 * bound + 1e-6).all()
        assert off.mean() <= 5e-4 * np.sqrt(k * taps)  # the numbers are between -1 and 1
    plain = dataclasses.replace(spec, epilogue=None, operands=(), out=F16)
    found, expected, bound = test_contract.Problem(plain, m, n, k, taps).run(target, m, spec.nr(target))
    assert (np.abs(found - expected) <= (FLUSH + 3) * 2.0**-11 * bound + 1e-3 * np.abs(expected)).all()


@pytest.mark.parametrize("extra", [(), ("i8mm",)], ids=["dotprod", "i8mm"])
@pytest.mark.parametrize("a", [DType.U8, DType.I8], ids=["u8", "i8"])
def test_products_of_bytes(a: DType, extra: tuple[str, ...]) -> None:
    target = _with("neon-fp16", extra)
    for m, n, k, taps in ((1, 40, 37, 1), (9, 33, 6, 3)):
        spec = ContractSpec(a, DType.I8, DType.I32, DType.I32, *choose_tile(target, m, n, k, DType.I32), group=4)
        test_contract_int8.run(spec, target, m, n, k, taps)
        test_contract_int8.run(dataclasses.replace(spec, b_packed=False), target, m, n, k)


@pytest.mark.parametrize("tile", [(8, 2), (1, 4), (3, 1)], ids=str)
def test_pairs_of_bf16(tile: tuple[int, int]) -> None:
    target = _with("neon-fp16", ("bf16",))
    assert group_of(target, DType.BF16) == 2
    for k, taps, packed in ((7, 3, True), (32, 1, True), (17, 1, False)):
        spec = ContractSpec(DType.BF16, DType.BF16, F32, F32, *tile, b_packed=packed, group=2)
        problem = test_contract.Problem(spec, 19, 37, k, taps)
        test_contract.check(problem, target, 19, 2 * spec.nr(target), tolerance=3e-7)


@TARGETS
def test_windows(target: Target) -> None:
    for op, kw, sx, ow, c in [("dot", 3, 1, 9, 21), ("max", 3, 2, 5, 8), ("sum", 7, 1, 1, 19)]:
        lines, pixels = choose_window(target, op, (kw, kw), sx, 1, 2, ow)
        test_window.check(WindowSpec(F32, F32, F32, op, kw, sx, 1, pixels, lines=lines), target, 1, kw, sx, 2, ow, c)


def test_the_emulator_sees_the_arrays() -> None:
    """The harness itself: a result that only the kernel can have written."""
    spec = WindowSpec(F32, F32, F32, "sum", 2, 1, 1, 1)
    x, y, zero = np.arange(4, dtype=np.float32), np.zeros(3, np.float32), np.zeros(1, np.int32)
    slots = {"x": x.ctypes.data, "w": 0, "y": y.ctypes.data, "lines_x": zero.ctypes.data, "lines_y": zero.ctypes.data}
    slots |= {"n_lines": 1, "kh": 1, "row_x": 0, "step_x": 1, "step_y": 1, "ow": 3, "c": 1, "lines_per_block": 1}
    util.call(spec, named_target("neon"), slots, 1, [x, y, zero])
    np.testing.assert_array_equal(y, [1, 3, 5])


@TARGETS
@pytest.mark.parametrize("few", [True, False], ids=["few", "expanded"])
@pytest.mark.parametrize(("width", "zeros", "half"), [(2, "none", True), (4, "i8", False), (8, "offset", True)])
def test_compressed_weights(target: Target, width: int, zeros: str, half: bool, few: bool) -> None:
    for m, n, k, blocks in ((1, 40, 64, 2), (5, 18, 37, 1)):
        weight = test_compressed.weights(n, k, width, blocks, zeros, half=half)
        spec = test_compressed.spec_of(target, width, zeros, few, m)
        test_compressed.check(spec, target, weight, m, m, 4 * spec.nr(target))


@TARGETS
@pytest.mark.parametrize("few", [True, False], ids=["few", "expanded"])
def test_weights_with_a_codebook(target: Target, few: bool) -> None:
    test_codebook.test_products_of_floats_have_the_same_bits(target, "IQ4", "none", few)
    if target.can(can.DOT4_SIGNED):
        for more in ((), ("i8mm",)) if few else ():
            test_codebook.test_products_of_bytes_have_the_same_bits(_with(target.name, more), "FP4", "offset", 3, None)


@TARGETS
def test_weights_in_pieces(target: Target) -> None:
    """Of items of 16 bits, and of bytes where the processor sums products of these."""
    test_planes.test_products_of_floats_have_the_same_bits(target, 2, "none", True)
    if target.can(can.DOT4_SIGNED):
        test_planes.test_products_of_bytes_have_the_same_bits(target, 1, "offset", 3, None)


@pytest.mark.parametrize(
    ("width", "zeros", "height", "half"), [(4, "none", 3, True), (8, "i8", 1, False), (2, "offset", 3, True)]
)
def test_rows_of_bytes_by_weights_in_few_bits(width: int, zeros: str, height: int, half: bool) -> None:
    test_compressed_int8.test_numbers_of_all_widths(named_target("neon-fp16"), width, zeros, height, half)
