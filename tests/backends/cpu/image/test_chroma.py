"""Shared chroma against the same in numpy: where bytes lie, orders, tails of rows, blocks; checked builds."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.image.chroma import DARK, FROM_CHROMA, LUMA, MIDDLE, SHIFT, TO_YUV, FromChromaSpec, ToChromaSpec
from MNN.backends.cpu.image.color import NEW
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import TARGETS, call

HALF = 1 << (SHIFT - 1)
SPECS = [
    (FromChromaSpec((0, 1), (0, 1, 2), (2, 1, 0)), 1),
    (FromChromaSpec((0, 1), (0, 0, 1), (0, 1, 2, NEW)), 1),
    (FromChromaSpec((1, 2), (2, 0, 4), (0, 1, 2)), 0),
]


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("spec", "shift"), SPECS, ids=["pairs", "planes", "packed"])
def test_from_chroma(spec: FromChromaSpec, shift: int, target: Target, checked: bool) -> None:
    random = np.random.default_rng(1)
    for height, width in ((2, 2), (6, 46)):
        step, (first, apart) = spec.chroma[2], spec.luma
        luma = random.integers(0, 256, (height, width * apart)).astype(np.uint8)
        u = random.integers(0, 256, (height >> shift, width // 2 * step)).astype(np.uint8)
        v = u[::-1].copy() if step == 1 else u
        u = luma if step == 4 else u
        out = np.full((height * width + 1, len(spec.order)), 7, np.uint8)
        arrays = {"luma": luma, "u": u, "v": v, "out": out}
        slots = {"luma_row": width * apart, "chroma_row": width // 2 * step, "shift": shift, "width": width,
                 "out_row": width * len(spec.order), "height": height, "band": 4,
                 **{name: a.ctypes.data for name, a in arrays.items()}}  # fmt: skip
        call(spec, target, slots, -(-height // 4), list(arrays.values()), checked)
        planes = (u, v) if step == 1 else (u, u)
        both = [p[:, place::step].astype(int) - MIDDLE for p, place in zip(planes, spec.chroma, strict=False)]
        both = [np.repeat(np.repeat(p, 1 + shift, 0), 2, 1) for p in both]
        y = np.maximum(luma[:, first::apart].astype(int) - DARK, 0) * LUMA + HALF
        found = [np.clip((y + a * both[0] + b * both[1]) >> SHIFT, 0, 255) for a, b in FROM_CHROMA]
        want = np.stack([np.full_like(y, 255) if c == NEW else found[c] for c in spec.order], 2)
        np.testing.assert_array_equal(out[:-1].reshape(want.shape), want)
        assert (out[-1] == 7).all()


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("spec", [ToChromaSpec(3, (2, 1, 0)), ToChromaSpec(4, (0, 1, 2))], ids=["three", "four"])
def test_to_chroma(spec: ToChromaSpec, target: Target, checked: bool) -> None:
    random = np.random.default_rng(2)
    for height, width in ((2, 2), (6, 46)):
        source = random.integers(0, 256, (height, width, spec.inputs)).astype(np.uint8)
        source[0] = 255
        rgb = source[:, :, spec.order].astype(int)
        full, *quarter = (np.array(weights) for weights in TO_YUV)
        want = [((rgb @ full + HALF + (DARK << SHIFT)) >> SHIFT).ravel()]
        want += [((rgb[::2, ::2] @ w + HALF + (MIDDLE << SHIFT)) >> SHIFT).ravel() for w in quarter]
        out = [np.full(w.size + 1, 7, np.uint8) for w in want]
        arrays = dict(zip(("src", "luma", "u", "v"), (source, *out), strict=True))
        slots = {"src_row": width * spec.inputs, "width": width, "pairs": height // 2, "band": 2,
                 **{name: a.ctypes.data for name, a in arrays.items()}}  # fmt: skip
        call(spec, target, slots, -(-height // 4), list(arrays.values()), checked)
        for found, wanted in zip(out, want, strict=True):
            np.testing.assert_array_equal(found, [*np.clip(wanted, 0, 255), 7])
