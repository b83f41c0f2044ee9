"""Rows rounded to 8 bits and their products with weights in few bits, against numpy."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

from MNN.backends.cpu.lowbit.emit_int8 import ROUNDED, Parts, parts_of, possible, tile_of
from MNN.backends.cpu.lowbit.emit_int8 import rounded as rounded_parts
from MNN.backends.cpu.lowbit.int8 import Int8Spec, half_of, is_wide, sums_bytes, sums_fours, words_at_once
from MNN.backends.cpu.lowbit.layout import SHIFT, Layout, layout_of
from MNN.backends.cpu.lowbit.rounded_rows import COARSE, RoundedRowsSpec, bytes_of_codes, bytes_of_row
from MNN.backends.cpu.targets import Target
from MNN.backends.cpu.targets.base import _host_target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.compiler.open.plan import SMALL
from MNN.errors import UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.quant import QuantizedArray
from MNN.ir.scalar import body_of
from tests.backends.cpu import util
from tests.backends.cpu.lowbit.test_lowbit import book, laid, weights
from tests.pairs import pairs
from tests.processors.processors import processors

F32, I8, I32 = DType.F32, DType.I8, DType.I32


def targets() -> list[Target]:
    """Those that sum products of bytes, where the machine at hand lacks that by emulation."""
    found = []
    for text in processors().values():
        with contextlib.suppress(UnsupportedError):  # no such vectors here
            found.append(_host_target(text or None))
    return [t for t in dict.fromkeys(found) if sums_bytes(t) and "amx-tile" not in t.features]


TARGETS = pytest.mark.parametrize("target", targets(), ids=lambda t: f"{t.vector_bytes} {t.emulated}")


def rounded(a: np.ndarray, blocks: int, run: int, steps: float = 127) -> tuple[np.ndarray, np.ndarray]:
    """What rows ``[m, k]`` become: whole numbers ``[m, blocks, run]`` and their scales ``[m, blocks]``."""
    wide = np.zeros((a.shape[0], blocks * run), np.float32)
    wide[:, : a.shape[1]] = a
    wide = wide.reshape(-1, blocks, run)
    most = np.abs(wide).max(-1)
    inverse = np.float32(steps) / np.where(most > 0, most, np.float32(np.inf))
    return np.rint(wide * inverse[..., None]), most / np.float32(steps)


def round_rows(target: Target, a: np.ndarray, layout: Layout, checked: bool, parts: Parts = ROUNDED) -> np.ndarray:
    """Rows of bytes, as the kernel makes them of rows that lie apart and out of order."""
    m, k = a.shape
    run = layout.groups * layout.steps
    depth = layout.blocks * run
    order = np.random.default_rng(1).permutation(m)
    spread = np.zeros((m, k + 3), a.dtype)
    spread[order, :k] = a
    rows = (order * (k + 3)).astype(np.int32)
    out = np.full((m, parts.number * bytes_of_row(depth, layout.blocks, parts.wide)), 7, np.uint8)
    slots = {
        "x": spread.ctypes.data, "rows_x": rows.ctypes.data, "y": out.ctypes.data, "row": out.shape[1], "m": m, "k": k,
        "blocks": layout.blocks, "run": run, "meta": bytes_of_codes(depth, parts.wide),
    }  # fmt: skip
    spec = RoundedRowsSpec(DType.of(a), layout.width, half_of(target, layout), *parts, layout.bits > layout.width)
    util.call(spec, target, slots, m, [spread, rows, out], checked)
    return out


def product(
    target: Target, w: QuantizedArray, a: np.ndarray, height: int, mb: int, nb: int, checked: bool = False,
    parts: Parts | None = None, entries: tuple[int, ...] = (), high: int = 0, expanded: bool = False,
) -> np.ndarray:  # fmt: skip
    (m, k), n = a.shape, w.shape[0]
    parts = parts or rounded_parts(target, w.width)
    layout, packed = laid(target, w, entries=entries, high=high)
    rows = round_rows(target, a, layout, checked, parts)
    c = np.full((m, n + 2), 7, np.float32)
    bias = np.arange(n, dtype=np.float32) / 1024  # small, so that adding it loses little
    body = body_of([F32, F32], lambda b, x, y: b("add", x, y))
    mr, nv = tile_of(target, min(m, height))
    more = {
        "width": layout.width,
        "codebook": bool(entries),
        "high": high,
        "expanded": expanded,
        "zeros": layout.zeros,
        "factors": layout.factors,
    }
    more |= {"parts": parts.number, "merged": parts.merged, "coarse": parts.coarse}
    more |= {"paired": parts.paired, "wide": parts.wide}
    more["words"] = words_at_once(target, layout.width, layout.groups, parts.wide)
    spec = Int8Spec(I8, I8, I32, F32, mr, nv, True, body, ("n",), 4, **more)
    arrays = {
        "a": rows, "b": packed, "c": c, "rows_a": (np.arange(m) * rows.shape[1]).astype(np.int32),
        "rows_c": (np.arange(m) * (n + 2)).astype(np.int32), "taps": np.zeros(1, np.int32),
        "batch": np.zeros((1, 4), np.int64), "op0": bias, **book(entries),
    }  # fmt: skip
    numbers = {
        "n_taps": 1, "k": k, "ldb": 0, "panel": 0, "m": m, "n": n, "n_batch": 1, "mb": mb, "nb": nb, "ub": mb,
        "blocks": layout.blocks, "groups": layout.groups,
        "meta": bytes_of_codes(layout.blocks * layout.groups * layout.steps, parts.wide),
        "part": rows.shape[1] // parts.number,
    }  # fmt: skip
    slots = numbers | {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, n, 1, mb, nb), list(arrays.values()), checked)
    assert (c[:, n:] == 7).all(), "wrote past the columns"
    return c[:, :n] - bias


def test_products_of_bytes_are_tried_on_some_target() -> None:
    assert targets()


@pairs(target=targets(), width=[2, 4, 8], zeros=["none", "i8", "offset"], height=[1, 3], half=[True, False])
def test_numbers_of_all_widths(target: Target, width: int, zeros: str, height: int, half: bool) -> None:
    for m, n, k, blocks in ((1, 70, 96, 3), (9, 130, 64, 2), (13, 16, 37, 1), (2, 65, 256, 1), (5, 40, 512, 2)):
        w = weights(n, k, width, blocks, zeros, half=half)
        layout = layout_of(target, k, width, blocks, zeros)
        if not possible(target, layout):
            assert not sums_bytes(target)
            continue
        a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
        a[0, : k // 2] = 0
        run = layout.groups * layout.steps
        steps = min(32767, (2**24 - 2**14) / run) if is_wide(target, width) else 127
        whole, scale = rounded(a, blocks, run, steps)
        back = (whole * scale[..., None].astype(np.float64)).reshape(m, -1)[:, :k]
        wide = w.dequantize().astype(np.float64).T
        expected, bound = back @ wide, np.abs(back) @ np.abs(wide) + 1e-6 * n
        for mb, nb, checked in ((m, -(-n // layout.columns) * layout.columns, False), (4, layout.columns, True)):
            found = product(target, w, a, height, mb, nb, checked)
            assert (np.abs(found - expected) / (bound + 1e-30)).max() <= 2e-5
        assert np.abs(back - a).max() <= np.abs(a).max() / (2 * steps) * 1.001


@TARGETS
def test_sizes_that_are_planned_alone_are_rounded_as_their_ranges_are(target: Target) -> None:
    """The room of the range of few rows is larger than any of its sizes."""
    layout = layout_of(target, 64, 4, 2)
    assert SMALL.room > SMALL.most + 1
    for rows in (2, SMALL.most, SMALL.most + 1, SMALL.room, SMALL.room + 1):
        parts = parts_of(target, layout, rows, 10)
        assert parts is not None
        assert parts.coarse == (rows > SMALL.most), rows


@pairs(target=targets(), form=[(2, 3), (4, 2), (4, 3), (8, 3)], zeros=["none", "i8", "offset"], height=[1, 3])
def test_rows_in_parts_lose_less(target: Target, form: tuple[int, int], zeros: str, height: int) -> None:
    """Each part makes the steps 254 times as fine, up to what f32 holds of the largest number of a block."""
    width, parts = form
    for m, n, k, blocks in ((1, 70, 96, 3), (7, 130, 64, 2), (2, 65, 256, 1)):
        w = weights(n, k, width, blocks, zeros)
        if sums_fours(target) and possible(target, layout_of(target, k, width, blocks, zeros)):
            for checked in (False, True):
                _loses_at_most(target, w, _uneven_rows(m, k), height, checked, Parts(parts), 127 * 254.0 ** (parts - 1))


@pairs(target=targets(), width=[2, 4, 8], zeros=["none", "i8", "offset"], height=[1, 3], parts=[2, 3])
def test_digits_become_one_number(target: Target, width: int, zeros: str, height: int, parts: int) -> None:
    """With codes of 4 bits, the last one is for two numbers. What is lost is a 2^20th of the largest number of a block,
    a 2^19th in blocks of 64; of two digits a 2^15th, or a 1904th where one is for two numbers; of rows of 16 bits a
    2^16th, but with codes of fewer bits as much as of two digits. And a row's sums do not depend on the rows beside it,
    nor on how many of them a tile has, nor on whether one row has digits where several have numbers of 16 bits."""
    for m, n, k, blocks in ((1, 70, 96, 3), (7, 130, 64, 2), (5, 65, 128, 2), (67, 33, 32, 2), (2, 16, 37, 1)):
        w = weights(n, k, width, blocks, zeros)
        row_bits = 12 if parts == 2 else 0
        paired = width == 4 and target.can(can.DOT4_UNSIGNED)
        kind, layout = Parts(parts, True, paired=paired), layout_of(target, k, width, blocks, zeros)
        chosen, of_one = (parts_of(target, layout, rows, row_bits) for rows in (m, 1))
        if row_bits and (is_wide(target, width) or not (sums_fours(target) or m == 1)):
            kind = Parts(1, wide=True)
        if chosen != kind:
            assert parts == 3
            assert not sums_fours(target) or (width == 4 and not paired)
            continue
        a = _uneven_rows(m, k)
        steps = 2.0**19 if k // blocks <= 32 else 2.0**18
        if parts == 2:
            steps = 1904 if paired else 32767 if is_wide(target, width) else 127 * 256
        found = [_loses_at_most(target, w, a, height, checked, kind, steps * 0.99) for checked in (False, True)]
        other = product(target, w, a[-1:], 1, 1, 1 << 10, False, of_one)
        assert (found[0] == found[1]).all()
        assert (other == found[0][-1]).all()


@pairs(target=targets(), width=[2, 4, 8], zeros=["none", "i8", "offset"], height=[1, 3])
def test_blocks_of_small_numbers_have_one_digit(target: Target, width: int, zeros: str, height: int) -> None:
    """They lose a 254th of their largest number, others as much as with two digits; and a row's sums do not depend on
    the rows beside it, which may have the second digit in other blocks."""
    for m, n, k, blocks in ((1, 70, 96, 3), (7, 130, 512, 8), (5, 65, 256, 8), (67, 33, 192, 3), (2, 16, 37, 1)):
        w = weights(n, k, width, blocks, zeros)
        kind = parts_of(target, layout_of(target, k, width, blocks, zeros), 100, 10)
        paired = width == 4 and target.can(can.DOT4_UNSIGNED)
        if is_wide(target, width):
            assert kind == Parts(1, wide=True)
            continue
        assert kind == Parts(2, True, True, paired)
        rng = np.random.default_rng(m)
        run = k // blocks
        a = (rng.normal(size=(m, k)) * np.repeat(rng.exponential(1, (m, blocks)), run, 1)).astype(np.float32)
        most = np.abs(a).reshape(m, blocks, run).max(-1)
        fine = most > COARSE * most.mean(1, keepdims=True)
        if m > 2:
            assert 0.05 < fine.mean() < 0.6
        steps = np.where(fine, 1904 if paired else 127 * 256, 127) * 0.99
        each = np.repeat(steps, run, 1)
        found = [_loses_at_most(target, w, a, height, checked, kind, each) for checked in (False, True)]
        assert (found[0] == found[1]).all()
        for row in range(m):
            other = product(target, w, a[row : row + 1], 1, 1, 1 << 10, False, kind)
            assert (other == found[0][row]).all()
        for bad in (np.inf, np.nan):
            spoilt = a.copy()
            spoilt[-1, -1] = bad
            lost = product(target, w, spoilt, height, m, 1 << 10, False, kind)
            assert np.isnan(lost[-1]).all()
            assert (lost[:-1] == found[0][:-1]).all()


def test_the_largest_sums_of_digits_stay_in_32_bits() -> None:
    """Numbers of one size and sign times the lowest codes and the highest."""
    for run, width, target in itertools.product((16, 32, 64), (2, 4, 8), targets()):
        paired = width == 4 and target.can(can.DOT4_UNSIGNED)
        kinds = [(Parts(2, True, paired=paired), 3e-4)]
        if is_wide(target, width):
            kinds = [(Parts(1, wide=True), 3e-5)]
        elif sums_fours(target) and (paired or width != 4):
            kinds.append((Parts(3, True, paired=paired), 1e-6))
        half = 1 << (width - 1)
        for code, size, height in itertools.product((-half, half - 1), (1.0, -1.0), (1, 3)):
            values = np.full((3, 2 * run), code, np.int8)
            w = QuantizedArray.of(values, np.ones((3, 2), np.float32), None, width, values.shape)
            a = np.full((2, 2 * run), size, np.float32)
            for parts, rtol in kinds:
                found = product(target, w, a, height, 2, 64, False, parts)
                assert np.allclose(found, 2 * run * code * size, rtol=rtol)


def _uneven_rows(m: int, k: int) -> np.ndarray:
    a = np.random.default_rng(m).normal(size=(m, k)).astype(np.float32)
    a[0, ::7] *= 1000
    return a


def _loses_at_most(
    target: Target, w: QuantizedArray, a: np.ndarray, height: int, checked: bool, parts: Parts,
    steps: float | np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The product, of rows that are off by at most half of a block's largest number over ``steps``, of each number if
    they are not the same for all."""
    (m, k), n, blocks = a.shape, w.shape[0], w.scale.shape[1]
    wide = w.dequantize().astype(np.float64).T
    run = -(-k // blocks)
    most = np.zeros((m, blocks * run))
    most[:, :k] = np.abs(a)
    most = np.repeat(most.reshape(m, blocks, run).max(-1), run, axis=1)[:, :k]
    bound = most / steps / 2 @ np.abs(wide) + 4e-7 * (
        np.abs(a).astype(np.float64) @ np.abs(wide) + n
    )  # f32's, and the bias
    found = product(target, w, a, height, m, 1 << 10, checked, parts)
    assert (np.abs(found - a.astype(np.float64) @ wide) / bound).max() <= 1
    return found


@TARGETS
def test_what_is_no_number_spoils_its_own_row_alone(target: Target) -> None:
    w = weights(20, 64, 4, 2, "none")
    if not possible(target, layout_of(target, 64, 4, 2, "none")):
        return
    a = np.ones((3, 64), np.float32)
    a[1, 40], a[2, 3] = np.inf, np.nan
    found = product(target, w, a, 3, 3, 256)
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1:]).any()


@TARGETS
def test_rows_of_other_types(target: Target) -> None:
    layout = layout_of(target, 64, 4, 2, "none")
    if not possible(target, layout):
        return
    a = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float16)
    found, plain = (round_rows(target, x, layout, True) for x in (a, a.astype(np.float32)))
    assert (found == plain).all()
    whole, scale = rounded(a.astype(np.float32), 2, 32)
    order = [8 * w + 2 * j + i for w in range(8) for i in range(2) for j in range(4)]
    assert (found[:, :64].view(np.int8) == whole.reshape(3, 64)[:, order]).all()
    numbers = found[:, bytes_of_codes(64) :].copy().view(np.float32)[:, :6].reshape(3, 2, 3)
    assert np.allclose(numbers[..., 0] * 2.0**SHIFT, scale, rtol=1e-6)
    assert np.allclose(numbers[..., 1] * 2.0**SHIFT, scale * whole.sum(-1), rtol=1e-6)
