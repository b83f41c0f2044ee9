"""What passes ask of loops: which carried values count, how many turns there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.elementwise.identity import is_copy
from MNN.passes.patterns import binary, ints, plain, sides
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import Element, Symbols

LOOPS = ("Loop", "UnrolledLoop")
FIRST = 2
"""Where the carried values begin among a Loop's operands and its body's inputs."""
_DEPTH = 4
"""How many conditions may be in a row: a damaged file could have very many."""


class LoopView:
    """A Loop with its body. Carried values are called by their number."""

    def __init__(self, rw: Rewriter, symbols: Symbols, loop: Node, body: Graph) -> None:
        self.rw, self.symbols, self.loop, self.body = rw, symbols, loop, body
        self.makers = body.producers()
        self.carried = body.inputs[FIRST:]
        self.own = {*body.inputs, *self.makers}

    def fits(self) -> bool:
        """Whether operands and results of loop and body belong together."""
        inputs, count = self.loop.inputs, len(self.carried)
        return (
            len(inputs) == FIRST + count
            and None not in inputs[FIRST:]
            and len(self.loop.outputs) == len(self.body.outputs) - 1 >= count
        )

    def first(self, i: int) -> Value:
        """What a carried value is in the first turn."""
        value = self.loop.inputs[FIRST + i]
        assert value is not None
        return value

    def following(self, i: int) -> Value:
        """What a carried value is in the next turn."""
        return self.behind_copies(self.body.outputs[1 + i])

    def behind_copies(self, value: Value) -> Value:
        """What a value of the body is an Identity of."""
        node = self.makers.get(value)
        while node is not None and is_copy(node) and node.inputs[0] is not None:
            value = node.inputs[0]
            node = self.makers.get(value)
        return value

    def counts(self, i: int) -> bool:
        """Whether a carried value is 0, 1, 2..."""
        after = self.makers.get(self.following(i))
        if ints(self.first(i)) != [0] or self.carried[i].shape != () or after is None or not binary(after, "ADD"):
            return False
        a, b = sides(after)
        return any(x is self.carried[i] and ints(y) == [1] for x, y in ((a, b), (b, a)))

    def turns(self) -> Element:
        """How many turns there are, as far as that is known: a count that all conditions agree on."""
        nexts = {self.following(i) for i in range(len(self.carried)) if self.counts(i)}
        ends = list(self._bounds(self.body.outputs[0], self.makers.get))
        if not ends or any(low not in nexts or high in self.own for low, high in ends):
            return None
        counts = [self._size(high) for _, high in ends]
        if self.loop.inputs[0] is not None:
            counts.append(self._size(self.loop.inputs[0]))
        steps, going = counts[0], self.loop.inputs[1]
        if steps is None or any(c != steps for c in counts) or going is None:
            return None
        always = plain(going)
        if always is not None:
            certain = always.size == 1 and bool(always.reshape(-1)[0]) and isinstance(steps, int) and steps > 0
        else:
            certain = all(
                ints(low) == [0] and self._size(high) == steps for low, high in self._bounds(going, self.rw.maker)
            )
        return steps if certain else None

    def _bounds(
        self, condition: Value, maker: Callable[[Value], Node | None], depth: int = 0
    ) -> Iterator[tuple[Value | None, Value | None]]:
        """The comparisons ``low < high`` that a condition joins; one of Nones for a part that is something else."""
        node = maker(condition)
        if node is not None and binary(node, "LESS"):
            yield sides(node)
        elif binary(node, "MUL", "BITWISE_AND") and condition.dtype is DType.BOOL and depth < _DEPTH:
            assert node is not None
            for part in sides(node):
                yield from self._bounds(part, maker, depth + 1)
        else:
            yield None, None

    def _size(self, value: Value | None) -> Element:
        found = self.symbols.elements(value)
        return found[0] if found is not None and len(found) == 1 else None
