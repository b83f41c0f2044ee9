"""Depthwise convolutions and pooling against numpy in float64: widths, strides, dilations, tails, epilogues, types."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.targets import Target, host_target, named_target
from MNN.backends.cpu.window.bf16_rows import pack_rows, row_pairs
from MNN.backends.cpu.window.byte_rows import has_byte_rows, pack_byte_rows
from MNN.backends.cpu.window.cost import choose_window, vectors_at_once
from MNN.backends.cpu.window.spec import WindowSpec
from MNN.backends.cpu.window.tap_pairs import bytes_of_channel, pack_tap_pairs
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from MNN.ops.quantized.quantization import saturated
from MNN.reference import scalar as reference_scalar
from tests.backends.cpu import util

F32, F64, F16 = DType.F32, DType.F64, DType.F16
TARGETS = pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)


def run(
    spec: WindowSpec,
    target: Target,
    n: int,
    kh: int,
    sy: int,
    oh: int,
    ow: int,
    c: int,
    checked: bool = True,
    given: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's y and the expected one in float64 (or int64), for n images of oh x ow pixels; ``given`` weights."""
    rng = np.random.default_rng(n + kh + ow + c)
    h, w = (oh - 1) * sy + kh, (ow - 1) * spec.sx + (spec.kw - 1) * spec.dx + 1
    pixel_x, pixel_y = c + 3, c + 1  # pixels further apart than their channels

    def numbers(dtype: DType, *shape: int) -> np.ndarray:
        if dtype.is_int:
            info = np.iinfo(dtype.numpy)
            return rng.integers(max(info.min, -255), min(info.max, 255) + 1, shape).astype(dtype.numpy)
        return rng.uniform(-1, 1, shape).astype(dtype.numpy)

    x, y = numbers(spec.dtype, n, h, w, pixel_x), np.full((n, oh, ow, pixel_y), 5, spec.out.numpy)
    weights = numbers(spec.weights, kh, spec.kw, c) if given is None else given
    lines_x = np.array([[(i * h + o * sy) * w * pixel_x for o in range(oh)] for i in range(n)], np.int32).reshape(-1)
    lines_y = (np.arange(n * oh) * ow * pixel_y).astype(np.int32)
    slots = {"n_lines": n * oh, "kh": kh, "row_x": w * pixel_x, "step_x": pixel_x, "step_y": pixel_y, "ow": ow, "c": c}
    slots["lines_per_block"] = 2 * spec.lines
    arrays = {"x": x, "w": weights, "y": y, "lines_x": lines_x, "lines_y": lines_y}
    if spec.pairs:
        weights[...] = weights.astype(DType.BF16.numpy)
        arrays["pairs"] = pack_rows(weights, target.lanes(F32))
    if spec.fours:
        weights //= 2
        arrays["fours"] = pack_byte_rows(weights)
    if spec.taps:
        whole = weights[None]
        arrays["taps"] = pack_tap_pairs(whole, spec.dtype, 4 * target.lanes(F32), spec.shift)
        slots["tap_bytes"] = bytes_of_channel(1, kh, spec.kw, spec.shift)
    operands = []
    for i, kind in enumerate(spec.operands):
        assert spec.epilogue is not None
        shape = {"c": (c,), "1": (1,), "pc": (n, oh, ow, c + 2)}[kind]
        operand = arrays[f"op{i}"] = numbers(spec.epilogue.args[1 + i], *shape)
        if kind == "pc":
            arrays[f"lines{i}"] = (np.arange(n * oh) * ow * (c + 2)).astype(np.int32)
            slots[f"step{i}"] = c + 2
        operands.append(operand[..., :c] if kind == "pc" else operand)
    slots |= {name: a.ctypes.data for name, a in arrays.items()}
    if spec.op != "dot":
        slots["w"] = 0
        del arrays["w"]
    util.call(spec, target, slots, -(-n * oh // (2 * spec.lines)), list(arrays.values()), checked)
    wide = np.float64 if spec.acc.is_float else np.int64
    parts = []
    for ky in range(kh):
        for kx in range(spec.kw):
            part = x[:, ky : ky + (oh - 1) * sy + 1 : sy, kx * spec.dx :][:, :, : (ow - 1) * spec.sx + 1 : spec.sx, :c]
            parts.append(part.astype(wide) * (weights[ky, kx].astype(wide) if spec.op == "dot" else 1))
    stack = np.stack(parts)
    total = stack.max(axis=0) if spec.op == "max" else stack.sum(axis=0)
    if spec.epilogue is not None:
        total = reference_scalar.evaluate(spec.epilogue, [total.astype(spec.acc.numpy), *operands])[0]
    else:
        total = total.astype(spec.out.numpy)
    assert (y[..., c:] == 5).all(), "wrote past the channels"
    return y[..., :c].astype(np.float64), total.astype(np.float64)


def check(
    spec: WindowSpec,
    target: Target,
    n: int,
    kh: int,
    sy: int,
    oh: int,
    ow: int,
    c: int,
    tolerance: float = 2e-5,
    checked: bool = True,
) -> None:
    found, expected = run(spec, target, n, kh, sy, oh, ow, c, checked)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@TARGETS
@pytest.mark.parametrize("op", ["dot", "max", "sum"])
@pytest.mark.parametrize("c", [1, 3, 16, 19, 40])
def test_operations_and_channels(target: Target, op: str, c: int) -> None:
    check(WindowSpec(F32, F32, F32, op, 3, 1, 1, 4), target, 2, 3, 1, 3, 7, c)


@TARGETS
@pytest.mark.parametrize(
    ("kw", "sx", "dx", "pixels", "kh", "sy", "ow"),
    [
        (1, 1, 1, 1, 1, 1, 1), (1, 2, 1, 4, 1, 2, 9), (2, 2, 1, 3, 2, 2, 7), (3, 2, 1, 4, 3, 2, 6),
        (5, 1, 1, 7, 5, 1, 14), (5, 2, 1, 3, 5, 2, 5), (3, 1, 2, 4, 3, 1, 9), (3, 3, 2, 5, 2, 1, 5),
        (7, 1, 1, 1, 7, 1, 1),
        (13, 1, 1, 2, 1, 1, 5), (20, 3, 2, 4, 2, 1, 9),
    ],
)  # fmt: skip
def test_windows(target: Target, kw: int, sx: int, dx: int, pixels: int, kh: int, sy: int, ow: int) -> None:
    for op in ("dot", "max"):
        check(WindowSpec(F32, F32, F32, op, kw, sx, dx, pixels), target, 1, kh, sy, 3, ow, 21, 1e-4)


@TARGETS
@pytest.mark.parametrize(
    ("kw", "sx", "dx", "pixels", "kh", "sy", "ow", "lines"),
    [(3, 1, 1, 4, 3, 1, 14, 2), (3, 2, 1, 3, 3, 2, 7, 2), (5, 1, 1, 2, 5, 1, 5, 3), (3, 1, 1, 4, 3, 1, 3, 2),
     (3, 1, 2, 3, 3, 1, 4, 2), (13, 1, 1, 2, 2, 1, 5, 2), (1, 1, 1, 1, 4, 1, 3, 4)],
)  # fmt: skip
def test_lines_side_by_side(
    target: Target, kw: int, sx: int, dx: int, pixels: int, kh: int, sy: int, ow: int, lines: int
) -> None:
    """Tiles over several lines, those of different images too; lines and pixels that are left over."""
    for op in ("dot", "max"):
        check(WindowSpec(F32, F32, F32, op, kw, sx, dx, pixels, lines=lines), target, 2, kh, sy, 5, ow, 21, 1e-4)
    body = body_of([F32, F32, F32], lambda b, s, bias, rest: b("add", b("add", s, bias), rest))
    spec = WindowSpec(F32, F32, F32, "dot", kw, sx, dx, pixels, body, ("c", "pc"), lines)
    check(spec, target, 1, kh, sy, 5, ow, 18, 1e-4)


@TARGETS
def test_what_is_added_to_is_added_once(target: Target) -> None:
    """The result in the memory of its operand: tiles must not reach back."""
    body = body_of([F32, F32], lambda b, s, rest: b("add", s, rest))
    spec = WindowSpec(F32, F32, F32, "sum", 1, 1, 1, 4, body, ("pc",), 2)
    x, y, zero = np.arange(14, dtype=np.float32), np.ones(14, np.float32), np.array([0, 7], np.int32)
    arrays = [x, y, zero]
    slots = {"x": x.ctypes.data, "w": 0, "y": y.ctypes.data, "lines_x": zero.ctypes.data, "lines_y": zero.ctypes.data}
    slots |= {"n_lines": 2, "kh": 1, "row_x": 0, "step_x": 1, "step_y": 1, "ow": 7, "c": 1, "lines_per_block": 2}
    slots |= {"op0": y.ctypes.data, "lines0": zero.ctypes.data, "step0": 1}
    util.call(spec, target, slots, 1, arrays, checked=True)
    np.testing.assert_array_equal(y, np.arange(14) + 1)


@TARGETS
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "plain"])
def test_epilogues(target: Target, checked: bool) -> None:
    body = body_of(
        [F32, F32, F32, F32],
        lambda b, s, bias, rest, one: b("mul", b("max", b("add", b("add", s, bias), rest), b.const(0, F32)), one),
    )
    spec = WindowSpec(F32, F32, F32, "dot", 3, 1, 1, 4, body, ("c", "pc", "1"))
    check(spec, target, 2, 3, 1, 3, 9, 35, checked=checked)
    silu = body_of(
        [F32, F32],
        lambda b, s, bias: b(
            "div", b("add", s, bias), b("add", b("exp", b("neg", b("add", s, bias))), b.const(1.0, F32))
        ),
    )
    check(WindowSpec(F32, F32, F32, "dot", 5, 2, 1, 3, silu, ("c",)), target, 1, 5, 2, 2, 7, 20, checked=checked)


@TARGETS
@pytest.mark.parametrize(
    ("dtype", "acc", "out", "op", "tolerance"),
    [
        (F16, F32, F32, "dot", 1e-5), (F16, F32, F16, "dot", 2e-3), (DType.BF16, F32, DType.BF16, "sum", 2e-2),
        (F64, F64, F64, "dot", 1e-12), (DType.I8, DType.I8, DType.I8, "max", 0),
        (DType.U8, DType.U8, DType.U8, "max", 0),
        (DType.I8, DType.I32, DType.I32, "sum", 0), (DType.U8, DType.I32, DType.I32, "dot", 0),
        (DType.I64, DType.I64, DType.I64, "max", 0),
    ],
    ids=lambda v: v.value if isinstance(v, DType) else str(v),
)  # fmt: skip
def test_element_types(target: Target, dtype: DType, acc: DType, out: DType, op: str, tolerance: float) -> None:
    check(WindowSpec(dtype, acc, out, op, 3, 1, 1, 4), target, 1, 2, 1, 2, 6, 70, tolerance)


@TARGETS
@pytest.mark.parametrize("c", [31, 32, 33, 50, 64, 112])
@pytest.mark.parametrize(("kw", "sx", "pixels", "lines"), [(3, 1, 4, 2), (5, 2, 3, 1), (13, 1, 2, 1)])
@pytest.mark.parametrize("out", [F32, DType.BF16], ids=lambda d: d.value)
def test_bf16_with_operands(target: Target, out: DType, kw: int, sx: int, pixels: int, lines: int, c: int) -> None:
    """Channels in twos and what is left over; f32 and bf16 operands; every channel keeps its place."""
    types = [F32, F32, DType.BF16, F32, F32]

    def combine(b, total, bias, rest, scale, more):  # type: ignore[no-untyped-def]
        value = b("add", b("mul", b("add", total, bias), scale), b("add", b.cast(rest, F32), more))
        return b.cast(value, out)

    operands = ("c", "pc", "1", "pc")
    tolerance = 1e-4 if out is F32 else 2e-2
    for op in ("dot", "max"):
        spec = WindowSpec(DType.BF16, F32, out, op, kw, sx, 1, pixels, body_of(types, combine), operands, lines)
        check(spec, target, 2, 3, sx, 3, 6, c, tolerance)


@pytest.mark.skipif(not row_pairs(host_target()), reason="this processor has no fast products of bf16 pairs")
@pytest.mark.parametrize("c", [20, 32, 50, 64, 113])
@pytest.mark.parametrize(
    ("kh", "kw", "sx", "dx", "pixels"), [(3, 3, 1, 1, 7), (5, 5, 1, 1, 4), (2, 7, 2, 1, 3), (4, 3, 1, 2, 2)]
)
@pytest.mark.parametrize("out", [F32, DType.BF16], ids=lambda d: d.value)
def test_rows_in_pairs(out: DType, kh: int, kw: int, sx: int, dx: int, pixels: int, c: int) -> None:
    def combine(b, total, bias, rest):  # type: ignore[no-untyped-def]
        return b.cast(b("add", b("add", total, bias), b.cast(rest, F32)), out)

    body = body_of([F32, F32, DType.BF16], combine)
    spec = WindowSpec(DType.BF16, F32, out, "dot", kw, sx, dx, pixels, body, ("c", "pc"), pairs=True)
    check(spec, host_target(), 2, kh, 1, 3, 9, c, 1e-4 if out is F32 else 2e-2)


def test_packing_of_row_pairs() -> None:
    weights = np.arange(3 * 3 * 64, dtype=np.float32).reshape(3, 3, 64)
    words = pack_rows(weights, 16)
    assert words.shape == (2, 3, 2, 2, 16)
    low = (words.view(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(low[0, :, 0, 0], weights[0, :, 0:32:2].astype(DType.BF16.numpy).astype(np.float32))
    np.testing.assert_array_equal(low[1, :, 1, 1], weights[2, :, 33:64:2].astype(DType.BF16.numpy).astype(np.float32))
    assert not (words[1].view(np.uint32) >> 16).any()
    with pytest.raises(ValueError, match="two rows"):
        WindowSpec(F32, F32, F32, "dot", 3, 1, 1, 4, pairs=True)


@TARGETS
def test_two_vectors_are_taken_where_bf16_is_known(target: Target) -> None:
    several = 2 if target.has("avx512bf16") and target.lanes(F32) == 16 else 1
    assert vectors_at_once(target, DType.BF16, F32, (DType.BF16, F32), 3) == several
    assert vectors_at_once(target, F32, F32, (F32,), 3) == 1
    assert vectors_at_once(target, DType.BF16, F32, (DType.I32,), 3) == 1


@TARGETS
def test_maximum_of_nan_is_nan(target: Target) -> None:
    spec = WindowSpec(F32, F32, F32, "max", 3, 1, 1, 2)
    x = np.array([1, np.nan, 3, -np.inf, -np.inf, -np.inf, 5, 6, np.nan], np.float32)
    y, zero = np.zeros(7, np.float32), np.zeros(1, np.int32)
    arrays = [x, y, zero]
    slots = {"x": x.ctypes.data, "w": 0, "y": y.ctypes.data, "lines_x": zero.ctypes.data, "lines_y": zero.ctypes.data}
    slots |= {"n_lines": 1, "kh": 1, "row_x": 0, "step_x": 1, "step_y": 1, "ow": 7, "c": 1, "lines_per_block": 1}
    util.call(spec, target, slots, 1, arrays, checked=True)
    np.testing.assert_array_equal(y, [np.nan, np.nan, 3, -np.inf, 5, 6, np.nan])


@pytest.mark.parametrize("name", ["sse4.1", "avx2", "avx512", "neon"])
def test_pixels_fit(name: str) -> None:
    target = named_target(name)
    for op in ("dot", "max", "sum"):
        for kw, sx, dx in [(1, 1, 1), (3, 1, 1), (3, 2, 1), (5, 1, 1), (7, 2, 2), (100, 1, 1)]:
            for ow in (1, 7, 14, 56, 113):
                for lines in (1, 2, 15):
                    deep, pixels = choose_window(target, op, (3, kw), sx, dx, lines, ow)
                    assert 1 <= pixels <= ow
                    assert 1 <= deep <= lines
                    assert deep * pixels < target.vector_registers
    assert choose_window(named_target("avx512"), "dot", (3, 3), 1, 1, 14, 14) == (2, 7)


def test_short_lines_are_done_by_a_kernel_for_longer_ones() -> None:
    target = named_target("avx512")
    few = choose_window(target, "dot", (3, 3), 1, 1, 5, 5, made=[(2, 7)], spare=10_000)
    assert few == (2, 7)
    assert choose_window(target, "dot", (3, 3), 1, 1, 5, 5, made=[(2, 7)], spare=1)[1] <= 5
    assert choose_window(target, "dot", (3, 3), 1, 1, 5000, 5, made=[(2, 7)], spare=10_000)[1] <= 5


@pytest.mark.parametrize(
    "bad", [{"op": "min"}, {"kw": 0}, {"operands": ("n",)}, {"operands": ("c",)}, {"acc": DType.I32}]
)
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    good = WindowSpec(F32, F32, F32, "dot", 3, 1, 1, 4, body_of([F32], lambda b, s: b("neg", s)))
    with pytest.raises(ValueError, match=r"window|operand|positive|epilogue"):
        dataclasses.replace(good, **bad)  # type: ignore[arg-type]


def requantised(dtype: DType, zero: int, single: bool) -> Body:
    """``saturate(round((sum + bias) * factor) + zero)``, with the factor one number or one per channel."""
    return body_of(
        [DType.I32, DType.I32, *([] if single else [F32])],
        lambda b, total, bias, *factor: saturated(
            b,
            b(
                "mul",
                b.cast(b("add", total, bias), F32),
                b("mul", *factor, b.const(0.01, F32)) if factor else b.const(0.004, F32),
            ),
            zero,
            dtype,
        ),
    )


@pytest.mark.usefixtures("wide_vectors")
@pytest.mark.parametrize(
    ("kw", "sx", "dx", "pixels", "kh", "sy", "ow", "c"),
    [
        (3, 1, 1, 4, 3, 1, 9, 64), (3, 2, 1, 3, 3, 2, 5, 81), (5, 1, 1, 2, 5, 1, 6, 128), (3, 1, 2, 4, 2, 1, 4, 96),
        (1, 1, 1, 1, 4, 1, 1, 79), (7, 2, 1, 1, 7, 3, 3, 80), (2, 3, 2, 5, 9, 1, 6, 200), (3, 1, 1, 4, 3, 1, 4, 40),
        (5, 2, 1, 3, 5, 2, 4, 63), (3, 1, 1, 4, 3, 1, 4, 20),
    ],
)  # fmt: skip
def test_four_rows_of_bytes(
    monkeypatch: pytest.MonkeyPatch, kw: int, sx: int, dx: int, pixels: int, kh: int, sy: int, ow: int, c: int
) -> None:
    """Groups of 64 channels, the last one reaching back, others behind them; rows that are no multiple of four; a
    single group that is cut, and too few channels for one."""
    monkeypatch.setenv("MNN_TARGET", "avx512,+avx512vnni")
    target = host_target()
    assert has_byte_rows(target)
    single, dtype = kw == 5, DType.I8 if sy == 2 else DType.U8
    body = requantised(dtype, 0 if kh == 3 else 7, single)
    kinds = ("c",) if single else ("1" if kh == 9 else "c", "c")
    types, cut = (DType.U8, DType.I32, dtype), 32 < c < 64
    spec = WindowSpec(*types, "dot", kw, sx, dx, pixels, body, kinds, fours=True, cut=cut)
    found, expected = run(spec, target, 2, kh, sy, 3, ow, c)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 20
