"""Averages of windows over quantised tensors as sums of their integers.

``quantise(sum(dequantise(q)) * 1 / n)`` is computed in f32: every number is restored, the sum and what follows are
rounded, and a byte comes out. But the ``q`` are integers, and so is their sum ``S``, of which there are few. Rounding
moves the value by no more than a known error, wherever it happens and in whatever order numbers are added (Higham,
"Accuracy and Stability of Numerical Algorithms", 4.2). Where no ``S`` is so near to a tie that this error decides, the
byte follows from ``S`` alone, which a convolution with ones gives: bytes are read instead of floats, and nothing is
restored beforehand. Where one is (averages of four numbers at the scale of their source end on ties), the program
stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from MNN.compiler.bodies import fused_body, is_literal
from MNN.compiler.copies import own_copy
from MNN.compiler.integers.byte_end import BYTES, byte_end
from MNN.compiler.usage import consumers, live
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.intervals import intervals
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body, BodyBuilder, Instr
from MNN.ir.shape import elements
from MNN.reference.scalar import evaluate

_Floats = NDArray[np.float64]
_MOST_TAPS = 256
_LONGEST = 4
"""Maps from a window's sum to its byte."""
_UNIT = 2.0**-24
"""By which part of itself a number changes at most when it is rounded to f32."""
_RISING = ("arg", "const", "add", "mul", "fma", "div", "min", "max", "round", "cast")
_BEHIND = 8
"""Roundings behind the sum that are allowed for, however products and sums are joined."""


def with_byte_windows(prims: Sequence[Prim], outputs: Sequence[Tensor]) -> tuple[list[Prim], list[Tensor]]:
    """The same program, and its outputs, with sums of integers where averages of windows are bytes that follow from
    these. The primitives given are not changed."""
    kept = {id(t) for t in outputs}
    if not any(_is_sum(prim) for prim in prims) or not _all_found(prims, kept):
        return list(prims), list(outputs)
    own, results = own_copy(prims, outputs)
    kept = {id(t) for t in results}
    for window, chain, source, finish in _all_found(own, kept):
        own = _replaced(own, window, chain, _summed(window, source, finish, chain[-1].outputs[0]))
    return live(own, results), results


_Source = tuple[Tensor, p.Pad | None, int]
"""A tensor of bytes, how it is padded, and which byte stands for zero."""
_Found = tuple[p.Window, list[p.Map], _Source, Body]


def _is_sum(prim: Prim) -> bool:
    return isinstance(prim, p.Window) and prim.op == "sum" and prim.inputs[0].dtype is DType.F32


def _all_found(prims: Sequence[Prim], kept: set[int]) -> list[_Found]:
    uses, found = consumers(prims), []
    for prim in prims:
        if isinstance(prim, p.Window) and _is_sum(prim):
            chain = _to_byte(prim, uses, kept)
            one = chain and _one(prim, chain)
            if one:
                found.append(one)
    return found


def _to_byte(window: p.Window, uses: dict[Tensor, list[Prim]], kept: set[int]) -> list[p.Map]:
    """The maps from a window's sum to the first byte; none where something else takes part, or looks on."""
    tensor, chain = window.outputs[0], list[p.Map]()
    while len(chain) < _LONGEST and id(tensor) not in kept:
        users = uses.get(tensor, [])
        user = users[0] if len(users) == 1 else None
        if not isinstance(user, p.Map) or len(user.outputs) != 1 or user.outputs[0].shape != window.outputs[0].shape:
            return []
        if any(t is not tensor and not is_literal(t) for t in user.inputs):
            return []
        chain.append(user)
        tensor = user.outputs[0]
        if tensor.dtype in BYTES:
            return chain
    return []


def _one(window: p.Window, chain: list[p.Map]) -> _Found | None:
    """A window whose byte follows from the sum of its integers."""
    restored, pad = window.inputs[0], window.inputs[0].producer
    if isinstance(pad, p.Pad):
        restored = pad.inputs[0]
    map_ = restored.producer
    if not isinstance(map_, p.Map) or len(map_.outputs) != 1 or not isinstance(restored.shape[1], int):
        return None
    given = [t for t in map_.inputs if not is_literal(t)]
    taps = elements(window.kernel)
    if len(given) != 1 or given[0].dtype not in BYTES or given[0].shape != restored.shape or taps > _MOST_TAPS:
        return None
    restore = fused_body([map_], given, [restored])
    finish = fused_body(chain, [window.outputs[0]], [chain[-1].outputs[0]])
    zero = _zero(restore) if isinstance(pad, p.Pad) else 0
    if zero is None or (isinstance(pad, p.Pad) and pad.value != 0):
        return None
    body = _of_integers(restore, finish, taps)
    return None if body is None else (window, chain, (given[0], pad if isinstance(pad, p.Pad) else None, zero), body)


def _numbers(dtype: DType) -> NDArray[np.int64]:
    info = np.iinfo(dtype.numpy.str)
    return np.arange(info.min, info.max + 1)


def _zero(restore: Body) -> int | None:
    """The byte that is restored to zero."""
    numbers = _numbers(restore.args[0])
    (found,) = evaluate(restore, [numbers.astype(restore.args[0].numpy)])
    where = np.flatnonzero(found == 0)
    return int(numbers[where[0]]) if where.size else None


@lru_cache(512)
def _of_integers(restore: Body, finish: Body, taps: int) -> Body | None:
    """The byte from the sum (i32) of so many integers; None where it does not follow from it."""
    end = byte_end(finish.code, finish.outputs[0])
    if end is None or not _rises(finish):
        return None
    numbers = _numbers(restore.args[0])
    (found,) = evaluate(restore, [numbers.astype(restore.args[0].numpy)])
    restored = found.astype(np.float64)
    if not np.isfinite(restored).all():
        return None
    step = (restored[-1] - restored[0]) / (numbers.size - 1)
    least = restored[0] - step * numbers[0]
    away = float(np.abs(restored - (least + step * numbers)).max())
    if step <= 0 or away > 2 * _UNIT * np.abs(restored).max():
        return None
    sums = np.arange(taps * numbers[0], taps * numbers[-1] + 1)
    exact = taps * least + step * sums
    one_sign = restored[0] >= 0 or restored[-1] <= 0
    magnitude = np.abs(exact) + taps * away if one_sign else np.full(sums.size, taps * np.abs(restored).max())
    error = taps * away + 1.01 * _UNIT * ((taps - 1) * magnitude + _BEHIND * np.abs(exact))
    ends = [_outside(exact - error, -np.inf), _outside(exact + error, np.inf)]
    low, high = (evaluate(finish, [x])[0] for x in ends)
    if not np.array_equal(low, high):
        return None
    return _fitting(finish, end, (taps * least, step), sums, low)


def _outside(x: _Floats, towards: float) -> NDArray[np.float32]:
    """The f32 numbers next to these, on one side."""
    beside: NDArray[np.float32] = np.nextafter(x.astype(np.float32), np.float32(towards))
    return beside


def _rises(body: Body) -> bool:
    """Whether a larger argument never gives a smaller byte: rounding keeps the order, and so do the instructions."""
    bounds = intervals(body.code)
    rising: list[bool] = []
    for instr in body.code:
        args = [rising[a] for a in instr.args]
        factors = [body.code[a] for a in instr.args] if instr.op in ("mul", "fma", "div") else []
        factors = factors[1:] if instr.op == "div" else factors[:2]
        if factors and not any(f.op == "const" and f.number() > 0 for f in factors):
            return False
        if instr.op == "cast" and instr.dtype.is_int:
            low, high = bounds[instr.args[0]]
            info = np.iinfo(instr.dtype.numpy.str)
            if not info.min <= low <= high <= info.max:
                return False
        elif instr.op not in _RISING and not (instr.op == "sub" and not args[1]):
            return False
        rising.append(instr.op == "arg" or any(args))
    return True


def _fitting(
    finish: Body, end: tuple[int, int], line: tuple[float, float], sums: NDArray[np.int64], wanted: NDArray[np.generic]
) -> Body | None:
    """A body that gives ``wanted`` for all ``sums`` of integers, whose numbers lie on a ``line``."""
    value, zero = end
    probe = np.array([line[0] + line[1] * s for s in (sums[0], sums[-1])], np.float32)
    at = evaluate(_up_to(finish, value), [probe])[0].astype(np.float64)
    if not np.isfinite(at).all() or probe[0] == probe[1]:
        return None
    slope = (at[1] - at[0]) / (float(probe[1]) - float(probe[0]))
    factor = np.float32(slope * line[1])
    added = np.float32(at[0] + slope * (line[0] - float(probe[0])))
    dtype = finish.result_dtypes[0]
    info = np.iinfo(dtype.numpy.str)
    least, most = info.min - zero, info.max - zero
    joined = (sums * float(factor) + float(added)).astype(np.float32)
    apart = sums.astype(np.float32) * factor + added
    for found in (joined, apart):
        if not np.array_equal(np.clip(np.rint(found), least, most) + zero, wanted.astype(np.float64)):
            return None
    out = BodyBuilder()
    x = out.cast(out.arg(DType.I32), DType.F32)
    k = out.const(float(factor), DType.F32)
    y = out("fma", x, k, out.const(float(added), DType.F32)) if added else out("mul", x, k)
    y = out("min", out("max", y, out.const(float(least), DType.F32)), out.const(float(most), DType.F32))
    whole = out.cast(out("round", y), DType.I32)
    whole = out("add", whole, out.const(zero, DType.I32)) if zero else whole
    return out.build(out.cast(whole, dtype))


class _Copy(BodyBuilder):
    def add(self, instr: Instr) -> int:
        """An instruction between others that may stand elsewhere."""
        return self._add(instr)


def _up_to(body: Body, value: int) -> Body:
    """The body whose result is one of the values of another, of one argument."""
    b, here = _Copy(), list[int]()
    for instr in body.code[: value + 1]:
        args = tuple([here[a] for a in instr.args])
        arg = instr.op == "arg"
        here.append(b.arg(instr.dtype) if arg else b.add(Instr(instr.op, args, instr.dtype, instr.value)))
    return b.build(here[-1])


@lru_cache(256)
def _ones(channels: int, kernel: tuple[int, ...]) -> np.ndarray:
    return np.ones((channels, 1, *kernel), np.int8)


def _summed(window: p.Window, source: _Source, finish: Body, result: Tensor) -> list[Prim]:
    """The primitives that give ``result`` instead."""
    bytes_, pad, zero = source
    made: list[Prim] = []
    if pad is not None:
        padded = Tensor(bytes_.dtype, pad.outputs[0].shape)
        made.append(p.Pad([bytes_], [padded], window.origin, pad.low, pad.high, zero))
        padded.producer, bytes_ = made[-1], padded
    channels = bytes_.shape[1]
    ones = Tensor(DType.I8, (channels, 1, *window.kernel), _ones(channels, tuple(window.kernel)))
    sums = Tensor(DType.I32, window.outputs[0].shape)
    conv = p.Conv([bytes_, ones], [sums], window.origin, window.strides, window.dilations, channels)
    last = p.Map([sums], [result], window.origin, finish)
    sums.producer, result.producer = conv, last
    return [*made, conv, last]


def _replaced(prims: Sequence[Prim], window: p.Window, chain: Sequence[p.Map], made: Sequence[Prim]) -> list[Prim]:
    gone = {id(prim) for prim in (window, *chain[:-1])}
    found: list[Prim] = []
    for prim in prims:
        if prim is chain[-1]:
            found += made
        elif id(prim) not in gone:
            found.append(prim)
    return found


__all__ = ["with_byte_windows"]
