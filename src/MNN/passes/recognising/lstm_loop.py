"""Recognises the loop of an LSTM layer (Hochreiter & Schmidhuber 1997; with a forget gate, Gers et al. 2000).

TensorFlow's models hold such a layer as a while loop, one step of the cell a turn. Only a loop that is an LSTM in all
that it does is replaced: its counters start at 0 and count to the length of the sequence, which it reads in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, binary, floats, ints, plain, rank, sides, unary
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import Element, Symbols, dims_of

_FIRST = 2
"""Where the carried values begin among a Loop's operands and its body's inputs."""

_DEPTH = 4
"""How many sums or conditions may be in a row: a damaged file could have very many."""


@dataclass
class Cell:
    """A layer: ``x[T, B, I]``, ``w[I, 4*H]``, ``r[H, 4*H]``, ``bias[4*H]``; which carried values are its output and
    its cell; where the gates are, in the order input, output, forget, cell; the names of the activations as ONNX has
    them."""

    x: Value
    w: np.ndarray
    r: np.ndarray
    bias: np.ndarray
    state: int
    cell: int
    gates: list[int]
    activations: list[str]


@dataclass
class Products:
    """What the gates' argument is the sum of: products of constants, and biases."""

    factors: list[tuple[Value, np.ndarray]] = field(default_factory=list)
    biases: list[np.ndarray] = field(default_factory=list)


def run(graph: Graph) -> int:
    rw, symbols = Rewriter(graph), Symbols(graph.producers())
    for loop in [n for n in rw.nodes() if n.op in ("Loop", "UnrolledLoop")]:
        body = loop.attrs.get("body")
        if isinstance(body, Graph) and _all_needed(body):
            found = LoopReader(rw, symbols, loop, body).layer()
            if found is not None:
                _replace(rw, loop, found)
    return rw.finish()


def _all_needed(body: Graph) -> bool:
    """Whether every node serves an output: what is left besides those (after dead code) may have effects."""
    makers, needed, waiting = body.producers(), set(), list(body.outputs)
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or node in needed:
            continue
        if any(node.subgraphs()):
            return False
        needed.add(node)
        waiting += [v for v in node.inputs if v is not None]
    return len(needed) == len(body.nodes)


class LoopReader:
    """Reads one loop; its methods answer None or False where it is not what they look for."""

    def __init__(self, rw: Rewriter, symbols: Symbols, loop: Node, body: Graph) -> None:
        self.rw, self.symbols, self.loop, self.body = rw, symbols, loop, body
        self.makers = body.producers()
        self.carried = body.inputs[_FIRST:]
        self.own = {*body.inputs, *self.makers}

    def layer(self) -> Cell | None:
        """The LSTM that the loop is."""
        kinds = [v.dtype for v in self.carried]
        states = [i for i, kind in enumerate(kinds) if kind is DType.F32]
        counters = [i for i, kind in enumerate(kinds) if kind in (DType.I32, DType.I64)]
        if (len(self.loop.inputs), len(self.loop.outputs)) != (len(self.body.inputs), len(self.body.outputs) - 1):
            return None
        if len(states) != 2 or len(states) + len(counters) != len(kinds) or len(self.body.outputs) < 1 + len(kinds):
            return None
        if not all(self._counts(i) for i in counters):
            return None
        for state, cell in (states, states[::-1]):
            found = self._cell(state, cell, counters)
            if found is not None and self._runs_along(found.x, counters) and self._fits(found):
                return found
        return None

    def _next(self, i: int) -> Value:
        """What a carried value is in the next turn."""
        return self.body.outputs[1 + i]

    # -- turns --------------------------------------------------------------------------------------------------------

    def _counts(self, i: int) -> bool:
        """Whether a carried value is 0, 1, 2..., and nothing asks where it ended."""
        first, after, last = self.loop.inputs[_FIRST + i], self.makers.get(self._next(i)), self.loop.outputs[i]
        if ints(first) != [0] or not binary(after, "ADD") or self.rw.users(last) or self.rw.is_output(last):
            return False
        assert after is not None
        return any(a is self.carried[i] and ints(b) == [1] for a, b in _either(after)) and self.carried[i].shape == ()

    def _runs_along(self, x: Value, counters: list[int]) -> bool:
        """Whether there are as many turns as x has steps: also none, when it has none."""
        sizes = dims_of(x)
        steps = sizes[0] if sizes else None
        limit = self.loop.inputs[0]
        if steps is None or not (limit is None or self._is(limit, steps)):
            return False
        nexts = {self._next(i) for i in counters}
        ends = list(self._bounds(self.body.outputs[0], self.makers.get))
        if not all(low in nexts and high not in self.own and self._is(high, steps) for low, high in ends):
            return False
        going = self.loop.inputs[1]
        always = plain(going)
        if always is not None:
            return always.size == 1 and bool(always.reshape(-1)[0]) and isinstance(steps, int) and steps > 0
        return going is not None and all(
            ints(low) == [0] and self._is(high, steps) for low, high in self._bounds(going, self.rw.maker)
        )

    def _bounds(
        self, condition: Value, maker: Callable[[Value], Node | None], depth: int = 0
    ) -> Iterator[tuple[Value | None, Value | None]]:
        """The comparisons ``low < high`` that a condition joins; one of Nones for a part that is something else."""
        node = maker(condition)
        if node is not None and binary(node, "LESS"):
            yield sides(node)
        elif node is not None and binary(node, "MUL") and condition.dtype is DType.BOOL and depth < _DEPTH:
            for part in sides(node):
                yield from self._bounds(part, maker, depth + 1)
        else:
            yield None, None

    def _is(self, value: Value | None, size: Element) -> bool:
        return size is not None and self.symbols.elements(value) == [size]

    # -- the cell -----------------------------------------------------------------------------------------------------

    def _cell(self, state: int, cell: int, counters: list[int]) -> Cell | None:
        """With ``c`` the cell and ``h`` the state: ``c = f * c + i * g; h = o * act(c)``, in any order."""
        old, new, out = self.carried[cell], self._next(cell), self._next(state)
        if any(v is not out for v in self.body.outputs[1 + len(self.carried) :]):
            return None
        sums, product = self.makers.get(new), self.makers.get(out)
        if not binary(sums, "ADD") or not binary(product, "MUL"):
            return None
        assert sums is not None
        assert product is not None
        for kept, entering in _either(sums):
            forget = self._kept(kept, old)
            pair = self._gates(entering)
            if forget is None or pair is None:
                continue
            for squashed, opening in _either(product):
                last, gate = self._activation(squashed), self._gate(opening)
                if last is None or last[1] is not new or gate is None:
                    continue
                roles = _roles(pair, gate, forget)
                if roles is not None:
                    gates, names, split = roles
                    return self._whole(split, state, cell, gates, [*names, last[0]], counters)
        return None

    def _kept(self, value: Value, old: Value) -> Gate | None:
        """The gate that the old cell is multiplied by."""
        node = self.makers.get(value)
        if not binary(node, "MUL"):
            return None
        assert node is not None
        return next((self._gate(b) for a, b in _either(node) if a is old), None)

    def _gates(self, value: Value) -> tuple[Gate, Gate] | None:
        """Two gates that are multiplied."""
        node = self.makers.get(value)
        if not binary(node, "MUL"):
            return None
        assert node is not None
        first, second = (self._gate(v) for v in sides(node))
        return None if first is None or second is None else (first, second)

    def _gate(self, value: Value) -> Gate | None:
        found = self._activation(value)
        split = self.makers.get(found[1]) if found is not None else None
        if found is None or split is None or split.op != "Slice" or len(split.outputs) != 4:
            return None
        return Gate(found[0], split, split.outputs.index(found[1]))

    def _activation(self, value: Value) -> tuple[str, Value] | None:
        """An activation's name and what it is applied to."""
        node = self.makers.get(value)
        x = node.inputs[0] if node is not None and node.inputs else None
        if node is None or x is None:
            return None
        if node.op == "Sigmoid" or unary(node, "SIGMOID"):
            return "Sigmoid", x
        if node.op == "TanH" or unary(node, "TANH"):
            return "Tanh", x
        return ("Relu", x) if node.op == "ReLU" and not attribute(node, "slope") else None

    def _whole(
        self, split: Node, state: int, cell: int, gates: list[int], names: list[str], counters: list[int]
    ) -> Cell | None:
        """The cell with the products in front of its gates."""
        z, sums = split.inputs[0], Products()
        if z is None or len(split.inputs) != 1 or attribute(split, "slicePoints") or rank(z) != 2:
            return None
        if attribute(split, "axis") not in (1, -1) or not self._add_up(z, sums) or len(sums.factors) != 2:
            return None
        factors = sums.factors if sums.factors[1][0] is self.carried[state] else sums.factors[::-1]
        (given, w), (previous, r) = factors
        x = self._step(given, counters)
        if x is None or previous is not self.carried[state] or w.shape[1] != r.shape[1]:
            return None
        if r.shape[1] != 4 * r.shape[0] or any(b.size != r.shape[1] or b.shape[-1] != b.size for b in sums.biases):
            return None
        bias = np.asarray(sum((b.reshape(-1) for b in sums.biases), np.zeros(r.shape[1], np.float32)))
        return Cell(x, w, r, bias, state, cell, gates, names)

    def _add_up(self, value: Value, into: Products, depth: int = 0) -> bool:
        """Whether a value is a sum of products with constants and of biases, which are noted."""
        node = self.makers.get(value)
        if depth > _DEPTH:
            return False
        if value.is_const:
            data = floats(value)
            if data is None or data.dtype != np.float32 or not 1 <= data.ndim <= 2:
                return False
            into.biases.append(data)
            return True
        if binary(node, "ADD"):
            assert node is not None
            return all(self._add_up(v, into, depth + 1) for v in sides(node))
        if node is None or node.op != "MatMul" or attribute(node, "transposeA") or len(node.inputs) not in (2, 3):
            return False
        x, weights = node.inputs[0], floats(node.inputs[1])
        if x is None or rank(x) != 2 or weights is None or weights.dtype != np.float32 or weights.ndim != 2:
            return False
        into.factors.append((x, weights.T if attribute(node, "transposeB") else weights))
        bias = node.inputs[2] if len(node.inputs) == 3 else None
        return bias is None or (bias.is_const and self._add_up(bias, into))

    def _step(self, value: Value, counters: list[int]) -> Value | None:
        """The sequence ``[T, B, I]`` from outside of which a value is the step at one of the counters."""
        node = self.makers.get(value)
        if node is None or node.op != "GatherV2" or len(node.inputs) != 3 or attribute(node, "batchDims"):
            return None
        x, at, axis = node.inputs
        if x is None or x in self.own or rank(x) != 3 or x.dtype is not DType.F32 or ints(axis) != [0]:
            return None
        return x if any(at is self.carried[i] for i in counters) else None

    def _fits(self, found: Cell) -> bool:
        """Whether x and the first states have the sizes that the operator asks for: a loop would broadcast."""
        sizes = dims_of(found.x)
        if sizes is None or sizes[1] is None or sizes[2] != found.w.shape[0]:
            return False
        firsts = [self.loop.inputs[_FIRST + i] for i in (found.state, found.cell)]
        return all(v is not None and v.dtype is DType.F32 for v in firsts) and all(
            dims_of(v) == [sizes[1], found.r.shape[0]] for v in firsts
        )


@dataclass
class Gate:
    """An activation of one of the pieces of a Slice."""

    activation: str
    split: Node
    piece: int


def _either(node: Node) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """The operands in both orders."""
    a, b = sides(node)
    return (a, b), (b, a)


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


def _replace(rw: Rewriter, loop: Node, found: Cell) -> None:
    """Puts the operator, with its axis of directions, in place of the loop."""
    hidden, name = found.r.shape[0], loop.name
    assert found.x.shape is not None
    steps, batch, _ = found.x.shape

    def arranged(columns: np.ndarray) -> np.ndarray:
        parts = columns.reshape(-1, 4, hidden)[:, found.gates]
        return np.ascontiguousarray(parts.reshape(-1, 4 * hidden).T)[None]

    bias = arranged(found.bias).reshape(1, -1)
    weights = {"W": arranged(found.w), "R": arranged(found.r), "B": np.concatenate([bias, np.zeros_like(bias)], 1)}
    operands: list[Value | None] = [found.x, *(rw.constant(f"{name}/{k}", v) for k, v in weights.items()), None]
    for i in (found.state, found.cell):
        first = loop.inputs[_FIRST + i]
        wide = Value(rw.unique(f"{name}/first"), DType.F32, (1, batch, hidden))
        rw.insert(Node("Unsqueeze", wide.name, [first], [wide], {"squeezeDims": [0]}), loop)
        operands.append(wide)
    made = [
        Value(rw.unique(f"{name}/{k}"), DType.F32, s)
        for k, s in (("Y", (steps, 1, batch, hidden)), ("h", (1, batch, hidden)), ("c", (1, batch, hidden)))
    ]
    attrs: dict[str, object] = {"activations": found.activations, "hidden_size": hidden}
    rw.insert(Node("OnnxLSTM", rw.unique(f"{name}/LSTM"), operands, made, attrs), loop)
    carried = len(loop.inputs) - _FIRST
    results = [(made[0], out, 1) for out in loop.outputs[carried:]]
    results += [(made[1], loop.outputs[found.state], 0), (made[2], loop.outputs[found.cell], 0)]
    for wide, out, axis in results:
        assert wide.shape is not None
        out.shape = wide.shape[:axis] + wide.shape[axis + 1 :]
        rw.insert(Node("Squeeze", out.name, [wide], [out], {"squeezeDims": [axis]}), loop)
    rw.remove(loop)


PASS = Pass("lstm-loop", run, rank=48)
