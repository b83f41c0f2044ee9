"""Mamba-1 (Gu & Dao 2023, arXiv:2312.00752): a short convolution, then for every channel a state of some numbers, each
of which fades by a rate of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import insert_axis
from MNN.ir.graph import Value
from MNN.llm.models.layers import Layers
from MNN.llm.models.mamba import softplus
from MNN.llm.models.recurrent import convolved, summed_up


@dataclass(frozen=True)
class Mamba1:
    """``inner`` channels of ``state`` numbers each; ``rank``: of what steps of time are made of. Where there is an
    ``epsilon``, what these, keys and queries are made of is normalised, by ``names`` of weights or without."""

    inner: int
    state: int
    rank: int
    epsilon: float = 0.0
    names: tuple[str, ...] = ()
    activation: str = "silu"


def mamba1(net: Layers, y: Value, at: str, layer: int, form: Mamba1) -> Value:
    """The layer ``at`` of ``y [batch, sequence, width]``. Raises :class:`FormatError` for weights that do not fit.

    As attention whose keys and values are summed up it has a head of one number for each number of the state: those
    of a channel share its value, those at the same place of all channels share key and query."""
    inner, state = form.inner, form.state
    rates = net.weight(f"{at}.A_log")
    if rates.shape != (inner, state):
        raise FormatError(f"'{at}.A_log' has the shape {list(rates.shape)}; expected is [{inner}, {state}]")
    x, gate = net.split(net.linear(y, f"{at}.in_proj"), [inner, inner])
    x = net.activation(form.activation, convolved(net, x, f"{at}.conv1d", layer))
    parts = net.split(net.linear(x, f"{at}.x_proj"), [form.rank, state, state])
    if form.names:
        given = zip(parts, form.names, strict=True)
        parts = [net.rms_norm(part, f"{at}.{name}", form.epsilon) for part, name in given]
    elif form.epsilon:
        parts = [net.of_size_one(part, form.epsilon) for part in parts]
    steps = softplus(net, net.linear(parts[0], f"{at}.dt_proj"))
    decay = net.unary("EXP", net.multiply(insert_axis(net, steps, 2), net.const(-np.exp(rates.T))))
    value = net.repeat(insert_axis(net, net.multiply(x, steps), 2), state)
    k, q = (net.reshape(part, 0, 0, state, 1) for part in parts[1:])
    heads = state * inner
    value, decay = net.reshape(value, 0, 0, heads, 1), net.reshape(decay, 0, 0, heads)
    out = summed_up(net, q, k, value, decay, layer, (heads, 1, 1))
    out = net.multiply(net.mean(net.reshape(out, 0, 0, state, inner), 2), float(state))
    out = net.add(net.reshape(out, 0, 0, inner), net.multiply(x, net.vector(f"{at}.D")))
    return net.linear(net.multiply(out, net.activation(form.activation, gate)), f"{at}.out_proj")


__all__ = ["Mamba1", "mamba1"]
