"""Large batches a few samples at a time, for the whole network, where that is faster than layer by layer.

What a layer of a large batch writes has left the caches by the time the next one reads it. Where no operator looks
across the batch, a program for a few samples, run again and again, keeps what goes from layer to layer in the
second-level cache, and reads the weights more often instead (with AMX, in turns: MobileNetV2 in ``low`` 3.8 ms per
sample of a batch of 32, 2.1 one by one). Several threads take samples of their own then, and wait for one another
once instead of after every layer (two threads, batch of 8: 1.37 ms per sample, 1.04).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from MNN.backends.cpu.targets.base import Target
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of, size_of

_LAYERS = (p.Conv, p.MatMul, p.CompressedMatMul, p.Window, p.Concat, p.Reduce)
"""Primitives whose operands and results go through memory; elementwise ones are mostly fused with them."""
_BEYOND = {True: 1.5, False: 1.1}
"""What a byte costs that goes from layer to layer by way of the third-level cache, compared with one of the weights,
which are asked for ahead; where it is stored in 16 bits (products are faster then and hide less), and else."""
_FAR = 0.25
"""The same for what goes by way of memory, in addition."""
_BEGIN = 256 << 10
"""What a layer costs every time whatever its size, in bytes of weights, by threads: 20 us. These are fitted to five
networks in batches of 1 to 32, one thread with AMX (root mean square error 5 %); what they say of two threads was
within 15 % for six networks in batches of 8."""
_THIRD_LEVEL = 32 << 20
"""Bytes that are taken to stay in the third-level cache, which cores and machines share."""
_IDLE = 0.1
"""Most of the threads' time that may be lost at the end, when the last slices are too few for all."""
_WORTH = {False: 0.85, True: 0.97}
"""Slices are worth it from here on, compared with what the whole batch costs: for one thread, and for several, which
are spared more than what is counted here."""


class _Mixed(Exception):  # noqa: N818 - an answer
    """Results of one sample depend on others, or this cannot be told."""


class Task(NamedTuple):
    """What computes ``outputs`` from ``inputs``."""

    prims: Sequence[Prim]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]


def sliced(whole: Task, target: Target, threads: int, bits: int) -> tuple[Task, int] | None:
    """The same for a part of a batch, which one thread computes, and how often that has to run; None where it is not
    worth it, some input or output does not begin with the batch, or something looks across. ``bits``: of what is stored
    of an f32 between layers. Of a batch of an open size each sample is a part."""
    prims, inputs, outputs = whole
    batch = inputs[0].shape[0] if inputs and inputs[0].rank else 0
    if batch < 2 or any(t.rank == 0 or t.shape[0] != batch for t in inputs):
        return None
    size = best_size(prims, batch, target, threads, bits)
    if size == batch:
        return None
    axes = batch_axes(prims, inputs, batch)
    if axes is None or any(axes.get(t) != 0 for t in outputs):
        return None
    try:
        made = {t: _part(t, axis, batch, size) for t, axis in axes.items()}
    except _Mixed:
        return None
    part = Task([_rewritten(q, made, size) for q in prims], [made[t] for t in inputs], [made[t] for t in outputs])
    return part, batch // size


def best_size(prims: Sequence[Prim], batch: int, target: Target, threads: int, bits: int) -> int:
    """How many samples each of some threads had better compute at a time, a divisor of ``batch``, or 1 where that is
    open; ``batch`` where all threads had better share it layer by layer."""
    share, most = bits / 32, room_of(batch)
    again = layers = moved = peak = 0.0  # weights, what goes from layer to layer per sample, and the most of it
    for prim in prims:
        if isinstance(prim, _LAYERS):
            layers += 1
            again += sum(t.const.nbytes for t in prim.inputs if t.const is not None) * share
            here = sum(_bytes(t) for t in (*prim.inputs, *prim.outputs) if t.const is None) * share / most
            moved, peak = moved + here, max(peak, here)

    def cost(size: int, together: int) -> float:
        """Of a sample, ``size`` at a time by threads that work together."""
        caches = (target.l2_bytes * together, _THIRD_LEVEL)
        beyond, far = (max(0.0, 1 - nbytes / (size * peak + 1)) for nbytes in caches)
        return (again + layers * together * _BEGIN) / size + moved * (_BEYOND[bits < 32] * beyond + _FAR * far)

    sizes = [1]
    if not isinstance(batch, OpenSize):
        sizes = [size for size in range(1, batch) if batch % size == 0 and _idle(batch // size, threads) <= _IDLE]
    best = min(sizes, key=lambda size: cost(size, 1), default=batch)
    return best if cost(best, 1) < _WORTH[threads > 1] * cost(most, threads) else batch


def _idle(count: int, threads: int) -> float:
    """Which part of the threads' time passes with nothing to do."""
    return 1 - count / (-(-count // threads) * threads)


def _bytes(t: Tensor) -> int:
    return room_of(elements(t.shape)) * t.dtype.size


def batch_axes(prims: Sequence[Prim], inputs: Sequence[Tensor], batch: int) -> dict[Tensor, int] | None:
    """The dimension of every tensor made from ``inputs`` along which the batch lies, samples one after the other; None
    when any primitive looks across it, or is not known not to."""
    axes = dict.fromkeys(inputs, 0)
    try:
        for prim in prims:
            if any(t in axes for t in prim.inputs):
                axis = _RULES.get(type(prim), _unknown)(prim, axes, batch)
                for t in prim.outputs:
                    axes[t] = axis
    except _Mixed:
        return None
    return axes


Rule = Callable[[Prim, dict[Tensor, int], int], int]


def _unknown(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    raise _Mixed


def _check(holds: bool) -> None:
    if not holds:
        raise _Mixed


def _alone(prim: Prim, axes: dict[Tensor, int]) -> int:
    """The axis of the first operand, the only one to have one."""
    _check(prim.inputs[0] in axes and not any(t in axes for t in prim.inputs[1:]))
    return axes[prim.inputs[0]]


def _aligned(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    """Operands that are broadcast to the result."""
    out = prim.outputs[0]
    found = {axes[t] + out.rank - t.rank for t in prim.inputs if t in axes}
    _check(len(found) == 1)
    axis = found.pop()
    for t in prim.inputs:
        at = axis - (out.rank - t.rank)
        _check(t.shape[at] == out.shape[axis] if t in axes else at < 0 or t.shape[at] == 1)
    return axis


def _images(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    axis = _alone(prim, axes)
    _check(axis == 0)
    return axis


def _rows(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    """Products whose rows are the batch's, or that are batched by it."""
    left, right = prim.inputs[:2]
    if right not in axes and len(prim.inputs) == 2 and left in axes and axes[left] == left.rank - 2:
        return axes[left]
    axis = _aligned(prim, axes, batch)
    _check(axis < prim.outputs[0].rank - 2)
    return axis


def _compressed(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    axis = _alone(prim, axes)
    _check(axis < prim.inputs[0].rank - 1)
    return axis


def _reduced(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    assert isinstance(prim, (p.Reduce, p.ArgReduce, p.Scan))
    axis = _alone(prim, axes)
    _check(axis not in (prim.axes if isinstance(prim, p.Reduce) else (prim.axis,)))
    return axis


def _padded(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    assert isinstance(prim, p.Pad)
    axis = _alone(prim, axes)
    _check(prim.low[axis] == prim.high[axis] == 0)
    return axis


def _joined(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    assert isinstance(prim, p.Concat)
    found = {axes.get(t) for t in prim.inputs}
    axis = found.pop()
    _check(axis is not None and not found and axis != prim.axis)
    assert axis is not None
    return axis


def _permuted(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    assert isinstance(prim, p.Permute)
    return prim.perm.index(_alone(prim, axes))


def _kept_whole(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    """Slices and repetitions along other dimensions."""
    axis = _alone(prim, axes)
    _check(prim.inputs[0].shape[axis] == prim.outputs[0].shape[axis])
    _check(not isinstance(prim, p.Slice) or (prim.starts[axis] == 0 and prim.steps[axis] == 1))
    return axis


def _reshaped(prim: Prim, axes: dict[Tensor, int], batch: int) -> int:
    """The batch stays outermost in a dimension that has the same number of elements before it."""
    axis = _alone(prim, axes)
    before, shape = math.prod(prim.inputs[0].shape[:axis]), prim.outputs[0].shape
    _check(before > 0)
    found = [i for i, n in enumerate(shape) if n % batch == 0 and math.prod(shape[:i]) == before]
    _check(bool(found))
    return found[0]


_RULES: dict[type[Prim], Rule] = {
    p.Map: _aligned,
    p.Conv: _images,
    p.Window: _images,
    p.MatMul: _rows,
    p.CompressedMatMul: _compressed,
    p.Reduce: _reduced,
    p.ArgReduce: _reduced,
    p.Scan: _reduced,
    p.Pad: _padded,
    p.Concat: _joined,
    p.Permute: _permuted,
    p.Slice: _kept_whole,
    p.Expand: _kept_whole,
    p.Reshape: _reshaped,
}


def _part(t: Tensor, axis: int, batch: int, size: int) -> Tensor:
    """Of a tensor along the ``axis`` of the batch. Its sizes are known, those of an open batch too."""
    sizes = [size_of(n // batch * size if i == axis else n) for i, n in enumerate(t.shape)]
    shape = tuple([n for n in sizes if isinstance(n, int)])
    _check(len(shape) == t.rank)
    return dataclasses.replace(t, shape=shape, producer=None)


def _rewritten(prim: Prim, made: dict[Tensor, Tensor], size: int) -> Prim:
    """The same on parts of its operands; itself where it does not depend on the batch."""
    if prim.outputs[0] not in made:
        return prim
    new = dataclasses.replace(
        prim, inputs=[made.get(t, t) for t in prim.inputs], outputs=[made[t] for t in prim.outputs]
    )
    new.sort = None if prim.sort is None else (prim.sort, size)
    for t in new.outputs:
        t.producer = new
    return new
