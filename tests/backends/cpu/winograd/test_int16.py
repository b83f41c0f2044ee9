"""Winograd's method on bytes: exactly the integers, at the ends of the range, with epilogues, and where it is taken."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.targets import Target, host_target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.backends.cpu.winograd.int16 import factor_of, fits, sizes, to_take_back
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder, body_of
from MNN.ops.core.builder import Builder
from MNN.ops.quantized.quantization import saturated
from tests.backends.cpu import util
from tests.backends.cpu.winograd.test_winograd import run
from tests.compiler.checks import check

TARGETS = pytest.mark.parametrize("target", [t for t in util.TARGETS if t.family == "x86"], ids=lambda t: t.name)


def spec_of(mh: int, mw: int, rh: int, rw: int, n_tail: bool, **more: object) -> WinogradSpec:
    more = {"mr": 4, "nv": 2, "chunked": False, "c_tail": False, "out": DType.I32, "x": DType.I16, **more}
    return WinogradSpec(mh, mw, rh, rw, n_tail=n_tail, **more)  # type: ignore[arg-type]


@TARGETS
@pytest.mark.parametrize(
    ("mh", "mw", "rh", "rw"), [(2, 2, 3, 3), (1, 2, 1, 3), (2, 1, 3, 1), (4, 4, 3, 3), (1, 4, 1, 3)]
)
@pytest.mark.parametrize(("oh", "ow"), [(1, 1), (5, 9)])
@pytest.mark.parametrize("n", [5, 64])
def test_exact(target: Target, mh: int, mw: int, rh: int, rw: int, oh: int, ow: int, n: int) -> None:
    for c, checked, x in ((32, True, DType.I16), (96, False, DType.U8), (64, False, DType.I8)):
        spec = spec_of(mh, mw, rh, rw, n % target.lanes(DType.F32) != 0, x=x)
        found, exact = run(spec, target, (2, oh, ow, c), n, checked=checked)
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("target", [t for t in util.TARGETS if t.has_masks], ids=lambda t: t.name)
@pytest.mark.parametrize("c", [2, 9, 47])
def test_channels_that_fill_no_vector(target: Target, c: int) -> None:
    for x in (DType.U8, DType.I8):
        spec = spec_of(4, 4, 3, 3, True, x=x, c_tail=True)
        found, exact = run(spec, target, (1, 5, 6, c), 7, checked=True)
        np.testing.assert_array_equal(found, exact)


@TARGETS
@pytest.mark.parametrize(("mr", "nv"), [(6, 2), (1, 1), (3, 2)])
def test_epilogues(target: Target, mr: int, nv: int) -> None:
    body = body_of(
        [DType.I32] * 3,
        lambda b, s, bias, rest: b.cast(b("max", b("add", b("add", s, bias), rest), b.const(0, DType.I32)), DType.F32),
    )
    for kinds in (("n", "m"), ("1", "mn")):
        spec = spec_of(2, 2, 3, 3, True, mr=mr, nv=nv, epilogue=body, operands=kinds, out=DType.F32)
        found, exact = run(spec, target, (1, 7, 5, 32), 37, group=5)
        np.testing.assert_array_equal(found, exact)


@TARGETS
@pytest.mark.parametrize("tile", [(4, 4, 3, 3), (2, 2, 3, 3), (1, 2, 1, 3), (4, 1, 3, 1)])
@pytest.mark.parametrize(("zero", "dtype"), [(0, DType.U8), (77, DType.U8), (-128, DType.I8)])
def test_results_of_bytes(target: Target, tile: tuple[int, int, int, int], zero: int, dtype: DType) -> None:
    """Packed where tiles are whole, pixel by pixel where images end; beyond what 8 bits hold."""

    def body(b: BodyBuilder, total: int, scale: int, rest: int) -> int:
        q = b("mul", b.cast(total, DType.F32), b("mul", scale, b.const(3e-5, DType.F32)))
        return saturated(b, b("add", q, rest), zero, dtype)

    epilogue = body_of([DType.I32, DType.F32, DType.F32], body)
    for fits_, scale in ((True, 1.0), (False, 1.0), (False, 3e7)):  # the last two are one kernel
        spec = spec_of(*tile, True, x=DType.U8, epilogue=epilogue, operands=("n", "mn"), out=dtype, fits=fits_)
        found, exact = run(spec, target, (1, 9, 6, 32), 37, group=5, scale=scale)
        np.testing.assert_array_equal(found, exact)


@pytest.mark.usefixtures("without_tiles")
@pytest.mark.parametrize("seed", range(6))
def test_convolutions_of_bytes(seed: int) -> None:
    """Random shapes, borders and epilogues, where Winograd's method is taken: exactly the reference implementation."""
    rng = np.random.default_rng(seed)
    u8, images, c, n = bool(seed % 2), int(rng.integers(1, 5)), int(rng.integers(2, 100)), int(rng.integers(2, 80))
    h, w, border, volume = *map(int, rng.integers(3, 20, 2)), int(rng.integers(0, 2)), seed == 5
    depth = (4,) if volume else ()
    x = rng.integers(0 if u8 else -128, 256 if u8 else 128, (images, c, *depth, h, w)).astype("u1" if u8 else "i1")
    weights = rng.integers(-127, 128, (n, c, *(3 for _ in depth), 3, 3)).astype("i1")
    ones, by = (1,) * (2 + volume), np.float32(0.5 / np.abs(weights).mean() / c)

    def build(b: Builder, x: Tensor) -> Tensor:
        sums = b.conv(x, b.const(weights), ones, ones, 1, (border,) * (2 * len(ones)))
        return b.map(
            lambda e, s: e.cast(e("round", e("mul", e.cast(s, DType.F32), e.const(float(by), DType.F32))), DType.I32),
            sums,
        )

    with restricted("Winograd"):
        program = check(build, x, tol=0)
    takes = host_target().can(can.DOT2_I16, 8 * host_target().vector_bytes)
    kernels = [c.kernel for c in program.commands if isinstance(c.kernel, WinogradSpec)]
    assert not takes or (kernels and kernels[0].x.size == 1)


def test_which_windows_and_weights() -> None:
    assert [list(sizes(*r)) for r in ((1, 3), (3, 1))] == [[(1, 2), (1, 4)], [(2, 1), (4, 1)]]
    assert not any(list(sizes(*r)) for r in ((1, 1), (5, 3), (2, 2)))
    factors = [factor_of(*form) for form in ((2, 2, 3, 3), (4, 4, 3, 3), (4, 1, 3, 1), (2, 4, 3, 3))]
    assert factors == [4, 576, 24, 0]
    most = np.full((2, 64, 3, 3), -255, np.int16)
    assert fits(most, 2, 2)
    assert not fits(most, 4, 4)
    assert not fits(np.full((2, 1 << 14, 3, 3), 255, np.int16), 2, 2)  # 4 * 9 * 2^14 * 255^2 is beyond 2^31
    assert not fits(np.full((1, 16, 3, 3), 5000, np.int16), 2, 2)
    assert not fits(np.zeros((1, 16, 5, 5), np.int8), 2, 2)
    assert fits(np.full((1, 114, 3, 3), -128, np.int8), 4, 4)
    assert not fits(np.full((1, 115, 3, 3), -128, np.int8), 4, 4)  # 2^6 * 9 * 115 * 128 * 255 is beyond 2^31


@pytest.mark.parametrize("factor", [2, 4, 24, 576])
def test_factors_are_taken_back(factor: int) -> None:
    inverse, shift = to_take_back(factor)
    most = 1 << (31 - shift)
    numbers = np.array([0, 1, -1, 7, most - 1, 1 - most, -most], np.int64)
    wrapped = (numbers * factor).astype(np.int32)
    np.testing.assert_array_equal((wrapped.astype(np.int64) * inverse).astype(np.int32) >> shift, numbers)


@pytest.mark.parametrize("bad", [{"mh": 3}, {"chunked": True}, {"rh": 5, "mh": 2}, {"out": DType.F32}])
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"integers|epilogue"):
        WinogradSpec(**{**spec_of(2, 2, 3, 3, True).__dict__, **bad})  # type: ignore[arg-type]
