"""Contractions on tiles against numpy in float64: layouts, tails, strides, batches, epilogues, parts, special values.

The kernels run with the tile registers' plain form, and on processors that have tiles with these too.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from MNN.backends.cpu.amx.grouping import grouping
from MNN.backends.cpu.amx.layout import Layout, direct_layout, joined_layout, rows_layout, window_layout
from MNN.backends.cpu.amx.lines import has_lines, line_layout, lines_of
from MNN.backends.cpu.amx.pack import AmxPackSpec
from MNN.backends.cpu.amx.spec import PANEL, AmxSpec
from MNN.backends.cpu.amx.tiles import ROW_BYTES, TILE_BYTES, has_tiles
from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets import Target, host_target, named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import parted, util

F32, BF16 = DType.F32, DType.BF16
HOST = host_target()
TARGETS = pytest.mark.parametrize(
    "target", [*util.TARGETS[-2:], *([HOST] if has_tiles(HOST) else [])], ids=lambda t: "host" if t is HOST else t.name
)
BOUNDS = {1: 2.0**-7.9, 2: 2.0**-15, 3: 2.0**-21}
"""Largest error relative to the sum of absolute products, apart from that of summing in f32."""


def panel_bytes(layout: Layout, parts: int, w24: bool = False, half: bool = False) -> int:
    return layout.n_steps * 2 * (TILE_BYTES * 3 // 2 if w24 else parts * TILE_BYTES) + 128 * half


def pack(
    target: Target, layout: Layout, b: np.ndarray, parts: int, checked: bool, w24: bool = False, half: bool = False
) -> np.ndarray:
    """B ``[batch, K, N]`` packed."""
    z, _, n = b.shape
    panels, panel = -(-n // PANEL), panel_bytes(layout, parts, w24, half)
    packed = np.full((z, panels, panel), 0x7F, np.uint8)  # NaN where nothing is written
    rows = np.where(layout.b_rows >= 0, layout.b_rows * n, -1).astype(np.int32)
    batch = np.array([(i * b[0].size, i * panels * panel) for i in range(z)], np.int64)
    arrays = {"src": b, "dst": packed, "rows": rows, "batch": batch}
    slots = {name: a.ctypes.data for name, a in arrays.items()}
    slots |= {"n_steps": layout.n_steps, "column": 1, "n": n, "panel": panel, "n_batch": z}
    util.call(AmxPackSpec(DType.of(b), parts, w24, half), target, slots, z * panels, list(arrays.values()), checked)
    return packed


def contract(
    spec: AmxSpec,
    target: Target,
    layout: Layout,
    a: np.ndarray,
    b: np.ndarray,
    m: int,
    nb: int = PANEL,
    operands: tuple[np.ndarray, ...] = (),
    checked: bool = False,
) -> np.ndarray:
    """C ``[batch, m, N]`` for A ``[batch, ...]`` and B ``[batch, K, N]``; operands are ``[batch, ...]``."""
    z, _, n = b.shape
    packed = pack(target, layout, b, spec.parts, checked, spec.w24, spec.half)
    width = n + 3
    if spec.out is DType.BF16X2:
        width = n
        c = parted.empty(z, m, n)
    else:
        c = np.full((z, m, width), 7, spec.out.numpy)
    rows = np.random.default_rng(5).permutation(m).astype(np.int32)
    names = ("items", "regions", "first", "place", "kofs")
    arrays = {name: np.ascontiguousarray(getattr(layout, name), np.int32) for name in names}
    arrays |= {"a": a, "b": packed, "c": c, "rows_c": rows * width}
    sizes = [a[0].size, packed[0].nbytes, c[0].size, *(op[0].size for op in operands)]
    arrays["turns"] = np.full(z * layout.m_blocks * -(-n // nb), -1, np.int64)
    arrays["turns"][-1] = 0
    arrays["batch"] = np.array([[s * i for s in sizes] for i in range(z)], np.int64)
    for i, (kind, op) in enumerate(zip(spec.operands, operands, strict=True)):
        arrays[f"op{i}"] = op
        if kind in ("m", "mn"):
            arrays[f"rows{i}"] = (np.arange(m) * (n if kind == "mn" else 1)).astype(np.int32)
    slots = {name: x.ctypes.data for name, x in arrays.items()}
    slots["next"] = slots["b"]
    numbers = ("chunks", "pitch", "plane", "step", "clear", "clear_rows", "m_blocks", "pairs")
    slots |= {name: getattr(layout, name) for name in numbers}
    groups = grouping(target, n, nb, layout, spec.parts, spec.w24, spec.half, overlap=spec.overlap)
    slots |= {"group": groups.group, "line": groups.line, "held": groups.held, "fetch": groups.lines * ROW_BYTES}
    slots |= {"panel": panel_bytes(layout, spec.parts, spec.w24, spec.half), "n": n, "nb": nb, "n_batch": z}
    slots |= {"shared": 0, "part": groups.part}
    if spec.overlap:
        slots["pace"] = layout.pace
    if layout.moves is not None:
        arrays["moves"] = layout.moves.astype(np.int32)
        slots |= {"moves": arrays["moves"].ctypes.data, "width": layout.width}
        slots["move_step"] = layout.move_step
    util.call(spec, target, slots, z * layout.m_blocks * -(-n // nb), list(arrays.values()), checked)
    assert (c[:, :, n:] == 7).all(), "wrote past the columns"
    return c[:, rows, :n]


def check_rows(
    target: Target,
    parts: int,
    m: int,
    n: int,
    k: int,
    taps: int = 1,
    mb: int = 64,
    z: int = 1,
    checked: bool = False,
    nb: int = PANEL,
    chunk: int = 0,
) -> None:
    rng = np.random.default_rng(m * n + k)
    length = taps * k + 3
    a = rng.uniform(-1, 1, (z, m, length)).astype(np.float32)
    b = rng.uniform(-1, 1, (z, taps * k, n)).astype(np.float32)
    tap_order = rng.permutation(taps)
    rows = np.arange(m) * length
    if m > 40:  # a break, as at the end of an image's row
        rows[40:] = rows[40:][::-1]
    layout = rows_layout(rows, tap_order * k, k, mb, chunk)
    found = contract(AmxSpec(F32, F32, parts), target, layout, a, b, m, nb, checked=checked)
    columns = np.concatenate([np.arange(k) + t * k for t in tap_order])
    left = a[:, rows // length][:, :, columns].astype(np.float64)
    assert_close(found, left, b.astype(np.float64), parts)


def assert_close(found: np.ndarray, left: np.ndarray, right: np.ndarray, parts: int) -> None:
    allowed = (BOUNDS[parts] + 1e-7) * (np.abs(left) @ np.abs(right)) + 1e-30
    worst = np.abs(found - left @ right) / allowed
    assert worst.max() <= 1, f"{worst.max()} at {np.unravel_index(worst.argmax(), worst.shape)}"


@TARGETS
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (16, 16, 32), (17, 33, 31), (32, 48, 64), (70, 20, 33), (100, 100, 7), (49, 64, 130)]
)
def test_matrix_product(target: Target, parts: int, m: int, n: int, k: int) -> None:
    check_rows(target, parts, m, n, k)
    check_rows(target, parts, m, n, k, mb=32, z=2, nb=64, checked=True)


@TARGETS
@pytest.mark.parametrize(("m", "n", "k", "chunk"), [(70, 100, 130, 64), (20, 40, 96, 32), (100, 33, 1000, 320)])
def test_sums_in_chunks(target: Target, m: int, n: int, k: int, chunk: int) -> None:
    for mb, nb in ((64, 64), (32, 128)):
        check_rows(target, 2, m, n, k, mb=mb, nb=nb, z=2, chunk=chunk, checked=mb == 32)


@TARGETS
@pytest.mark.parametrize(("k", "taps"), [(1, 9), (3, 5), (21, 7), (16, 9), (32, 3), (40, 2)])
def test_joined_taps(target: Target, k: int, taps: int) -> None:
    check_rows(target, 2, 45, 20, k, taps, checked=True)
    check_rows(target, 1, 45, 20, k, taps, mb=32)


@TARGETS
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize(
    ("c", "kernel", "stride", "width"), [(3, 7, 2, 40), (1, 3, 1, 20), (5, 9, 3, 50), (16, 3, 1, 9)]
)
def test_rows_joined_from_lines(target: Target, parts: int, c: int, kernel: int, stride: int, width: int) -> None:
    rng, n = np.random.default_rng(9), 33
    a = rng.uniform(-1, 1, (1, width, width, c)).astype(np.float32)
    side = (width - kernel) // stride + 1
    rows = (np.arange(side)[:, None] * stride * width * c + np.arange(side) * stride * c).reshape(-1)
    taps = np.arange(kernel) * width * c
    b = rng.uniform(-1, 1, (1, kernel * kernel * c, n)).astype(np.float32)
    found_at = np.lib.stride_tricks.sliding_window_view(a[0], (kernel, kernel), (0, 1))[::stride, ::stride]
    left = found_at.transpose(0, 1, 3, 4, 2).reshape(1, side * side, -1).astype(np.float64)
    for mb in (64, 96):
        layout = joined_layout(rows, taps, kernel * c, mb)
        assert layout is not None
        found = contract(AmxSpec(F32, F32, parts, joined=True), target, layout, a, b, side * side, 64, checked=mb == 96)
        assert_close(found, left, b.astype(np.float64), parts)


WINDOWS = [
    # outputs, kernel, strides, dilations, channels, rows of a block
    ((5, 7), (3, 3), (1, 1), (1, 1), 32, 2),
    ((6, 5), (3, 3), (2, 2), (1, 1), 40, 4),
    ((4, 9), (1, 1), (2, 3), (1, 1), 33, 4),
    ((14, 14), (3, 3), (2, 2), (1, 1), 32, 8),
    ((7, 3), (2, 5), (1, 2), (2, 3), 5, 3),
    ((9,), (4,), (3,), (2,), 64, 4),
    ((3, 4, 5), (2, 3, 2), (1, 2, 1), (2, 1, 1), 10, 2),
    ((1, 1), (3, 3), (1, 1), (1, 1), 256, 1),
]


def windows(case: tuple[tuple[int, ...], ...], gap: int) -> tuple[Window, np.ndarray, np.ndarray, np.ndarray]:
    """A window, its input (pixels ``gap`` elements apart), A as a matrix, and B."""
    outputs, kernel, strides, dilations, channels, _ = case
    assert isinstance(channels, int)
    images, n, rng = 2, 40, np.random.default_rng(3)
    inputs = tuple(
        (o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(outputs, strides, kernel, dilations, strict=True)
    )
    a = rng.uniform(-1, 1, (images, *inputs, channels + gap)).astype(np.float32)
    steps = tuple(s // 4 for s in a.strides[1:-1])
    w = Window(images, outputs, inputs, kernel, strides, dilations, a[0].size, steps, channels)
    taps = list(itertools.product(*map(range, kernel)))
    b = rng.uniform(-1, 1, (1, len(taps) * channels, n)).astype(np.float32)
    m = images * int(np.prod(outputs))
    parts = []
    for tap in taps:
        index = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, dilations, outputs, strides, strict=True)
        )
        parts.append(a[(slice(None), *index, slice(channels))].reshape(m, channels))
    return w, a, np.concatenate(parts, axis=1)[None].astype(np.float64), b


@TARGETS
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_windows(target: Target, case: tuple[tuple[int, ...], ...]) -> None:
    w, a, left, b = windows(case, 1)
    layout = window_layout(w, int(case[-1]))  # type: ignore[call-overload]
    for count in (1, 2, 3):
        spec = AmxSpec(F32, F32, count, ahead=count)
        found = contract(spec, target, layout, a[None], b, left.shape[1], 64, checked=count == 2)
        assert_close(found, left, b.astype(np.float64), count)


LINES = [
    # outputs, kernel, strides, dilations, channels, rows of a block
    ((12, 13), (7, 7), (2, 2), (1, 1), 3, 5),
    ((9, 20), (3, 3), (1, 1), (1, 1), 1, 9),
    ((8, 10), (3, 5), (2, 1), (2, 1), 16, 3),
    ((5, 6), (5, 4), (1, 3), (1, 1), 5, 2),
    ((3, 4, 5), (2, 3, 2), (2, 1, 1), (2, 2, 1), 10, 2),
]


@TARGETS
@pytest.mark.parametrize("case", LINES, ids=str)
def test_tiles_from_lines(target: Target, case: tuple[tuple[int, ...], ...]) -> None:
    w, a, left, b = windows(case, 0)
    assert has_lines(w)
    layout = line_layout(lines_of(w), int(case[-1]))  # type: ignore[call-overload]
    for count in (1, 2, 3):
        spec = AmxSpec(F32, F32, count, ahead=count, lines=True)
        found = contract(spec, target, layout, a[None], b, left.shape[1], 64, checked=count == 2)
        assert_close(found, left, b.astype(np.float64), count)


@TARGETS
@pytest.mark.parametrize("finished", ["after", "between", "with masks"])
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_epilogue_with_all_kinds_of_operands(target: Target, checked: bool, finished: str) -> None:
    rng = np.random.default_rng(1)
    z, m, n, k = 2, 175, 183, 200
    short = body_of([F32] * 5, lambda b, s, x, mn, y, one: b("sub", b("add", b("mul", b("add", s, x), y), mn), one))
    long = body_of(
        [F32] * 5, lambda b, s, x, mn, y, one: b("erf", b("mul", b("add", s, x), b("mul", y, b("add", mn, one))))
    )
    a, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((z, m, k), (z, k, n)))
    x, mn, y, one = ops = tuple(rng.uniform(-1, 1, s).astype(np.float32) for s in ((z, n), (z, m, n), (z, m), (z, 1)))
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 128, 64 if checked else 0)
    sums = a.astype(np.float64) @ b
    expected = {
        short: (sums + x[:, None]) * y[:, :, None] + mn - one[:, None],
        long: (sums + x[:, None]) * y[:, :, None] * (mn + one[:, None]),
    }
    for body, want in expected.items():
        between, masks = finished != "after", finished == "with masks"
        spec = AmxSpec(F32, F32, 3, body, ("n", "mn", "m", "1"), overlap=between, ragged=masks)
        found = contract(spec, target, layout, a, b, m, 96, ops, checked)
        if body is long:
            import math

            want = np.vectorize(math.erf)(want)
        np.testing.assert_allclose(found, want, rtol=0, atol=3e-5)


@TARGETS
def test_bf16_in_and_out(target: Target) -> None:
    rng = np.random.default_rng(2)
    m, n, k = 40, 50, 70
    a, b = (rng.uniform(-1, 1, s).astype(np.float32).astype(BF16.numpy) for s in ((1, m, k), (1, k, n)))
    layout = rows_layout(np.arange(m) * k, np.zeros(1, np.int64), k, 64)
    found = contract(AmxSpec(BF16, BF16, 1), target, layout, a, b, m, 64, checked=True).astype(np.float64)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(found, want, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("parts", [2, 3])
def test_special_values_give_what_fp32_gives(parts: int) -> None:
    """Every special value against every other: one product per result, then with an ordinary product beside it."""
    target = util.TARGETS[-1]
    largest = float(np.finfo(np.float32).max)
    few = [0.0, 1.0, 1.5, 1 / 3, 3e-30, 1e10, 1e30, largest, largest * (1 - 2.0**-9), np.inf]
    values = np.array([*few, *(-x for x in few), np.nan], np.float32)
    low_nan = np.array([0x7F800001], np.uint32).view(np.float32)  # its payload is not in the upper half
    values = np.concatenate([values, low_nan])
    m = values.size
    ones = np.ones(m, np.float32)
    for extra in (0.0, 1.0):
        a = np.stack([values, ones * extra], axis=1)[None]
        b = np.stack([values, ones], axis=0)[None]
        layout = rows_layout(np.arange(m) * 2, np.zeros(1, np.int64), 2, 64)
        found = contract(AmxSpec(F32, F32, parts), target, layout, a, b, m, 64)[0]
        with np.errstate(all="ignore"):
            want = values[:, None] * values[None, :] + np.float32(extra)
            exact = values[:, None].astype(np.float64) * values[None, :] + extra
        close = np.abs(exact) > largest * 0.999  # may round to either side of the largest number
        close &= np.abs(exact) < largest * 1.001
        ordinary = np.isfinite(want)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
        infinite = np.isinf(want) & ~close
        np.testing.assert_array_equal(found[infinite], want[infinite])
        rest = ordinary & ~close & (np.abs(want) > 1e-35)
        np.testing.assert_allclose(found[rest], want[rest], rtol=2.0**-14 if parts == 2 else 3e-7)


def test_two_parts_have_no_bias() -> None:
    """Errors of many products of one sign add up to almost nothing."""
    target = util.TARGETS[-1]
    rng = np.random.default_rng(4)
    k = 4096
    a, b = (np.exp(rng.uniform(-3, 3, s)).astype(np.float32) for s in ((1, 32, k), (1, k, 32)))
    layout = rows_layout(np.arange(32) * k, np.zeros(1, np.int64), k, 32)
    found = contract(AmxSpec(F32, F32, 2), target, layout, a, b, 32)
    want = a.astype(np.float64) @ b
    assert np.abs(found / want - 1).max() < 3e-6


def amx_target() -> Target:
    base = named_target("avx512")
    return dataclasses.replace(base, features=(*base.features, "amx-bf16", "amx-tile", "avx512bf16"))


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_inner_loop_in_registers(parts: int) -> None:
    """The loops over steps hold the tile instructions, and neither copies of tiles nor accesses of the stack."""
    text = toolchain.assembly(AmxSpec(F32, F32, parts).emit(amx_target()), amx_target(), AmxSpec.shaped)
    blocks = [block for block in text.split("\n.LBB") if "tdpbf16ps" in block]
    products = {1: 1, 2: 3, 3: 6}[parts]
    assert sorted(block.count("tdpbf16ps") for block in blocks) == [products * x for x in (1, 2, 2, 4)]
    for block in blocks:
        loop = block[: block.rindex("tdpbf16ps")]
        assert "tilestored" not in loop
        assert "(%rsp)" not in loop
    assert text.count("ldtilecfg") == 1
    assert text.count("tilerelease") == 1


def test_tiles_that_pass_by_the_cache() -> None:
    """All of B's loads carry the hint where A is to stay, and no other."""
    for passing, hints in ((False, 0), (True, 6)):
        text = toolchain.assembly(AmxSpec(F32, F32, 1, passing=passing).emit(amx_target()), amx_target(), True)
        assert text.count("tileloaddt1") == hints


@pytest.mark.parametrize("bad", [{"parts": 4}, {"a": BF16}, {"operands": ("n",)}, {"a": DType.I8}])
def test_bad_specs_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"parts|operands|bytes"):
        dataclasses.replace(AmxSpec(F32, F32, 2), **bad)  # type: ignore[arg-type]


@TARGETS
@pytest.mark.parametrize(
    ("m", "n", "k", "mb", "chunk"),
    [(16, 20, 32, 32, 0), (17, 33, 64, 32, 0), (33, 16, 96, 32, 0), (70, 100, 128, 32, 64), (45, 40, 32, 64, 0)],
)
def test_tiles_from_rows_themselves(target: Target, m: int, n: int, k: int, mb: int, chunk: int) -> None:
    rng = np.random.default_rng(m * n + k)
    length = k + 8
    a, b = (rng.uniform(-1, 1, s).astype(np.float32).astype(BF16.numpy) for s in ((2, m, length), (2, k, n)))
    layout = direct_layout(np.arange(m) * length + 3, k, mb, chunk)
    assert layout is not None
    left = a.reshape(2, -1)
    spec = AmxSpec(BF16, F32, 1, direct=True)
    found = contract(spec, target, layout, left, b, m, 64, checked=True)
    assert_close(found, a[:, :, 3 : 3 + k].astype(np.float64), b.astype(np.float64), 1)


def test_rows_that_tiles_cannot_be_loaded_from() -> None:
    assert direct_layout(np.arange(15) * 32, 32, 32) is None  # too few for a tile
    assert direct_layout(np.arange(20) * 40, 40, 32) is None  # the last step would read the next row
    assert direct_layout(np.arange(20) ** 2 * 32, 32, 32) is None  # not evenly spaced
