"""The graph that a TensorFlow model becomes, as handlers see it.

How bodies are walked is said in :mod:`MNN.frontends.tensorflow.walk`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.frontends.common.graph_builder import GraphBuilder, ModelState
from MNN.frontends.common.states import Memory
from MNN.frontends.tensorflow.bodies import Body
from MNN.frontends.tensorflow.handles import Handle
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.passes.folding.constant_folding import results_of_constants

FOLDED = 1 << 16
"""Bytes up to which a node's constant results are computed while the file is read: what sizes are made from."""

INSIDE = "\x1f"
"""Between the call of a function and the names in it, which are what is shown of it."""


def shown(key: str) -> str:
    """The name that users see of a node or an output in a scope."""
    return key.rpartition(INSIDE)[2]


@dataclass
class ModelInfo(ModelState):
    """What all (sub)graphs of a model share."""

    functions: Mapping[str, Body] = field(default_factory=dict)
    call: Callable[[Context, str, Sequence[Value], str], list[Value]] | None = None
    restored: Callable[[str, str], np.ndarray | None] = lambda name, shared: None
    """The numbers of a variable by its node's name and its shared name."""
    placeholders: dict[str, Value] = field(default_factory=dict)
    """Inputs of the model by the output of the graph that they stand for."""
    budget: int = 0
    """How many more nodes may be converted: functions that call functions twice grow without bound else."""
    calls: list[str] = field(default_factory=list)
    """Functions being converted, outermost first."""
    failed: set[str] = field(default_factory=set)
    doubtful: set[Value] = field(default_factory=set)
    """Results of nodes that failed, and what is made of them: nothing that is said of their shapes is worth reading."""
    memory: Memory = field(default_factory=Memory)
    """Variables that the model changes, which become states."""
    changing: Collection[str] = ()
    """Which these are, as far as is known before the model is converted."""
    changed: set[str] = field(default_factory=set)
    """Which were found to change."""


class Context(GraphBuilder):
    """``made``: nodes that are converted in this graph, by their names in the scope."""

    model: ModelInfo

    def __init__(self, model: ModelInfo, graph: Graph, parent: Context | None = None) -> None:
        super().__init__(model, graph, parent)
        self.parent: Context | None = parent
        self.made: set[str] = set()
        self.walking: object = None
        """The scope of the node that is being converted."""

    def is_made(self, key: str) -> bool:
        """Whether a node is converted here or in a graph around this one."""
        context: Context | None = self
        while context is not None:
            if key in context.made:
                return True
            context = context.parent
        return False

    @property
    def once(self) -> bool:
        """Whether what is converted here runs once in each run of the model: not in a branch or a loop."""
        return self.parent is None

    def child(self, graph: Graph | None = None) -> Context:
        """A context of its own names; what it emits goes to ``graph``, or to this one's."""
        return Context(self.model, graph or self.graph, self)

    # -- making -----------------------------------------------------------------------------------------------------

    def emit(self, op: str, inputs: Iterable[Value | None], outputs: int = 1, **attrs: object) -> list[Value]:
        """As in :class:`GraphBuilder`; small results of constants are constants."""
        given = list(inputs)
        made = super().emit(op, given, outputs, **attrs)
        if all(v is None or isinstance(v.data, np.ndarray) for v in given):
            node = self.graph.nodes[-1]
            small = sum(v.data.nbytes for v in given if v is not None and isinstance(v.data, np.ndarray)) <= FOLDED
            arrays = results_of_constants(node) if small and not any(True for _ in node.subgraphs()) else None
            if arrays is not None and len(arrays) == len(made) and sum(a.nbytes for a in arrays) <= FOLDED:
                self.graph.nodes.pop()
                for value, array in zip(made, arrays, strict=True):
                    value.data, value.dtype, value.shape = array, DType.of(array), tuple(array.shape)
        return made

    def constant_ints(self, value: Value | None) -> list[int] | None:
        """Also those that follow from known shapes."""
        return super().constant_ints(value) or self.model.shape_inference.known_ints(value)

    def bind(self, names: Sequence[str], values: Sequence[Value], where: str) -> None:
        """A value that has a name already is known by the further one too; the name is the graph's alone."""
        for name, value in zip(names, values, strict=True):
            if value in self._fresh and not isinstance(value, Handle):
                told = self.unique(shown(name))
                super().bind([told], [value], where)
                self.scope[name] = self.scope.pop(told)
            else:
                self.scope[name] = value

    # -- functions --------------------------------------------------------------------------------------------------

    def call(self, name: str, args: Sequence[Value], where: str) -> list[Value]:
        """The results of a function of the file, whose nodes are put here."""
        assert self.model.call is not None
        base, walking = self._base, self.walking
        results = self.model.call(self, name, args, where)
        self._base, self.walking = base, walking
        return results

    def stem(self) -> str:
        """What names of helpers begin with at this node."""
        return self._base
