"""Layers that adapters of low rank change while a model runs (LoRA, Hu et al. 2021, arXiv:2106.09685): several of them
at once, each token by its own (as in S-LoRA, Sheng et al. 2023, arXiv:2311.03285)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from MNN.errors import UnsupportedError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Weights

STATE = "adapters"
"""The state that holds the numbers of all adapters, and the output that it becomes."""
MASK = "adapter_mask"
"""The input that says which columns are of each token's adapter."""
_STEP = 16
"""Numbers that parts begin at multiples of: a line of the processor's caches."""


class AdaptedLayers(Layers):
    """Layers of which the ``modules`` (names without ``.weight``) have ``columns`` for the ranks of adapters.

    The graph takes ``adapter_mask`` f32 ``[1, sequence, columns]``, which is 1 in the columns of a token's own adapter
    and 0 in others, and the state ``adapters`` f32 ``[numbers]``: for each call of :meth:`linear`, which computes
    several layers side by side, first the rows that shrink, ``[layers * columns, in]``, then those that expand,
    ``[out, layers * columns]``, with zeros where a layer's rows meet another's columns. ``graph.meta["adapters"]``
    lists the calls: names of layers, the size of what they take, those of what they give; an empty name is a layer
    without adapters.
    """

    def __init__(self, weights: Weights, cache: CacheForm, modules: Collection[str], columns: int) -> None:
        super().__init__(weights, cache=cache)
        self._modules, self._columns = frozenset(modules), columns
        self._mask = self._input(MASK, DType.F32, (1, "sequence", columns))
        self._calls: list[tuple[list[str], int, list[int]]] = []
        self._parts: list[tuple[Value, int]] = []
        """Matrices of the state, as they follow each other, and how many numbers they have."""

    def linear(self, x: Value, *names: str, bias: bool | None = None, order: np.ndarray | None = None) -> Value:
        """See :meth:`MNN.llm.models.layers.Layers.linear`; what a token's adapter makes of ``x`` is added."""
        out = super().linear(x, *names, bias=bias, order=order)
        own = [name for name in names if name in self._modules]
        if not own:
            return out
        taken = self.weights.shape(f"{names[0]}.weight")[1]
        given = [self.height(f"{name}.weight") for name in names]
        self._calls.append(([name if name in self._modules else "" for name in names], taken, given))
        rows = len(own) * self._columns
        small = self.op("MatMul", x, self._part(rows, taken), transposeB=True)
        chosen = self.multiply(small, self.concat([self._mask] * len(own)))
        more = self.op("MatMul", chosen, self._part(sum(given), rows), transposeB=True)
        return self.add(out, more if order is None else self.gather(more, self.const(order), axis=2))

    def _part(self, rows: int, cols: int) -> Value:
        """A matrix of the state. Which part of it this is, is known at the end."""
        flat = Value(self.unique("/adapter"), DType.F32, (rows * cols,))
        self._parts.append((flat, rows * cols))
        return self.reshape(flat, rows, cols)

    def finish(self, logits: Value, name: str = "logits") -> Graph:
        """See :meth:`MNN.llm.models.layers.Layers.finish`. UnsupportedError where an adapter changes a layer that is
        not computed by :meth:`linear`."""
        graph = super().finish(logits, name)
        unused = sorted(self._modules - {name for names, _, _ in self._calls for name in names})
        if unused:
            raise UnsupportedError(
                f"adapters of '{unused[0]}' cannot be switched in models of the kind '{graph.name}'; merge them into "
                "the model: mnn llm convert --lora"
            )
        graph.meta["adapters"] = self._calls
        self._hold()
        return graph

    def _hold(self) -> None:
        """Cuts the state into its parts, before everything else."""
        nodes, before = self.graph.nodes, len(self.graph.nodes)
        parts, sizes = [], []
        for (part, size), (_, room) in zip(self._parts, spans([n for _, n in self._parts]), strict=True):
            parts.append(part)
            sizes.append(size)
            if room > size:
                parts.append(Value(self.unique("/spare"), DType.F32, (room - size,)))
                sizes.append(room - size)
        held = self._input(STATE, DType.F32, (sum(sizes),))
        # A state is what a run writes in place; this one is written by its owner between runs, so here nowhere.
        nowhere, nothing = np.zeros((0, 1), np.int64), np.zeros(0, np.float32)
        state = self.op("ScatterNd", self.const(nowhere), self.const(nothing), self.const([sum(sizes)]), held)
        state.name, state.dtype, state.shape = f"present_{STATE}", DType.F32, (sum(sizes),)
        self.states[held.name] = state.name
        self.graph.outputs.append(state)
        self.split(state, sizes, axis=0)
        nodes[-1].outputs = parts
        nodes[:] = nodes[before:] + nodes[:before]


def spans(sizes: Collection[int]) -> list[tuple[int, int]]:
    """Where parts of these sizes begin in the state, and how many numbers each takes there."""
    found, at = [], 0
    for size in sizes:
        room = -(-size // _STEP) * _STEP
        found.append((at, room))
        at += room
    return found


__all__ = ["MASK", "STATE", "AdaptedLayers", "spans"]
