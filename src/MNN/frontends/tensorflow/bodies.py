"""A graph or function of a file as nodes by name, and what their inputs refer to.

In a graph ``name:2`` is the third output of a node; in a function it is ``name:output:2``, where ``output`` is the
name that the operator's definition has for (the first of) its outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from MNN.errors import FormatError
from MNN.frontends.tensorflow.messages import Proto
from MNN.frontends.tensorflow.output_names import LENGTHS, OUTPUTS

MAX_OUTPUT = 1 << 16


@dataclass(frozen=True)
class Ref:
    """An output of a node."""

    node: str
    index: int

    @property
    def text(self) -> str:
        """As graphs spell it."""
        return f"{self.node}:{self.index}" if self.index else self.node


@dataclass
class Body:
    """``args``: names of a function's parameters, in order; ``results`` what it gives, in order."""

    name: str
    nodes: dict[str, Proto]
    function: bool = False
    args: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    controlled: list[str] = field(default_factory=list)
    """Nodes that a call must run beside those that make its results."""
    outputs_of: Mapping[str, list[str]] = field(default_factory=dict)
    """Names of the outputs of functions that nodes may call by their name."""
    changes: bool | None = None
    """Whether it changes variables, once that has been looked for."""

    def resolve(self, text: str, user: str) -> Ref | None:
        """What an input refers to; None for a control input. Raises :class:`FormatError` naming the node ``user``."""
        if text.startswith("^"):
            return None
        name, _, rest = text.partition(":")
        if not self.function:
            index = _number(rest or "0", text, user)
        elif name in self.args and name not in self.nodes:
            index = 0
        else:
            output, _, number = rest.partition(":")
            node = self.nodes.get(name)
            index = _number(number or "0", text, user)
            if output and node is not None:
                index += self._first(node, output)
        if name not in self.nodes and name not in self.args:
            raise FormatError(f"node '{user}' of '{self.name}': nothing makes its input '{text}'")
        return Ref(name, index)

    def _first(self, node: Proto, output: str) -> int:
        names = list(self.outputs_of.get(node.op) or OUTPUTS.get(node.op, ()))
        before = names[: names.index(output)] if output in names else []
        return sum(int(node.attr[LENGTHS[n]].i) if n in LENGTHS else 1 for n in before)

    def known(self, text: str, user: str) -> Ref:
        """As :meth:`resolve`, of what must be an output."""
        ref = self.resolve(text, user)
        if ref is None:
            raise FormatError(f"'{user}': '{text[:200]}' is a control input where a result is expected")
        return ref

    def refs(self, node: Proto) -> list[Ref]:
        """The data inputs of a node."""
        found = (self.resolve(text, node.name) for text in node.input)
        return [ref for ref in found if ref is not None]

    def controls(self, node: Proto) -> list[str]:
        """Names of the nodes that must have run before."""
        return [text[1:] for text in node.input if text.startswith("^")]


def _number(text: str, ref: str, user: str) -> int:
    if not text.isdecimal() or len(text) > 6 or int(text) > MAX_OUTPUT:
        raise FormatError(f"node '{user}': its input '{ref[:200]}' names no output of a node")
    return int(text)


def by_name(nodes: Iterable[Proto], where: str) -> dict[str, Proto]:
    """Nodes by name. Raises :class:`FormatError` for names that are empty or there twice."""
    found: dict[str, Proto] = {}
    for node in nodes:
        if not node.name or not node.op:
            raise FormatError(f"{where}: a node without a name or an operator; is the file damaged?")
        if node.name in found:
            raise FormatError(f"{where}: two nodes are called '{node.name}'")
        found[node.name] = node
    return found


def graph_body(graph: Proto) -> Body:
    """The body of a GraphDef."""
    return Body("the graph", by_name(graph.node, "the graph"), outputs_of=_signatures(graph))


def functions(graph: Proto) -> dict[str, Body]:
    """The functions of a GraphDef's library."""
    found: dict[str, Body] = {}
    signatures = _signatures(graph)
    for function in graph.library.function:
        name = function.signature.name
        nodes = by_name(function.node_def, f"function '{name}'")
        args = [a.name for a in function.signature.input_arg]
        results = []
        for out in function.signature.output_arg:
            if out.name not in function.ret:
                raise FormatError(f"function '{name}': nothing gives its result '{out.name}'")
            results.append(function.ret[out.name])
        controlled = [*function.control_ret.values()]
        found[name] = Body(name, nodes, True, args, results, controlled, signatures)
    return found


def _signatures(graph: Proto) -> dict[str, list[str]]:
    return {f.signature.name: [o.name for o in f.signature.output_arg] for f in graph.library.function}
