"""Products of bytes whose rows share a vector in pairs, against whole numbers in numpy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN import model
from MNN.backends.base.candidates import restricted
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.gemm.row_pairs import choose_pairs, columns_of_pairs, pairs_cycles, pairs_rows
from MNN.backends.cpu.products.dot8 import DOT4, moved, pack_dot4
from MNN.backends.cpu.products.register_tiles import contract_cycles
from MNN.backends.cpu.targets import Target, host_target
from MNN.backends.cpu.targets.base import named_target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, body_of
from tests.backends.cpu import util
from tests.backends.cpu.products import test_lane_groups as convolutions

I8, U8, I32, F32 = DType.I8, DType.U8, DType.I32, DType.F32
SHAPES = [(4, 24, 24), (3, 16, 40), (2, 12, 56), (1, 48, 8), (1, 16, 120), (2, 8, 20), (1, 40, 72), (1, 20, 100)]
"""Groups, and channels in and out of each."""


def _body(out: DType) -> Body:
    """A sum with something for its column, times something for its row and another number, and a residual; in 8 bits
    within the type's range."""

    def code(s, x, column, row, one, other):
        value = s("mul", s.cast(s("add", x, column), F32), s("mul", row, one))
        value = s("add", value, s.cast(other, F32))
        if out is F32:
            return value
        low, high = (0, 255) if out is U8 else (-128, 127)
        value = s("min", s("max", value, s.const(low, F32)), s.const(high, F32))
        return s.cast(s.cast(s("round", value), I32), out)

    return body_of([I32, I32, F32, F32, I8], code)


def _run(target: Target, rng: np.random.Generator, tile: tuple[int, int], out: DType, beside: int) -> None:
    """Rows and columns end within a tile or with one; A ends where its last row does."""
    mr, nv = tile
    a_type = U8 if rng.integers(2) else I8
    k, taps, batches = (
        4 * int(rng.integers(max(beside, 1), beside + 5)),
        int(rng.integers(1, 4)),
        int(rng.integers(1, 3)),
    )
    nr = columns_of_pairs(target, nv)
    m = int(rng.integers(1, 3)) * mr + int(rng.choice([0, rng.integers(mr)]))
    n = nr * int(rng.integers(1, 3)) - int(rng.choice([0, rng.integers(nr)]))
    spec = ContractSpec(
        a_type, I8, I32, out, mr, nv, True, _body(out), ("n", "m", "1", "mn"), DOT4, beside=beside, rows_in_pairs=True
    )  # fmt: skip
    info = np.iinfo(a_type.numpy)
    a = rng.integers(info.min, info.max + 1, (batches, m, taps * k)).astype(a_type.numpy)
    b = rng.integers(-128, 128, (batches, taps * k, n)).astype(np.int8)
    packed = pack_dot4(b, nr, k, moved(target, a_type))
    c = np.full((batches, m, n + 3), 7, out.numpy)
    column, row = rng.integers(-9999, 9999, n).astype(np.int32), rng.uniform(1e-4, 1e-3, m).astype(np.float32)
    one, other = np.array([0.5], np.float32), rng.integers(-128, 128, (m, n)).astype(np.int8)
    order = rng.permutation(m)
    places = np.arange(m)
    arrays = {
        "a": a, "b": packed, "c": c, "rows_a": (order * taps * k).astype(np.int32),
        "rows_c": (places * (n + 3)).astype(np.int32), "taps": (np.arange(taps) * k).astype(np.int32),
        "batch": np.array([[z * a[0].size, z * packed[0].size, z * c[0].size, 0, 0, 0, 0] for z in range(batches)]),
        "op0": column, "op1": row, "rows1": places.astype(np.int32), "op2": one, "op3": other,
        "rows3": (places * n).astype(np.int32),
    }  # fmt: skip
    slots = {
        "n_taps": taps, "k": k, "ldb": 4 * nr, "panel": packed.shape[-1], "m": m, "n": n, "n_batch": batches,
        "mb": 2 * mr, "nb": nr, "ub": mr,
    }  # fmt: skip
    slots |= {name: array.ctypes.data for name, array in arrays.items()}
    util.call(spec, target, slots, spec.blocks(m, n, batches, mr, nr), list(arrays.values()), checked=True)
    assert (c[:, :, n:] == 7).all(), "wrote past the columns"
    sums = (a[:, order].astype(np.int64) @ b.astype(np.int64) + column).astype(np.float32)
    expected = sums * (row * one)[:, None] + other
    if out is F32:
        np.testing.assert_allclose(c[:, :, :n], expected, rtol=1e-6, atol=1e-4)
        return
    low, high = (0, 255) if out is U8 else (-128, 127)
    away = np.abs(c[:, :, :n].astype(int) - np.rint(np.clip(expected, low, high)).astype(int))
    assert away.max() <= 1  # a fused product and sum rounds once
    assert (away > 0).mean() < 1e-2


@pytest.mark.usefixtures("wide_vectors")
@pytest.mark.parametrize(("out", "beside"), [(U8, 0), (U8, 3), (I8, 2), (F32, 0)], ids=str)
def test_tiles(monkeypatch: pytest.MonkeyPatch, out: DType, beside: int) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx512,+avx512vnni")
    target = host_target()
    assert pairs_rows(target)
    rng = np.random.default_rng([beside, out.size])
    for tile in ((2, 1), (6, 2), (4, 3)):
        _run(target, rng, tile, out, beside)


def test_convolutions() -> None:
    """Windows, steps, borders, types and zero points are drawn, where channels leave half of a vector."""
    rng, used = np.random.default_rng(24), 0
    for shape in SHAPES:
        kind = str(rng.choice(list(convolutions.KINDS)))
        made, given, feed = convolutions._model(rng, kind, shape, int(rng.integers(2, 4)))
        with restricted("rows in pairs"):
            loaded = model.load(made, cache=False)
            (found,) = loaded.run(feed).values()
        away = np.abs(found.astype(int) - convolutions._expected(feed["x"], given))
        assert away.max() <= 1, (shape, kind)
        assert (away > 0).mean() < 1e-3
        commands = [c for p in loaded.plans_used() for c in p.bound.program.commands]
        used += sum(isinstance(c.kernel, ContractSpec) and c.kernel.rows_in_pairs for c in commands)
    assert used >= len(SHAPES) // 2 or not pairs_rows(host_target())


@pytest.mark.parametrize("target", util.TARGETS, ids=lambda t: t.name)
def test_tiles_fit_the_registers(target: Target) -> None:
    """Sums and what a step reads; an even number of rows; nothing where vectors have no halves."""
    for n in (4, 8, 20, 24, 40, 72, 100, 120, 1000):
        found = choose_pairs(target, n, 50)
        assert (found is not None) == pairs_rows(target)
        if found is not None:
            mr, nv = found
            assert mr % 2 == 0
            assert mr * (2 * nv - 1) // 2 + nv + 3 < target.vector_registers


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_they_are_weighed_like_whole_vectors(split: bool) -> None:
    """A sixth to a quarter of products that are left out decide; none, where columns fill vectors, decides against."""
    plain = named_target("avx512")
    rates = {"fma_per_cycle": 1.0, "split_vectors": True, "separate_adders": True} if split else {}
    target = dataclasses.replace(plain, features=(*plain.features, "avx512vnni"), **rates)
    assert pairs_rows(target)
    lanes = target.lanes(DType.I32)
    for m in (49, 64, 196, 784):
        for steps in (64, 288, 512):
            for n, gains in ((lanes * 3 // 2, True), (lanes * 5 // 2, True), (lanes * 32, False), (lanes * 24, False)):
                tile = choose_pairs(target, n, steps)
                assert tile is not None
                if gains and m < 8 * tile[0]:  # rows that there are not may cost more than half a vector
                    continue
                assert (pairs_cycles(target, m, n, steps, tile) < contract_cycles(target, m, n, steps)) == gains, (m, n)
