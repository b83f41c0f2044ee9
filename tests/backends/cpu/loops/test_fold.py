"""Reductions over outer dimensions against numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from MNN.backends.cpu.loops.fold import FoldSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.reference.scalar import evaluate
from tests.backends.cpu.loops.test_map_nest import data
from tests.backends.cpu.util import TARGETS, call, element_strides
from tests.pairs import pairs

F32 = DType.F32
REDUCE = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}


def classes(arrays: Sequence[np.ndarray]) -> tuple[str, ...]:
    return tuple({0: "0", 1: "1"}.get(element_strides(a)[-1], "s") for a in arrays)


def run_fold(
    op: str, pre: Body, post: Body | None, ins: Sequence[np.ndarray], axes: tuple[int, ...],
    extra: Sequence[np.ndarray], out: np.ndarray, target: Target, chunk: int, checked: bool = False,
) -> None:  # fmt: skip
    """``ins`` have one shape; ``extra`` and ``out`` have it without ``axes``."""
    rank = ins[0].ndim
    kept = [d for d in range(rank - 1) if d not in axes]
    order = [*kept, *axes, rank - 1]
    spec = FoldSpec(op, pre, post, len(kept), len(axes), classes(ins), classes(extra), classes([out]))
    shape = ins[0].shape
    slots = {f"outer{i}": shape[d] for i, d in enumerate(kept)} | {f"reduce{i}": shape[d] for i, d in enumerate(axes)}
    slots |= {"inner": shape[-1], "chunk": chunk}
    for prefix, arrays, perm in (("in", ins, order), ("op", extra, None), ("out", [out], None)):
        for i, a in enumerate(arrays):
            slots[f"{prefix}{i}"] = a.ctypes.data
            strides = element_strides(a)
            for d, s in enumerate([strides[p] for p in perm] if perm else strides):
                slots[f"{prefix}{i}_s{d}"] = s
    slots = {n: v for n, v in slots.items() if n in set(spec.slots())}
    blocks = int(np.prod([shape[d] for d in kept])) * -(-shape[-1] // chunk)
    call(spec, target, slots, blocks, [*ins, *extra, out], checked)


@pairs(op=["sum", "prod", "max", "min", "argmax", "argmin"], target=TARGETS, checked=[False, True])
def test_fold(op: str, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(3)
    for dtype in (DType.F32, DType.F64, DType.I32, DType.U8, DType.I64):
        pre = body_of([dtype], lambda b, x: x)
        for shape, axes in [
            ((5, 33), (0,)),
            ((3, 7, 70), (1,)),
            ((2, 3, 4, 17), (1, 2)),
            ((4, 3, 2, 9), (0, 2)),
            ((130, 3), (0,)),
        ]:
            if op.startswith("arg") and len(axes) > 1:
                continue
            x = rng.normal(size=shape) * 2
            x = x.astype(dtype.numpy) if dtype.is_float else rng.integers(0, 9, shape).astype(dtype.numpy)
            kwargs = {"dtype": x.dtype} if op in ("sum", "prod") else {}
            want = REDUCE[op](x, axis=axes[0] if op.startswith("arg") else axes, **kwargs)
            out = np.zeros_like(want)
            run_fold(op, pre, None, [x], axes, [], out, target, 32, checked)
            if dtype.is_float and op in ("sum", "prod"):
                np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_fold_with_bodies_strides_and_broadcasts(target: Target, checked: bool) -> None:
    rng = np.random.default_rng(4)
    for dtype in (DType.F32, DType.F16):

        def square(b, x, y):  # type: ignore[no-untyped-def]
            d = b("sub", x, y)
            return b("mul", d, d)

        pre = body_of([dtype, dtype], square)
        post = body_of([dtype, dtype], lambda b, s, c: b("sqrt", b("mul", s, c)))
        x = rng.normal(size=(3, 11, 40)).astype(dtype.numpy)
        scale = np.broadcast_to(np.array(0.25, dtype.numpy), (3, 40))
        views = [
            (x, np.broadcast_to(rng.normal(size=40).astype(dtype.numpy), x.shape), scale),
            (x, np.broadcast_to(rng.normal(size=(11, 1)).astype(dtype.numpy), x.shape), np.ascontiguousarray(scale)),
            (rng.normal(size=(3, 40, 11)).astype(dtype.numpy).transpose(0, 2, 1), x[:, ::-1], scale),
            (x[..., ::3], x[:, :, :14], np.ascontiguousarray(scale)[:, :28:2]),
        ]
        for a, c, s in views:
            inner = evaluate(pre, [a, c])[0].astype(np.float32).sum(1)
            want = np.sqrt(inner * s.astype(np.float32)).astype(np.float64)
            out = np.zeros((3, a.shape[-1]), dtype.numpy)
            run_fold("sum", pre, post, [a, c], (1,), [s[:, : a.shape[-1]]], out, target, 24, checked)
            np.testing.assert_allclose(out.astype(np.float64), want, rtol=1e-5 if dtype is F32 else 3e-3)


def test_long_sums_stay_accurate() -> None:
    x = data(F32, (100_000, 3), 0)
    x = np.abs(np.nan_to_num(x, posinf=1, neginf=1)) % 1
    for target in TARGETS:
        out = np.zeros(3, np.float32)
        run_fold("sum", body_of([F32], lambda b, v: v), None, [x], (0,), [], out, target, 8)
        np.testing.assert_allclose(out, x.sum(0, dtype=np.float64), rtol=2e-5)
