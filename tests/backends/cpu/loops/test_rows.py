"""Row programs against the numpy interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from MNN.backends.cpu.loops.rows import RowSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder, Instr
from MNN.reference.scalar import evaluate
from tests.backends.cpu.loops.test_map_nest import data
from tests.backends.cpu.util import TARGETS, call, element_strides
from tests.pairs import pairs

F32 = DType.F32


def reduce(b: BodyBuilder, op: str, x: int, dtype: DType | None = None) -> int:
    return b._add(Instr(f"reduce.{op}", (x,), dtype or b.dtype(x)))


def softmax(dtype: DType, log: bool = False) -> Body:
    b = BodyBuilder()
    x = b.cast(b.arg(dtype), F32 if dtype.size < 8 else dtype)
    z = b("sub", x, reduce(b, "max", x))
    e = b("exp", z)
    total = reduce(b, "sum", e)
    y = b("sub", z, b("log", total)) if log else b("div", e, total)
    return b.build(b.cast(y, dtype))


def layer_norm(dtype: DType) -> Body:
    b = BodyBuilder()
    x, scale, bias, count = b.arg(dtype), b.arg(dtype), b.arg(dtype), b.arg(dtype)
    mean = b("div", reduce(b, "sum", x), count)
    d = b("sub", x, mean)
    var = b("div", reduce(b, "sum", b("mul", d, d)), count)
    r = b("rsqrt", b("add", var, b.const(1e-5, dtype)))
    return b.build(b("add", b("mul", b("mul", d, r), scale), bias), mean)


def run_rows(
    body: Body, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], target: Target, checked: bool = False
) -> None:
    shape = np.broadcast_shapes(*[a.shape for a in ins])
    full = [np.broadcast_to(a, shape) for a in ins]
    classes = {0: "0", 1: "1"}
    inputs = tuple("0" if a.shape[-1] == 1 else classes.get(element_strides(a)[-1], "s") for a in ins)
    outputs = tuple(
        "0" if a.shape[-1] == 1 and shape[-1] > 1 else "1" if element_strides(a)[-1] == 1 else "s" for a in outs
    )
    spec = RowSpec(body, len(shape), inputs, outputs)
    slots = {f"extent{d}": e for d, e in enumerate(shape)}
    for prefix, arrays in (("in", full), ("out", outs)):
        for i, a in enumerate(arrays):
            slots[f"{prefix}{i}"] = a.ctypes.data
            for d, s in enumerate(element_strides(a)):
                slots[f"{prefix}{i}_s{d}"] = s
    slots = {n: v for n, v in slots.items() if n in set(spec.slots())}
    call(spec, target, slots, int(np.prod(shape[:-1])), [*ins, *outs], checked)


def close(got: np.ndarray, want: np.ndarray, dtype: DType) -> None:
    tolerance = {DType.F64: 1e-14, DType.F32: 3e-6, DType.F16: 2e-3, DType.BF16: 2e-2}[dtype]
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


@pairs(dtype=[DType.F32, DType.F64, DType.F16, DType.BF16], target=TARGETS, checked=[False, True])
def test_softmax(dtype: DType, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(0)
    for log in (False, True):
        body = softmax(dtype, log)
        for n in (2, 3, 8, 15, 16, 17, 64, 100, 197):
            x = (rng.normal(size=(2, 5, n)) * 4).astype(dtype.numpy)
            want = evaluate(body, [x])[0]
            out = np.empty_like(x)
            run_rows(body, [x], [out], target, checked)
            close(out, want, dtype)
        x = np.asarray(rng.normal(size=(33, 7)), dtype.numpy).T  # strided input
        out = np.empty(x.shape, x.dtype)
        run_rows(body, [x], [out], target, checked)
        close(out, evaluate(body, [x])[0], dtype)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_layer_norm(target: Target, checked: bool) -> None:
    rng = np.random.default_rng(1)
    for dtype in (DType.F32, DType.F64):
        body = layer_norm(dtype)
        for n in (5, 16, 33, 384):
            x = (rng.normal(size=(3, 4, n)) + 2).astype(dtype.numpy)
            scale, bias = rng.normal(size=(2, n)).astype(dtype.numpy)
            ins = [x, scale, bias, np.full((1, 1, 1), n, dtype.numpy)]
            want = evaluate(body, ins)
            outs = [x.copy(), np.empty((3, 4, 1), x.dtype)]
            run_rows(body, ins, outs, target, checked)
            close(outs[0], want[0], dtype)
            close(outs[1], want[1], dtype)
            again = x.copy()
            run_rows(body, [again, *ins[1:]], [again, outs[1]], target, checked)  # in place
            np.testing.assert_array_equal(again, outs[0])


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "argmax", "argmin", "argmax_last", "argmin_last"])
def test_inner_reductions(op: str, target: Target) -> None:
    dtypes = [DType.F32, DType.F64, DType.F16, DType.I8, DType.U8, DType.I32, DType.I64, DType.U64]
    for dtype in [*dtypes, DType.BOOL]:
        if dtype is DType.BOOL and op in ("sum", "prod"):
            continue
        if dtype in (DType.F16,) and op == "prod":
            continue
        b = BodyBuilder()
        x = b.arg(dtype)
        body = b.build(reduce(b, op, x, DType.I64 if op.startswith("arg") else None))
        for n in (1, 4, 31, 130):
            a = data(dtype, (6, n), n)
            if dtype.is_float:
                with np.errstate(invalid="ignore"):
                    a = np.where(np.isfinite(a), a, 1).astype(a.dtype)
            if op in ("sum", "prod") and dtype.is_float:
                a = (np.abs(a) % 2 + 0.1).astype(a.dtype)
            a[2, n // 2 :] = a[2, 0]  # ties
            if dtype.is_float and n > 4 and op not in ("sum", "prod"):
                a[3, n // 2] = np.nan
                a[3, n - 1] = np.nan
                a[4, :] = -np.inf if op.startswith("argmax") else np.inf
            want = evaluate(body, [a])[0]
            out = np.zeros_like(want)
            run_rows(body, [a], [out], target)
            if dtype.is_float and op in ("sum", "prod"):
                close(out, want, dtype)
            else:
                np.testing.assert_array_equal(out, want, err_msg=f"{op} {dtype} {n}")


def test_long_sums_are_accurate() -> None:
    b = BodyBuilder()
    body = b.build(reduce(b, "sum", b.arg(F32)))
    x = np.random.default_rng(2).random((1, 1 << 20), dtype=np.float32)
    out = np.zeros((1, 1), np.float32)
    for target in TARGETS:
        run_rows(body, [x], [out], target)
        assert abs(float(out[0, 0]) / x.sum(dtype=np.float64) - 1) < 1e-5
