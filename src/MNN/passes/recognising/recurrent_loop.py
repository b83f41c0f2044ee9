"""What loops of recurrent layers share: turns that count, sequences read in order, products with constants.

TensorFlow's models hold such a layer as a while loop, one step of the cell a turn. Only a loop that is the layer in all
that it does is replaced: its counters start at 0 and count to the length of the sequence, which it reads in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.passes.loops import FIRST, LOOPS, LoopView
from MNN.passes.patterns import attribute, binary, floats, ints, rank, sides, sigmoid, tanh
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import Symbols, dims_of, strided_index

_DEPTH = 4
"""How many sums may be in a row: a damaged file could have very many."""


@dataclass
class Layer:
    """A recurrent layer as ONNX has it: the operator, ``x[T, B, I]``, the weights by name, with their axis of
    directions, which carried values are its states, and attributes."""

    op: str
    x: Value
    weights: dict[str, np.ndarray]
    states: list[int]
    attributes: dict[str, object]


@dataclass
class Products:
    """What the gates' argument is the sum of: products of constants, and biases."""

    factors: list[tuple[Value, np.ndarray]] = field(default_factory=list)
    biases: list[np.ndarray] = field(default_factory=list)


class LoopReader(LoopView, ABC):
    """Reads one loop; its methods answer None or False where it is not what they look for."""

    count: int
    """How many states the layer has."""

    @abstractmethod
    def cell(self, states: list[int], counters: list[int]) -> Layer | None:
        """The layer whose states are these carried values, in one of their orders."""

    def layer(self) -> Layer | None:
        """The layer that the loop is."""
        kinds = [v.dtype for v in self.carried]
        states = [i for i, kind in enumerate(kinds) if kind is DType.F32]
        counters = [i for i, kind in enumerate(kinds) if kind in (DType.I32, DType.I64)]
        if not self.fits() or len(states) != self.count or len(states) + len(counters) != len(kinds):
            return None
        if not all(self.counts(i) and not self._asked_for(self.loop.outputs[i]) for i in counters):
            return None
        for order in (states, states[::-1])[: self.count]:
            found = self.cell(order, counters)
            if found is not None and self._gives(found) and self._runs_along(found.x) and self._fits(found):
                return found
        return None

    def _gives(self, found: Layer) -> bool:
        """Whether all that is collected is the layer's output, its first state."""
        return all(
            self.behind_copies(v) is self.following(found.states[0]) for v in self.body.outputs[1 + len(self.carried) :]
        )

    def _asked_for(self, value: Value) -> bool:
        return bool(self.rw.users(value)) or self.rw.is_output(value)

    def _runs_along(self, x: Value) -> bool:
        """Whether there are as many turns as x has steps: also none, when it has none."""
        sizes, turns = dims_of(x), self.turns()
        return bool(sizes) and turns is not None and sizes is not None and sizes[0] == turns

    # -- the cell -----------------------------------------------------------------------------------------------------

    def activation(self, value: Value) -> tuple[str, Value] | None:
        """An activation's name and what it is applied to."""
        node = self.makers.get(value)
        x = node.inputs[0] if node is not None and node.inputs else None
        if node is None or x is None:
            return None
        if sigmoid(node):
            return "Sigmoid", x
        if tanh(node):
            return "Tanh", x
        return ("Relu", x) if node.op == "ReLU" and not attribute(node, "slope") else None

    def add_up(self, value: Value, into: Products, columns: slice = slice(None), depth: int = 0) -> bool:
        """Whether some columns of a value are a sum of products with constants and of biases, which are noted."""
        node = self.makers.get(value)
        if depth > _DEPTH:
            return False
        if value.is_const:
            data = floats(value)
            if data is None or data.dtype != np.float32 or not 1 <= data.ndim <= 2:
                return False
            into.biases.append(data[..., columns])
            return True
        if binary(node, "ADD"):
            assert node is not None
            return all(self.add_up(v, into, columns, depth + 1) for v in sides(node))
        if node is not None and traits(node).reshapes and node.inputs[0] is not None:
            sizes = dims_of(node.inputs[0])  # the only row of a matrix
            alone = sizes is not None and len(sizes) == 2 and sizes[0] == 1 and dims_of(value) == sizes[1:]
            return alone and self.add_up(node.inputs[0], into, columns, depth + 1)
        inner = None if node is None else _piece(node, value)
        if node is not None and inner is not None and node.inputs[0] is not None:
            joined = range(inner.stop)[inner][columns]
            return self.add_up(node.inputs[0], into, slice(joined.start, joined.stop), depth + 1)
        if node is None or node.op != "MatMul" or attribute(node, "transposeA") or len(node.inputs) not in (2, 3):
            return False
        x, weights = node.inputs[0], floats(node.inputs[1])
        if x is None or rank(x) != 2 or weights is None or weights.dtype != np.float32 or weights.ndim != 2:
            return False
        into.factors.append((x, (weights.T if attribute(node, "transposeB") else weights)[:, columns]))
        bias = node.inputs[2] if len(node.inputs) == 3 else None
        return bias is None or (bias.is_const and self.add_up(bias, into, columns, depth + 1))

    def step(self, value: Value, counters: list[int]) -> Value | None:
        """The sequence ``[T, B, I]`` from outside of which a value is the step at one of the counters."""
        node = self.makers.get(value)
        if node is None or node.op != "GatherV2" or len(node.inputs) != 3 or attribute(node, "batchDims"):
            return None
        x, at, axis = node.inputs
        if x is None or x in self.own or rank(x) != 3 or x.dtype is not DType.F32 or ints(axis) != [0]:
            return None
        return x if any(at is self.carried[i] for i in counters) else None

    def _fits(self, found: Layer) -> bool:
        """Whether x and the first states have the sizes that the operator asks for: a loop would broadcast."""
        sizes = dims_of(found.x)
        if sizes is None or sizes[1] is None or sizes[2] != found.weights["W"].shape[2]:
            return False
        firsts = [self.loop.inputs[FIRST + i] for i in found.states]
        return all(v is not None and v.dtype is DType.F32 for v in firsts) and all(
            dims_of(v) == [sizes[1], found.weights["R"].shape[2]] for v in firsts
        )


def _piece(node: Node, value: Value) -> slice | None:
    """Which columns of a matrix ``value`` is, of a node that cuts it; None where it cuts something else."""
    x = node.inputs[0] if node.inputs else None
    shape = None if x is None else dims_of(x)
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int):
        return None
    width = shape[1]
    if node.op == "Slice":
        count, given = len(node.outputs), list(attribute(node, "slicePoints") or ())
        if len(node.inputs) > 1:
            given = ints(node.inputs[1]) or [0]
        sizes = given or [width // count] * count
        if given.count(-1) == 1:
            sizes[given.index(-1)] = width - sum(given) - 1
        if attribute(node, "axis") not in (1, -1) or attribute(node, "sourceType") == "CAFFE" or len(sizes) != count:
            return None
        if sum(sizes) != width or min(sizes) < 0:
            return None
        at = node.outputs.index(value)
        start = sum(sizes[:at])
        return slice(start, start + sizes[at]) if sizes[at] else None
    index = strided_index(node, 2) or []
    rows, columns = index if len(index) == 2 else (None, None)
    if not isinstance(rows, slice) or not isinstance(columns, slice):
        return None
    if rows.start not in (None, 0) or rows.stop is not None or {rows.step, columns.step} - {None, 1}:
        return None
    start, stop, _ = columns.indices(width)
    return slice(start, stop) if start < stop else None


def either(node: Node) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """The operands in both orders."""
    a, b = sides(node)
    return (a, b), (b, a)


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


def recognised(graph: Graph, reader: type[LoopReader]) -> int:
    """Puts the operator in place of every loop that ``reader`` finds to be its layer; the number of changes."""
    rw, symbols = Rewriter(graph), Symbols(graph.producers())
    for loop in [n for n in rw.nodes() if n.op in LOOPS]:
        body = loop.attrs.get("body")
        if isinstance(body, Graph) and _all_needed(body):
            found = reader(rw, symbols, loop, body).layer()
            if found is not None:
                _replace(rw, loop, found)
    return rw.finish()


def _replace(rw: Rewriter, loop: Node, found: Layer) -> None:
    """Puts the operator, with its axis of directions, in place of the loop."""
    hidden, name = found.weights["R"].shape[2], loop.name
    assert found.x.shape is not None
    steps, batch, _ = found.x.shape
    operands: list[Value | None] = [found.x, *(rw.constant(f"{name}/{k}", v) for k, v in found.weights.items()), None]
    for i in found.states:
        first = loop.inputs[FIRST + i]
        wide = Value(rw.unique(f"{name}/first"), DType.F32, (1, batch, hidden))
        rw.insert(Node("Unsqueeze", wide.name, [first], [wide], {"squeezeDims": [0]}), loop)
        operands.append(wide)
    whole = Value(rw.unique(f"{name}/Y"), DType.F32, (steps, 1, batch, hidden))
    last = [Value(rw.unique(f"{name}/last"), DType.F32, (1, batch, hidden)) for _ in found.states]
    attrs = {**found.attributes, "hidden_size": hidden}
    rw.insert(Node(found.op, rw.unique(f"{name}/layer"), operands, [whole, *last], attrs), loop)
    carried = len(loop.inputs) - FIRST
    results = [(whole, out, 1) for out in loop.outputs[carried:]]
    results += [(made, loop.outputs[i], 0) for made, i in zip(last, found.states, strict=True)]
    for wide, out, axis in results:
        assert wide.shape is not None
        out.shape = wide.shape[:axis] + wide.shape[axis + 1 :]
        rw.insert(Node("Squeeze", out.name, [wide], [out], {"squeezeDims": [axis]}), loop)
    rw.remove(loop)
