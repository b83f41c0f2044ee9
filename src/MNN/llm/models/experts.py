"""Mixtures of experts (Shazeer et al. 2017, arXiv:1701.06538): which of them a token takes, and what these make of it.
Experts that a token does not take are not computed, and their weights are not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from MNN.errors import FormatError
from MNN.ir.graph import Value
from MNN.llm.models.config import Config
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Array, alike

USUAL, NUMBERED = ("down_proj", "gate_proj", "up_proj"), ("w2", "w1", "w3")
"""What checkpoints call the parts of an expert: what is behind, gates, and what they let through."""
_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""What configurations call the number of experts, older and newer ones of a family differently."""


@dataclass(frozen=True)
class Routing:
    """How ``most`` of ``count`` experts are chosen: those with the largest scores, which are also their weights.

    ``normal``: the weights of those chosen add up to 1; ``scale``: what they are multiplied by. ``sigmoid``: every
    score is by itself, otherwise they share 1. ``groups`` of neighbours compete first: the ``kept`` best ones by the
    sum of their ``best`` largest scores (DeepSeek-V2, arXiv:2405.04434); those of others are chosen last, or never
    where ``strict``. ``correction``: the name of what is added to scores before the choice, but not to weights
    (arXiv:2408.15664).
    """

    count: int
    most: int
    normal: bool = False
    scale: float = 1.0
    sigmoid: bool = False
    groups: int = 1
    kept: int = 1
    best: int = 1
    strict: bool = False
    correction: str = ""

    @classmethod
    def of(cls, config: Config, normal: bool) -> Routing:
        """As most configurations say it. Raises :class:`FormatError` where numbers are missing or do not fit."""
        return cls(number_of(config), config.count("num_experts_per_tok"), normal).checked()

    def checked(self) -> Routing:
        """Itself. Raises :class:`FormatError` where its numbers do not fit."""
        size = self.count // self.groups if 0 < self.groups <= self.count and self.count % self.groups == 0 else 0
        if not 0 < self.kept <= self.groups or not 0 < self.best <= size or not 0 < self.most <= self.kept * size:
            raise FormatError(
                f"{self.most} of {self.count} experts cannot be chosen from {self.kept} of {self.groups} groups by "
                f"{self.best} scores of each"
            )
        return self


@dataclass(frozen=True)
class Experts:
    """Weights of gated layers, by name: ``{}`` stands for an expert's number, and where it does not, all experts are in
    one tensor. Where there is ``both``, gates and what they let through lie one above the other."""

    down: str
    gate: str = ""
    up: str = ""
    both: str = ""


def number_of(config: Config) -> int:
    """How many experts there are to choose from. Raises :class:`FormatError` where that is not told."""
    return config.count(next((name for name in _COUNTS if config.get(name) is not None), _COUNTS[0]))


def usual(at: str, parts: Sequence[str] = USUAL) -> Experts:
    """The names that most checkpoints have, or those of other ``parts``."""
    return Experts(*(f"{at}.{{}}.{part}.weight" for part in parts))


def mixture(net: Layers, x: Value, router: str, routing: Routing, experts: Experts, activation: str) -> Value:
    """What the experts that ``router.weight`` chooses make of ``x [batch, sequence, width]``, by their weights."""
    weights, index = choose(net, x, router, routing)
    return mixed(net, x, weights, index, routing.count, experts, activation)


def mixed(
    net: Layers, x: Value, weights: Value, index: Value, count: int, experts: Experts, activation: str
) -> Value:  # fmt: skip
    """What the chosen ones of ``count`` experts make of ``x``, by their weights ``[batch, sequence, most]``."""
    rows = net.op("Unsqueeze", x, squeezeDims=[2])  # the same row for every expert
    joint, down = matrices(net, experts, count)
    return weighted(net, taken(net, rows, index, count, joint, down, activation), weights)


def matrices(net: Layers, experts: Experts, count: int) -> tuple[list[Array], list[Array]]:
    """Gates of experts and what they let through, by turns or one above the other, and what is behind."""
    names = [experts.both] if experts.both else [experts.gate, experts.up]
    each = range(count) if "{}" in experts.down else range(1)  # or all of them in one tensor
    joint = [net.weights[name.format(i)] for i in each for name in names]
    return joint, [net.weights[experts.down.format(i)] for i in each]


def taken(
    net: Layers, rows: Value, index: Value, count: int, joint: list[Array], down: list[Array], activation: str
) -> Value:
    """What those of ``count`` gated experts that ``index`` names make of ``rows``, each by itself: shapes as in
    :func:`routed`, matrices as :func:`matrices` gives them."""
    if alike(joint):
        both = routed(net, rows, index, joint, count)
        inner = _height(joint) // count // 2
        hidden = net.gate(both, inner, activation)
    else:  # gates are stored in another way than what they let through
        left, right = (routed(net, rows, index, joint[i::2], count) for i in range(2))
        hidden = net.multiply(net.activation(activation, left), right)
    return routed(net, hidden, index, down, count)


def weighted(net: Layers, each: Value, weights: Value) -> Value:
    """The sum of what experts make, ``[batch, sequence, most, width]``, by their weights."""
    product = net.multiply(each, net.op("Unsqueeze", weights, squeezeDims=[3]))
    return net.op("Reduction", product, operation="SUM", dim=[2], keepDims=False)


def choose(net: Layers, x: Value, router: str, routing: Routing) -> tuple[Value, Value]:
    """The weights of the chosen experts, and which these are: ``[batch, sequence, most]``."""
    bias = net.weight(f"{router}.bias") if f"{router}.bias" in net.weights else None
    logits = net.product(x, net.weight(f"{router}.weight"), bias)
    if net.height(f"{router}.weight") != routing.count:
        raise FormatError(f"'{router}.weight' does not score {routing.count} experts")
    scores = net.op("Sigmoid", logits) if routing.sigmoid else net.op("Softmax", logits, axis=-1)
    ranked = net.add(scores, net.vector(routing.correction)) if routing.correction else scores
    if routing.groups > 1:
        ranked = _of_groups(net, ranked, routing)
    weights, index = largest(net, ranked, routing.most)
    if ranked is not scores and (routing.correction or routing.strict):
        weights = net.op("GatherElements", scores, index, net.const(np.array(2, np.int32)))
    if routing.normal:
        total = net.op("Reduction", weights, operation="SUM", dim=[2], keepDims=True)
        weights = net.op("BinaryOp", weights, net.add(total, net.const(1e-20)), opType="REALDIV")
    return net.multiply(weights, routing.scale), index


def _of_groups(net: Layers, scores: Value, routing: Routing) -> Value:
    """The scores of experts of the best groups; others are 0, or never chosen."""
    apart = net.reshape(scores, 0, 0, routing.groups, -1)
    of_group = net.op("Reduction", largest(net, apart, routing.best)[0], operation="SUM", dim=[3], keepDims=False)
    kept, _ = largest(net, of_group, routing.kept)
    least = net.split(kept, [routing.kept - 1, 1])[1] if routing.kept > 1 else kept
    stays = net.op("Unsqueeze", net.op("BinaryOp", of_group, least, opType="GREATER_EQUAL"), squeezeDims=[3])
    other = net.const(-inf if routing.strict else 0.0)
    return net.reshape(net.op("Select", stays, apart, other), 0, 0, routing.count)


def largest(net: Layers, x: Value, count: int) -> tuple[Value, Value]:
    """The ``count`` largest scores along the last axis, and which experts these are of."""
    net.begin_experts()
    many = net.const(np.array([count], np.int32))
    values, index = net.emit("TopKV2", [x, many], 2, sorted=True, largest=True, outputDataType="DT_INT32")
    return values, index


def routed(net: Layers, rows: Value, index: Value, matrices: list[Array], count: int) -> Value:
    """``rows [batch, sequence, 1 or most, in]`` times the matrices of the experts that ``index`` names, which lie one
    above the other: ``[batch, sequence, most, out]``."""
    stacked = net.stack(matrices)
    return net.op("RoutedMatMul", rows, net.hold(stacked), index, count=count)


def _height(matrices: list[Array]) -> int:
    return sum(int(np.prod(m.shape[:-1])) for m in matrices)


__all__ = [
    "NUMBERED", "USUAL", "Experts", "Routing", "choose", "largest", "matrices", "mixed", "mixture", "number_of",
    "routed", "taken", "usual", "weighted",
]  # fmt: skip
