"""Tables of bytes: every entry, tails, strides and blocks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.cpu.loops.lookup import LookupSpec
from MNN.backends.cpu.targets import Target, named_target
from tests.backends.cpu import qemu
from tests.backends.cpu.util import TARGETS, call, element_strides

RNG = np.random.default_rng(5)


def plain(target: Target) -> Target:
    """Without the instruction that permutes bytes."""
    features = tuple(f for f in target.features if f != "avx512vbmi")
    return dataclasses.replace(target, name=f"{target.name}-plain", features=features)


ALL = [*TARGETS, *(plain(t) for t in TARGETS if t.has("avx512vbmi"))]


def run(x: np.ndarray, out: np.ndarray, target: Target, chunk: int, calls: object = call, **more: object) -> None:
    """Looks up ``x`` in a random table and compares."""
    table = RNG.permutation(256).astype(np.uint8)
    spec = LookupSpec(x.ndim)
    slots = {f"extent{d}": n for d, n in enumerate(x.shape)}
    slots |= {"chunk": chunk, "table": table.ctypes.data, "in0": x.ctypes.data, "out0": out.ctypes.data}
    for name, array in (("in0", x), ("out0", out)):
        slots |= {f"{name}_s{d}": s for d, s in enumerate(element_strides(array)[:-1])}
    blocks = int(np.prod(x.shape[:-1])) * -(-x.shape[-1] // chunk)
    wanted = table[x]
    calls(spec, target, slots, blocks, [table, x, out], **more)  # type: ignore[operator]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("target", ALL, ids=lambda t: t.name)
@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 300])
def test_every_byte_and_tails(target: Target, n: int) -> None:
    x = np.resize(np.arange(256, dtype=np.uint8), (3, n))
    for chunk in (n, 100):
        run(x, np.zeros_like(x), target, chunk, checked=True)
        run(x, np.zeros_like(x), target, chunk)


@pytest.mark.parametrize("target", ALL, ids=lambda t: t.name)
def test_strides_and_in_place(target: Target) -> None:
    wide = RNG.integers(0, 256, (2, 5, 90)).astype(np.uint8)
    to = np.full((2, 7, 100), 9, np.uint8)
    run(wide[:, :, 3:80], to[:, 1:6, :77], target, 32)
    assert (to[:, :, 77:] == 9).all()
    assert (to[:, 0] == 9).all()
    run(wide, wide, target, 90)


def test_aarch64() -> None:
    qemu.need_tools()
    x = np.resize(np.arange(256, dtype=np.uint8), (2, 77))
    run(x, np.zeros_like(x), named_target("neon"), 77, qemu.call)
