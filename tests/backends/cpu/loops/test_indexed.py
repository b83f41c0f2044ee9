"""Gathers, scatters and scans against numpy."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest

from MNN.backends.cpu.loops.gather import GatherSpec
from MNN.backends.cpu.loops.scan import ScanSpec
from MNN.backends.cpu.loops.scatter import ScatterSpec
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from tests.backends.cpu.util import TARGETS, call, element_strides
from tests.pairs import pairs


def classes(strides: Sequence[Sequence[int]]) -> list[str]:
    return [{0: "0", 1: "1"}.get(s[-1], "s") for s in strides]


def arguments(
    data: np.ndarray, walk: Sequence[int], indexed: Sequence[int], indices: Sequence[np.ndarray], dense: np.ndarray,
    name: str,
) -> tuple[dict[str, int], list[str]]:  # fmt: skip
    """Slots and classes (data, indices.., dense); ``walk[d]`` is the dense dimension of data's d, or -1."""
    strides = element_strides(data)
    affine = [sum(strides[d] for d, w in enumerate(walk) if w == o) for o in range(dense.ndim)]
    columns = [affine, *[element_strides(i) for i in indices], element_strides(dense)]
    slots = {f"extent{d}": e for d, e in enumerate(dense.shape)}
    arrays = [("data", data), *[(f"idx{j}", i) for j, i in enumerate(indices)], (name, dense)]
    for (n, a), column in zip(arrays, columns, strict=True):
        slots[n] = a.ctypes.data
        slots |= {f"{n}_s{d}": s for d, s in enumerate(column)}
    for j, d in enumerate(indexed):
        slots |= {f"size{j}": data.shape[d], f"scale{j}": strides[d]}
    found = classes(columns)
    found[-1] = "1" if found[-1] == "0" else found[-1]
    return slots, found


def run_gather(
    data: np.ndarray, walk: Sequence[int], indexed: Sequence[int], indices: Sequence[np.ndarray], out: np.ndarray,
    target: Target, chunk: int, checked: bool = False, near: bool = True,
) -> int:  # fmt: skip
    memory = [data, *indices, out]
    indices = [np.broadcast_to(i, out.shape) for i in indices]
    slots, found = arguments(data, walk, indexed, indices, out, "out")
    types = tuple(DType.of(i) for i in indices)
    spec = GatherSpec(DType.of(data), types, out.ndim, found[0], tuple(found[1:-1]), found[-1], near)
    error = np.zeros(1, np.int64)
    slots |= {"chunk": chunk, "error": error.ctypes.data}
    slots = {n: v for n, v in slots.items() if n in set(spec.slots())}
    blocks = int(np.prod(out.shape[:-1])) * -(-out.shape[-1] // chunk)
    call(spec, target, slots, blocks, [*memory, error], checked)
    return int(error[0])


@pairs(
    near=[True, False], dtype=[np.float32, np.float64, np.uint8, np.float16, np.bool_], target=TARGETS,
    checked=[False, True],
)  # fmt: skip
def test_gather(near: bool, dtype: type, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 100, (7, 5, 83)).astype(dtype)
    gather = functools.partial(run_gather, near=near)
    for index in (np.int32, np.int64):
        rows = rng.integers(-7, 7, 6).astype(index)
        out = np.zeros((6, 5, 83), dtype)
        assert gather(data, (-1, 1, 2), (0,), [rows[:, None, None]], out, target, 50, checked) == 0
        np.testing.assert_array_equal(out, data[rows])
        cols = rng.integers(-83, 83, 30).astype(index)
        out = np.zeros((7, 5, 30), dtype)
        gather(data, (0, 1, -1), (2,), [cols], out, target, 12, checked)
        np.testing.assert_array_equal(out, data[:, :, cols])
        where = rng.integers(-5, 5, (7, 9, 83)).astype(index)  # take_along_axis
        out = np.zeros(where.shape, dtype)
        gather(data, (0, -1, 2), (1,), [where], out, target, 64, checked)
        np.testing.assert_array_equal(out, np.take_along_axis(data, np.where(where < 0, where + 5, where), 1))
        i, j = rng.integers(0, 7, (4, 11)).astype(index), rng.integers(0, 5, (4, 11)).astype(index)
        out = np.zeros((4, 11, 83), dtype)
        gather(data, (-1, -1, 2), (0, 1), [i[..., None], j[..., None]], out, target, 83, checked)
        np.testing.assert_array_equal(out, data[i, j])
        out = np.zeros((83, 6), dtype).T  # strided result
        gather(data[:, 0], (-1, 1), (0,), [rows[:, None]], out, target, 40, checked)
        np.testing.assert_array_equal(out, data[rows, 0])
        line = rng.integers(-83, 83, (2, 200)).astype(index)[:, ::2]  # strided indices, whole vectors and a rest
        out = np.zeros((2, 100), dtype)
        gather(data[0, :2], (0, -1), (1,), [line], out, target, 100, checked)
        np.testing.assert_array_equal(out, np.take_along_axis(data[0, :2], np.where(line < 0, line + 83, line), 1))
        deep = rng.integers(-7, 7, 83).astype(index)  # an index that changes beside an axis that is walked
        out = np.zeros((5, 83), dtype)
        gather(data, (-1, 0, 1), (0,), [deep[None]], out, target, 83, checked)
        np.testing.assert_array_equal(out, data[deep, :, np.arange(83)].T)
        out = np.zeros((5, 83), dtype)
        many = np.zeros((7, 5, 166), dtype)[:, :, ::2]
        many[:] = data
        gather(many, (-1, 0, 1), (0,), [deep[None]], out, target, 83, checked)
        np.testing.assert_array_equal(out, data[deep, :, np.arange(83)].T)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_gather_reports_bad_indices(target: Target) -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    for bad in (3, -4, 2**31 - 1):
        out = np.zeros((2, 4), np.float32)
        assert run_gather(data, (-1, 1), (0,), [np.array([[1], [bad]], np.int32)], out, target, 4, True) == 1
        np.testing.assert_array_equal(out, data[[1, 0]])
        out = np.zeros(5, np.float32)
        assert run_gather(data[0], (-1,), (0,), [np.array([0, 1, 2, 3, bad + 9], np.int64)], out, target, 5, True) == 1
        for index, wrong in ((np.int32, bad), (np.int64, bad), (np.int64, 2**32 + 1), (np.int64, -(2**63))):
            for at in (0, 15, 16, 20, 36):
                where = np.arange(37, dtype=index) % 3
                where[at] = wrong
                out = np.zeros(37, np.float32)
                assert run_gather(data[:, 0], (-1,), (0,), [where], out, target, 37, True) == 1, (index, wrong, at)
                where[at] = 0
                np.testing.assert_array_equal(out, data[where, 0])


@pairs(op=["set", "add", "mul", "max", "min"], target=TARGETS, checked=[False, True])
def test_scatter(op: str, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(1)
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for dtype in (np.float32, np.int64, np.float16):
        base = rng.integers(1, 5, (6, 37)).astype(dtype)
        for kind in ("rows", "elements"):
            if kind == "rows":
                index = rng.integers(-6, 6, (9, 1)).astype(np.int64)
                updates = rng.integers(1, 3, (9, 37)).astype(dtype)
                walk, indexed = (-1, 1), (0,)
            else:
                index = rng.integers(-37, 37, (6, 50)).astype(np.int32)
                updates = rng.integers(1, 3, (6, 50)).astype(dtype)
                walk, indexed = (0, -1), (1,)
            want = base.copy()
            full = np.broadcast_to(index, updates.shape)
            for o in np.ndindex(*updates.shape):
                at = (full[o], o[1]) if kind == "rows" else (o[0], full[o])
                want[at] = updates[o] if op == "set" else combine[op](want[at], updates[o])
            data = base.copy()
            slots, found = arguments(data, walk, indexed, [full], updates, "updates")
            spec = ScatterSpec(DType.of(data), op, (DType.of(index),), 2, found[0], tuple(found[1:-1]), found[-1])
            error = np.zeros(1, np.int64)
            slots["error"] = error.ctypes.data
            slots = {n: v for n, v in slots.items() if n in set(spec.slots())}
            call(spec, target, slots, 1, [data, full, updates, error], checked)
            np.testing.assert_array_equal(data, want)
            assert error[0] == 0


@pairs(op=["add", "mul", "max", "min"], target=TARGETS, checked=[False, True])
def test_scan(op: str, target: Target, checked: bool) -> None:
    rng = np.random.default_rng(2)
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    for dtype in (np.float32, np.int64, np.float16, np.float64, np.int8):
        x = rng.integers(-2, 3, (3, 11, 37)).astype(dtype)
        for axis in (1, 2):
            for exclusive in (False, True):
                for reverse in (False, True):
                    flipped = np.flip(x, axis) if reverse else x
                    want = function.accumulate(flipped, axis, dtype=np.float64 if x.dtype.kind == "f" else x.dtype)
                    if exclusive:
                        first = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}[op]
                        if x.dtype.kind == "i" and op in ("max", "min"):
                            first = np.iinfo(x.dtype).min if op == "max" else np.iinfo(x.dtype).max
                        lead = np.full_like(np.take(want, [0], axis), first)
                        want = np.concatenate([lead, np.take(want, range(x.shape[axis] - 1), axis)], axis)
                    want = np.flip(want, axis) if reverse else want
                    out = np.zeros_like(x)
                    rest = [d for d in range(3) if d != axis]
                    s, t = element_strides(x), element_strides(out)
                    spec = ScanSpec(op, DType.of(x), exclusive, reverse, 2, rest[-1] == 2)
                    slots = {f"extent{i}": x.shape[d] for i, d in enumerate(rest)} | {"n": x.shape[axis]}
                    slots |= {"in": x.ctypes.data, "out": out.ctypes.data, "in_step": s[axis], "out_step": t[axis]}
                    slots |= {f"in_s{i}": s[d] for i, d in enumerate(rest)}
                    slots |= {f"out_s{i}": t[d] for i, d in enumerate(rest)}
                    call(spec, target, slots, x.shape[rest[0]], [x, out], checked)
                    np.testing.assert_array_equal(out, want.astype(dtype))
