"""Mamba-2 (Dao & Gu 2024, arXiv:2405.21060): a short convolution, then attention whose keys and values are summed up in
a state that decays by what a token says."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.ir.graph import Value
from MNN.llm.models.config import Config
from MNN.llm.models.layers import Layers
from MNN.llm.models.recurrent import convolved, summed_up


@dataclass(frozen=True)
class Mamba:
    """``heads`` of ``size`` values, with keys and queries of ``state`` numbers for each of ``groups`` of them. ``low``
    and ``high``: between which the steps of time are. ``epsilon``: of the norm behind, of each group or, where
    ``whole``, of all; it stands in front of the gate where it is ``first``."""

    heads: int
    size: int
    groups: int
    state: int
    epsilon: float
    low: float = 0.0
    high: float = inf
    first: bool = False
    whole: bool = False
    activation: str = "silu"

    @classmethod
    def of(cls, config: Config, first: bool = False) -> Mamba:
        """By the names that most configurations have. Raises :class:`FormatError` where numbers do not fit."""
        heads, told = config.count("mamba_n_heads"), config.get("mamba_d_head")
        inner = int(config.number("mamba_d_ssm", 0)) or int(config.number("mamba_expand", 2) * config.width)
        size = told if isinstance(told, int) else inner // heads
        groups, limit = int(config.number("mamba_n_groups", 1)), config.listed("time_step_limit") or [0.0, inf]
        if len(limit) != 2 or not all(isinstance(n, (int, float)) for n in limit):
            raise FormatError(
                f"time_step_limit of the model's configuration is {limit!r:.60}; expected are two numbers"
            )
        low, high = map(float, limit)
        state = config.count("mamba_d_state")
        return cls(heads, size, groups, state, config.epsilon, low, high, first, False, config.activation).checked()

    def checked(self) -> Mamba:
        """Itself. Raises :class:`FormatError` where its numbers do not fit."""
        if self.size < 1 or self.groups < 1 or self.heads % self.groups:
            raise FormatError(f"{self.heads} heads of {self.size} in Mamba layers cannot share {self.groups} groups")
        return self

    @property
    def inner(self) -> int:
        """The width inside a layer."""
        return self.heads * self.size


def mamba2(net: Layers, y: Value, at: str, layer: int, form: Mamba, scales: np.ndarray | None = None) -> Value:
    """The layer ``at`` of ``y [batch, sequence, width]``. ``scales``: what its projection is multiplied by."""
    keys = form.groups * form.state
    projected = net.linear(y, f"{at}.in_proj")
    if scales is not None:
        projected = net.multiply(projected, net.const(scales.astype(np.float32)))
    gate, mixed, steps = net.split(projected, [form.inner, form.inner + 2 * keys, form.heads])
    mixed = net.activation(form.activation, convolved(net, mixed, f"{at}.conv1d", layer))
    x, k, q = net.split(mixed, [form.inner, keys, keys])
    k, q = (net.reshape(t, 0, 0, form.groups, form.state) for t in (k, q))
    x = net.reshape(x, 0, 0, form.heads, form.size)
    steps = softplus(net, net.add(steps, net.vector(f"{at}.dt_bias")))
    if form.low > 0:
        steps = binary(net, "MAXIMUM", steps, net.const(form.low))
    if form.high < inf:
        steps = binary(net, "MINIMUM", steps, net.const(form.high))
    rate = -np.exp(net.weight(f"{at}.A_log").reshape(-1))
    decay = net.unary("EXP", net.multiply(steps, net.const(rate)))
    given = net.multiply(x, net.op("Unsqueeze", steps, squeezeDims=[3]))
    out = summed_up(net, q, k, given, decay, layer, (form.heads, form.state, form.size))
    out = net.add(out, net.multiply(x, net.const(net.weight(f"{at}.D").reshape(-1, 1))))
    return net.linear(
        _gated(net, net.reshape(out, 0, 0, form.inner), gate, f"{at}.norm.weight", form), f"{at}.out_proj"
    )


def _gated(net: Layers, x: Value, gate: Value, norm: str, form: Mamba) -> Value:
    """What the gate lets out, normalised where there is a norm."""
    opened = net.activation("silu", gate)
    if norm not in net.weights:
        return net.multiply(x, opened)
    x = x if form.first else net.multiply(x, opened)
    groups = 1 if form.whole else form.groups
    x = net.reshape(x, 0, 0, groups, form.inner // groups)
    x = net.op("LayerNorm", x, axis=[-1], epsilon=form.epsilon, useRMSNorm=True)
    x = net.multiply(net.reshape(x, 0, 0, form.inner), net.const(net.weight(norm).reshape(-1)))
    return net.multiply(x, opened) if form.first else x


def softplus(net: Layers, x: Value) -> Value:
    """``log(1 + exp(x))``, without overflow."""
    above = binary(net, "MAXIMUM", x, net.const(0.0))
    small = net.unary("EXP", net.unary("NEG", net.unary("ABS", x)))
    return net.add(above, net.unary("LOG1P", small))


__all__ = ["Mamba", "mamba2", "softplus"]
