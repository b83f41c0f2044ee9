"""Elementwise kernels against the numpy interpreter: every operation and dtype, strides, broadcasts, tails."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from MNN.backends.cpu.lang.module import F32, Kernel
from MNN.backends.cpu.loops.map_nest import MapSpec, whole_vectors
from MNN.backends.cpu.loops.stages import stages
from MNN.backends.cpu.math.scalar_code import BodyCode, emit_body, stored
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import BINARY, COMPARE, UNARY, Body, BodyBuilder, body_of
from MNN.reference.scalar import evaluate
from tests.backends.cpu.util import TARGETS, call, element_strides
from tests.pairs import pairs

FLOATS = (DType.F32, DType.F64, DType.F16, DType.BF16)
INTS = (DType.I8, DType.I16, DType.I32, DType.I64, DType.U8, DType.U16, DType.U32, DType.U64)


def inner_class(stride: int, extent: int) -> str:
    return "1" if stride == 1 else "0" if stride == 0 else "s"


def run_map(
    body: Body, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], target: Target, chunk: int,
    checked: bool = False, whole: int = 0,
) -> None:  # fmt: skip
    """Runs a map over arrays that have the same shape (broadcast views are welcome)."""
    shape = outs[0].shape
    inputs = tuple(inner_class(element_strides(a)[-1], shape[-1]) for a in ins)
    outputs = tuple("1" if element_strides(a)[-1] == 1 else "s" for a in outs)
    spec = MapSpec(body, len(shape), inputs, outputs, whole)
    slots = {f"extent{d}": e for d, e in enumerate(shape)}
    slots["chunk"] = chunk
    for prefix, arrays in (("in", ins), ("out", outs)):
        for i, a in enumerate(arrays):
            slots[f"{prefix}{i}"] = a.ctypes.data
            for d, s in enumerate(element_strides(a)):
                slots[f"{prefix}{i}_s{d}"] = s
    names = set(spec.slots())
    blocks = int(np.prod(shape[:-1])) * -(-shape[-1] // chunk)
    call(spec, target, {n: v for n, v in slots.items() if n in names}, blocks, [*ins, *outs], checked)


def data(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        x = np.asarray(rng.normal(size=shape) * 3)
        flat = x.reshape(-1)
        for v in (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 300.0, -70000.0):
            flat[rng.integers(flat.size)] = v
        with np.errstate(over="ignore"):
            return x.astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    info = np.iinfo(dtype.numpy.str)
    x = rng.integers(info.min, info.max, shape, dtype=dtype.numpy, endpoint=True)
    small = rng.integers(-9 if info.min else 0, 9, shape).astype(dtype.numpy)
    x = np.where(rng.random(shape) < 0.5, x, small)
    x.reshape(-1)[rng.integers(x.size)] = info.min
    return x


def assert_same(got: np.ndarray, want: np.ndarray, ulp: float = 0) -> None:
    assert got.dtype == want.dtype
    dtype = DType.of(want)
    if got.dtype == DType.BF16.numpy:  # numpy does not see that its NaNs are equal
        got, want = got.astype(np.float32), want.astype(np.float32)
    if got.dtype.kind in "biu" or ulp == 0:
        np.testing.assert_array_equal(got, want)
        return
    eps = {DType.F32: 2.0**-23, DType.F64: 2.0**-52, DType.F16: 2.0**-10, DType.BF16: 2.0**-7}[dtype]
    tiny = {DType.F16: 2.0**-24, DType.BF16: 1e-40}.get(dtype, 1e-45 if dtype is DType.F32 else 5e-324)
    g, w = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(g, w, rtol=ulp * eps, atol=tiny * ulp, equal_nan=True)


EXACT = set("neg abs sign sqrt floor ceil round trunc add sub mul div min max floordiv".split())


def check_op(op: str, dtype: DType, target: Target) -> None:
    arity = 1 if op in UNARY else 2
    body = body_of([dtype] * arity, lambda b, *x: b(op, *x))
    seed = zlib.crc32(f"{op}{dtype}".encode())
    shape = (3, 37)
    ins = [data(dtype, shape, seed + i) for i in range(arity)]
    if op in ("shl", "shr", "pow") and dtype.is_int:
        ins[1] = (ins[1].astype(np.int64) % (dtype.size * 8 + 3) - (2 if dtype.is_signed else 0)).astype(dtype.numpy)
    want = evaluate(body, ins)[0]
    out = np.zeros(shape, want.dtype)
    run_map(body, ins, [out], target, chunk=64)
    assert_same(out, want, 0 if op in EXACT else 4)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.value)
def test_float_operations(dtype: DType, target: Target) -> None:
    for op in [*UNARY, *BINARY, *COMPARE]:
        if op not in ("not", "and", "or", "xor", "shl", "shr"):
            check_op(op, dtype, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", INTS, ids=lambda d: d.value)
def test_integer_operations(dtype: DType, target: Target) -> None:
    ops = "neg abs sign floor not isnan add sub mul div floordiv mod rem pow min max and or xor shl shr".split()
    for op in [*ops, *COMPARE]:
        if not (op == "neg" and dtype.is_unsigned):
            check_op(op, dtype, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_bool_operations(target: Target) -> None:
    for op in ["not", "and", "or", "xor", "min", "max", "add", "mul", "sub", *COMPARE]:
        check_op(op, DType.BOOL, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_casts(target: Target) -> None:
    kinds = (*FLOATS, *INTS, DType.BOOL)
    for source in kinds:
        x = data(source, (2, 41), 5)

        b = BodyBuilder()
        v = b.arg(source)
        body = b.build(*[b.cast(v, to) for to in kinds])
        want = evaluate(body, [x])
        outs = [np.zeros(x.shape, w.dtype) for w in want]
        run_map(body, [x], outs, target, 100)
        for got, w in zip(outs, want, strict=True):
            assert_same(got, w)


def gelu(dtype: DType) -> Body:
    def fn(b, x, y):  # type: ignore[no-untyped-def]
        half = b.const(0.5, dtype)
        z = b("mul", b("add", b("erf", b("mul", x, b.const(0.7071, dtype))), b.const(1.0, dtype)), half)
        return b("add", b("mul", z, x), y)

    return body_of([dtype, dtype], fn)


@pairs(dtype=[DType.F32, DType.F16, DType.F64], target=TARGETS, checked=[False, True])
def test_shapes_strides_and_broadcasts(dtype: DType, target: Target, checked: bool) -> None:
    body = gelu(dtype)
    rng = np.random.default_rng(0)

    def fresh(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(dtype.numpy)

    cases = []
    for n in (1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 200):
        cases.append((fresh(n), fresh(n), 70))
    cases += [
        (fresh(5, 33), np.broadcast_to(fresh(33), (5, 33)), 33),  # per channel
        (fresh(5, 33), np.broadcast_to(fresh(5, 1), (5, 33)), 20),  # per row
        (np.broadcast_to(fresh(1), (4, 19)), np.broadcast_to(fresh(1, 1), (4, 19)), 7),  # all row constants
        (fresh(40, 9).T, fresh(9, 40), 16),  # inner stride 9
        (fresh(3, 4, 50)[:, ::2, ::-2], fresh(3, 2, 25), 25),
        (fresh(2, 3, 4, 5), np.broadcast_to(fresh(3, 1, 5), (2, 3, 4, 5)), 5),
        (fresh(6, 64), fresh(64, 6).T, 32),
    ]
    for x, y, chunk in cases:
        want = evaluate(body, [x, y])[0]
        for out in (np.zeros(x.shape, x.dtype), np.zeros((*x.shape[:-1], x.shape[-1] * 2), x.dtype)[..., ::2]):
            run_map(body, [x, y], [out], target, chunk, checked)
            scale = np.abs(want.astype(np.float64)).max()  # GELU's sum cancels: measured against the largest result
            error = np.abs(out.astype(np.float64) - want.astype(np.float64)).max() / scale
            assert error <= {DType.F32: 3e-7, DType.F64: 1e-15, DType.F16: 1e-3}[dtype]


@pairs(dtype=[DType.F32, DType.F64, DType.BF16, DType.U8], target=TARGETS, checked=[False, True])
def test_rows_of_any_length_in_place(dtype: DType, target: Target, checked: bool) -> None:
    """The last vector of a row reads nothing that the row has written, however short the row and its chunks are."""
    body = body_of([dtype, dtype], lambda b, x, y: b("add", x, y))
    for length, chunk in ((1, 1), (7, 7), (15, 64), (17, 17), (33, 32), (67, 67), (100, 41), (131, 131)):
        x, y = data(dtype, (3, length), length), data(dtype, (1, length), length + 1)
        with np.errstate(all="ignore"):
            want = evaluate(body, [x.copy(), np.broadcast_to(y, x.shape)])[0]
        run_map(body, [x, np.broadcast_to(y, x.shape)], [x], target, chunk, checked)
        assert_same(x, want)


def test_fill_copy_and_dead_code() -> None:
    b = BodyBuilder()
    out = np.zeros((3, 19), np.float16)
    run_map(b.build(b.const(2.5, DType.F16)), [], [out], TARGETS[0], 19)
    assert (out == 2.5).all()
    flags = data(DType.BOOL, (50,), 0)
    b = BodyBuilder()  # a part that only constants decide
    scaled = b.build(b("mul", b.arg(DType.F32), b("sqrt", b.const(4.0, DType.F32))))
    k = Kernel((), features=())
    (value,) = emit_body(k.b, scaled, [k.b.const(F32, 3.0)], 1)
    assert value.type is F32
    for target in TARGETS:
        b = BodyBuilder()
        x, unused = b.arg(DType.BOOL), b.arg(DType.F32)
        b("exp", unused)
        copy = np.zeros_like(flags)
        run_map(b.build(x), [flags, np.zeros(50, np.float32)], [copy], target, 50)
        np.testing.assert_array_equal(copy, flags)


def random_body(rng: np.random.Generator, size: int) -> Body:
    """A program of operations whose results are exactly defined."""
    b = BodyBuilder()
    kinds = [DType.F32, DType.I32, DType.U8, DType.I64, DType.F16, DType.F64, DType.BOOL]
    values = [b.arg(kinds[rng.integers(len(kinds))]) for _ in range(3)]
    values.append(b.const(3, DType.I32))
    for _ in range(size):
        x = values[rng.integers(len(values))]
        y = b.cast(values[rng.integers(len(values))], b.dtype(x))
        choice = rng.integers(6)
        if choice == 0:
            values.append(b.cast(x, kinds[rng.integers(len(kinds))]))
        elif choice == 1:
            values.append(b(str(rng.choice(COMPARE)), x, y))
        elif choice == 2:
            values.append(b("select", b(str(rng.choice(COMPARE)), x, y), x, y))
        elif choice == 3 and b.dtype(x) is not DType.BOOL:
            values.append(b(str(rng.choice(["abs", "sign", "floor"])), x))
        else:
            ops = ["add", "sub", "mul", "min", "max"] + ["div"] * (b.dtype(x) is not DType.BOOL)
            values.append(b(str(rng.choice(ops)), x, y))
    return b.build(*values[-3:])


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    body = random_body(rng, 25)
    shape = (4, 45)
    ins = [data(d, shape, seed + i) for i, d in enumerate(body.args)]
    ins[seed % len(ins)] = np.broadcast_to(ins[seed % len(ins)][:, :1], shape)  # a row constant
    want = evaluate(body, ins)
    for target in TARGETS:
        outs = [np.zeros(shape, w.dtype) for w in want]
        run_map(body, ins, outs, target, 32)
        for got, w in zip(outs, want, strict=True):
            assert_same(got, w)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [DType.F32, DType.U16, DType.I8, DType.F64], ids=lambda d: d.value)
def test_short_rows_that_are_moved_are_written_out(target: Target, dtype: DType) -> None:
    body = body_of([dtype], lambda b, x: x)
    lanes = next(n for n in range(1, 129) if whole_vectors(target, body, 2, n))
    assert not whole_vectors(target, body_of([dtype], lambda b, x: b("add", x, x)), 2, lanes)
    for count in range(1, 5):
        n = count * lanes
        assert whole_vectors(target, body, 3, n) == n
        source = data(dtype, (5, 7, n + 3), count)[:, :, 1 : n + 1]
        result = np.zeros((5, 7, n + 5), dtype.numpy)
        run_map(body, [source], [result[:, :, 2 : n + 2]], target, n, checked=count == 4, whole=n)
        np.testing.assert_array_equal(result[:, :, 2 : n + 2], source)
        assert not result[:, :, :2].any()
        assert not result[:, :, n + 2 :].any()
    assert not whole_vectors(target, body, 3, 5 * lanes)
    assert not whole_vectors(target, body, 3, lanes + 1)


def smooth_body(rng: np.random.Generator, size: int) -> Body:
    """A program of costly functions, none of which makes much of a small error, and of whole numbers among them."""
    b = BodyBuilder()
    values = [b.arg(DType.F32) for _ in range(3)]
    for _ in range(size):
        x, y = (values[-1 - int(rng.integers(min(len(values), 5)))] for _ in range(2))
        one = b.const(1.0, DType.F32)
        choice = int(rng.integers(7))
        if choice < 4:
            values.append(b(("sin", "cos", "tanh", "erf")[choice], x))
        elif choice == 4:
            values.append(b("div", one, b("add", one, b("exp", b("neg", b("tanh", x))))))  # a gate
        elif choice == 5:
            few = b.cast(b("trunc", b("mul", b("sin", y), b.const(3.0, DType.F32))), DType.I32)
            values.append(b("add", x, b.cast(b("mul", few, b.const(0, DType.I32)), DType.F32)))
        else:
            values.append(b("mul", b("add", x, y), b.const(0.4, DType.F32)))
    return b.build(values[-1], values[-4], values[-2])


@pairs(seed=range(6), target=TARGETS, checked=[False, True])
def test_costly_programs_in_stages(seed: int, target: Target, checked: bool) -> None:
    """What a stage hands on is what the next ones find, in rows of any length, in place too."""
    rng = np.random.default_rng(seed)
    body = smooth_body(rng, 14)
    while len(stages(BodyCode(body, [1]), stored(body))) < 2:
        body = smooth_body(rng, 14)
    for length, chunk in ((1, 1), (37, 37), (1300, 1100)):
        x, y, z = (rng.normal(size=(2, n)).astype(np.float32) for n in (length, 1, length))
        y = np.broadcast_to(y, x.shape)
        want = evaluate(body, [x.copy(), y, z])
        outs = [x, np.zeros_like(x), np.zeros_like(x)]
        run_map(body, [x, y, z], outs, target, chunk, checked)
        for got, w in zip(outs, want, strict=True):
            np.testing.assert_allclose(got, w, atol=2e-5)
