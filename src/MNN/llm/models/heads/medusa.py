"""Medusa (Cai et al. 2024, arXiv:2401.10774): heads beside the last layer, of which each guesses a token farther ahead.

Weights have the names of published checkpoints, ``N.L.linear`` for the layers of the head ``N`` and ``N.L.weight`` for
what makes logits behind them.
"""

from __future__ import annotations

import re

from MNN.errors import FormatError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph
from MNN.llm.models.heads.eagle import GIVEN
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Weights

_HEAD = re.compile(r"(\d{1,3})\.(\d{1,3})\.weight")


def medusa(weights: Weights, names: list[str]) -> Graph:
    """The graph from :data:`~MNN.llm.models.heads.eagle.GIVEN` of one token, f32 ``[1, 1, width]``, to logits f32
    ``[1, heads, words]``. Raises :class:`FormatError` where heads are missing or do not fit."""
    found = sorted((int(m[1]), int(m[2])) for m in map(_HEAD.fullmatch, names) if m is not None)
    if not found or [head for head, _ in found] != list(range(len(found))):
        raise FormatError("the Medusa heads are not numbered from 0 on, with a layer for logits each")
    sizes = {weights.shape(f"{head}.{depth}.weight") for head, depth in found}
    if len(sizes) > 1:
        raise FormatError(f"the Medusa heads make logits of the sizes {sorted(sizes)}; expected is one size")
    net = Layers(weights, "medusa")
    net.graph.inputs.remove(net.positions)
    given = net.take(GIVEN, DType.F32, (1, 1, sizes.pop()[-1]))
    each = []
    for head, depth in found:
        x = given
        for i in range(depth):
            x = net.add(x, net.activation("silu", net.linear(x, f"{head}.{i}.linear")))
        each.append(net.linear(x, f"{head}.{depth}"))
    return net.finish(net.concat(each, 1))


__all__ = ["medusa"]
