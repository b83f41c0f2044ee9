"""Models that remember: outputs that are the next run's inputs are kept in the model's hands and never copied.

    model = MNN.load("decoder.onnx", states={"past_k0": "present_k0", "past_v0": "present_v0"})
    logits = model.run({"tokens": prompt})["logits"]
    logits = model.run({"tokens": next_token})["logits"]     # the cache has grown by one, in place

What is kept is a :class:`State`; a model has one, and :meth:`StatefulModel.new_state` makes others, one for every
sequence that is worked on.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from MNN.errors import MNNError, ShapeError
from MNN.formatting import plural
from MNN.runtime.feeds import as_input, named
from MNN.runtime.info import TensorInfo
from MNN.runtime.session import Session
from MNN.runtime.shared_states import SharedStates
from MNN.runtime.state_memory import Kept, StateMemory, Turn, Zeros
from MNN.runtime.state_run import StateRun
from MNN.runtime.state_runs import StateRuns
from MNN.runtime.storage.digests import digest_of
from MNN.schema.arrays import read_noted, typed, write_arrays
from MNN.warning import warn


class State:
    """What a model remembers of one sequence of runs: an array for each of its states, by the input's name."""

    def __init__(self, model: StatefulModel) -> None:
        self._model = model
        self._memory = StateMemory(model._zeros)
        self._filled: dict[str, np.ndarray] = {}
        """What :meth:`fill` has said before the first run."""
        self._running = threading.Lock()

    def __getitem__(self, name: str) -> np.ndarray:
        """A copy of a state's array. Raises :class:`MNNError` for a name that is no state, or before the first run."""
        if name not in self._model.states:
            raise MNNError(f"'{name}' is no state of the model; its states are {', '.join(self._model.states)}")
        if name not in self._memory.kept:
            if name in self._filled:
                filled: np.ndarray = self._filled[name].copy()
                return filled
            raise MNNError(f"the state '{name}' is empty before the first run")
        found: np.ndarray = self._memory.kept[name].array.copy()
        return found

    def view(self, name: str) -> np.ndarray:
        """A state's array where it lies, to be read or changed in place until the next run; else as ``state[name]``."""
        if name not in self._memory.kept:
            return self[name]
        return self._memory.kept[name].array

    def fill(self, name: str, array: npt.ArrayLike) -> None:
        """Sets a state's numbers, which are copied; before the first run, what it then begins with. Raises
        :class:`MNNError` for a name that is no state, and for an array that does not fit."""
        with self._turn():
            value = next((v for v, _ in self._model._pairs if v.name == name), None)
            if value is None:
                raise MNNError(f"'{name}' is no state of the model; its states are {', '.join(self._model.states)}")
            kept, array = self._memory.kept.get(name), np.asarray(array)
            if kept is None:
                self._model._check_kept(value, array, "what is filled in")
                self._filled[name] = array.copy()
            elif kept.shape != array.shape or kept.array.dtype != array.dtype:
                raise MNNError(
                    f"the state '{name}' is {kept.array.dtype}{list(kept.shape)}, not {array.dtype}{list(array.shape)}"
                )
            else:
                kept.array[...] = array

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all arrays; empty before the first run."""
        return {name: kept.shape for name, kept in self._memory.kept.items()}

    @property
    def length(self) -> int:
        """How long the states have grown (caches: how many tokens they hold); 0 before the first run."""
        axes, kept = self._model.axes, self._memory.kept
        return max([kept[n].shape[a] for n, a in axes.items() if n in kept], default=0)

    def reset(self) -> None:
        """Forgets everything: the next run is the first."""
        with self._turn():
            self._memory = StateMemory(self._model._zeros)
            self._filled = {}

    def rollback(self, length: int) -> None:
        """Goes back to what the states were when they were so long, for instance to try another continuation.

        Raises :class:`MNNError` where they are shorter, where they are of several lengths, and where the model has
        states that do not grow: what was when is not known then.
        """
        with self._turn():
            fixed = [n for n in self._model.states if n not in self._model.axes]
            if fixed:
                raise MNNError(f"cannot go back: the state '{fixed[0]}' does not grow, and what it was is not kept")
            if not isinstance(length, (int, np.integer)):
                raise MNNError(f"a state goes back to a whole number of rows, not to {length!r}")
            if not 0 <= length <= self.length:
                raise MNNError(f"cannot go back to {length}: the states are {self.length} long")
            lengths = sorted((kept.shape[self._model.axes[n]], n) for n, kept in self._memory.kept.items())
            if length and lengths[0][0] < lengths[-1][0]:
                (some, one), (more, other) = lengths[0], lengths[-1]
                raise MNNError(f"cannot go back: '{one}' is {some} long and '{other}' {more}; keep what fork() gives")
            self._memory.cut(int(length), self._model.axes)

    def fork(self) -> State:
        """Another state that goes on from here, independent of this one."""
        with self._turn():
            found = State(self._model)
            found._memory = self._memory.fork()
            found._filled = {name: array.copy() for name, array in self._filled.items()}
            return found

    def give(self, shared: SharedStates) -> None:
        """Gets the states that others have too, as they are, before a run."""
        with self._turn():
            shared.give(self._memory)
            if self._memory.kept:
                for name, array in self._filled.items():
                    self._memory.kept.setdefault(name, Kept(array))
                self._filled = {}

    def take(self, shared: SharedStates) -> None:
        """Others get them as they are after a run."""
        with self._turn():
            shared.take(self._memory)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the arrays to a file (numpy's .npz), which :meth:`StatefulModel.load_state` reads, and whose they are:
        a digest of the model's files. Raises :class:`MNNError` where it cannot be written, when the model's file is no
        more what it was when it was opened, and between :meth:`fill` and the first run, when the other states
        are not known; what was there is there still."""
        with self._turn():
            if self._filled:
                raise MNNError(f"the state '{next(iter(self._filled))}' was filled in: save it after the first run")
            try:
                digest = self._model.digest
            except MNNError as error:
                raise MNNError(f"cannot write {os.fspath(path)}, as whose it is cannot be told: {error}") from error
            write_arrays(path, {name: kept.array for name, kept in self._memory.kept.items()}, digest)

    def _turn(self) -> Turn:
        return Turn(self._running)

    def _fits(self, longest: int) -> None:
        """Refuses to grow so long."""
        most = self._model.max_length
        if most is not None and longest > most:
            raise MNNError(
                f"the states would be {longest} long, {self.length} now; max_length is {most}. Roll back, reset, or "
                "load the model with a larger one"
            )


class StatefulModel:
    """A model some of whose outputs are its next inputs."""

    def __init__(
        self, session: Session, states: Mapping[str, str] | None = None, max_length: int | None = None,
        zeros: Zeros | None = None,
    ) -> None:  # fmt: skip
        """``session``: of the model, made for these states. ``states``: names of outputs by those of the inputs
        that they become. ``max_length``: how long states may
        grow. ``zeros``: what makes the memory for states. Raises :class:`MNNError` for names that the model lacks, and
        for pairs that do not fit."""
        self._zeros = zeros
        self.session = session
        """Of the model whose states are inputs and outputs."""
        self.states = {**session.own_states, **(states or {})}
        """Names of outputs by those of the inputs that they become."""
        if max_length is not None and (not isinstance(max_length, (int, np.integer)) or max_length < 1):
            raise MNNError(f"max_length is a whole number from 1 on, not {max_length!r}")
        self.max_length = max_length
        inputs, outputs = session.inputs, session.outputs
        self._pairs = [(_named(inputs, i, "input"), _named(outputs, o, "output")) for i, o in self.states.items()]
        for before, after in self._pairs:
            _check_pair(before, after)
        self.inputs = {n: info for n, info in session.inputs.items() if n not in self.states}
        self.outputs = {n: info for n, info in session.outputs.items() if n not in self.states.values()}
        others = {n for info in self.inputs.values() for n in info.shape or () if isinstance(n, str)}
        self.axes = {v.name: a for v, w in self._pairs if (a := _growing(v, w, others)) is not None}
        """The axes along which states grow, of those that do."""
        self._runs = StateRuns(session, self.states, self.axes)
        self.state = State(self)
        """What runs go on from when no other state is given."""

    def new_state(self) -> State:
        """A state of its own, empty."""
        return State(self)

    @functools.cached_property
    def digest(self) -> str:
        """What tells whose a saved state is: of the bytes of the model's files, and of which outputs are states. Reads
        the files when it is first asked for, which takes two seconds a GB, and is remembered on disk."""
        return digest_of(self.session.digest(), sorted(self.states.items()))

    def load_state(self, path: str | os.PathLike[str], check_model: bool = True) -> State:
        """A state as :meth:`State.save` wrote it. Raises :class:`MNNError` for files of other models, also where names
        and sizes agree; ``check_model=False`` takes them, for instance those of the same model with compressed weights.
        Files that do not say whose they are (of versions before this was written) are taken with a warning."""
        arrays, digest = read_noted(path, "saved state")
        found = State(self)
        if arrays and arrays.keys() != self.states.keys():
            raise MNNError(f"{os.fspath(path)} holds {sorted(arrays)}, not this model's states {sorted(self.states)}")
        for value, _ in self._pairs if arrays else ():
            array = typed(arrays[value.name], value.dtype.numpy) if value.dtype else arrays[value.name]
            self._check_kept(value, array, os.fspath(path))
            found._memory.kept[value.name] = Kept(array)
        if check_model and not digest:
            warn(f"{os.fspath(path)} does not say of which model it is, and may be another's; save the state anew")
        elif check_model and digest != self.digest:
            raise MNNError(
                f"{os.fspath(path)} was saved by another model, or by this one before its file was changed. Run the "
                "model on its input from the beginning, or load it with check_model=False if it is to be trusted"
            )
        return found

    def _check_kept(self, value: TensorInfo, array: np.ndarray, where: str) -> None:
        info = self.session.inputs[value.name]
        dtype = value.dtype
        fits = dtype is not None and array.dtype == dtype.numpy and info.shape is not None
        fits = fits and len(info.shape or ()) == array.ndim
        fits = fits and all(
            not isinstance(d, int) or d == n for d, n in zip(info.shape or (), array.shape, strict=False)
        )
        if not fits:
            raise MNNError(f"{where}: the state '{value.name}' is {array.dtype}{list(array.shape)}, the model's {info}")

    def run(
        self, feeds: Mapping[str, Any] | Any, fetch: Sequence[str] | None = None, state: State | None = None
    ) -> dict[str, np.ndarray]:
        """One step: the outputs that are no states, by name; the ``state`` (by default the model's own) goes on.

        Raises :class:`MNNError` for a state of another model, one that another thread is using, and where it would grow
        beyond ``max_length``; :class:`ShapeError` for inputs that do not fit. The state is then as it was before.
        """
        state = self.state if state is None else state
        if not isinstance(state, State):
            raise MNNError(f"a state is what new_state() or load_state() gives, not {type(state).__name__}")
        if state._model is not self:
            raise MNNError("the state belongs to another model; this one makes its own with new_state()")
        wanted = self.outputs if fetch is None else self._asked(fetch)
        with state._turn():
            known, found = state._memory.layout, None
            if isinstance(known, StateRun) and type(feeds) is dict and not self.session.conditions:
                found = known.step(feeds, state._memory, state._fits)
            if found is None:
                found = self._step(self._named(feeds), state)
            return {name: found[name] for name in wanted}

    def _asked(self, fetch: Sequence[str]) -> list[str]:
        unknown = [n for n in fetch if n not in self.outputs]
        if unknown:
            raise ShapeError(f"the model has no output '{unknown[0]}'; it has {', '.join(self.outputs)}")
        return list(fetch)

    def _named(self, feeds: Mapping[str, Any] | Any) -> Mapping[str, Any]:
        """The inputs by name, all of them and no others."""
        if not isinstance(feeds, Mapping):
            feeds = named(self.inputs, feeds)
        extra = [n for n in feeds if n in self.states]
        if extra:
            raise ShapeError(f"input '{extra[0]}' is a state, which the model keeps itself; reset() makes it empty")
        if feeds.keys() != self.inputs.keys():
            empty = {v.name: np.zeros(0) for v, _ in self._pairs}
            self.session._checked({**feeds, **empty})  # says which is missing or unknown
        return feeds

    def _step(self, feeds: Mapping[str, Any], state: State) -> dict[str, np.ndarray]:
        """One step of which not all is known beforehand."""
        memory = state._memory
        kept, first = memory.kept, not memory.kept
        try:
            arrays = {n: _native(as_input(info, feeds[n])) for n, info in self.inputs.items()}
            if first:
                begins = self._beginning(state, arrays)
                kept.update({name: Kept(array, zero=name not in state._filled) for name, array in begins.items()})
            values = self._checked(arrays, {name: one.array for name, one in kept.items()})
            run = self._runs.find(values)
            if run is None:
                found = self._handed(values, state)
            else:
                if memory.layout is not run:
                    memory.lay_out(run, run.places, run.count)
                stepped = run.step(arrays, memory, state._fits)
                assert stepped is not None
                found = stepped
            state._filled = {}
            return found
        except BaseException:
            if first:
                state._memory = StateMemory(self._zeros)
            raise

    def all_inputs(self, feeds: Mapping[str, Any], state: State | None = None) -> dict[str, np.ndarray]:
        """The inputs with the arrays of a state, as they are at hand: what a run of the plain model would be given."""
        state = self.state if state is None else state
        with state._turn():
            given = self._named(feeds)
            arrays = {n: as_input(info, given[n]) for n, info in self.inputs.items()}
            kept = {name: one.array for name, one in state._memory.kept.items()}
            return {**arrays, **(kept or self._beginning(state, arrays))}

    def _handed(self, values: Mapping[str, np.ndarray], state: State) -> dict[str, np.ndarray]:
        """A step of a graph that is no one program: its states are arrays like others."""
        found = self.session.planned_run(values)
        state._fits(max([found[self.states[name]].shape[axis] for name, axis in self.axes.items()], default=0))
        memory = StateMemory(self._zeros)
        memory.kept = {name: Kept(np.asarray(found[output])) for name, output in self.states.items()}
        state._memory = memory
        return found

    def _checked(self, arrays: Mapping[str, np.ndarray], states: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All inputs of the model, whose sizes agree; of states that are alike one is looked at."""
        values, known = {**arrays, **states}, {**self.session.inputs, **self.inputs}
        symbols: dict[str, tuple[int, str]] = {}
        seen: set[tuple[object, ...]] = set()
        for name, array in values.items():
            if (key := (known[name].shape, array.shape)) not in seen:
                seen.add(key)
                self.session._check_shape(known[name], array, symbols)
        self.session._check_conditions(values)
        return values

    def _beginning(self, state: State, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What a state holds before its first run, on these inputs."""
        sizes, filled = _sizes(self.inputs, arrays), state._filled
        return {v.name: filled[v.name] if v.name in filled else self._empty(v, sizes) for v, _ in self._pairs}

    def _empty(self, value: TensorInfo, sizes: Mapping[str, int]) -> np.ndarray:
        """What a state is that nobody filled: nothing along the axis in which it grows, zeros where it does not."""
        info, axis = self.session.inputs[value.name], self.axes.get(value.name)
        shape, own = [], value.name in self.session.own_states
        for i, n in enumerate(info.shape or ()):
            size = n if isinstance(n, int) else 0 if i == axis or own else sizes.get(n, self.max_length)
            if size is None:
                raise ShapeError(
                    f"the size '{n}' of the state '{value.name}' is not known before the first run; say it when the "
                    "model is loaded, as max_length"
                )
            shape.append(size)
        assert value.dtype is not None
        return np.zeros(shape, value.dtype.numpy)

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, infos.values())) for infos in (self.inputs, self.outputs))
        return f"<MNN.StatefulModel ({takes}) -> ({gives}) with {plural(len(self.states), 'state')}>"


def _named(values: Mapping[str, TensorInfo], name: str, what: str) -> TensorInfo:
    if name not in values:
        raise MNNError(f"the model has no {what} '{name}' to be a state; its {what}s are {', '.join(values)}")
    return values[name]


def _check_pair(before: TensorInfo, after: TensorInfo) -> None:
    ranks = None if before.shape is None or after.shape is None else (len(before.shape), len(after.shape))
    if before.dtype is not after.dtype or (ranks is not None and ranks[0] != ranks[1]):
        raise MNNError(f"output '{after.name}' cannot become input '{before.name}': {after} is not {before}")


def _growing(before: TensorInfo, after: TensorInfo, others: set[str]) -> int | None:
    """The axis along which a state grows: the open one that is another size in the output, and none of ``others``,
    which are sizes of inputs that are no states; None where there is no such axis."""
    if before.shape is None:
        return None
    sizes = after.shape or (None,) * len(before.shape)
    open_axes = [i for i, n in enumerate(before.shape) if not isinstance(n, int) and n not in others]
    return next((i for i in open_axes if sizes[i] != before.shape[i]), None)


def _native(array: np.ndarray) -> np.ndarray:
    """The same in the processor's order of bytes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _sizes(inputs: Mapping[str, TensorInfo], arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """What the names of sizes stand for in these inputs."""
    found: dict[str, int] = {}
    for name, array in arrays.items():
        for size, number in zip(inputs[name].shape or (), array.shape, strict=False):
            if isinstance(size, str):
                found.setdefault(size, number)
    return found


__all__ = ["State", "StatefulModel"]
