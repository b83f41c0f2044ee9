"""The base of optimisers: a loss in, one native call, better parameters."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from MNN.errors import MNNError, RunError, ShapeError
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.node import Expr
from MNN.expr.var import Var
from MNN.ir.graph import Value
from MNN.nn.module import Module, numbered, trainable
from MNN.nn.settings import Setting, flag, not_negative, share, shown, whole, whole_or_none
from MNN.nn.steps import STEP
from MNN.optim import checks, update_graph
from MNN.optim import step_graph as step_graphs
from MNN.optim.blame import blame, failure
from MNN.optim.capture import Captured, capture
from MNN.optim.groups import Group, Groups
from MNN.optim.program import Recent, StepProgram
from MNN.optim.regularization import Regularization_Method
from MNN.optim.step_graph import APPLY, AVERAGE, DRAW, FINITE, NORM, RATE, SCALE, SOME, TIME, Method, StepGraph, moved
from MNN.runtime.config import Config
from MNN.runtime.state_memory import Kept, StateMemory
from MNN.warning import warn

PARAMETER, STATISTIC = "parameter", "statistic"
"""What names of states begin with."""


class Optimizer:
    """Trains the parameters of a module. Settings can be changed between steps; the learning rate at no cost.

    ``accumulate``: losses whose gradients are averaged before a step is made. ``clip_norm`` limits the norm of all
    gradients together, ``clip_value`` each number of them. ``precision`` and ``threads`` as in
    :class:`MNN.runtime.config.Config`; threads are those of ``MNN.expr.set_thread_number`` where not given. ``debug``:
    the operator that first gave an infinite number or NaN is searched for and named. ``activation_memory``: bytes that
    what the loss is computed from may take; what is not kept for gradients is computed again, what is cheap first.
    Without it, that is done where it takes next to no time. ``loss_scale``: what losses are multiplied by on the way
    back, and gradients divided by, for ``precision="low"`` on processors whose narrow floats are f16; ``"dynamic"``
    finds it: a step whose gradients are infinite or NaN is left out and halves it, 2,000 others double it. ``groups``:
    parameters with other learning rates and weight decays (:class:`~MNN.optim.groups.Group`). ``average``: of a running
    mean of the parameters, the share that a step keeps; :meth:`averaged` puts the mean in their place.
    """

    weight_decay = Setting(not_negative)
    regularization_method = Setting(checks.pull)
    accumulate = Setting(whole)
    clip_norm, clip_value = Setting(not_negative), Setting(not_negative)
    precision, threads = Setting(checks.precision), Setting(checks.threads)
    debug = Setting(flag)
    activation_memory = Setting(whole_or_none)
    average = Setting(share)
    scale = Setting(checks.scale)
    """What losses are multiplied by; None where they are not."""

    def __init__(
        self,
        module: Module,
        learning_rate: float,
        weight_decay: float = 0.0,
        regularization_method: Regularization_Method | str = Regularization_Method.L2,
        *,
        accumulate: int = 1,
        clip_norm: float = 0.0,
        clip_value: float = 0.0,
        precision: str = "high",
        threads: int | None = None,
        debug: bool = False,
        activation_memory: int | None = None,
        loss_scale: float | str | None = None,
        groups: Sequence[Group] = (),
        average: float = 0.0,
    ) -> None:
        if not isinstance(module, Module):
            raise MNNError(
                f"an optimizer trains a Module, found {type(module).__name__}; optim.Grad() gives gradients alone"
            )
        self.module: Module | None = module
        """What is trained; None of one that takes gradients alone."""
        if hidden := module.unlisted():
            warn(
                f"parameters in {type(module).__name__}'s {', '.join(hidden)} are not trained: modules in a list or a "
                "dict are not found; set each as an attribute (setattr(self, f'layer{i}', layer)), or call "
                "self._register_submodules(layers)"
            )
        self.learning_rate = not_negative("learning_rate", learning_rate)
        self.weight_decay, self.regularization_method = weight_decay, regularization_method
        self.accumulate, self.clip_norm, self.clip_value = accumulate, clip_norm, clip_value
        self.precision, self.threads, self.debug = precision, threads, debug
        self.activation_memory, self.average = activation_memory, average
        self._groups = Groups(module, groups)
        self.scale = loss_scale
        self.steps = 0
        """Steps that were made."""
        self.losses = 0
        """Losses that were taken, of which ``accumulate`` make a step."""
        self.counted = 0
        """Losses since the last step whose gradients were finite, where others are left out."""
        self.norm: float | None = None
        """That of all gradients of the last loss, before it was limited, where limits are set."""
        self._memory = StateMemory()
        self._programs: Recent[tuple[object, ...], StepProgram] = Recent(operator.attrgetter("nbytes"))
        self._views: dict[str, np.ndarray] = {}
        self._others: dict[int, tuple[str, Expr]] = {}
        """Statistics of modules that the loss goes through but that are not trained here, with their names."""

    def method(self) -> Method:
        """The operator of the step."""
        raise NotImplementedError(f"{type(self).__name__} has no step; it only takes gradients")

    def whole_method(self) -> Method:
        """The operator with the settings of groups and the running mean."""
        found = replace(self.method(), specials=self._groups.specials(self.module))
        return found.averaging(self.average) if self.average else found

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Within this context the module's parameters are the running means of those that were trained (``average=``);
        those that no step has moved stay. Not for steps."""
        if not self.average or self.module is None:
            raise MNNError("this optimizer has no running mean of parameters; make it with average=0.999, for example")
        swapped = []
        for i, var in enumerate(numbered(self.module)):
            mean = self._memory.kept.get(f"{PARAMETER}{i}.{AVERAGE}")
            if mean is not None:
                swapped.append((var, np.array(var.read())))
                var.write(np.array(mean.array))
        try:
            yield
        finally:
            for var, array in swapped:
                var.write(array)

    @property
    def _watched(self) -> bool:
        """Whether all gradients are looked at before a step."""
        return self.debug or self.scale is not None

    @property
    def _skips(self) -> bool:
        """Whether losses whose gradients are infinite or NaN are left out without an error."""
        return self.scale is not None and self.scale.dynamic

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, loss: Var, also: Sequence[Var] = ()) -> bool:
        """One step: parameters move against the gradient of ``loss``, a Var of one number computed from them. The loss,
        and the Vars of ``also``, are numbers from then on, as they were before the step; parameters and placeholders
        among them stay what they are.

        Raises :class:`MNNError` when the loss is more than a number, depends on no parameter, or is infinite or NaN:
        parameters are then as they were."""
        self._check_loss(loss)
        if not isinstance(also, (list, tuple)) or not all(isinstance(v, Var) for v in also):
            raise MNNError(f"step() takes a list of Vars beside the loss, found {shown(also)}")
        captured = capture([loss, *also])
        found = self.step_on(captured, {id(leaf): leaf.results()[0] for leaf in captured.leaves if leaf is not STEP})
        for var, array in zip((loss, *also), found, strict=True):
            if var._index == 0 and var._expr.outputs == 1 and not var._expr.is_leaf:
                var._expr.become("Const", array)
        return True

    def step_on(self, captured: Captured, arrays: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """A step of an expression that is captured, on numbers for its leaves (by identity), parameters aside: the loss
        and what else it gives."""
        named = self.states_of(captured)
        program = self._program(captured, named)
        for name, leaf in named.items():
            if self._views.get(name) is not leaf.array:  # somebody has written to it
                self._memory.kept[name] = Kept(np.array(leaf.results()[0]))
                self._memory.layout = None
        not_negative("learning_rate", self.learning_rate)
        applies = (self.losses + 1) % self.accumulate == 0
        statistics = {n: np.array(leaf.results()[0]) for n, leaf in named.items() if n.startswith(STATISTIC)}
        feeds: dict[str, np.ndarray] = {
            RATE: np.asarray(self.learning_rate, np.float32),
            TIME: np.asarray(self.steps + 1, np.int64),
            APPLY: np.asarray(applies),
        }
        if self.scale is not None:
            feeds[SCALE] = np.asarray(self.scale.now, np.float32)
        if self._skips and self.accumulate > 1:
            feeds[SOME] = np.asarray(self.counted > 0)
        if STEP in captured.leaves:
            feeds[DRAW] = np.asarray(self.losses + 1, np.int64)
        states = {id(leaf) for leaf in named.values()}
        for number, leaf in enumerate(captured.leaves):
            if id(leaf) not in states and leaf is not STEP:
                feeds[f"leaf{number}"] = arrays[id(leaf)]
        found = program.run(feeds, self._memory)
        for name, leaf in named.items():
            view = self._memory.kept[name].array
            self._views[name] = leaf.array = view
            leaf.numbers_at += 1
        numbers = [found[v.name] for v in program.graph.outputs[: len(captured.outputs)]]
        self.norm = float(found[NORM]) if self.clip_norm or self.clip_value else None
        self.losses += 1
        loss = float(numbers[0].reshape(-1)[0])
        finite = bool(found[FINITE]) if self._watched else self.norm is None or math.isfinite(self.norm)
        counted = self.counted + finite
        self.counted = 0 if applies else counted
        if not math.isfinite(loss) or (not finite and (self.scale is None or not self.scale.dynamic)):
            for name, array in statistics.items():
                self._views[name][...] = array
            raise RunError(self._blame(captured, feeds, named, loss))
        if self.scale is not None:
            self.scale.update(finite)
        self.steps += applies and counted > 0
        STEP.set_array(np.asarray(self.losses, np.int64))
        return numbers

    def _check_loss(self, loss: Var) -> None:
        if not isinstance(loss, Var):
            raise MNNError(f"step() takes the loss as a Var, found {type(loss).__name__}")
        if loss.size != 1:
            raise ShapeError(f"the loss must be one number, its shape is {loss.shape}; reduce it with a mean or a sum")
        if not loss._kind.is_float:
            raise ShapeError(f"the loss must be a float to have a gradient, it is {loss._kind.value}")

    def states_of(self, captured: Captured) -> dict[str, Expr]:
        """Leaves of the expression that are states, by name: parameters of the module, and statistics (also those of
        other modules that the loss goes through in training mode, as through the generator of an adversarial pair)."""
        if self.module is None:
            raise MNNError("this optimizer has no module to train; give it one when it is made")
        moved = {id(v._expr) for v in trainable(self.module)}
        known = {id(v._expr): f"{PARAMETER}{i}" for i, v in enumerate(numbered(self.module)) if id(v._expr) in moved}
        known |= {id(v._expr): f"{STATISTIC}{i}" for i, v in enumerate(self.module.statistics)}
        found = {known[id(leaf)]: leaf for leaf in captured.leaves if id(leaf) in known}
        reached = {known.get(id(leaf), "") for leaf in captured.outputs[0]._expr.sources}
        if not any(name.startswith(PARAMETER) for name in reached):
            raise MNNError(
                "the loss depends on no parameter of the module that is trained: is it computed from the module's "
                "output, are all of its parameters frozen, or was the step of this loss made already?"
            )
        for leaf in captured.statistics():
            if id(leaf) not in known:
                name, _ = self._others.setdefault(id(leaf), (f"{STATISTIC} of another {len(self._others)}", leaf))
                found[name] = leaf
        return found

    def _program(self, captured: Captured, named: Mapping[str, Expr]) -> StepProgram:
        method, threads = self.whole_method(), self.threads or SETTINGS.threads
        numbers = {id(leaf): i for i, leaf in enumerate(captured.leaves)}
        places = tuple((name, numbers[id(leaf)]) for name, leaf in named.items())
        time = next((i for i, leaf in enumerate(captured.leaves) if leaf is STEP), None)
        key = (
            captured.key,
            places,
            time,
            method,
            self.accumulate,
            self.clip_norm,
            self.clip_value,
            threads,
            self.precision,
            self.activation_memory,
            self.scale is not None,
            self._skips,
            self._watched,
        )
        found = self._programs.recall(key)
        if found is None:
            made, _ = self.step_graph(captured, named)
            for name, shape in made.shapes.items():
                owner = named[name.partition(".")[0]]
                if name not in self._memory.kept:
                    begin = owner.results()[0] if name.endswith(f".{AVERAGE}") else 0
                    self._memory.kept[name] = Kept(np.full(shape, begin, owner.leaf_type[0].numpy))
            arrays = {v.name: self._example(v, named) for v in made.graph.inputs}
            config = Config(threads=threads, precision=self.precision)
            found = self._programs.keep(key, StepProgram(made.graph, made.states, config, arrays))
        return found

    def step_graph(self, captured: Captured, named: Mapping[str, Expr]) -> tuple[StepGraph, dict[int, Value]]:
        """The graph of a step of an expression whose leaves that are states have these names, and the values of its
        leaves."""
        graph, values = captured.graph()
        for name, leaf in named.items():
            values[id(leaf)].name = name
        parameters = {n: values[id(leaf)] for n, leaf in named.items() if n.startswith(PARAMETER)}
        if not moved(graph, list(parameters.values())):
            raise MNNError(
                "the loss depends on parameters by whole numbers alone, as an argmax, a comparison or a cast gives "
                "them: these have no gradient; compute it from floats"
            )
        made = step_graphs.step_graph(
            graph, parameters, self.whole_method(), self.accumulate, self.clip_norm, self.clip_value,
            values.get(id(STEP)), self.activation_memory, self.scale is not None, self._watched,
            {values[id(leaf)] for leaf in named.values()}, self._skips,
        )  # fmt: skip
        fixed = {v.name for v, _ in made.states}
        if any(name not in fixed for name in named):  # statistics that are only read
            made.states += [(values[id(leaf)], values[id(leaf)]) for n, leaf in named.items() if n not in fixed]
            graph.outputs += [values[id(leaf)] for n, leaf in named.items() if n not in fixed]
        return made, values

    def _example(self, value: Value, named: Mapping[str, Expr]) -> np.ndarray:
        if value.name in self._memory.kept:
            return self._memory.kept[value.name].array
        if value.name in named:
            return named[value.name].results()[0]
        assert value.dtype is not None
        shape = tuple(n for n in value.shape or () if isinstance(n, int))
        return np.zeros(shape, value.dtype.numpy)

    def _blame(
        self, captured: Captured, feeds: Mapping[str, np.ndarray], named: Mapping[str, Expr], loss: float
    ) -> str:
        if not self.debug:
            return failure(self.steps + 1, loss, self.module)
        arrays = {id(leaf): leaf.results()[0] for leaf in named.values()}
        for number, leaf in enumerate(captured.leaves):
            if leaf is STEP:
                arrays[id(leaf)] = feeds[DRAW]
            elif id(leaf) not in arrays:
                arrays[id(leaf)] = feeds[f"leaf{number}"]
        return f"{failure(self.steps + 1, loss)}. {blame(captured, self.module, arrays)}"

    # -- gradients alone --------------------------------------------------------------------------------------------

    def grad(
        self, outputs: Sequence[Var], output_diffs: Sequence[Var], parameters: Sequence[Var]
    ) -> tuple[list[Var], list[Var]]:
        """The gradients of ``outputs``, weighted with ``output_diffs`` of their shapes, with regard to ``parameters``:
        these, and their gradients as Vars, which are computed when they are read, and may be saved or be part of a
        loss."""
        return update_graph.gradients(outputs, output_diffs, parameters)

    def update_rule(self) -> tuple[list[tuple[Var, Var]], update_graph.Rule]:
        """What all parameters share in a step, with what it becomes, and the step of one."""
        raise MNNError(f"{type(self).__name__} as it is set has no update graph; SGD, ADAM and Grad have")

    def get_update_graph(
        self, parameter: Sequence[Var], parameter_grad: Sequence[Var], learning_rate: Sequence[Var]
    ) -> tuple[list[Var], list[Var]]:
        """A step as expressions, as PyMNN has it: parameters and moments, and what they become. ``learning_rate``: a
        Var for each parameter, such as a placeholder. The moments that are used are those before the step."""
        if self._groups or self.average:
            raise MNNError(
                "get_update_graph() gives each parameter the rate it is passed with, and no running mean; make the "
                "optimizer without groups= and average="
            )
        shared, rule = self.update_rule()
        return update_graph.updates(rule, parameter, parameter_grad, learning_rate, shared)

    def save_graph(
        self,
        output_path: str | os.PathLike[str],
        outputs: Sequence[Var],
        parameter: Sequence[Var],
        parameter_update: Sequence[Var],
    ) -> None:
        """Writes what :meth:`get_update_graph` gave as a .mnn file that makes a step with every run: placeholders are
        its inputs, ``outputs`` its outputs, parameters states (:doc:`states`) that begin as they are now. Gradients are
        an operator of this engine, which the official one lacks."""
        update_graph.save(output_path, outputs, parameter, parameter_update)

    # -- going on another time --------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Copies of all moments by name, and the numbers of steps and losses: with the parameters, all that a step
        depends on."""
        kept = {n: np.array(k.array) for n, k in self._memory.kept.items() if "." in n}
        counts = {n: np.asarray(getattr(self, n)) for n in ("steps", "losses", "counted")}
        return {**kept, **counts, **({} if self.scale is None else self.scale.state())}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Goes on from what :meth:`state` gave. Raises :class:`MNNError` for the state of another optimizer."""
        parameters = numbered(self.module) if self.module is not None else []
        counts = checks.state(
            state, {*self.whole_method().states, "sum"}, PARAMETER, [tuple(v.shape) for v in parameters]
        )
        self._memory = StateMemory()
        self._views.clear()
        self._memory.kept.update({n: Kept(np.array(a)) for n, a in state.items() if "." in n})
        self._programs.clear()
        self.steps, self.losses = counts["steps"], counts["losses"]
        self.counted = counts.get("counted", self.losses % self.accumulate)
        if self.scale is not None:
            self.scale.load_state(state)
        STEP.set_array(np.asarray(self.losses, np.int64))


__all__ = ["Optimizer"]
