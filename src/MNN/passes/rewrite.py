"""Changing a graph in place while knowing who makes and who uses every value."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value


class Rewriter:
    """The edits of one pass over one graph; :meth:`finish` puts them into the graph.

    Values made outside (captured ones) and graph inputs have no maker here. Constants are never changed, because other
    graphs may share them: a pass makes new ones with :meth:`constant`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.changes = 0
        self._outputs = set(graph.outputs)
        self._names: set[str] | None = None

    # Most passes find nothing to do in most graphs, and then ask for none of these. They are worked out before the
    # first change (see :meth:`_change`), and kept up by all.

    @cached_property
    def _maker(self) -> dict[Value, Node]:
        return self.graph.producers()

    @cached_property
    def _users(self) -> dict[Value, list[Node]]:
        return self.graph.consumers()

    @cached_property
    def _position(self) -> dict[Node, float]:
        return {node: float(i) for i, node in enumerate(self.graph.nodes)}

    @cached_property
    def _positions(self) -> list[float]:
        """All positions in order; from the first insertion on."""
        return sorted(self._position.values())

    # -- knowing ----------------------------------------------------------------------------------------------------

    def nodes(self) -> Iterator[Node]:
        """The nodes that the graph had at the start and that are still there."""
        return (n for n in self.graph.nodes if not self.changes or n in self._position)

    def maker(self, value: Value | None) -> Node | None:
        """The node of this graph that makes a value."""
        return None if value is None else self._maker.get(value)

    def made_by(self, value: Value | None, *ops: str) -> Node | None:
        """The maker, when it is one of these operators."""
        node = self.maker(value)
        return node if node is not None and node.op in ops else None

    def users(self, value: Value) -> list[Node]:
        """The nodes that use a value, once per use; a node whose subgraphs use it counts."""
        return self._users.get(value, [])

    def is_output(self, value: Value) -> bool:
        return value in self._outputs

    def used_once(self, value: Value) -> bool:
        """Whether one operand of one node is all that depends on the value."""
        return len(self.users(value)) == 1 and value not in self._outputs

    def only_user(self, value: Value) -> Node | None:
        """The node that alone uses a value (perhaps several times), when it is no output of the graph."""
        nodes = set(self.users(value))
        return next(iter(nodes)) if len(nodes) == 1 and value not in self._outputs else None

    def within(self, value: Value, nodes: Iterable[Node]) -> bool:
        """Whether nothing but these nodes depends on the value."""
        inside = set(nodes)
        return value not in self._outputs and all(u in inside for u in self.users(value))

    def position(self, node: Node) -> float:
        """Grows along the order of the nodes."""
        return self._position[node]

    # -- changing ---------------------------------------------------------------------------------------------------

    def constant(self, base: str, data: np.ndarray) -> Value:
        """A new constant with a name of its own."""
        return Value(self.unique(base), DType.of(data), tuple(data.shape), data)

    def unique(self, base: str) -> str:
        """A name that no value of this graph has."""
        if self._names is None:
            self._names = {v.name for v in self.graph.values()}
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    def _change(self) -> None:
        if not self.changes:
            _ = self._maker, self._users, self._position
        self.changes += 1

    def remove(self, node: Node) -> None:
        """Takes a node out. Its outputs must be given another maker or lose their users."""
        self._change()
        gone = self._position.pop(node)
        if "_positions" in self.__dict__:
            del self._positions[bisect_left(self._positions, gone)]
        for value in {v for v in node.inputs if v is not None}:
            self._users[value] = [u for u in self._users[value] if u is not node]
        for value in node.outputs:
            if self._maker.get(value) is node:
                del self._maker[value]

    def insert(self, node: Node, before: Node) -> None:
        """Puts a new node in front of one that is there."""
        self._change()
        end = self._position[before]
        place = bisect_left(self._positions, end)
        self._position[node] = ((self._positions[place - 1] if place else -1.0) + end) / 2
        insort(self._positions, self._position[node])
        for value in node.inputs:
            if value is not None:
                self._users.setdefault(value, []).append(node)
        for value in node.outputs:
            self._maker[value] = node

    def swap(self, old: Node, new: Node) -> None:
        """Puts a new node in the place of an old one, whose outputs it makes."""
        self.insert(new, old)
        self.remove(old)
        for value in new.outputs:
            self._maker[value] = new

    def set_input(self, node: Node, index: int, value: Value | None) -> None:
        """Changes one operand; absent ones in front of it are filled with None."""
        self._change()
        node.inputs += [None] * (index + 1 - len(node.inputs))
        old = node.inputs[index]
        if old is not None:
            self._users[old].remove(node)
        node.inputs[index] = value
        if value is not None:
            self._users.setdefault(value, []).append(node)

    def set_output(self, node: Node, value: Value) -> None:
        """Makes ``node`` (with one output) make ``value`` in place of what it made."""
        self._change()
        if self._maker.get(node.outputs[0]) is node:
            del self._maker[node.outputs[0]]
        node.outputs = [value]
        self._maker[value] = node

    def redirect(self, old: Value, new: Value) -> bool:
        """Makes everything that uses ``old`` use ``new``; False, and nothing done, when that is not possible.

        A graph output keeps its name: the maker of ``new`` then makes ``old``. That is not possible when ``new`` is a
        graph's input, a constant or an output itself.
        """
        if old in self._outputs:
            maker = self._maker.get(new)
            if maker is None or new in self._outputs:
                return False
            self._change()
            self._replace(new, old)
            maker.outputs = [old if v is new else v for v in maker.outputs]
            self._maker.pop(new)
            self._maker[old] = maker
            old.dtype, old.shape = old.dtype or new.dtype, old.shape if old.shape is not None else new.shape
        else:
            self._change()
            self._replace(old, new)
        return True

    def bypass(self, node: Node, new: Value) -> bool:
        """Takes out a node of one output, whose users then use ``new``; False, and nothing done, if that cannot be."""
        out = node.outputs[0]
        if out in self._outputs and (self._maker.get(new) is None or new in self._outputs):
            return False
        self.remove(node)
        return self.redirect(out, new)

    def absorb(self, node: Node, x: Value) -> None:
        """Takes out a node of one output whose work the maker of ``x``, which nothing else uses, now does too.

        The maker then makes the node's output: every name keeps its meaning, so that tensors can be fetched and
        compared by name.
        """
        maker, out = self._maker[x], node.outputs[0]
        self.remove(node)
        out.dtype, out.shape = out.dtype or x.dtype, out.shape if out.shape is not None else x.shape
        self.set_output(maker, out)

    def _replace(self, old: Value, new: Value) -> None:
        users = self._users.pop(old, [])
        for node in dict.fromkeys(users):
            node.inputs = [new if v is old else v for v in node.inputs]
            for _, sub in node.subgraphs():
                sub.replace(old, new)
        self._users.setdefault(new, []).extend(users)

    def finish(self) -> int:
        """Writes the nodes back, in order; gives the number of changes."""
        if self.changes:
            self.graph.nodes = sorted(self._position, key=self._position.__getitem__)
        return self.changes
