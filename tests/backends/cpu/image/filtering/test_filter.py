"""Filters of pictures against sums in numpy: every type, borders, bands, odd sizes, each target, checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.filtering.filter import FilterSpec, Reduction
from MNN.backends.cpu.image.filtering.spans import doublings
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call

U8, U16, I16, F32 = DType.U8, DType.U16, DType.I16, DType.F32
SPECS = [
    FilterSpec(U8, U16, U16, U8, True, Reduction.WEIGHTED, True),
    FilterSpec(U8, U16, F32, U8, True, Reduction.WEIGHTED, True),
    FilterSpec(U8, I16, I16, I16, True, Reduction.WEIGHTED, True),
    FilterSpec(U8, U16, U16, F32, True, Reduction.SUM, False),
    FilterSpec(U8, U16, U16, U8, True, Reduction.SUM, True, True),
    FilterSpec(F32, F32, F32, F32, True, Reduction.WEIGHTED, False),
    FilterSpec(U8, F32, F32, F32, True, Reduction.SUM, False, squared=True),
    FilterSpec(I16, F32, F32, U8, False, Reduction.WEIGHTED, False),
    FilterSpec(U16, U16, U16, U16, True, Reduction.MAX, False),
    FilterSpec(U8, U8, U8, U8, False, Reduction.MIN, False),
    FilterSpec(F32, F32, F32, F32, False, Reduction.MIN, False),
    FilterSpec(U8, U16, F32, U8, True, Reduction.SUM, False, running=True),
    FilterSpec(U8, F32, F32, F32, True, Reduction.SUM, False, squared=True, running=True),
    FilterSpec(U8, U8, U8, U8, True, Reduction.MIN, False, running=True),
    FilterSpec(F32, F32, F32, F32, True, Reduction.MAX, False, running=True),
]
SIZES = [(1, 1, 1), (7, 5, 3), (12, 150, 4), (5, 131, 1)]


def _reduced(parts: list[np.ndarray], weights: list[float], how: Reduction) -> np.ndarray:
    if how in (Reduction.MIN, Reduction.MAX):
        return np.stack(parts).min(0) if how is Reduction.MIN else np.stack(parts).max(0)
    return sum(p * (1 if how is Reduction.SUM else w) for w, p in zip(weights, parts, strict=True))


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.key())
def test_filter(spec: FilterSpec, target: Target, checked: bool) -> None:
    for number, (height, width, channels) in enumerate(SIZES):
        random = np.random.default_rng(number)
        source = (random.random((height, width * channels)) * 255).astype(spec.source.numpy)
        left, right, top, bottom = (int(n) for n in random.integers(0, 12 if spec.running else 3, 4))
        rows = random.integers(-1, height, height + top + bottom).astype(np.int32)
        edges = random.integers(-channels, width * channels, (left + right) * channels).astype(np.int32)
        blank = (random.random(width * channels) * 255).astype(spec.source.numpy)
        wide = []
        for row in rows.tolist():
            line = blank if row < 0 else source[row]
            outside = [blank[-1 - at] if at < 0 else line[at] for at in edges.tolist()]
            wide.append([*outside[: left * channels], *line, *outside[left * channels :]])
        seen = np.array(wide, np.float64) ** (2 if spec.squared else 1)
        kernel = (top + bottom + 1, left + right + 1)
        whole = spec.middle is not F32
        x, y = (random.integers(-2 * spec.middle.is_signed, 3, n).astype(np.float64) for n in kernel[::-1])
        if not whole:
            x, y = x + 0.25, y - 0.5
        n = width * channels
        x_offsets, x_taps = np.arange(kernel[1]) * channels, kernel[1]
        if spec.running:
            steps = doublings(kernel[1], spec.reduction is Reduction.SUM)
            x_offsets = np.array([(a * channels, m * channels, n + rest * channels) for a, m, rest in steps], np.int64)
            x_taps = len(steps)
        if spec.across:
            x_parts = [seen[:, j * channels : j * channels + n] for j in range(kernel[1])]
            middle = _reduced(x_parts, x.tolist(), spec.reduction)
            taps = [(i, 0, y[i]) for i in range(kernel[0])]
        else:
            middle, taps = seen, [(i, j * channels, y[i] + j) for i in range(kernel[0]) for j in range(kernel[1])]
        parts = [middle[i : i + height, j : j + n] for i, j, _ in taps]
        want = _reduced(parts, [t[2] for t in taps], spec.reduction)
        if spec.shifted:
            want = np.floor((np.floor((want + 2) * 40000 / 65536) if spec.factored else want + 2) / 4)
        elif spec.reduction in (Reduction.WEIGHTED, Reduction.SUM):
            want = want * 0.5 + 3
        if spec.result is not F32:
            info = np.iinfo(spec.result.numpy)
            want = np.clip(np.rint(want), info.min, info.max)
        out = np.full((height, n + 3), 7, spec.result.numpy)
        tables = {
            "src": source, "rows": rows, "blank": blank, "edges": edges, "first": np.arange(height, dtype=np.int32),
            "x_offsets": x_offsets, "x_weights": x.astype(spec.middle.numpy), "out": out,
            "tap_rows": np.array([t[0] for t in taps]), "offsets": np.array([t[1] for t in taps]),
            "weights": np.array([t[2] for t in taps]).astype(spec.total.numpy),
        }  # fmt: skip
        half, three = (int(np.float32(v).view(np.int32)) for v in (0.5, 3))
        slots = {
            "src_row": n, "before": left * channels, "behind": right * channels, "elements": n, "out_row": n + 3,
            "height": height, "band": 5, "x_taps": x_taps, "taps": len(taps), "half": 2, "shift": 2, "factor": 40000,
            "scale": half, "delta": three, **{name: table.ctypes.data for name, table in tables.items()},
            **spec.places(target, n, (left + right) * channels, len(taps), kernel[0]),
        }  # fmt: skip
        call(spec, target, slots, -(-height // 5), list(tables.values()), checked)
        error = np.abs(out[:, :n] - want).max()
        assert error <= (1e-3 if spec.result is F32 else 0), (height, width, channels)
        assert (out[:, n:] == 7).all()
