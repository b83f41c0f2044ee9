"""Padding as programs, against the reference implementation: borders that are one frame, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.program import Program
from MNN.backends.cpu.loops.frame import FrameSpec
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import check


def padded(x: np.ndarray, low: tuple[int, ...], high: tuple[int, ...], value: float = 0, threads: int = 1) -> Program:
    """What gives the operand writes into the middle, so that the border is all that padding has to do."""

    def build(b: Builder, t: Tensor) -> Tensor:
        return b.pad(b.op("add", t, t), low, high, value)

    return check(build, x, tol=0, threads=threads)


def frames(program: Program) -> int:
    return sum(isinstance(c.kernel, FrameSpec) for c in program.commands)


SHAPE = (2, 3, 9, 40)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value", [0.0, -0.0, 2.5, float("-inf")])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        ((0, 0, 1, 2), (0, 0, 3, 4)),
        ((0, 0, 0, 1), (0, 0, 0, 0)),
        ((0, 0, 2, 0), (0, 0, 0, 0)),
        ((0, 1, 0, 2), (0, 0, 0, 0)),
        ((1, 0, 0, 0), (2, 0, 0, 0)),
        ((0, 4, 0, 0), (0, 1, 0, 0)),
    ],
)
def test_borders_of_one_or_two_dimensions_are_one_command(
    low: tuple[int, ...], high: tuple[int, ...], value: float, threads: int
) -> None:
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    found = padded(x, low, high, value, threads)
    assert (frames(found), len(found.commands)) == (1, 2)


def test_borders_of_three_dimensions_follow_one_another() -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    assert frames(padded(x, (0, 1, 1, 1), (0, 1, 1, 1), 7)) == 0


_EMPTY = [((0, 2, 3), (0, 0, 2), (1, 0, 1)), ((2, 0, 3), (1, 1, 2), (1, 0, 1))]


@pytest.mark.parametrize(("shape", "low", "high"), _EMPTY)
def test_axes_of_one_that_are_border_alone(shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...]) -> None:
    """Around a tensor without elements all is border, which an axis of size 1 does not show."""
    check(lambda b, t: b.pad(t, low, high, 7), np.zeros(shape, np.float32), tol=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16, np.float64, np.bool_])
def test_all_sizes_of_elements(dtype: type) -> None:
    x = np.random.default_rng(0).integers(0, 2, (3, 7, 33)).astype(dtype)

    def build(b: Builder, t: Tensor) -> Tensor:
        return b.pad(t, (0, 2, 3), (0, 1, 31), 1)

    assert frames(check(build, x, tol=0)) == 1


def test_pixels_apart() -> None:
    """Pixels that depthwise convolutions read have room between them, which is no part of the border."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 512, 6, 6)).astype(np.float32)
    w = rng.normal(size=(512, 1, 3, 3)).astype(np.float32)

    def build(b: Builder, t: Tensor) -> Tensor:
        return b.conv(b.pad(b.op("add", t, t), (0, 0, 1, 1), (0, 0, 1, 1)), b.const(w), (1, 1), (1, 1), 512, (0,) * 4)

    (frame,) = (c for c in check(build, x).commands if isinstance(c.kernel, FrameSpec))
    assert frame.kernel.apart


def test_large_borders_are_shared_between_workers() -> None:
    x = np.ones((1, 8, 64, 512), np.float32)
    found = padded(x, (0, 0, 16, 512), (0, 0, 16, 512), 3, threads=2)
    (frame,) = (c for c in found.commands if isinstance(c.kernel, FrameSpec))
    assert frame.blocks > 8


def test_nothing_within_the_border() -> None:
    x = np.zeros((2, 0, 3), np.float32)
    check(lambda b, t: b.pad(t, (0, 2, 1), (0, 1, 0), 5), x, tol=0)
