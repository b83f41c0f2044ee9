"""Averages of windows over bytes: sums of integers where the byte is the same whatever is rounded on the way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from MNN.compiler.integers.byte_windows import with_byte_windows
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.builder import Builder
from MNN.ops.quantized.quantization import saturated
from MNN.reference.scalar import evaluate

from ..checks import built, check

F32, I32, U8, I8 = DType.F32, DType.I32, DType.U8, DType.I8
Point = tuple[float, int]
"""A scale and a zero point."""


def average(
    b: Builder, x: Tensor, source: Point, to: Point, kernel: Sequence[int], moves: Sequence[Sequence[int]], pads: int
) -> tuple[Tensor, Tensor]:
    """Restored, padded, averaged and quantised; the sums in floats, too. ``moves``: strides and dilations."""

    def restored(s: BodyBuilder, q: int) -> int:
        whole = s.cast(s("sub", s.cast(q, I32), s.const(source[1], I32)), F32)
        return s("mul", whole, s.const(source[0], F32))

    real = b.map(restored, x)
    ends = (0, 0, *[pads] * len(kernel))
    sums = b.window("sum", b.pad(real, ends, ends, 0) if pads else real, kernel, *moves)
    mean = b.map(lambda s, v: s("mul", v, s.const(1 / np.prod(kernel), F32)), sums)
    quantised = b.map(lambda s, v: saturated(s, s("div", v, s.const(to[0], F32)), to[1], x.dtype), mean)
    return quantised, sums


def is_of_integers(prims: Sequence[p.Prim], outputs: Sequence[Tensor]) -> bool:
    found, _ = with_byte_windows(prims, outputs)
    return not any(isinstance(prim, p.Window) for prim in found)


@pytest.mark.parametrize("dtype", [U8, I8], ids=lambda d: d.value)
def test_programs_give_the_bytes_that_floats_give(dtype: DType) -> None:
    rng, changed = np.random.default_rng(3), 0
    info = np.iinfo(dtype.numpy.str)
    for case in range(6):
        rank = (2, 1, 2, 3)[case % 4]
        kernel = [int(n) for n in rng.choice([1, 3, 5] if case < 4 else [2, 4], rank)]
        moves = [[int(n) for n in rng.integers(1, 3, rank)] for _ in range(2)]
        channels = int(rng.choice([3, 16, 50, 64, 90]))
        scale = float(np.float32(rng.uniform(0.005, 0.1)))
        source = scale, int(rng.choice([info.min, 0, rng.integers(info.min, info.max)]))
        to = (scale if case % 2 else float(np.float32(scale * rng.uniform(0.5, 1.5)))), int(rng.integers(info.min, 100))
        shape = (2, channels, *[int(n) for n in rng.integers(10, 14, rank)])
        x = rng.integers(info.min, info.max + 1, shape).astype(dtype.numpy)
        x[0, : channels // 2] = rng.choice([info.min, source[1], info.max], x[0, : channels // 2].shape)
        pads = int(rng.integers(0, 2))

        def build(b: Builder, x: Tensor) -> Tensor:
            return average(b, x, source, to, kernel, moves, pads)[0]  # noqa: B023 - called at once

        check(build, x, tol=0.0)
        b, _, outputs, _ = built(build, x)
        changed += is_of_integers(b.prims, outputs)
    assert 3 <= changed < 6, "some follow from sums, and ties stay as they are"


def of_numbers(source: Point, to: Point, taps: int, dtype: DType) -> p.Map | None:
    """What the sum of so many integers becomes, where it is enough."""
    b, x = Builder(), Tensor(dtype, (1, 1, taps, 1))
    quantised, _ = average(b, x, source, to, (taps, 1), ((1, 1), (1, 1)), 0)
    found, _ = with_byte_windows(b.prims, [quantised])
    last = found[-1]
    assert isinstance(last, p.Map)
    return last if last.body.args == (I32,) else None


def bytes_of(source: Point, to: Point, x: np.ndarray, dtype: DType) -> np.ndarray:
    """ONNX's DequantizeLinear, an average, and QuantizeLinear in numpy, one number after the other."""
    info, total = np.iinfo(dtype.numpy.str), np.zeros(x.shape[1:], np.float32)
    for row in x:
        total = total + (row.astype(np.float32) - np.float32(source[1])) * np.float32(source[0])
    whole = np.rint(total * np.float32(1 / len(x)) / np.float32(to[0])) + to[1]
    return np.clip(whole, info.min, info.max).astype(dtype.numpy)


def test_every_group_of_integers_gives_the_byte_it_gave() -> None:
    rng, found = np.random.default_rng(5), 0
    for case in range(24):
        dtype, taps = (U8, I8)[case % 2], (2, 3, 7, 9)[case // 2 % 4]
        info = np.iinfo(dtype.numpy.str)
        scale = float(np.float32(np.exp(rng.normal() - 3)))
        source = scale, int(rng.choice([info.min, info.max, 3]))
        to = float(np.float32(scale * rng.choice([1.0, rng.uniform(0.3, 1.2)]))), int(rng.integers(info.min, info.max))
        last = of_numbers(source, to, taps, dtype)
        if last is None:
            continue
        found += 1
        if taps == 2:
            x = np.stack([a.ravel() for a in np.meshgrid(*[np.arange(info.min, info.max + 1)] * 2)])
        else:
            x = rng.integers(info.min, info.max + 1, (taps, 50_000))
            x[:, :2000] = np.sort(x[:, :2000], 0)
        (got,) = evaluate(last.body, [x.sum(0, dtype=np.int32)])
        np.testing.assert_array_equal(got, bytes_of(source, to, x, dtype))
    assert found >= 12, "hardly ever found"


def test_ties_and_what_is_seen_from_outside_stay() -> None:
    assert of_numbers((0.05, 7), (0.05, 7), 4, U8) is None, "sums of four end on ties"
    assert of_numbers((0.05, 7), (0.05, 7), 9, U8) is not None
    b, x = Builder(), Tensor(U8, (1, 4, 9, 9))
    quantised, sums = average(b, x, (0.05, 7), (0.05, 7), (3, 3), ((1, 1), (1, 1)), 1)
    assert is_of_integers(b.prims, [quantised])
    assert not is_of_integers(b.prims, [quantised, sums])
    before = [list(prim.inputs) for prim in b.prims]
    with_byte_windows(b.prims, [quantised])
    assert [list(prim.inputs) for prim in b.prims] == before
    assert quantised.producer is b.prims[-1], "others' primitives are not changed"
