"""Recognises the loops of GRU layers (Cho et al. 2014), and of plain recurrent layers (Elman 1990)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.patterns import binary, floats, sides
from MNN.passes.recognising.recurrent_loop import Layer, LoopReader, Products, either, recognised


def run(graph: Graph) -> int:
    """Loops of GRU and plain layers become the operators."""
    return recognised(graph, GruReader) + recognised(graph, PlainReader)


@dataclass
class Gate:
    """``x @ w + h @ r + bias``, with the bias that is added to each product."""

    x: Value
    w: np.ndarray
    r: np.ndarray
    bias: np.ndarray
    inner: np.ndarray


class _Reader(LoopReader):
    count = 1

    def gate(self, value: Value, state: Value, counters: list[int]) -> Gate | None:
        """The argument of an activation, whose second product is that of ``state``."""
        sums = Products()
        if not self.add_up(value, sums) or len(sums.factors) != 2:
            return None
        first, second = sums.factors if sums.factors[1][0] is state else sums.factors[::-1]
        return self._made(first, second, state, sums.biases, [], counters)

    def _made(
        self,
        given: tuple[Value, np.ndarray],
        previous: tuple[Value, np.ndarray],
        state: Value,
        biases: list[np.ndarray],
        inner: list[np.ndarray],
        counters: list[int],
    ) -> Gate | None:
        x, (_, w), (h, r) = self.step(given[0], counters), given, previous
        hidden = r.shape[0]
        if x is None or h is not state or r.shape[1] != hidden or w.shape[1] != hidden:
            return None
        if any(b.size != hidden or b.shape[-1] != hidden for b in (*biases, *inner)):
            return None
        outer_sum, inner_sum = (
            np.asarray(sum((b.reshape(-1) for b in part), np.zeros(hidden, np.float32))) for part in (biases, inner)
        )
        return Gate(x, w, r, outer_sum, inner_sum)


class PlainReader(_Reader):
    """``h = act(x @ w + h @ r + b)``."""

    def cell(self, states: list[int], counters: list[int]) -> Layer | None:
        found = self.activation(self.following(states[0]))
        gate = None if found is None else self.gate(found[1], self.carried[states[0]], counters)
        return None if found is None or gate is None else _layer("RNN", [gate], states, {"activations": [found[0]]})


class GruReader(_Reader):
    """``h = z * h + (1 - z) * n``, where z and the reset gate r are activations of products, and n is one of
    ``x @ w + r * (h @ u + b)`` or of ``x @ w + (r * h) @ u``."""

    def cell(self, states: list[int], counters: list[int]) -> Layer | None:
        old, sums = self.carried[states[0]], self.makers.get(self.following(states[0]))
        if sums is None or not binary(sums, "ADD"):
            return None
        for kept, entering in either(sums):
            for z in self._factors(kept, old):
                for fresh in self._fresh(entering, z):
                    update, candidate = self.activation(z), self.activation(fresh)
                    if update is None or candidate is None:
                        continue
                    parts = self._candidate(candidate[1], old, counters)
                    reset = None if parts is None else self.activation(parts[1])
                    if parts is None or reset is None or reset[0] != update[0]:
                        continue
                    gates = [self.gate(update[1], old, counters), self.gate(reset[1], old, counters), parts[0]]
                    whole = [g for g in gates if g is not None]
                    if len(whole) == 3 and len({g.x for g in whole}) == len({g.r.shape for g in whole}) == 1:
                        names = [update[0], candidate[0]]
                        attributes = {"activations": names, "linear_before_reset": int(parts[2])}
                        return _layer("GRU", whole, states, attributes)
        return None

    def _factors(self, value: Value, other: Value) -> list[Value]:
        """What ``other`` is multiplied by to give a value."""
        node = self.makers.get(value)
        return [a for a, b in either(node) if b is other] if node is not None and binary(node, "MUL") else []

    def _fresh(self, value: Value, z: Value) -> list[Value]:
        """What ``1 - z`` is multiplied by to give a value."""
        node = self.makers.get(value)
        if node is None or not binary(node, "MUL"):
            return []
        return [a for a, b in either(node) if self._rest(self.makers.get(b), z)]

    def _rest(self, node: Node | None, z: Value) -> bool:
        """Whether a node gives ``1 - z``."""
        if node is None or not binary(node, "SUB"):
            return False
        one, other = sides(node)
        number = floats(one)
        return other is z and number is not None and number.size == 1 and float(number.reshape(-1)[0]) == 1

    def _candidate(self, value: Value, old: Value, counters: list[int]) -> tuple[Gate, Value, bool] | None:
        """The products of the new state, the reset gate, and whether that is applied after the product."""
        sums, node = Products(), self.makers.get(value)
        if self.add_up(value, sums) and len(sums.factors) == 2:
            for first, second in (sums.factors, sums.factors[::-1]):
                for reset in self._factors(second[0], old):
                    gate = self._made(first, (old, second[1]), old, sums.biases, [], counters)
                    return None if gate is None else (gate, reset, False)
        if node is None or not binary(node, "ADD"):
            return None
        for plain, scaled in either(node):
            product, given = self.makers.get(scaled), Products()
            if (
                product is None
                or not binary(product, "MUL")
                or not self.add_up(plain, given)
                or len(given.factors) != 1
            ):
                continue
            for reset, inner in either(product):
                own = Products()
                if self.add_up(inner, own) and len(own.factors) == 1:
                    gate = self._made(given.factors[0], own.factors[0], old, given.biases, own.biases, counters)
                    return None if gate is None else (gate, reset, True)
        return None


def _layer(kind: str, gates: list[Gate], states: list[int], attributes: dict[str, object]) -> Layer:
    weights = {
        "W": np.concatenate([g.w.T for g in gates])[None],
        "R": np.concatenate([g.r.T for g in gates])[None],
        "B": np.concatenate([*(g.bias for g in gates), *(g.inner for g in gates)])[None],
    }
    return Layer(f"Onnx{kind}", gates[0].x, weights, states, attributes)


PASS = Pass("gru-loop", run, rank=48)
