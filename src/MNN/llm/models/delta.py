"""The gated delta rule (Yang et al. 2024, arXiv:2412.06464) as layers have it: behind a short convolution, of queries
and keys of the length 1."""

from __future__ import annotations

from MNN.ir.graph import Value
from MNN.llm.models.layers import Layers
from MNN.llm.models.recurrent import summed_up

_TINY = 1e-6
"""Added to the square of a key's length."""


def delta_rule(
    net: Layers, mixed: Value, decay: Value, share: Value, layer: int, groups: int, sizes: tuple[int, int, int],
    in_turns: bool = False,
) -> Value:  # fmt: skip
    """What the rule makes of ``mixed``, in which queries and keys of ``groups`` heads and values lie side by side:
    ``[batch, sequence, heads, value_size]``. ``decay``, ``share`` (``beta``) and ``sizes`` as in
    :func:`MNN.llm.models.recurrent.summed_up`. Heads of values of one head of keys are neighbours, unless they come
    ``in_turns``."""
    heads, size, value_size = sizes
    q, k, v = net.split(mixed, [groups * size, groups * size, heads * value_size])
    q, k = (_unit(net, net.reshape(t, 0, 0, groups, size), size) for t in (q, k))
    if in_turns:
        q, k = (net.concat([t] * (heads // groups), 2) for t in (q, k))
    v = net.reshape(v, 0, 0, heads, value_size)
    return summed_up(net, net.multiply(q, size**-0.5), k, v, decay, layer, sizes, share)


def gated_norm(net: Layers, out: Value, gate: Value, name: str, epsilon: float, activation: str) -> Value:
    """Heads ``[batch, sequence, heads, size]``, each normalised, times the ``activation`` of their gates, which lie
    side by side as the result does: ``[batch, sequence, heads * size]``."""
    normal = net.reshape(net.rms_norm(out, name, epsilon), 0, 0, -1)
    return net.multiply(normal, net.activation(activation, gate))


def _unit(net: Layers, x: Value, size: int) -> Value:
    """Heads of the length 1."""
    return net.multiply(net.of_size_one(x, _TINY / size), size**-0.5)


__all__ = ["delta_rule", "gated_norm"]
