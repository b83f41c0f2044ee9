"""What the windows of a convolution read."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from MNN.backends.cpu.products.blocks import choose_blocks
from MNN.backends.cpu.products.geometry import Window
from MNN.backends.cpu.targets import named_target


def _window(draw: np.random.Generator, axes: int) -> Window:
    kernel, strides, dilations, outputs = (
        tuple(int(n) for n in draw.integers(1, most + 1, axes)) for most in (4, 3, 3, 6)
    )
    inputs = tuple(
        (o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(outputs, strides, kernel, dilations, strict=True)
    )
    return Window(1, outputs, inputs, kernel, strides, dilations, 0, (0,) * axes, 1)


def _counted(window: Window, rows: int) -> int:
    """Positions that the first ``rows`` outputs read, one by one."""
    every = itertools.islice(itertools.product(*map(range, window.outputs)), rows)
    taps = list(itertools.product(*map(range, window.kernel)))
    return len(
        {
            tuple(o * s + t * d for o, s, t, d in zip(out, window.strides, tap, window.dilations, strict=True))
            for out in every
            for tap in taps
        }
    )


@pytest.mark.parametrize("seed", range(6))
def test_positions_are_about_those_that_outputs_read(seed: int) -> None:
    """No fewer, no more than each window by itself and, of lines that are whole, what lies between their ends."""
    draw = np.random.default_rng(seed)
    for axes in (1, 2, 3):
        window = _window(draw, axes)
        line = int(np.prod(window.outputs[1:]))
        taps = int(np.prod(window.kernel))
        for rows in range(1, line * window.outputs[0] + 1):
            found = window.reads(rows)
            assert _counted(window, rows) <= found
            assert rows % line or found <= min(rows * taps, int(np.prod(window.inputs)))
        whole = line * window.outputs[0]
        most = int(draw.integers(1, whole * taps))
        rows = window.rows_within(most, whole)
        assert rows == 0 or window.reads(rows) <= most
        assert rows == whole or window.reads(rows + 1) > most


@pytest.mark.parametrize("name", ["avx2", "avx512", "neon"])
def test_blocks_of_windows_have_the_rows_that_stay_in_the_cache(name: str) -> None:
    """Windows of 7x3 share all but a few lines; as many values that lie apart leave room for few rows."""
    target = named_target(name)
    window = Window(1, (60, 40), (66, 42), (7, 3), (1, 1), (1, 1), 0, (0, 0), 64)
    tile = (4, 2)
    m, n, k = 2400, 240, 21 * 64
    apart, shared = (choose_blocks(target, m, n, k, 1, tile, window=w)[0] for w in (None, window))
    assert shared >= 3 * apart
    assert window.reads(shared - shared % 40) * 64 * 4 <= target.l2_bytes // 2


def test_blocks_have_many_tiles_where_asking_for_weights_costs_more_than_it_gains() -> None:
    asks = named_target("avx2")
    in_vain = dataclasses.replace(asks, asks_in_vain=True)
    few, many = (choose_blocks(target, 1350, 240, 3892, 1, (6, 2))[0] for target in (asks, in_vain))
    assert few <= 8 * 6 < 12 * 6 <= many
    assert choose_blocks(in_vain, 20, 240, 3892, 1, (6, 2))[0] <= 24
