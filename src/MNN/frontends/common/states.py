"""What a model keeps from run to run: variables as inputs and outputs of the graph, which become states
(:mod:`MNN.stateful`), and hash tables, which are filled while converting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value

STARTED = "started"


@dataclass(eq=False)
class Variable:
    """``before``: its value as a run begins; ``current``: as the operations so far have left it."""

    name: str
    before: Value | None = None
    current: Value | None = None
    initial: np.ndarray | None = None

    @property
    def assigned(self) -> bool:
        return self.current is not None and self.current is not self.before


@dataclass
class Memory:
    """``variables`` and ``tables`` by name; ``handles``: which of them a value of the file stands for."""

    variables: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, tuple[np.ndarray, np.ndarray] | None] = field(default_factory=dict)
    handles: dict[Value, str] = field(default_factory=dict)
    starting: bool = False
    """Whether what is converted runs once, before the first run."""
    branches: int = 0
    """How many graphs that may run or not, or often, are around what is converted."""

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What is converted within the block may run or not, or often."""
        self.branches += 1
        try:
            yield
        finally:
            self.branches -= 1

    def values(self) -> dict[str, Value | None]:
        """What every variable is now, None where nothing has spoken of its value."""
        return {name: v.current for name, v in self.variables.items()}

    def restore(self, values: dict[str, Value | None]) -> None:
        """Makes variables what they were; those that are new since are what they are as a run begins."""
        for name, variable in self.variables.items():
            variable.current = values.get(name) or variable.before

    def current(self, name: str) -> Value:
        """What a variable that has been spoken of is now."""
        variable = self.variables[name]
        value = variable.current or variable.before
        assert value is not None
        return value

    def changed(self, values: dict[str, Value | None]) -> list[str]:
        """The variables that are something else than they were."""
        return [n for n, v in self.variables.items() if v.current is not (values.get(n) or v.before)]

    def variable(self, name: str) -> Variable:
        """The variable of a name, made when it is first spoken of."""
        return self.variables.setdefault(name, Variable(name))

    def read(self, name: str, dtype: DType | None, shape: tuple[int, ...]) -> Value:
        """A variable's current value. ``dtype`` and ``shape`` are what the file says of it."""
        variable = self.variable(name)
        if variable.current is None:
            variable.before = variable.current = Value(name, dtype, shape)
            if variable.initial is not None:
                variable.before.shape = variable.initial.shape
        return variable.current

    def assign(self, name: str, value: Value) -> None:
        """Gives a variable a new value."""
        variable = self.variable(name)
        if self.starting and value.data is not None:
            variable.initial = value.array()
        else:
            if variable.before is None:  # nothing has read it: what it was does not matter
                variable.before = Value(name, value.dtype, value.shape)
            variable.current = value

    def finish(self, graph: Graph) -> None:
        """Makes every variable that changes an input and an output of the graph; others are constants."""
        states: dict[str, str] = {}
        started: Value | None = None
        taken = {v.name for n in graph.nodes for v in n.outputs} | {v.name for v in graph.inputs}
        for variable in self.variables.values():
            before, after = variable.before, variable.current
            if before is None or after is None:
                continue
            if not variable.assigned:
                sizes = tuple(d if isinstance(d, int) else 1 for d in before.shape or ())
                initial = variable.initial
                dtype = (before.dtype or DType.F32).numpy
                graph.replace(
                    before,
                    Value(before.name, before.dtype, sizes, np.zeros(sizes, dtype) if initial is None else initial),
                )
                continue
            while before.name in taken:  # a damaged file calls a result as a variable
                before.name += ".state"
            taken.add(before.name)
            used = _uses(graph, before) or before in graph.outputs
            if variable.initial is not None and variable.initial.any() and used:
                started = started or Value(STARTED, DType.BOOL, ())
                _begin_with(graph, variable, before, started)
            kept = Value(f"{variable.name}.next", after.dtype, after.shape)
            graph.nodes.append(Node("Identity", kept.name, [after], [kept]))
            graph.inputs.append(before)
            graph.outputs.append(kept)
            states[before.name] = kept.name
        if started is not None:
            after = Value(f"{STARTED}.next", DType.BOOL, ())
            truth = Value(f"{STARTED}.true", DType.BOOL, (), np.asarray(True))
            graph.nodes.append(Node("Identity", after.name, [truth], [after]))
            graph.inputs.append(started)
            graph.outputs.append(after)
            states[STARTED] = after.name
        if states:
            graph.meta["states"] = states


def _uses(graph: Graph, value: Value) -> bool:
    return value in graph.consumers()


def _begin_with(graph: Graph, variable: Variable, before: Value, started: Value) -> None:
    """States begin as zeros: the first run takes the variable's own first value instead."""
    initial = variable.initial
    assert initial is not None
    first = Value(f"{before.name}.first", DType.of(initial), tuple(initial.shape), initial)
    chosen = Value(f"{before.name}.now", before.dtype, before.shape)
    graph.replace(before, chosen)
    graph.nodes.insert(0, Node("Select", chosen.name, [started, before, first], [chosen]))
