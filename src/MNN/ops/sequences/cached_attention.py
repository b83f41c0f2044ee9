"""Attention as ONNX Runtime's own operators define it: heads side by side in the last axis, caches as operands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

import numpy as np

from MNN.errors import ShapeError, UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import exceeds
from MNN.ops.core.operands import operand, optional, require_rank
from MNN.ops.sequences.attention import Scores


def heads_apart(b: Builder, x: Tensor, heads: int) -> Tensor:
    """``[B, S, heads * D]`` to ``[B, heads, S, D]``; four dimensions are taken to be that already."""
    if x.rank == 4 and x.shape[1] == heads:
        return x
    require_rank(b, x, 3)
    if heads < 1 or x.shape[2] % heads:
        raise ShapeError(f"{b.where}: {list(x.shape)} cannot be split into {heads} heads")
    return b.permute(b.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), (0, 2, 1, 3))


def heads_together(b: Builder, x: Tensor) -> Tensor:
    """The inverse of :func:`heads_apart`."""
    batch, heads, rows, size = x.shape
    return b.reshape(b.permute(x, (0, 2, 1, 3)), (batch, rows, heads * size))


def causal(b: Builder, rows: int, keys: int, before: int, window: int = -1) -> Tensor:
    """Which keys query ``i``, standing at ``before + i``, may look at: not the later ones, and at most ``window``."""
    distance = np.arange(rows)[:, None] + before - np.arange(keys)
    ok = (distance >= 0) & (distance < window) if window > 0 else distance >= 0
    return b.const(ok.reshape(1, 1, rows, keys))


@register("ContribAttention")
class ContribAttention(Operator):
    """Inputs ``q, k, v`` (``[B, S, N * D]``, keys and values also ``[B, N, T, D]``), ``mask?`` (1 keeps a key; ``[B]``
    numbers of keys, ``[B, T]``, ``[B, S, T]`` or ``[B, 1, S, T]``), ``bias?`` added to the scores, ``past_key?``,
    ``past_value?`` ``[B, N, P, D]``. Outputs the result ``[B, S, N * E]`` and the present key and value.

    What the mask forbids gets ``filter`` added to its score, as ONNX Runtime does: a row without any allowed key is the
    softmax of its scores.
    """

    in_mnn = False
    attributes = {"heads": 1, "scale": 0.0, "causal": False, "filter": -10000.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        heads = self.int_attr(node, "heads")
        q, k, v = (heads_apart(b, operand(b, inputs, i), heads) for i in range(3))
        mask, bias, past_key, past_value = (optional(inputs, i) for i in range(3, 7))
        before = 0
        if past_key is not None and past_value is not None:
            before = past_key.shape[2]
            k, v = b.concat([past_key, k], 2), b.concat([past_value, v], 2)
        scores = Scores(q, k, v, self.float_attr(node, "scale") or 1.0 / sqrt(max(q.shape[3], 1)))
        scores.check(b)
        rows, keys = q.shape[2], k.shape[2]
        if mask is not None:
            hidden = self._hidden(b, mask, keys, self.float_attr(node, "filter"))
            bias = hidden if bias is None else b.op("add", b.cast(bias, DType.F32), hidden)
        scores.bias = bias
        if self.bool_attr(node, "causal") and rows > 1:  # one row is the newest one: it sees all keys
            scores.allowed.append(causal(b, rows, keys, before))
        out = scores.mix(b, scores.weights(b, scores.masked(b, scores.raw(b))))
        return [heads_together(b, out), k, v]

    def _hidden(self, b: Builder, mask: Tensor, keys: int, amount: float) -> Tensor:
        """What is added to the scores: 0 for keys that count, ``amount`` for others."""
        if mask.rank == 1:
            place = b.const(np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys))
            keep = b.op("lt", place, b.reshape(b.cast(mask, DType.I64), (-1, 1, 1, 1)))
        else:
            shape = {2: (mask.shape[0], 1, 1, mask.shape[-1]), 3: (mask.shape[0], 1, *mask.shape[1:])}
            keep = b.cast(b.reshape(mask, shape.get(mask.rank, mask.shape)), DType.BOOL)

        def body(s: BodyBuilder, a: int) -> int:
            return s("select", a, s.const(0.0, DType.F32), s.const(amount, DType.F32))

        return b.map(body, keep)


@register("ContribRotaryEmbedding")
class ContribRotaryEmbedding(Operator):
    """Pairs of numbers turned by an angle that grows with the position (Su et al. 2021, arXiv:2104.09864).

    Inputs ``x`` (``[B, S, N * D]`` or ``[B, N, S, D]``), ``positions`` (``[1]``: of the first row; or ``[B, S]``), and
    the tables of cosines and sines ``[most, R / 2]``, of which the first R numbers of each head are turned.
    ``interleaved``: pairs are neighbours, else halves of the head.
    """

    in_mnn = False
    attributes = {"heads": 0, "interleaved": False, "size": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, positions, cosines, sines = (operand(b, inputs, i) for i in range(4))
        heads, flat = self.int_attr(node, "heads"), x.rank == 3
        if flat and not heads:
            size = self.int_attr(node, "size") or 2 * cosines.shape[1]
            heads = x.shape[2] // max(size, 1)
        apart = heads_apart(b, x, heads if flat else x.shape[1])
        places = places_of(b, positions, apart.shape[0], apart.shape[2])
        out = rotate(b, apart, places, cosines, sines, self.bool_attr(node, "interleaved"))
        return [heads_together(b, out) if flat else out]


def places_of(b: Builder, positions: Tensor, batch: int, rows: int) -> Tensor:
    """Positions ``[B, S]``; of one number, that of the first row."""
    positions = b.cast(positions, DType.I64)
    if positions.shape == (batch, rows) and positions.rank == 2:
        return positions
    start = b.reshape(positions, (1, 1))
    return b.expand(b.op("add", start, b.const(np.arange(rows, dtype=np.int64).reshape(1, rows))), (batch, rows))


def rotate(b: Builder, x: Tensor, places: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool) -> Tensor:
    """``x[B, N, S, D]`` with the pairs of its first numbers turned by the angles of ``places[B, S]``."""
    batch, heads, rows, size = x.shape
    half = cosines.shape[1]
    if cosines.shape != sines.shape:
        raise ShapeError(f"{b.where}: cosines {list(cosines.shape)} and sines {list(sines.shape)} differ in shape")
    if 2 * half > size:
        raise ShapeError(f"{b.where}: tables for {2 * half} numbers, heads have {size}")
    cos, sin = (b.reshape(b.take(t, places, 0), (batch, 1, rows, half)) for t in (cosines, sines))
    turned = b.slice(x, [0, 0, 0, 0], [batch, heads, rows, 2 * half])
    if interleaved:
        pairs = b.reshape(turned, (batch, heads, rows, half, 2))
        left, right = (
            b.reshape(b.slice(pairs, [0, 0, 0, 0, i], [batch, heads, rows, half, 1]), (batch, heads, rows, half))
            for i in (0, 1)
        )
    else:
        left = b.slice(turned, [0, 0, 0, 0], [batch, heads, rows, half])
        right = b.slice(turned, [0, 0, 0, half], [batch, heads, rows, half])
    first = b.map(lambda s, p, q, c, d: s("sub", s("mul", p, c), s("mul", q, d)), left, right, cos, sin)
    second = b.map(lambda s, p, q, c, d: s("add", s("mul", q, c), s("mul", p, d)), left, right, cos, sin)
    if interleaved:
        joined = b.reshape(b.concat([b.unsqueeze(t, [4]) for t in (first, second)], 4), turned.shape)
    else:
        joined = b.concat([first, second], 3)
    return (
        b.concat([joined, b.slice(x, [0, 0, 0, 2 * half], [batch, heads, rows, size - 2 * half])], 3)
        if 2 * half < size
        else joined
    )


@register("GroupQueryAttention")
class GroupQueryAttention(Operator):
    """Causal attention with grouped keys and a cache (Ainslie et al. 2023, arXiv:2305.13245).

    Inputs ``q[B, S, N * D]``, ``k, v[B, S, G * D]`` (absent: all three side by side in ``q``), ``past_key?``,
    ``past_value?`` ``[B, G, P, D]``, ``lengths[B]`` (number of keys of each row, minus one), ``total`` (number of
    keys), ``cosines?, sines?, positions?, bias?`` (also of fewer keys than the cache has room for) and ``sink?[N]``,
    the score of one more key of value zero in each head (``smooth``: 0 in all). Outputs the result and the present key
    and value ``[B, G, max(P, total), D]``.
    """

    in_mnn = False
    attributes = {
        "heads": 1, "groups": 1, "scale": 0.0, "softcap": 0.0, "rotary": False, "interleaved": False, "window": -1,
        "smooth": False,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        heads, groups = self.int_attr(node, "heads"), self.int_attr(node, "groups")
        q, k, v = self._operands(b, inputs, heads, groups)
        past = [optional(inputs, i) for i in (3, 4)]
        batch, rows = q.shape[0], q.shape[2]
        last = b.reshape(b.cast(operand(b, inputs, 5, "lengths"), DType.I64), (batch, 1))
        total = operand(b, inputs, 6, "the number of keys")
        first = b.clamp(b.op("sub", last, b.const(rows - 1, DType.I64)), 0, None)  # where this call's rows begin
        steps = b.const(np.arange(rows, dtype=np.int64).reshape(1, rows))
        if self.bool_attr(node, "rotary"):
            given = optional(inputs, 9)
            places = b.op("add", first, steps) if given is None else places_of(b, given, batch, rows)
            tables = operand(b, inputs, 7, "cosines"), operand(b, inputs, 8, "sines")
            limit = b.clamp(places, 0, tables[0].shape[0] - 1)
            q, k = (rotate(b, t, limit, *tables, self.bool_attr(node, "interleaved")) for t in (q, k))
        if past[0] is not None and past[1] is not None and past[0].shape[2]:
            room, why = past[0].shape[2], "the number of keys"  # which only counts where the cache is too small for it
            grows = not _same_room(node) and exceeds(b, total, room, why)
            length = b.ints(total, why)[0] if grows else room
            k, v = (self._extended(b, p, t, first, length) for p, t in zip(past, (k, v), strict=True) if p is not None)
        keys = k.shape[2]
        scores = Scores(q, k, v, self.float_attr(node, "scale") or 1.0 / sqrt(max(q.shape[3], 1)))
        scores.softcap = self.float_attr(node, "softcap")
        scores.sink = self._sink(b, node, optional(inputs, 11), heads)
        scores.bias = self._reaching(b, optional(inputs, 10), keys)
        scores.check(b)
        place = b.const(np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys))
        query = b.reshape(b.op("add", first, steps), (batch, 1, rows, 1))
        scores.allowed.append(b.op("le", place, query))
        window = self.int_attr(node, "window")
        if window > 0:
            scores.allowed.append(b.op("lt", b.op("sub", query, place), b.const(window, DType.I64)))
        weights = scores.weights(b, scores.masked(b, scores.capped(b, scores.raw(b))))
        return [heads_together(b, scores.mix(b, weights)), k, v]

    def _sink(self, b: Builder, node: Node, given: Tensor | None, heads: int) -> Tensor | None:
        if given is None:
            return b.const(np.zeros((1, 1, 1, 1), np.float32)) if self.bool_attr(node, "smooth") else None
        if given.shape != (heads,):
            raise ShapeError(f"{b.where}: sinks {list(given.shape)} for {heads} heads")
        return b.reshape(given, (1, heads, 1, 1))

    def _reaching(self, b: Builder, bias: Tensor | None, keys: int) -> Tensor | None:
        """A bias of as many keys as the cache has room for; what is added behind its end is masked."""
        missing = 0 if bias is None else keys - bias.shape[-1]
        if bias is None or missing <= 0:
            return bias
        return b.pad(bias, [0] * bias.rank, [0] * (bias.rank - 1) + [missing], 0)

    def _operands(
        self, b: Builder, inputs: Sequence[Tensor | None], heads: int, groups: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = operand(b, inputs, 0), optional(inputs, 1), optional(inputs, 2)
        if (k is None) != (v is None):
            raise UnsupportedError(f"{b.where}: keys without values, or values without keys")
        if k is None or v is None:
            require_rank(b, q, 3)
            size = q.shape[2] // max(heads + 2 * groups, 1)
            cuts = [0, heads * size, (heads + groups) * size, (heads + 2 * groups) * size]
            parts = [b.slice(q, [0, 0, low], [*q.shape[:2], high - low]) for low, high in pairwise(cuts)]
            q, k, v = parts
        return heads_apart(b, q, heads), heads_apart(b, k, groups), heads_apart(b, v, groups)

    def _extended(self, b: Builder, past: Tensor, new: Tensor, first: Tensor, length: int) -> Tensor:
        """Each row's cache with the new rows put in from ``first`` on, ``[B, G, length, D]``."""
        batch, groups, before, size = past.shape
        rows, more = new.shape[2], length - before
        if more > 0:  # what is put behind it is written over where a sequence is not so long
            some = min(more, rows)
            tail = b.slice(new, [0, 0, rows - some, 0], [batch, groups, some, size])
            past = b.concat([past, b.pad(tail, [0, 0, more - some, 0], [0] * 4, 0) if some < more else tail], 2)
        steps = b.const(np.arange(rows, dtype=np.int64).reshape(1, 1, rows, 1))
        line = b.op("add", b.reshape(first, (batch, 1, 1, 1)), steps)
        return b.scatter("set", past, new, [line], [2], [0, 1, -1, 3])


def _same_room(node: Node) -> bool:
    """Whether the model says that the cache is as large as it was."""
    before, after = node.inputs[3], node.outputs[1] if len(node.outputs) > 1 else None
    shapes = [None if v is None or v.shape is None or len(v.shape) != 4 else v.shape[2] for v in (before, after)]
    return shapes[0] is not None and shapes[0] == shapes[1]
