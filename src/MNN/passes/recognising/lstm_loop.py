"""Recognises the loop of an LSTM layer (Hochreiter & Schmidhuber 1997; with a forget gate, Gers et al. 2000)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, binary, rank, sides
from MNN.passes.recognising.recurrent_loop import Layer, LoopReader, Products, either, recognised


def run(graph: Graph) -> int:
    """Loops of LSTM layers become the operator."""
    return recognised(graph, LstmReader)


class LstmReader(LoopReader):
    """Reads the loop of an LSTM layer, whose states are its output and its cell."""

    count = 2

    def cell(self, states: list[int], counters: list[int]) -> Layer | None:
        """With ``c`` the cell and ``h`` the state: ``c = f * c + i * g; h = o * act(c)``, in any order."""
        state, cell = states
        old, new, out = self.carried[cell], self.following(cell), self.following(state)
        sums, product = self.makers.get(new), self.makers.get(out)
        if not binary(sums, "ADD") or not binary(product, "MUL"):
            return None
        assert sums is not None
        assert product is not None
        for kept, entering in either(sums):
            forget = self._kept(kept, old)
            pair = self._gates(entering)
            if forget is None or pair is None:
                continue
            for squashed, opening in either(product):
                last, gate = self.activation(squashed), self._gate(opening)
                if last is None or last[1] is not new or gate is None:
                    continue
                roles = _roles(pair, gate, forget)
                if roles is not None:
                    gates, names, split = roles
                    return self._whole(split, states, gates, [*names, last[0]], counters)
        return None

    def _kept(self, value: Value, old: Value) -> Gate | None:
        """The gate that the old cell is multiplied by."""
        node = self.makers.get(value)
        if not binary(node, "MUL"):
            return None
        assert node is not None
        return next((self._gate(b) for a, b in either(node) if a is old), None)

    def _gates(self, value: Value) -> tuple[Gate, Gate] | None:
        """Two gates that are multiplied."""
        node = self.makers.get(value)
        if not binary(node, "MUL"):
            return None
        assert node is not None
        first, second = (self._gate(v) for v in sides(node))
        return None if first is None or second is None else (first, second)

    def _gate(self, value: Value) -> Gate | None:
        found = self.activation(value)
        split = self.makers.get(found[1]) if found is not None else None
        if found is None or split is None or split.op != "Slice" or len(split.outputs) != 4:
            return None
        return Gate(found[0], split, split.outputs.index(found[1]))

    def _whole(
        self, split: Node, states: list[int], gates: list[int], names: list[str], counters: list[int]
    ) -> Layer | None:
        """The cell with the products in front of its gates."""
        z, sums = split.inputs[0], Products()
        if z is None or len(split.inputs) != 1 or attribute(split, "slicePoints") or rank(z) != 2:
            return None
        if attribute(split, "axis") not in (1, -1) or not self.add_up(z, sums) or len(sums.factors) != 2:
            return None
        factors = sums.factors if sums.factors[1][0] is self.carried[states[0]] else sums.factors[::-1]
        (given, w), (previous, r) = factors
        x = self.step(given, counters)
        if x is None or previous is not self.carried[states[0]] or w.shape[1] != r.shape[1]:
            return None
        if r.shape[1] != 4 * r.shape[0] or any(b.size != r.shape[1] or b.shape[-1] != b.size for b in sums.biases):
            return None
        bias = np.asarray(sum((b.reshape(-1) for b in sums.biases), np.zeros(r.shape[1], np.float32)))
        hidden = r.shape[0]

        def arranged(columns: np.ndarray) -> np.ndarray:
            parts = columns.reshape(-1, 4, hidden)[:, gates]
            return np.ascontiguousarray(parts.reshape(-1, 4 * hidden).T)[None]

        own = arranged(bias).reshape(1, -1)
        weights = {"W": arranged(w), "R": arranged(r), "B": np.concatenate([own, np.zeros_like(own)], 1)}
        return Layer("OnnxLSTM", x, weights, states, {"activations": names})


@dataclass
class Gate:
    """An activation of one of the pieces of a Slice."""

    activation: str
    split: Node
    piece: int


def _roles(pair: tuple[Gate, Gate], out: Gate, forget: Gate) -> tuple[list[int], list[str], Node] | None:
    """The pieces of the input, output, forget and cell gate, the activations of gates and cell, and the Slice.

    The input's gate is the one of the pair with the activation of the others; when both have it, either is.
    """
    enter, fresh = pair if pair[0].activation == out.activation else pair[::-1]
    roles = [enter, out, forget, fresh]
    if len({g.activation for g in roles[:3]}) != 1 or len({id(g.split) for g in roles}) != 1:
        return None
    pieces = [g.piece for g in roles]
    return (pieces, [out.activation, fresh.activation], out.split) if sorted(pieces) == [0, 1, 2, 3] else None


PASS = Pass("lstm-loop", run, rank=48)
