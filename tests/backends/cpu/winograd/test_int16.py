"""Winograd's method on bytes: exactly the integers, at the ends of the range, with epilogues, and where it is taken."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.winograd.int16 import fits, shift_of
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import util
from tests.backends.cpu.winograd.test_winograd import run

TARGETS = pytest.mark.parametrize("target", [t for t in util.TARGETS if t.family == "x86"], ids=lambda t: t.name)


def spec_of(mh: int, mw: int, rh: int, rw: int, n_tail: bool, **more: object) -> WinogradSpec:
    more = {"mr": 4, "nv": 2, "chunked": False, "c_tail": False, "out": DType.I32, "x": DType.I16, **more}
    return WinogradSpec(mh, mw, rh, rw, n_tail=n_tail, **more)  # type: ignore[arg-type]


@TARGETS
@pytest.mark.parametrize(("mh", "mw", "rh", "rw"), [(2, 2, 3, 3), (1, 2, 1, 3), (2, 1, 3, 1)])
@pytest.mark.parametrize(("oh", "ow"), [(1, 1), (4, 6), (5, 7)])
@pytest.mark.parametrize("n", [5, 64])
def test_exact(target: Target, mh: int, mw: int, rh: int, rw: int, oh: int, ow: int, n: int) -> None:
    for c, checked in ((32, True), (96, False)):
        spec = spec_of(mh, mw, rh, rw, n % target.lanes(DType.F32) != 0)
        found, exact = run(spec, target, (2, oh, ow, c), n, checked=checked)
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


def test_which_windows_and_weights() -> None:
    assert [shift_of(*r) for r in ((3, 3), (1, 3), (3, 1), (1, 1), (5, 3), (2, 2))] == [2, 1, 1, 0, 0, 0]
    most = np.full((2, 64, 3, 3), -255, np.int16)
    assert fits(most)
    assert not fits(np.full((2, 1 << 14, 3, 3), 255, np.int16))  # 4 * 9 * 2^14 * 255^2 is beyond 2^31
    assert not fits(np.full((1, 16, 3, 3), 5000, np.int16))
    assert not fits(np.zeros((1, 16, 5, 5), np.int8))


@pytest.mark.parametrize("bad", [{"c_tail": True}, {"chunked": True}, {"rh": 5, "mh": 2}, {"out": DType.F32}])
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"integers|epilogue"):
        WinogradSpec(**{**spec_of(2, 2, 3, 3, True).__dict__, **bad})  # type: ignore[arg-type]
