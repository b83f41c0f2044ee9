"""Tensors in the arena as planes of rows of bytes, against numpy's strided views."""

from __future__ import annotations

import math

import numpy as np
import pytest

from MNN.backends.base.open_words import Shape
from MNN.backends.cpu.binding.rows import rows_of
from MNN.ir.symbolic import evaluate, parse


def _read(memory: np.ndarray, found: tuple[int, ...], plane_stride: int, row_stride: int) -> bytes:
    planes, rows, nbytes = found
    starts = [p * plane_stride + r * row_stride for p in range(planes) for r in range(rows)]
    return b"".join(memory[at : at + nbytes].tobytes() for at in starts)


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_what_a_view_reads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = np.dtype(rng.choice(["u1", "f4", "f8"]))
    rank = int(rng.integers(0, 5))
    names = ("a", "b")
    values = {name: int(rng.integers(0, 6)) for name in names}
    shape: list[int | str] = [int(n) for n in rng.choice([1, 1, 2, 3, 5], rank)]
    for name in names[: int(rng.integers(0, 3))]:
        if rank:
            shape[int(rng.integers(rank))] = str(rng.choice([name, f"{name} + 1"]))
    real = [evaluate(parse(n), values) if isinstance(n, str) else n for n in shape]
    room = [n if isinstance(n, int) else 8 + int(rng.integers(2)) for n in shape]
    strides, step = [0] * rank, 1
    for i in range(rank)[::-1]:
        strides[i], step = step, step * room[i]
    memory = rng.integers(0, 255, 2 * step * kind.itemsize + 64).astype(np.uint8)
    rows = rows_of(tuple(shape), strides, kind.itemsize)
    gaps = sum(isinstance(n, str) for n in shape)
    assert rows is not None or gaps > 2
    if rows is not None:
        view = np.lib.stride_tricks.as_strided(
            memory[: len(memory) // kind.itemsize * kind.itemsize].view(kind),
            real,
            [s * kind.itemsize for s in strides],
        )
        extents = tuple([evaluate(parse(n), values) if isinstance(n, str) else n for n in rows.extents])
        assert math.prod(extents) == view.nbytes
        assert _read(memory, extents, rows.plane_stride, rows.row_stride) == view.tobytes()


@pytest.mark.parametrize(
    ("shape", "strides"), [((4, 3), (1, 4)), ((2, 3, 4), (12, 1, 3)), ((2, 2, 2, 2), (80, 30, 10, 1)), ((3,), (2,))]
)
def test_other_orders_and_more_gaps_are_left_to_numpy(shape: Shape, strides: tuple[int, ...]) -> None:
    assert rows_of(shape, strides, 4) is None
