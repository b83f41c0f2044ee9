"""A training step as a file: it is loaded and goes on without the Python code of its model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from MNN.data.dataset import ArrayDataset
from MNN.data.loader import DataLoader
from MNN.errors import MNNError, RunError, ShapeError
from MNN.expr.node import Expr
from MNN.expr.var import Var
from MNN.frontends import load_graph
from MNN.frontends.mnn.write import write_mnn
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.nn.loss import check_labels
from MNN.nn.module import Module, in_mode
from MNN.nn.settings import not_negative, shown
from MNN.nn.steps import STEP
from MNN.ops.core.base import traits
from MNN.ops.elementwise.identity import copying
from MNN.optim.blame import failure
from MNN.optim.capture import Captured
from MNN.optim.optimizer import Optimizer
from MNN.optim.program import StepProgram
from MNN.optim.step_graph import APPLY, AVERAGE, DRAW, FINITE, NORM, RATE, SCALE, SOME, TIME, nodes_before
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from MNN.runtime.state_memory import Kept, StateMemory
from MNN.schema.files import path_of
from MNN.train.step import Steps

INPUT, TARGET, LOSS, PREDICTION = "input", "target", "loss", "prediction"
NEXT, NOW = ".next", ".now"
"""What the results that become states, and the numbers of states, are called behind the state's name."""
EVERY, STEPS, LOSSES = "every", "steps", "losses"
CLASSES = "classes"
"""How many classes labels tell apart, where they are known to; files without it are read too."""
_TAKEN = (
    INPUT, TARGET, LOSS, PREDICTION, RATE, TIME, APPLY, SCALE, SOME, DRAW, NORM, FINITE, EVERY, STEPS, LOSSES, CLASSES,
)  # fmt: skip
"""Names that something else in a file has."""


class TrainingProgram:
    """A step with the numbers that it works on: parameters, statistics, moments. ``learning_rate`` may be changed;
    batches are as large as the one that it was made with."""

    def __init__(self, graph: Graph, threads: int = 1, precision: str = "high") -> None:
        made = {v.name: v for v in graph.outputs}
        stored = {v.name.removesuffix(NOW): _constant(graph, v) for v in graph.outputs if v.name.endswith(NOW)}
        inputs = {v.name: v for v in graph.inputs}
        counts = (RATE, EVERY, STEPS, LOSSES)
        if not {LOSS, PREDICTION} <= set(made) or not set(counts) <= set(stored) or not {INPUT, RATE} <= set(inputs):
            raise MNNError("the file holds no training program; MNN.train.save_program writes one")
        numbers = {name: _number(stored.pop(name)) for name in counts}
        self._classes = int(_number(stored.pop(CLASSES))) if CLASSES in stored else 0
        if min(numbers.values()) < 0 or numbers[EVERY] < 1:
            raise MNNError(f"the training program's counts are damaged: {numbers}")
        self._graph, self.learning_rate = graph, numbers[RATE]
        self._every, self.steps, self.losses = (int(numbers[name]) for name in counts[1:])
        for name, array in stored.items():
            if name not in inputs or name + NEXT not in made or tuple(inputs[name].shape or ()) != array.shape:
                raise MNNError(f"the training program's state '{name}' has no place of its shape in the step")
        self._memory = StateMemory()
        self._memory.kept.update({n: Kept(np.array(a)) for n, a in stored.items()})
        states = [(inputs[n], made[n + NEXT]) for n in stored]
        self._told = [name for name in (FINITE, NORM) if name in made]
        results = [made[LOSS], *[made[name] for name in self._told], *[after for _, after in states]]
        nodes = nodes_before(graph, results)
        used = {v for node in nodes for v in node.inputs}
        taken = [v for v in graph.inputs if v in used]
        config = Config(threads=threads, precision=precision)
        examples = {v.name: stored[v.name] if v.name in stored else _zeros(v) for v in taken}
        self._step = StepProgram(Graph("step", taken, results, nodes), states, config, examples)
        self._draws = any(v.name == DRAW for v in taken)  # in older files random numbers follow from the step's number
        self._fed = {v.name: v for v in taken if v.name in (INPUT, TARGET)}
        kept = {node.inputs[place] for node in nodes for place in traits(node).updates}
        self._statistics = [v.name for v in taken if v in kept and v.name in stored]
        self._looks = Graph("prediction", graph.inputs, [made[PREDICTION]], nodes_before(graph, [made[PREDICTION]]))
        self._executor: Executor | None = None
        self._config = config

    @staticmethod
    def load(path: str | os.PathLike[str], threads: int = 1, precision: str = "high") -> TrainingProgram:
        """From a file that :func:`save_program` or :meth:`save` wrote."""
        return TrainingProgram(load_graph(path_of(path)), threads, precision)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """Copies of the parameters, statistics and moments by name."""
        return {n: np.array(k.array) for n, k in self._memory.kept.items() if n in self._step.states}

    def step(self, inputs: Any, targets: Any) -> float:
        """A step on a batch of arrays: the loss before it. Raises :class:`MNNError` where they do not fit, or where the
        loss is infinite or NaN, or gradients that are looked at are, and parameters stay as they are."""
        feeds = {INPUT: np.asarray(inputs), TARGET: np.asarray(targets)}
        if self._classes and feeds[TARGET].dtype.kind in "iu":
            check_labels(feeds[TARGET], self._classes)
        self.learning_rate = not_negative("learning_rate", self.learning_rate)
        arrays = {name: _fitting(value, feeds[name]) for name, value in self._fed.items()}
        applies = (self.losses + 1) % self._every == 0
        arrays |= {
            RATE: np.asarray(self.learning_rate, np.float32), TIME: np.asarray(self.steps + 1, np.int64),
            APPLY: np.asarray(applies),
        }  # fmt: skip
        if self._draws:
            arrays[DRAW] = np.asarray(self.losses + 1, np.int64)
        before = {name: np.array(self._memory.kept[name].array) for name in self._statistics}
        found = self._step.run(arrays, self._memory)
        loss = float(found[LOSS].reshape(-1)[0])
        self.losses += 1
        finite = not self._told or bool(found[FINITE] if FINITE in found else np.isfinite(found[NORM]))
        if not np.isfinite(loss) or not finite:
            for name, array in before.items():
                self._memory.kept[name].array[...] = array
            raise RunError(failure(self.steps + 1, loss))
        self.steps += applies
        return loss

    def predict(self, inputs: Any) -> np.ndarray:
        """What the model gives for a batch, in inference mode."""
        if self._executor is None:
            self._executor = Executor(self._looks, self._config)
        kept = self.numbers
        needed = {v for node in self._looks.nodes for v in node.inputs}
        feeds = {
            v: _fitting(v, np.asarray(inputs)) if v.name == INPUT else kept[v.name]
            for v in self._looks.inputs
            if v in needed
        }
        return np.asarray(self._executor.run(feeds, self._looks.outputs)[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program with the numbers that it has now, whole or not at all."""
        counts = {
            RATE: np.float32(self.learning_rate), EVERY: self._every, STEPS: self.steps, LOSSES: self.losses,
            CLASSES: self._classes,
        }  # fmt: skip
        ends = [v for v in self._graph.outputs if not v.name.endswith(NOW)]
        write_mnn(_with_numbers(self._graph, ends, {**self.numbers, **counts}), path)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes the model for inference, see :func:`MNN.train.export`."""
        kept, renamed = self.numbers, dict[Value, Value]()
        for v in self._looks.inputs:
            if v.name in kept:
                renamed[v] = Value(v.name, v.dtype, v.shape, kept[v.name])
        (inside,) = (v for v in self._looks.inputs if v.name == INPUT)
        nodes = [
            Node(n.op, n.name, [None if v is None else renamed.get(v, v) for v in n.inputs], n.outputs, dict(n.attrs))
            for n in self._looks.nodes
        ]
        graph = Graph("model", [inside], list(self._looks.outputs), nodes)
        optimize(graph)
        write_mnn(graph, path)


def save_program(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizer,
    inputs: Any,
    targets: Any,
    loss: Callable[[Var, Var], Var] | None = None,
) -> None:
    """Writes the step of a training as a .mnn file that :meth:`TrainingProgram.load` goes on from, without the Python
    code of the model. ``inputs`` and ``targets``: a batch as :func:`MNN.train.fit` takes them; ``loss``: as there. A
    parameter that is called as something in the file is, such as ``rate`` or ``input``, is ``model.rate`` there."""
    if not isinstance(optimizer, Optimizer):
        raise MNNError(f"optimizer is made beforehand, such as MNN.optim.SGD(model, 0.1), found {optimizer!r}")
    if optimizer.module is not model:
        raise MNNError("the optimizer trains another module than the one that is given")
    if optimizer.scale is not None and optimizer.scale.dynamic:
        raise MNNError("a training program has no loss scale that changes; give the optimizer's loss_scale as a number")
    if loss is not None and not callable(loss):
        raise MNNError(f"loss is a function, such as MNN.nn.loss.mse, found {shown(loss)}")
    given, wanted = next(iter(DataLoader(ArrayDataset(inputs, targets), len(inputs), False)))
    if len(given) != 1 or len(wanted) != 1:
        raise MNNError(f"a training program takes one input and one target, found {len(given)} and {len(wanted)}")
    with in_mode(model, True) if not model.is_training else contextlib.nullcontext():  # as fit() trains it
        captured, batch = Steps(model, optimizer, loss).expression(given, wanted)
    with in_mode(model, False):
        look, looked = Steps(model, None, loss).expression(given, wanted)
    named = optimizer.states_of(captured)
    made, values = optimizer.step_graph(captured, named)
    paths = {id(v._expr): name for name, v in model.named_parameters().items()}
    names = {name: paths.get(id(leaf), name) for name, leaf in named.items()}
    names = {name: f"model.{path}" if path in _TAKEN else path for name, path in names.items()}
    moments, numbers = optimizer.state(), dict[str, np.ndarray]()
    states, ends = set(), []
    for state, after in made.states:
        if after is state:  # only read
            continue
        owner, dot, kind = state.name.partition(".")
        own = np.array(named[owner].results()[0]) if kind in ("", AVERAGE) else _zeros(state)
        numbers[names[owner] + dot + kind] = moments.get(state.name, own)
        state.name = names[owner] + dot + kind
        after.name = state.name + NEXT
        states.add(state)
        ends.append(after)
    for leaf, name in zip(batch, (INPUT, TARGET), strict=True):
        if id(leaf) in values:
            values[id(leaf)].name = name
    known = {leaf: values[id(leaf)] for leaf in captured.leaves if values[id(leaf)] in states or leaf in batch}
    fixed = {values[id(e)]: e for e in captured.leaves if e not in known and e is not STEP}
    for value, leaf in fixed.items():
        value.data = np.array(leaf.results()[0])
    graph = made.graph
    for value in graph.inputs:
        if value.name == SCALE and optimizer.scale is not None:
            value.data = np.asarray(optimizer.scale.now, np.float32)
    graph.inputs = [v for v in graph.inputs if not v.is_const]
    graph.outputs[0].name = LOSS
    known[looked[0]] = known[batch[0]]
    prediction, nodes = _looking(look, known)
    whole = Graph("training", graph.inputs, [], [*graph.nodes, *nodes])
    labels = loss is None and not wanted[0]._kind.is_float
    classes = int(captured.outputs[1].shape[-1]) if labels else 0
    if labels:
        check_labels(wanted[0]._array(), classes)
    counts = {
        RATE: np.float32(optimizer.learning_rate), EVERY: optimizer.accumulate, STEPS: optimizer.steps,
        LOSSES: optimizer.losses, CLASSES: classes,
    }  # fmt: skip
    told = [v for v in graph.outputs if v.name in (FINITE, NORM)]
    write_mnn(_with_numbers(whole, [graph.outputs[0], *told, *ends, prediction], {**numbers, **counts}), path)


def _looking(look: Captured, known: Mapping[Expr, Value]) -> tuple[Value, list[Node]]:
    """What the model gives, and its nodes, on the values of a step's graph; other leaves are constants."""
    graph, values = look.graph()
    found = graph.outputs[1]
    nodes = nodes_before(graph, [found])
    shared = {values[id(leaf)]: known[leaf] for leaf in look.leaves if leaf in known}
    for leaf in look.leaves:
        if leaf not in known:
            values[id(leaf)].data = np.array(leaf.results()[0])
    for node in nodes:
        node.name = f"look_{node.name}"
        node.inputs = [None if v is None else shared.get(v, v) for v in node.inputs]
    for v in {v for n in nodes for v in (*n.inputs, *n.outputs) if v is not None and v not in shared.values()}:
        v.name = f"look_{v.name}"
    found.name = PREDICTION
    return found, nodes


def _with_numbers(graph: Graph, ends: Sequence[Value], numbers: Mapping[str, Any]) -> Graph:
    """A graph whose outputs are ``ends``, and numbers by name."""
    nodes = [n for n in graph.nodes if not any(v.name.endswith(NOW) for v in n.outputs)]
    made: list[Value] = []
    for name, number in numbers.items():
        array = np.asarray(number)
        array = array.astype(np.int32) if array.dtype == np.int64 else array
        nodes.append(copying(Value(f"{name}{NOW}.constant", DType.of(array), array.shape, array), f"{name}{NOW}"))
        made += nodes[-1].outputs
    return Graph(graph.name, list(graph.inputs), [*ends, *made], nodes)


def _fitting(value: Value, array: np.ndarray) -> np.ndarray:
    """An array of the type and the shape that a value has."""
    assert value.dtype is not None
    shape = tuple(value.shape or ())
    kinds = "f" if value.dtype.is_float else "iub"
    if array.shape != shape or array.dtype.kind not in kinds:
        found = f"{list(array.shape)} of {array.dtype}"
        raise ShapeError(f"the training program's {value.name} is {list(shape)} of {value.dtype.value}, found {found}")
    return np.ascontiguousarray(array, value.dtype.numpy)


def _constant(graph: Graph, value: Value) -> np.ndarray:
    node = next((n for n in graph.nodes if value in n.outputs), None)
    source = value if node is None else node.inputs[0]
    if source is None or not source.is_const:
        raise MNNError(f"the training program's '{value.name}' is no constant")
    return source.array()


def _number(array: np.ndarray) -> float:
    """One finite number; -1 for anything else."""
    found = float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "fiu" else -1.0
    return found if np.isfinite(found) else -1.0


def _zeros(value: Value) -> np.ndarray:
    assert value.dtype is not None
    return np.zeros(tuple(n for n in value.shape or () if isinstance(n, int)), value.dtype.numpy)
