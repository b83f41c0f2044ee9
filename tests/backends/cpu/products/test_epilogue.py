"""Which operand sums may begin with, and that results are the same with it."""

from __future__ import annotations

import dataclasses

import pytest

from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.epilogue import added_first
from MNN.backends.cpu.targets import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from tests.backends.cpu import util
from tests.backends.cpu.gemm.test_contraction import Problem, check

F32 = DType.F32
TARGETS = pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
RELU6 = body_of(
    [F32, F32],
    lambda b, s, o: b("min", b("max", b("add", o, s), b.const(0, F32)), b.const(6, F32)),
)


def test_which_operand() -> None:
    assert added_first(RELU6, ("n",)) == 0
    both = body_of([F32] * 3, lambda b, s, x, y: b("mul", b("add", s, y), x))
    assert added_first(both, ("mn", "n")) == 1
    assert added_first(both, ("n", "mn")) is None


@pytest.mark.parametrize(
    "body",
    [
        None,
        body_of([F32], lambda b, s: b("max", s, b.const(0, F32))),
        body_of([F32, F32], lambda b, s, o: b("sub", s, o)),
        body_of([F32, F32], lambda b, s, o: b("mul", b("add", s, o), s)),
        body_of([F32, F32], lambda b, s, o: b("mul", b("add", s, o), o)),
        body_of([F32, F32], lambda b, s, o: b("add", b("mul", s, b.const(2, F32)), o)),
        body_of([F32, F32], lambda b, s, o: b("add", s, b("neg", o))),
        body_of([DType.I32, DType.I32], lambda b, s, o: b("add", s, o)),
        body_of([F32, DType.BF16], lambda b, s, o: b("add", s, b.cast(o, F32))),
    ],
)
def test_bodies_without_one(body: Body | None) -> None:
    assert added_first(body, ("n",)) is None


@TARGETS
@pytest.mark.parametrize(("rows", "spare", "k"), [(13, 6, 5), (3, 30, 2), (21, 0, 16), (4, 1, 1)])
def test_sums_that_begin_with_it(target: Target, rows: int, spare: int, k: int) -> None:
    """Columns of the last panel that there are not are not read."""
    spec = ContractSpec(F32, F32, F32, F32, 3, 2, epilogue=RELU6, operands=("n",), many_rows=True)
    nr = spec.nr(target)
    n = max(3 * nr - spare, 1)
    check(Problem(spec, rows, n, k, taps=2, batches=2), target, 9, 2 * nr, checked=True)
    two = body_of([F32] * 3, lambda b, s, x, y: b("max", b("add", s, y), x))
    spec = dataclasses.replace(spec, epilogue=two, operands=("mn", "n"))
    check(Problem(spec, rows, n, k), target, 9, 2 * nr, checked=True)
