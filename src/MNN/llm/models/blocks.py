"""What most families have in common: attention, and logits behind the last layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.config import Config
from MNN.llm.models.layers import Angles, Heads, Layers


def attend(
    net: Layers,
    y: Value,
    at: str,
    heads: Heads,
    layer: int,
    angles: Angles | None,
    names: Sequence[str] = ("q_proj", "k_proj", "v_proj"),
    output: str = "o_proj",
    interleaved: bool = False,
    norms: tuple[float, float] | None = None,
    grown: Value | None = None,
    normed: Sequence[str] = ("q_norm", "k_norm"),
) -> Value:
    """Self-attention whose queries, keys and values are linear in ``y``, with the output's layer behind it. ``angles``
    are those of the positions (None: there are none); ``norms`` (epsilon, and what is added to the weights): heads of
    queries and keys are normalised, by the weights that are called as ``normed`` says; ``grown``: what queries are
    multiplied by."""
    qkv = net.linear(y, *(f"{at}.{name}" for name in names))
    gamma = None if norms is None else norms_of_heads(net, at, heads, norms[1], normed)
    q, k, v = apart(net, qkv, heads, angles, interleaved, gamma, norms[0] if norms else 0.0)
    q = q if grown is None else net.multiply(q, grown)
    return net.linear(net.attention(q, k, v, heads, layer), f"{at}.{output}")


def apart(
    net: Layers, qkv: Value, heads: Heads, angles: Angles | None, interleaved: bool = False,
    gamma: np.ndarray | None = None, epsilon: float = 0.0,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Queries, keys and values ``[batch, sequence, heads, size]`` of ``qkv``, in which they lie side by side; the first
    two normalised, where there is a ``gamma [count + groups, size]``, and turned."""
    each = net.reshape(qkv, 0, 0, heads.count + 2 * heads.groups, heads.size)
    qk, v = net.split(each, [heads.count + heads.groups, heads.groups], axis=2)
    if gamma is not None:
        normal = net.op("LayerNorm", qk, axis=[-1], epsilon=epsilon, useRMSNorm=True)
        qk = net.multiply(normal, net.const(gamma))
    if angles is not None:
        qk = net.rotate(qk, angles, heads.size, interleaved)
    q, k = net.split(qk, [heads.count, heads.groups], axis=2)
    return q, k, v


def norms_of_heads(
    net: Layers, at: str, heads: Heads, plus: float = 0.0, normed: Sequence[str] = ("q_norm", "k_norm")
) -> np.ndarray:  # fmt: skip
    """Weights of norms for each head of queries and keys, ``[count + groups, size]``, and ``plus``. Raises
    :class:`FormatError` where they do not fit."""
    own = [net.weight(f"{at}.{name}.weight") for name in normed]
    if any(one.shape != (heads.size,) for one in own):
        raise FormatError(f"{at}: norms of queries and keys are no vectors of {heads.size} numbers, a head's size")
    tiled = [np.tile(one, (n, 1)) for one, n in zip(own, (heads.count, heads.groups), strict=True)]
    found: np.ndarray = np.concatenate(tiled) + np.float32(plus)
    return found


def grouped(net: Layers, y: Value, name: str, heads: Heads) -> Value:
    """Queries, keys and values side by side, of one layer whose rows lie group by group: the queries of a head of keys,
    then that, then its values. Files of other kinds have three layers instead, ``name.q`` and so on. Raises
    :class:`FormatError` where rows are missing."""
    if f"{name}.weight" not in net.weights and f"{name}.q.weight" in net.weights:
        return net.linear(y, *(f"{name}.{part}" for part in "qkv"))
    each = heads.count // heads.groups
    order = np.arange((heads.count + 2 * heads.groups) * heads.size).reshape(heads.groups, each + 2, heads.size)
    if net.height(f"{name}.weight") != order.size:
        raise FormatError(f"'{name}.weight' has {net.height(f'{name}.weight')} rows; expected are {order.size}")
    rows = np.concatenate([order[:, :each].reshape(-1), order[:, each].reshape(-1), order[:, each + 1].reshape(-1)])
    return net.linear(y, name, order=rows)


def gated_of(net: Layers, y: Value, at: str, activation: str) -> Value:
    """A gated layer whose gate and what it lets through are one matrix, ``input_linear``; files of other kinds have
    two."""
    if f"{at}.input_linear.weight" not in net.weights:
        return net.gated(y, f"{at}.gate_proj", f"{at}.up_proj", f"{at}.output_linear", activation)
    inner = net.height(f"{at}.input_linear.weight") // 2
    return net.linear(net.gate(net.linear(y, f"{at}.input_linear"), inner, activation), f"{at}.output_linear")


def with_sinks(net: Layers, heads: Heads, name: str) -> Heads:
    """Heads with the sinks of a weight. Raises :class:`FormatError` where these are not one for each."""
    found = net.weight(name).reshape(-1)
    if len(found) != heads.count:
        raise FormatError(f"'{name}' has {len(found)} numbers; expected are {heads.count}, one for each head")
    return replace(heads, sinks=tuple(found.tolist()))


def slopes(heads: int, most: float = 8.0) -> tuple[float, ...]:
    """What ALiBi takes off scores for each token, for every head (Press et al. 2021, arXiv:2108.12409): powers of two
    down to ``2 ** -most``. Where heads are no power of two, those of the next smaller one come first, then some
    that lie between."""
    larger = 1 << max(heads - 1, 0).bit_length()
    fine = [2.0 ** (-most * (i + 1) / larger) for i in range(larger)]
    if larger == heads:
        return tuple(fine)
    found = [*fine[1::2], *fine[::2]]
    return tuple(found[:heads])  # every other one of the larger power of two is one of the smaller


def head(
    config: Config, net: Layers, x: Value, table: str = "model.embed_tokens", own: str = "lm_head", scale: float = 1.0,
    softcap: float = 0.0,
) -> Graph:  # fmt: skip
    """The logits, from weights of their own or those of the table of embeddings; or what they are made of, where that
    is wanted."""
    if net.vectors:
        return net.finish(x, "vectors")
    x = net.before_logits(x)
    tied = config.flag("tie_word_embeddings") or f"{own}.weight" not in net.weights
    weight = net.matrix(f"{table if tied else own}.weight")
    bias = net.weight(f"{own}.bias") if f"{own}.bias" in net.weights else None
    return net.finish(net.softcap(net.multiply(net.product(x, weight, bias), scale), softcap))


__all__ = ["apart", "attend", "gated_of", "grouped", "head", "norms_of_heads", "slopes", "with_sinks"]
