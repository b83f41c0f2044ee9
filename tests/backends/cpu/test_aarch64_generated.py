"""Loop nests, row programs, copies and indexed kernels on AArch64, executed under qemu-user."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.targets import named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import BINARY, COMPARE, UNARY, BodyBuilder
from MNN.reference.scalar import evaluate
from tests.backends.cpu import qemu
from tests.backends.cpu.loops import test_fold, test_indexed, test_rows, test_transpose
from tests.backends.cpu.loops import test_map_nest as test_mapnest

NEON = named_target("neon")
MODULES = (test_fold, test_indexed, test_mapnest, test_rows, test_transpose)


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu.need_tools()
    for module in MODULES:
        monkeypatch.setattr(module, "call", qemu.call)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16, DType.I8, DType.U32, DType.BOOL])
def test_operations_and_casts(dtype: DType) -> None:
    if dtype.is_float:
        ops = [o for o in [*UNARY, *BINARY, *COMPARE] if o not in ("not", "and", "or", "xor", "shl", "shr")]
    elif dtype is DType.BOOL:
        ops = ["not", "and", "or", "xor", *COMPARE]
    else:
        ops = "abs sign not add sub mul div floordiv mod rem min max and or xor lt eq".split()
    b = BodyBuilder()
    x, y = b.arg(dtype), b.arg(dtype)
    casts = [d for d in DType if d not in (dtype, DType.STR, DType.BF16X2) and not d.is_narrow]
    body = b.build(*[b(o, x) if o in UNARY else b(o, x, y) for o in ops], *[b.cast(x, d) for d in casts])
    ins = [test_mapnest.data(dtype, (2, 37), seed) for seed in (1, 2)]
    want = evaluate(body, ins)
    outs = [np.zeros((2, 37), w.dtype) for w in want]
    test_mapnest.run_map(body, ins, outs, NEON, 64)
    for op, got, w in zip([*ops, *casts], outs, want, strict=True):
        test_mapnest.assert_same(got, w, 4 if op in ops and op not in test_mapnest.EXACT else 0)


def test_rows_folds_and_copies() -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(5, 37)) * 3).astype(np.float32)
    for dtype in (DType.F32, DType.F16):
        a = x.astype(dtype.numpy)
        body = test_rows.softmax(dtype)
        out = np.zeros_like(a)
        test_rows.run_rows(body, [a], [out], NEON)
        test_rows.close(out, evaluate(body, [a])[0], dtype)
    b = BodyBuilder()
    body = b.build(test_rows.reduce(b, "argmax", b.arg(DType.F32), DType.I64))
    index = np.zeros((5, 1), np.int64)
    test_rows.run_rows(body, [x], [index], NEON)
    np.testing.assert_array_equal(index[:, 0], x.argmax(-1))
    b = BodyBuilder()
    total = np.zeros(37, np.float32)
    test_fold.run_fold("sum", b.build(b.arg(DType.F32)), None, [x], (0,), [], total, NEON, 37)
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-6)
    for dtype in (np.uint8, np.int16, np.float32, np.float64):
        m = rng.integers(0, 99, (2, 35, 21)).astype(dtype)
        turned = np.zeros((2, 21, 35), dtype)
        test_transpose.run_transpose(m, turned, NEON, 16)
        np.testing.assert_array_equal(turned, m.swapaxes(1, 2))


def test_gather() -> None:
    data = np.arange(7 * 83, dtype=np.float32).reshape(7, 83)
    rows = np.array([[3], [-1], [0]], np.int64)
    out = np.zeros((3, 83), np.float32)
    assert test_indexed.run_gather(data, (-1, 1), (0,), [rows], out, NEON, 50) == 0
    np.testing.assert_array_equal(out, data[rows[:, 0]])
    cols = np.array([5, -2, 80, 0, 11], np.int32)
    picked = np.zeros(5, np.float32)
    assert test_indexed.run_gather(data[2].copy(), (-1,), (0,), [cols], picked, NEON, 5) == 0
    np.testing.assert_array_equal(picked, data[2][cols])
