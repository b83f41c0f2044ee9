"""Do the shapes of a graph fit its operators, as far as that is certain before anything runs?

Followed are only the sizes of inputs and constants, never those that a model claims for what lies between. A node whose
operands have known sizes is lowered, by itself, which is the same test as when it runs. Where sizes are names, the
rules of :mod:`MNN.ops.inference.symbolic_shape_check` say what cannot fit whatever the names stand for. Branches and
bodies of loops are left alone: they may hold what is never taken."""

from __future__ import annotations

from collections.abc import Iterator

from MNN.errors import MNNError, ShapeError, UnsupportedError
from MNN.formatting import plural
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.control.sequence import ListTensor
from MNN.ops.core.isolated_lowering import lowered
from MNN.ops.inference.infer import SMALL, ShapeInference
from MNN.ops.inference.symbolic_shape_check import contradiction

MOST = 20
"""Misfits that are listed."""


def check_shapes(graph: Graph) -> None:
    """Raises :class:`ShapeError` listing the nodes that cannot run with the inputs that the model declares."""
    found = list(misfits(graph))
    if not found:
        return
    rest = [f"... and {len(found) - MOST} more"] if len(found) > MOST else []
    given = ", ".join(f"{v.name} {_shown(v)}" for v in graph.inputs[:MOST] if not v.is_const)
    raise ShapeError(
        "\n  ".join(
            [
                f"the shapes of {plural(len(found), 'node')} do not fit together, so that the model can never run:",
                *found[:MOST],
                *rest,
                f"This follows from the declared inputs ({given}) and the constants: mend the model, or the sizes that "
                "its inputs declare, and export it again",
            ]
        )
    )


def misfits(graph: Graph) -> Iterator[str]:
    """What is wrong, node by node; nodes behind a misfit have unknown operands and are not accused."""
    trial = _Trial(graph)
    for node in graph.nodes:
        yield from trial.step(node)


class _Trial:
    """Values of the graph with only those sizes that are certain."""

    def __init__(self, graph: Graph) -> None:
        kinds = graph.meta.get("kinds")
        nested = set(kinds) if isinstance(kinds, dict) else set()
        self._inference = ShapeInference()
        self._sure = {
            v: Value(v.name, v.dtype, None if v.name in nested else v.shape) for v in graph.inputs if not v.is_const
        }
        self._nested = {self._sure[v] for v in self._sure if v.name in nested}

    def step(self, node: Node) -> Iterator[str]:
        """Finds the outputs of one node; gives what is wrong with it."""
        inputs = [None if v is None else self._of(v) for v in node.inputs]
        outputs = [Value(v.name) for v in node.outputs]
        self._sure.update(zip(node.outputs, outputs, strict=True))
        made = Node(node.op, node.name, inputs, outputs, node.attrs)
        if any(True for _ in node.subgraphs()) or any(v in self._nested for v in inputs):
            return
        wrong = self._lowered(made)
        if wrong is None:
            wrong = contradiction(made)
        if wrong:
            yield wrong
        else:
            self._inference.annotate(made)

    def _of(self, value: Value) -> Value:
        return value if value.is_const else self._sure.setdefault(value, Value(value.name))

    def _lowered(self, node: Node) -> str | None:
        """Lowers a node, and keeps the shapes that come out. Gives what is wrong, in words; None when too little is
        known of its operands."""
        try:
            found = lowered(node, self._inference.known_ints)
        except UnsupportedError:
            return None  # said elsewhere, with all that is unsupported
        except ShapeError as error:
            shapes = ", ".join("-" if v is None else f"'{v.name}' {_shown(v)}" for v in node.inputs)
            return f"{error} (its inputs: {shapes})"
        except MNNError:
            return None
        if found is None:
            return None
        for value, tensor in zip(node.outputs, found, strict=False):
            if isinstance(tensor, ListTensor):
                self._nested.add(value)
                continue
            value.dtype, value.shape = tensor.dtype, tensor.shape
            if tensor.const is not None and tensor.const.size <= SMALL and tensor.dtype.is_int:
                self._inference.numbers[value] = [int(n) for n in tensor.const.reshape(-1)]
        return ""


def _shown(value: Value) -> str:
    return "of unknown shape" if value.shape is None else f"[{', '.join(map(str, value.shape))}]"
