"""Views move elements: their adjoints move them back, and add up what was repeated."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.autodiff.rules import Cotangents, Wanted, rule, sum_to
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder


@rule(p.Reshape)
def _reshape(b: Builder, prim: p.Reshape, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    assert g[0] is not None
    return [b.reshape(g[0], prim.inputs[0].shape)]


@rule(p.Permute)
def _permute(b: Builder, prim: p.Permute, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    assert g[0] is not None
    return [b.permute(g[0], [prim.perm.index(i) for i in range(len(prim.perm))])]


@rule(p.Expand)
def _expand(b: Builder, prim: p.Expand, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    assert g[0] is not None
    return [sum_to(b, g[0], prim.inputs[0].shape)]


@rule(p.Slice)
def _slice(b: Builder, prim: p.Slice, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    assert g[0] is not None
    return [put_back(b, g[0], prim.starts, prim.steps, prim.inputs[0].shape)]


def put_back(b: Builder, g: Tensor, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Zeros of ``shape`` with ``g`` where a slice with these starts and steps takes its elements: ``g[i]`` lies at
    ``starts + i * steps``."""
    starts, steps = list(starts), list(steps)
    backwards = [s < 0 for s in steps]
    if any(backwards):
        g = b.slice(g, [n - 1 if r and n else 0 for n, r in zip(g.shape, backwards, strict=True)], g.shape,
                    [-1 if r else 1 for r in backwards])  # fmt: skip
        starts = [a + (n - 1) * s if r and n else a for a, n, s, r in
                  zip(starts, g.shape, steps, backwards, strict=True)]  # fmt: skip
    strides = [abs(s) if n > 1 else 1 for s, n in zip(steps, g.shape, strict=True)]
    for axis, s in enumerate(strides):
        g = _apart(b, g, axis, s)
    high = [n - a - k for n, a, k in zip(shape, starts, g.shape, strict=True)]
    return b.pad(g, starts, high)


def _apart(b: Builder, x: Tensor, axis: int, stride: int) -> Tensor:
    """``stride - 1`` zeros between the elements of an axis."""
    if stride == 1:
        return x
    shape, n = x.shape, x.shape[axis]
    wide = b.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    high = [0] * wide.rank
    high[axis + 1] = stride - 1
    flat = b.reshape(b.pad(wide, [0] * wide.rank, high), (*shape[:axis], n * stride, *shape[axis + 1 :]))
    return b.slice(flat, [0] * x.rank, [(n - 1) * stride + 1 if i == axis else d for i, d in enumerate(flat.shape)])


@rule(p.Pad)
def _pad(b: Builder, prim: p.Pad, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    given, x = g[0], prim.inputs[0]
    assert given is not None
    if isinstance(given.producer, p.Pad) and (given.producer.low, given.producer.high) == (prim.low, prim.high):
        return [given.producer.inputs[0]]  # who found it left the border out
    return [b.slice(given, prim.low, x.shape) if x.shape != given.shape else given]


@rule(p.Concat)
def _concat(b: Builder, prim: p.Concat, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    assert g[0] is not None
    found: list[Tensor | None] = []
    start = 0
    for t, asked in zip(prim.inputs, wanted, strict=True):
        starts = [start if i == prim.axis else 0 for i in range(t.rank)]
        found.append(b.slice(g[0], starts, t.shape) if asked else None)
        start += t.shape[prim.axis]
    return found


__all__ = ["put_back"]
