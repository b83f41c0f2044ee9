"""Gradients of a tensor of which parts are used: side by side, with gaps, overlapping, along one axis or several."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from MNN.autodiff.backward import gradients
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from tests.compiler.checks import built, check

COUNT = 10


def _parts(rng: np.random.Generator, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """A split along an axis of which some parts are left out and some used twice, and any other parts."""
    axis = int(rng.integers(len(shape)))
    cuts = [0, *sorted(rng.choice(np.arange(1, shape[axis]), 3, replace=False).tolist()), shape[axis]]
    parts = []
    for low, high in itertools.pairwise(cuts):
        where = tuple(slice(low, high) if i == axis else slice(0, n) for i, n in enumerate(shape))
        parts += [where] * int(rng.choice([0, 1, 1, 1, 2]))
    for _ in range(int(rng.integers(3))):
        begins = [int(rng.integers(n)) for n in shape]
        parts.append(tuple(slice(b, int(rng.integers(b, n)) + 1) for b, n in zip(begins, shape, strict=True)))
    rng.shuffle(parts)  # type: ignore[arg-type]
    return parts or [tuple(slice(0, n) for n in shape)]


@pytest.mark.parametrize("seed", range(COUNT))
def test_parts(seed: int) -> None:
    rng = np.random.default_rng([29, seed])
    shape = tuple(int(n) for n in rng.integers(5, 12, int(rng.integers(1, 4))))
    parts = _parts(rng, shape)
    x = rng.normal(size=shape).astype(np.float32)
    weights = [rng.normal(size=x[part].shape).astype(np.float32) for part in parts]
    right = np.zeros(shape)
    for part, weight in zip(parts, weights, strict=True):
        right[part] += 2.0 * x[part] * weight

    def build(b: Builder, given: Tensor) -> Tensor:
        outputs = []
        for part, weight in zip(parts, weights, strict=True):
            piece = b.slice(given, [s.start for s in part], [s.stop - s.start for s in part])
            outputs.append(b.op("mul", b.op("mul", piece, piece), b.const(weight)))
        ones = [b.const(np.ones(y.shape, np.float32)) for y in outputs]
        (found,) = gradients(b, outputs, ones, [given])
        return b.op("add", found, b.const(np.zeros((), np.float32)))

    _, _, (found,), numbers = built(build, x)
    assert np.abs(numbers[found] - right).max() <= 1e-6 * np.abs(right).max()
    check(build, x, precision="high", tol=1e-6)


def test_a_split_is_put_together() -> None:
    """No tensor of the whole size is made for each part."""
    b = Builder()
    x = Tensor(DType.F32, (4, 12))
    pieces = [b.slice(x, [0, 3 * i], [4, 3]) for i in range(4)]
    (found,) = gradients(b, pieces, [Tensor(DType.F32, (4, 3)) for _ in pieces], [x])
    assert isinstance(found.producer, p.Concat)
    assert len(found.producer.inputs) == 4
