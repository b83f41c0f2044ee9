"""What language models are made of, as operators of one graph whose batch, sequence and past are open sizes.

A family's file calls these layers in order (:mod:`MNN.llm.models.decoders.dense.llama` is the plainest); the graph then
takes tokens and gives logits, with a cache of keys and values for every layer as inputs and outputs that become states
(:mod:`MNN.stateful`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.graph_builder import ModelState
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.models.arithmetic import Arithmetic, compressed_rows
from MNN.llm.models.cache import TILE, CacheForm
from MNN.llm.models.padded_rows import real_tokens, whole_rows
from MNN.llm.models.rotary import Rotary
from MNN.llm.models.turns import turns
from MNN.llm.models.weights import Array, Weights, alike, joined, ordered, stacked

_USUAL = CacheForm()
_UNSEEN = -1e30
"""Added to a score, it leaves nothing of it; where it is added to all of a row, these are alike, and no NaN."""
Angles = tuple[Value, Value, int]
"""Cosines and sines ``[batch, sequence, 1, width / 2]``, and the width: how many numbers of a head are turned."""


@dataclass(frozen=True)
class Heads:
    """How attention is divided: ``count`` heads for queries, ``groups`` for keys and values, of ``size`` numbers each.

    ``scale`` of the scores is ``size ** -0.5`` when it is 0; ``window``: how many keys a query sees, itself included
    (0: all); ``softcap``: scores become ``softcap * tanh(scores / softcap)`` (0: they do not). ``slopes`` and
    ``sinks``, one for each head of queries: see :class:`MNN.ir.prims.PagedAttention`.
    """

    count: int
    groups: int
    size: int
    scale: float = 0.0
    window: int = 0
    softcap: float = 0.0
    slopes: tuple[float, ...] = ()
    sinks: tuple[float, ...] = ()

    @property
    def causal(self) -> dict[str, object]:
        """Attributes of attention to what is earlier, as far as the window reaches."""
        return {"is_causal": True, "scale": self.scale, "softcap": self.softcap, "left_window_size": self.window - 1}


class Layers(Arithmetic):
    """Makes the graph of one model.

    Inputs of the graph: ``positions`` i64 ``[batch, sequence]``, ``rows`` i64 ``[count]`` (of which places of the
    sequence logits are wanted). Some models take the ``length`` i64 ``[1]`` of the whole text.

    Without ``padded`` the batch is 1, and the tokens are those of several texts, one after the other, whose keys and
    values lie in the pages of one ``cache``: ``tiles`` i64 ``[tiles, 4]``, and for every window that layers have
    ``places{n}`` i64 ``[sequence]`` and ``table{n}`` i64 ``[entries]`` say where
    (:class:`MNN.ir.prims.PagedAttention`); recurrent layers have ``segments`` i64 ``[segments, 4]``
    (:class:`MNN.ir.prims.CausalConvolution`). In place of tokens there are their rows of the table ``embeddings``, a
    weight of this name that is none of the graph's: ``embedded`` f32 ``[1, sequence, width]``. With ``padded``, every
    row of the batch is a text, which caches of its own grow with: ``tokens`` i64 ``[batch, sequence]``, and ``first``
    i64 ``[batch]`` says how many of the oldest keys of each row are padding.
    """

    def __init__(
        self, weights: Weights, name: str = "", padded: bool = False, vectors: bool = False, cache: CacheForm = _USUAL
    ) -> None:
        """``vectors``: what the last layer would make logits of is wanted, and not these."""
        super().__init__(ModelState(), Graph(name))
        self.weights, self.vectors, self.cache = weights, vectors, cache
        self.types: Value | None = None
        """Of encoders of pairs: which of the two texts each token is of, i64 ``[batch, sequence]``."""
        self.caches: dict[int, list[str]] = {}
        """The states of layers by their window, 0 where all keys are seen; ``n`` numbers these in order."""
        self.recurrent: list[str] = []
        """The states of recurrent layers, which have a slot for each text."""
        self._segments: Value | None = None
        self._real: Value | None = None
        self._tiles: Value | None = None
        self._where: list[tuple[Value, Value]] = []
        self.states: dict[str, str] = {}
        """Outputs by the names of the inputs that they become."""
        batch = "batch" if padded else 1
        self.tokens = self._input("tokens", DType.I64, (batch, "sequence")) if padded else None
        self.embeddings = ""
        self.positions = self._input("positions", DType.I64, (batch, "sequence"))
        self.first = self._input("first", DType.I64, (batch,)) if padded else None
        self._batch: int | str = batch
        self.length: Value | None = None
        """Of models whose rotary positions depend on it: how long the whole text is."""
        self._seen: Value | None = None

    def take_types(self) -> None:
        """Makes ``types`` an input."""
        self.types = self._input("types", DType.I64, (self._batch, "sequence"))

    def take(self, name: str, dtype: DType, shape: tuple[int | str, ...]) -> Value:
        """A further input."""
        return self._input(name, dtype, shape)

    def _input(self, name: str, dtype: DType, shape: tuple[int | str, ...]) -> Value:
        value = Value(name, dtype, shape)
        self.graph.inputs.append(value)
        return value

    # -- layers with weights ----------------------------------------------------------------------------------------

    def weight(self, name: str) -> np.ndarray:
        """The numbers of a small weight, in 32 bits."""
        data = self.weights[name]
        if isinstance(data, QuantizedArray):
            data = data.dequantize()
        return np.ascontiguousarray(data, np.float32)

    def height(self, name: str) -> int:
        """How many rows a matrix has."""
        return self.weights.shape(name)[0]

    def vector(self, name: str, plus: float = 0.0) -> Value:
        data = self.weight(name)
        return self.const(data + np.float32(plus) if plus else data)

    def matrix(self, *names: str) -> Array:
        """Weights ``[out, in]``, several of them one above the other."""
        return stacked([self.weights[name] for name in names])

    def stack(self, parts: Sequence[Array]) -> Array:
        """Matrices ``[out, in]``, or stacks of such, one above the other: ``[rows, in]``."""
        whole = stacked(parts)
        if isinstance(whole, QuantizedArray):
            return whole
        return np.ascontiguousarray(whole, np.float32).reshape(-1, whole.shape[-1])

    def linear(self, x: Value, *names: str, bias: bool | None = None, order: np.ndarray | None = None) -> Value:
        """``x W^T + b``: ``name.weight``, and ``name.bias`` where there is one (unless ``bias`` is False). The
        results of several layers lie side by side, or in the ``order`` of these numbers."""
        has = [f"{name}.bias" in self.weights and bias is not False for name in names]
        if bias and not all(has):
            raise FormatError(f"the model lacks the weight '{names[has.index(False)]}.bias'")
        parts = [self.weights[f"{name}.weight"] for name in names]
        shift = None
        if any(has):
            biases = [self.weight(f"{name}.bias") if here else None for name, here in zip(names, has, strict=True)]
            shift = joined(names, biases, [self.height(f"{name}.weight") for name in names])
            shift = shift if order is None else shift[order]
        if order is None and all(isinstance(part, QuantizedArray) for part in parts) and not alike(parts):
            out = self.concat([self.product(x, part) for part in parts])  # as few bits as files have
            return out if shift is None else self.add(out, self.const(shift))
        weight = stacked(parts)
        return self.product(x, weight if order is None else ordered(weight, order), shift)

    def product(self, x: Value, weight: Array, bias: np.ndarray | None = None) -> Value:
        """``x W^T + b`` with ``W [out, in]``."""
        if not isinstance(weight, QuantizedArray):
            weight = np.ascontiguousarray(weight, np.float32)
        out = self.op("MatMul", x, self.hold(weight), transposeB=True)
        return out if bias is None else self.add(out, self.const(bias))

    def embed(self, *names: str) -> Value:
        """The rows of tables that the tokens name, side by side, ``[batch, sequence, width]``."""
        if self.tokens is not None:
            return self.concat([self.rows_of(self.weights[name], self.tokens) for name in names])
        shapes = [self.weights.shape(name) for name in names]
        for name, shape in zip(names, shapes, strict=True):
            if len(shape) != 2:
                raise FormatError(
                    f"the table of embeddings '{name}' has the shape {list(shape)}; expected are two sizes"
                )
        self.embeddings = " ".join(names)
        return self._input("embedded", DType.F32, (1, "sequence", sum(shape[1] for shape in shapes)))

    def rows_of(self, table: Array, indices: Value) -> Value:
        """Rows of a table, which stays compressed where it is."""
        if not isinstance(table, QuantizedArray):
            return self.gather(self.const(np.ascontiguousarray(table, np.float32)), indices)
        return compressed_rows(self, table, indices)

    def rms_norm(self, x: Value, name: str, epsilon: float, plus: float = 0.0) -> Value:
        """``x / rms(x) * (weight + plus)`` over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467)."""
        return self.op("LayerNorm", x, self.vector(f"{name}.weight", plus), axis=[-1], epsilon=epsilon, useRMSNorm=True)

    def layer_norm(self, x: Value, name: str, epsilon: float, plus: float = 0.0) -> Value:
        """Layer normalisation with ``name.weight + plus`` and, where there is one, ``name.bias``."""
        shift = [self.vector(f"{name}.bias")] if f"{name}.bias" in self.weights else []
        return self.op("LayerNorm", x, self.vector(f"{name}.weight", plus), *shift, axis=[-1], epsilon=epsilon)

    def gated(self, x: Value, gate: str, up: str, down: str, activation: str) -> Value:
        """``down(activation(gate(x)) * up(x))`` (Shazeer 2020, arXiv:2002.05202)."""
        inner = self.height(f"{gate}.weight")
        return self.linear(self.gate(self.linear(x, gate, up), inner, activation), down)

    def gate(self, both: Value, inner: int, activation: str) -> Value:
        """``activation(left) * right`` of two halves of ``inner`` numbers."""
        left, right = self.split(both, [inner, inner])
        return self.multiply(self.activation(activation, left), right)

    def begin_experts(self) -> None:
        """Experts are about to be chosen, and read: who has no form for them refuses here."""

    # -- attention --------------------------------------------------------------------------------------------------

    def _length(self) -> Value:
        """``length``, as an input."""
        if self.length is None:
            self.length = self._input("length", DType.I64, (1,))
        return self.length

    def floats(self) -> Value:
        """The positions, f32 ``[batch, sequence, 1, 1]``."""
        return self.op("Unsqueeze", self.floating(self.positions), squeezeDims=[2, 3])

    def angles(self, rotary: Rotary) -> Angles:
        """Those of all positions."""
        turned = self.multiply(self.floats(), turns(self, rotary, self._length))
        cos, sin = (self.multiply(self.unary(kind, turned), rotary.scale) for kind in ("COS", "SIN"))
        return cos, sin, rotary.width

    def rotate(self, x: Value, angles: Angles, size: int, interleaved: bool = False) -> Value:
        """``x [batch, sequence, heads, size]`` with pairs of the first numbers of each head turned (Su et al. 2021,
        arXiv:2104.09864): halves of them, or neighbours where ``interleaved``."""
        cos, sin, width = angles
        still = None
        if width < size:
            x, still = self.split(x, [width, size - width])
        half = width // 2
        if interleaved:
            pairs = self.reshape(x, 0, 0, 0, half, 2)
            left, right = (self.reshape(part, 0, 0, 0, half) for part in self.split(pairs, [1, 1]))
        else:
            left, right = self.split(x, [half, half])
        first = self.op("BinaryOp", self.multiply(left, cos), self.multiply(right, sin), opType="SUB")
        second = self.add(self.multiply(right, cos), self.multiply(left, sin))
        if interleaved:
            both = [self.op("Unsqueeze", part, squeezeDims=[4]) for part in (first, second)]
            turned = self.reshape(self.concat(both), 0, 0, 0, width)
        else:
            turned = self.concat([first, second])
        return turned if still is None else self.concat([turned, still])

    def attention(self, q: Value, k: Value, v: Value, heads: Heads, layer: int, value_size: int = 0) -> Value:
        """Causal attention of the new queries ``[batch, sequence, count, size]`` over the cache and the new keys and
        values ``[batch, sequence, groups, size]``, which the cache of this layer takes in; ``[batch, sequence, count *
        size]``."""
        if self.first is None:
            return self._attention_in_pages(q, k, v, heads, layer, value_size or heads.size)
        sizes = (heads.size, value_size or heads.size)
        past = [
            self._input(f"past_{kind}{layer}", DType.F32, (self._batch, heads.groups, "past", size))
            for kind, size in zip("kv", sizes, strict=True)
        ]
        out, *present = self._whole_attention(q, k, v, heads, past)
        for kind, before, after, size in zip("kv", past, present, sizes, strict=True):
            after.name, after.dtype = f"present_{kind}{layer}", DType.F32
            after.shape = (self._batch, heads.groups, "total", size)
            self.states[before.name] = after.name
            self.graph.outputs.append(after)
        return self.reshape(self.permute(out, 0, 2, 1, 3), 0, 0, heads.count * sizes[1])

    def _whole_attention(self, q: Value, k: Value, v: Value, heads: Heads, past: Sequence[Value]) -> list[Value]:
        """Causal attention over keys and values of a ``past``, if any: the result ``[batch, count, sequence, size]``,
        and the keys and values with the new ones."""
        q, k, v = (self.permute(t, 0, 2, 1, 3) for t in (q, k, v))
        seen = self.not_padding(past[0] if past else None)
        if heads.slopes:
            seen = self._behind(heads.slopes, seen, past[0] if past else None)
        if not heads.sinks:
            return self.emit("OnnxAttention", [q, k, v, seen, *past], 3, **heads.causal)
        more = {**heads.causal, "qk_matmul_output_mode": 2}
        out, *present, scores = self.emit("OnnxAttention", [q, k, v, seen, *past], 4, **more)
        sinks = self.const(np.array(heads.sinks, np.float32).reshape(1, -1, 1, 1))
        top = self.op("Reduction", scores, operation="MAXIMUM", dim=[3], keepDims=True)
        top = self.op("BinaryOp", top, sinks, opType="MAXIMUM")  # a number, where nothing is seen, too
        powers = self.unary("EXP", self.op("BinaryOp", scores, top, opType="SUB"))
        total = self.op("Reduction", powers, operation="SUM", dim=[3], keepDims=True)
        sunk = self.unary("EXP", self.op("BinaryOp", sinks, top, opType="SUB"))
        share = self.op("BinaryOp", total, self.add(total, sunk), opType="REALDIV")
        return [self.multiply(out, share), *present]

    def _behind(self, slopes: Sequence[float], seen: Value | None, past: Value | None) -> Value:
        """What ALiBi takes off scores, the same number for all keys of a query left out, f32 ``[batch, count, 1,
        total]``; nothing sees padding."""
        places = self.floating(self.places(past))
        taken = self.multiply(places, self.const(np.array(slopes, np.float32).reshape(1, -1, 1, 1)))
        return taken if seen is None else self.op("Select", seen, taken, self.const(np.float32(_UNSEEN)))

    def _attention_in_pages(self, q: Value, k: Value, v: Value, heads: Heads, layer: int, value_size: int) -> Value:
        pools = [
            self._input(f"past_{name}{layer}", dtype, shape)
            for name, dtype, shape in self.cache.pools(heads.groups, heads.size, value_size)
        ]
        if heads.window not in self.caches:
            number = len(self.caches)
            self.caches[heads.window] = []
            places = self._input(f"places{number}", DType.I64, ("sequence",))
            self._where.append((places, self._input(f"table{number}", DType.I64, (self.cache.entries,))))
        if self._tiles is None:
            self._tiles = self._input("tiles", DType.I64, ("tiles", 4))
        places, table = self._where[list(self.caches).index(heads.window)]
        self.caches[heads.window] += [pool.name for pool in pools]
        bits = self.cache.codes
        out, *present = self.emit(
            "PagedAttention", [q, k, v, places, table, self._tiles, *pools], 1 + len(pools),
            scale=heads.scale, softcap=heads.softcap, window=heads.window, tile=TILE, key_bits=bits[0],
            value_bits=bits[1], slopes=heads.slopes or None, sinks=heads.sinks or None,
        )  # fmt: skip
        for before, after in zip(pools, present, strict=True):
            self.put(before, after)
        return out

    def attention_at_once(
        self, q: Value, k: Value, v: Value, heads: Heads, causal: bool, value_size: int = 0, mask: Value | None = None
    ) -> Value:
        """Attention of all to all, or of all to what is earlier, without a cache; shapes as in :meth:`attention`.
        ``mask``: which keys are seen, or what is added to scores, in place of :meth:`not_padding`."""
        if causal and mask is None:
            out = self._whole_attention(q, k, v, heads, ())[0]
            return self.reshape(self.permute(out, 0, 2, 1, 3), 0, 0, heads.count * (value_size or heads.size))
        q, k, v = (self.permute(t, 0, 2, 1, 3) for t in (q, k, v))
        attrs = heads.causal if causal else {"scale": heads.scale, "softcap": heads.softcap}
        seen = self.not_padding(None) if mask is None else mask
        out, *_ = self.emit("OnnxAttention", [q, k, v, seen], 3, **attrs)
        return self.reshape(self.permute(out, 0, 2, 1, 3), 0, 0, heads.count * (value_size or heads.size))

    def not_padding(self, past: Value | None) -> Value | None:
        """Which keys of each row are no padding, ``[batch, 1, 1, total]``; None where none is."""
        if self.first is None:
            return None
        if self._seen is None:
            starts = self.op("Unsqueeze", self.first, squeezeDims=[1, 2, 3])
            self._seen = self.op("BinaryOp", self.places(past), starts, opType="GREATER_EQUAL")
        return self._seen

    def places(self, past: Value | None = None) -> Value:
        """The numbers of all tokens of a row, those of a ``past`` before it too, i64 ``[total]``."""
        assert self.tokens is not None
        parts = [(self.tokens, 1)] if past is None else [(past, 2), (self.tokens, 1)]
        lengths = [self.gather(self.op("Shape", value), self.const(np.array(axis))) for value, axis in parts]
        total = self.op("Cast", lengths[0] if past is None else self.add(*lengths), dstT="DT_INT64")
        return self.op("Range", self.const(np.int64(0)), total, self.const(np.int64(1)), Tidx="DT_INT64")

    # -- states of a fixed size -------------------------------------------------------------------------------------

    def slots(self, kind: str, layer: int, shape: Sequence[int]) -> tuple[Value, Value]:
        """The state of a recurrent layer, f32 ``[slots, *shape]``, and the segments that go on from it."""
        count = self.cache.slots if self.first is None else self._batch
        pool = self._input(f"past_{kind}{layer}", DType.F32, (count, *shape))
        self.recurrent.append(pool.name)
        if self._segments is None:
            given = None if self.tokens is None else whole_rows(self, self.tokens)
            self._segments = given or self._input("segments", DType.I64, ("segments", 4))
        return pool, self._segments

    def unpadded(self, x: Value, rank: int = 2) -> Value:
        """``x [batch, sequence, ...]`` of ``rank`` sizes behind the batch, with zeros in place of padding."""
        if self.first is None or self.tokens is None:
            return x
        if self._real is None:
            seen = self._input("past_seen", DType.I64, (self._batch,))
            self._real, after = real_tokens(self, self.tokens, self.first, seen)
            self.put(seen, after)
        mask = self._real if rank == 2 else self.op("Unsqueeze", self._real, squeezeDims=[3])
        return self.multiply(x, mask)

    def put(self, before: Value, after: Value) -> None:
        """Makes an input a state, which becomes this."""
        after.name, after.dtype, after.shape = before.name.replace("past", "present", 1), before.dtype, before.shape
        self.states[before.name] = after.name
        self.graph.outputs.append(after)

    # -- the end ----------------------------------------------------------------------------------------------------

    def picked(self, x: Value) -> Value:
        """The rows of ``x [batch, sequence, width]`` of which logits are wanted."""
        return self.gather(x, self._input("rows", DType.I64, ("count",)), axis=1)

    def before_logits(self, x: Value) -> Value:
        """What logits are made of; whoever shows it to others looks at it here."""
        return x

    def finish(self, logits: Value, name: str = "logits") -> Graph:
        """The graph that gives these, or what else it is called."""
        logits.name = name
        self.graph.outputs.insert(0, logits)
        caches = {str(window): names for window, names in self.caches.items()}
        self.graph.meta |= {"caches": caches, "embeddings": self.embeddings, "recurrent": self.recurrent}
        return self.graph


__all__ = ["Angles", "Heads", "Layers"]
