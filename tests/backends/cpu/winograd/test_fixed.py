"""Winograd's method in fixed point: errors against float64, the ends of the range, and where it is taken."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

from MNN.backends.cpu.targets import host_target, named_target
from MNN.backends.cpu.winograd.cost import plans
from MNN.backends.cpu.winograd.fixed import CHUNK, FixedLayout, applies, largest, pack_fixed
from MNN.backends.cpu.winograd.points import filtering
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.backends.cpu.winograd.sums import Work
from MNN.ir.dtype import DType
from MNN.ir.scalar import body_of
from tests.backends.cpu import util

TARGET = host_target()
PLAIN = WinogradSpec(4, 4, 3, 3, 4, 2, False, True, True, x=DType.BF16, fixed=True)
pytestmark = pytest.mark.skipif(not applies(TARGET, 8), reason="no products of pairs of 16 bits")


def run(
    spec: WinogradSpec,
    shape: tuple[int, int, int, int],
    n: int,
    x: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    group: int = 3,
    panels: int = 1,
    checked: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's outputs for ``shape`` = images, rows, columns of outputs and channels, and those in float64."""
    images, oh, ow, c = shape
    rng = np.random.default_rng(oh * 100 + ow + c)
    h, w = spec.stride * (oh - 1) + spec.rh, spec.stride * (ow - 1) + spec.rw
    if weights is None:
        weights = (rng.normal(size=(n, c, spec.rh, spec.rw)) / np.sqrt(c * spec.rh * spec.rw)).astype(np.float32)
    if x is None:
        x = np.maximum(rng.normal(size=(images, h, w, c)), 0)
    memory = np.zeros((images, h, w, c + 2), ml_dtypes.bfloat16)  # pixels further apart than their channels
    memory[..., :c] = x
    x = memory[..., :c].astype(np.float64)
    y = np.full((images, oh, ow, n + 1), 5, np.float32)
    xs, ys = util.element_strides(memory), util.element_strides(y)
    tiles = np.array(
        [
            [z * xs[0] + spec.stride * (i * xs[1] + j * xs[2]), h - 1 - spec.stride * i, w - 1 - spec.stride * j,
             z * ys[0] + i * ys[1] + j * ys[2], min(spec.mh, oh - i), min(spec.mw, ow - j)]
            for z in range(images)
            for i in range(0, oh, spec.mh)
            for j in range(0, ow, spec.mw)
        ],
        np.int32,
    )  # fmt: skip
    nr = spec.nr(TARGET)
    layout = FixedLayout(spec.filterings, c, n, nr)
    packed = np.zeros(layout.nbytes + 64, np.uint8)
    packed = packed[-packed.ctypes.data % 64 :][: layout.nbytes]
    pack_fixed(weights, layout, packed)
    at = packed.ctypes.data
    slots = {
        "x": memory.ctypes.data, "u": at, "scales": at + layout.scales, "factors": at + layout.factors,
        "y": y.ctypes.data, "tiles": tiles.ctypes.data, "n_tiles": len(tiles), "group": group, "c": c, "n": n,
        "n_block": panels * nr, "chunk": CHUNK // 2 if spec.chunked else 1, "row_x": xs[1], "col_x": xs[2],
        "row_y": ys[1], "col_y": ys[2],
    }  # fmt: skip
    blocks = spec.blocks(len(tiles), group, n, panels * nr)
    util.call(spec, TARGET, slots, blocks, [memory, packed, y, tiles], checked)
    assert (y[..., n:] == 5).all(), "wrote past the channels"
    exact = np.zeros((images, oh, ow, n))
    for i in range(spec.rh):
        for j in range(spec.rw):
            exact += x[:, i :: spec.stride, j :: spec.stride][:, :oh, :ow] @ weights[:, :, i, j].T.astype(np.float64)
    return y[..., :n].astype(np.float64), exact


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


@pytest.mark.parametrize(("m", "oh", "ow"), [(2, 1, 1), (2, 5, 4), (3, 7, 5), (4, 7, 9), (4, 8, 8)])
@pytest.mark.parametrize("c", [8, 24, 32, 72])
def test_tiles_and_edges(m: int, oh: int, ow: int, c: int) -> None:
    spec = dataclasses.replace(PLAIN, mh=m, mw=m, chunked=c > CHUNK)
    assert error(*run(spec, (2, oh, ow, c), 21)) < 2e-3


@pytest.mark.parametrize(
    ("mh", "mw", "rh", "rw"),
    [(1, 2, 1, 3), (4, 1, 3, 1), (1, 4, 1, 5), (3, 1, 7, 1), (2, 2, 5, 5), (2, 4, 3, 3)],
)
@pytest.mark.parametrize("tile", [(6, 4), (8, 2), (1, 1)])
def test_windows(mh: int, mw: int, rh: int, rw: int, tile: tuple[int, int]) -> None:
    spec = dataclasses.replace(PLAIN, mh=mh, mw=mw, rh=rh, rw=rw, mr=tile[0], nv=tile[1], chunked=True)
    assert error(*run(spec, (1, 9, 11, 136), 70, panels=2)) < 4e-3


@pytest.mark.parametrize(("mh", "mw", "rh", "rw"), [(2, 2, 3, 3), (3, 3, 3, 3), (1, 5, 1, 3), (3, 1, 3, 1)])
@pytest.mark.parametrize("c", [24, 136])
def test_strides(mh: int, mw: int, rh: int, rw: int, c: int) -> None:
    spec = dataclasses.replace(PLAIN, mh=mh, mw=mw, rh=rh, rw=rw, stride=2, mr=6, nv=4, chunked=c > CHUNK)
    assert error(*run(spec, (2, 7, 8, c), 70, panels=2)) < 2e-3


def test_error_is_that_of_plain_products_of_bf16() -> None:
    rng = np.random.default_rng(2)
    for c in (64, 256):
        w = (rng.normal(size=(64, c, 3, 3)) / np.sqrt(9 * c)).astype(np.float32)
        found, exact = run(dataclasses.replace(PLAIN, chunked=True), (1, 16, 16, c), 64, weights=w, checked=False)
        rounded = run(PLAIN, (1, 16, 16, c), 64, weights=w.astype(ml_dtypes.bfloat16).astype(np.float32))[1]
        assert error(found, exact) < 1.2 * error(rounded, exact)


@pytest.mark.parametrize("sign", [1, -1])
def test_largest_sums_do_not_overflow(sign: int) -> None:
    """All inputs and weights alike make every sum of the position that adds them all as large as it can be."""
    w = np.ones((32, 192, 3, 3), np.float32)
    x = np.full((1, 10, 10, 192), sign * 3e30)
    found, exact = run(dataclasses.replace(PLAIN, chunked=True), (1, 8, 8, 192), 32, x, w)
    np.testing.assert_allclose(found, exact, rtol=5e-3)


def test_scales_of_tiles_and_channels() -> None:
    """Tiles of other magnitudes, zeros, and channels whose weights make up for their magnitude."""
    rng = np.random.default_rng(3)
    x = np.maximum(rng.normal(size=(1, 14, 10, 64)), 0)
    by = np.exp2(rng.integers(-12, 12, 64))
    w = (rng.normal(size=(20, 64, 3, 3)) / by[:, None, None]).astype(np.float32)
    w[:, 5] = 0
    x[:, :6] *= 1e-12
    x[:, 9:] = 0
    found, exact = run(PLAIN, (1, 12, 8, 64), 20, x * by, w)
    assert error(found[:, :4], exact[:, :4]) < 3e-3
    assert error(found[:, 4:8], exact[:, 4:8]) < 3e-3
    assert (found[:, 9:] == 0).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_none(value: float) -> None:
    """A tile that holds one gives NaN, others what they give without."""
    x = np.maximum(np.random.default_rng(4).normal(size=(1, 14, 10, 40)), 0)
    plain = run(PLAIN, (1, 12, 8, 40), 20, x)[0]
    x[0, 0, 0, 3], x[0, 13, 9, 39] = value, value
    found = run(PLAIN, (1, 12, 8, 40), 20, x)[0]
    assert np.isnan(found[0, :4, :4]).all()
    assert np.isnan(found[0, 8:, 4:]).all()
    np.testing.assert_array_equal(found[0, 4:8], plain[0, 4:8])


def test_epilogue_and_type() -> None:
    body = body_of([DType.F32], lambda b, s: b.cast(b("max", s, b.const(0, DType.F32)), DType.F32))
    spec = dataclasses.replace(PLAIN, epilogue=body)
    found, exact = run(spec, (1, 7, 6, 32), 37)
    assert error(found, np.maximum(exact, 0)) < 2e-3
    with pytest.raises(ValueError, match="fixed point"):
        dataclasses.replace(PLAIN, x=DType.F32)


def test_bound_of_the_transform() -> None:
    """No input enlarges further than :func:`largest` says, and one does as much."""
    assert largest(PLAIN.filterings) < 40
    assert largest((filtering(1, 1), filtering(2, 3))) == 2


def test_where_it_is_taken() -> None:
    assert applies(named_target("avx512"), 64) == named_target("avx512").has("avx512vnni")
    assert not applies(named_target("avx2"), 64)
    assert not applies(TARGET, 20)
    work = Work(1, 28, 28, 128, 128, 3, 3, True)
    found = plans(TARGET, work, 1, "low")
    assert found
    best = min(found, key=lambda plan: plan.cycles)
    assert best.name(work) == "Winograd F(4x4,3x3) in 16 bits"
    assert best.chunk == CHUNK // 2
    plain = dataclasses.replace(work, fixed=False)
    assert best.cycles < 0.8 * min(plan.cycles for plan in plans(TARGET, plain, 1, "low"))
