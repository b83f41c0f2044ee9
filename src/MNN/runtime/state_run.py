"""A step of a model with states: a program that is lent the memory which they are in, and nothing looked up twice.

What has to be known of a program and a model is found once, when the two first meet; what has to be known of a state's
memory, when it is laid out for the program. After that a step looks at the inputs, at one state of those that have the
same sizes, and writes what follows from sizes that have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from MNN.backends.base.backend import Bound
from MNN.ir.size_functions import Shape, compiled, shapes_at
from MNN.runtime.state_memory import Kept, StateMemory

Source = int | str | np.ndarray
"""Where an output comes from: a number of a program's result, the name of the input that it is, or a constant."""
Holds = Callable[[Sequence[np.ndarray]], bool]
"""Whether a program is for inputs with these numbers, in its order."""


class StateRun:
    """Runs one program on the states of a model, its layout (:class:`StateMemory`) being this object."""

    def __init__(
        self,
        bound: Bound,
        inputs: Sequence[str],
        outputs: Mapping[str, Source],
        states: Mapping[str, str],
        axes: Mapping[str, int],
        threads: int,
        holds: Holds | None = None,
        watched: Collection[str] = (),
    ) -> None:
        """``inputs``: names in the program's order. ``states``: names of outputs by those of the inputs that they
        become; ``axes``: along which they grow. ``holds``: asked before a run, of numbers of the inputs ``watched``."""
        self.bound, self._inputs, self._threads, self._holds = bound, tuple(inputs), threads, holds
        program, sizes = bound.program, bound.program.open_sizes
        taken: Sequence[Shape] = [t.shape for t in program.inputs] if sizes is None else sizes.inputs
        self._results: Sequence[Shape] = [t.shape for t in program.outputs] if sizes is None else sizes.outputs
        self._outputs = dict(outputs)
        self._states = dict(states)
        names = () if sizes is None else sizes.names
        lent = {inputs[i]: (i, o) for i, o in program.states}
        kinds = {name: (taken[i], self._results[o], axes.get(name)) for name, (i, o) in lent.items()}
        alike = list(dict.fromkeys(kinds.values()))
        self.places = {n: (program.inputs[i].place, alike.index(kinds[n])) for n, (i, _) in lent.items()}
        """Where states lie, of those that the program keeps in their memory, and the numbers of their sizes."""
        self.count = len(alike)
        """How many different sizes they have."""
        self._given = [(n, program.inputs[i].dtype.numpy, i) for i, n in enumerate(inputs) if n not in states]
        self._held = [(n, i) for i, n in enumerate(inputs) if n in states and n not in lent]
        """States that are handed to the program, and on."""
        self._watched = [(n, i) for n, (i, _) in lent.items() if n in watched]
        self._lent = {o: name for name, (_, o) in lent.items()}
        """The states in place by the numbers of the results that they become."""
        self._plain = [(n, s) for n, s in outputs.items() if isinstance(s, int) and s not in self._lent]
        self._others = [(n, s) for n, s in outputs.items() if not isinstance(s, int) or s in self._lent]
        own = {o for n, o in states.items() if n in lent}
        self._others = [(n, s) for n, s in self._others if n not in own]
        """Outputs that are no results of the program, or that a state is besides."""
        order = [taken[i] for _, _, i in self._given] + [k[0] for k in alike] + [taken[i] for _, i in self._held]
        self._order, self._sizes = order, None if sizes is None else replace(sizes, inputs=tuple(order))
        self._after = shapes_at([k[1] for k in alike], names)
        longest = [self._size(outputs[o], axes[n], taken) for n, o in states.items() if n in axes]
        self._longest = compiled(list(dict.fromkeys(longest)), names)

    def _size(self, source: Source, axis: int, taken: Sequence[Shape]) -> int | str:
        """That of an output."""
        if isinstance(source, int):
            return self._results[source][axis]
        shape: Shape = taken[self._inputs.index(source)] if isinstance(source, str) else tuple(source.shape)
        return shape[axis]

    def step(
        self, feeds: Mapping[str, np.ndarray], memory: StateMemory, fits: Callable[[int], None]
    ) -> dict[str, np.ndarray] | None:
        """The outputs that are no states, by name, the states in ``memory`` going on; None when the inputs are not like
        those that the program is for, or the memory is laid out for another one.

        ``fits`` is called with the length that states will have, and raises where that is too much.
        """
        if memory.layout is not self or len(feeds) != len(self._given):
            return None
        arrays: list[np.ndarray] = [_NOTHING] * len(self._inputs)
        shapes: list[tuple[int, ...]] = []
        for name, dtype, i in self._given:
            array = feeds.get(name)
            if type(array) is not np.ndarray or (array.dtype is not dtype and array.dtype != dtype):
                return None
            arrays[i] = array
            shapes.append(array.shape)
        extents = memory.extents
        for extent in extents:
            shapes.append(extent.shape)
        for name, i in self._held:
            arrays[i] = memory.kept[name].array
            shapes.append(arrays[i].shape)
        sizes = self._match(shapes)
        if sizes is None:
            return None
        if self._holds is not None:
            for name, i in self._watched:
                arrays[i] = memory.kept[name].array
            if not self._holds(arrays):
                return None
        fits(max(self._longest(*sizes), default=0))
        given = {n: self._array(s, arrays, memory) for n, s in self._others if isinstance(s, str)}
        results = self.bound.run_at(sizes, arrays, self._threads, memory.blocks)
        for extent, shape in zip(extents, self._after(*sizes), strict=True):
            extent.shape = shape
        found = {name: results[i] for name, i in self._plain}
        for name, source in self._others:
            found[name] = given[name] if name in given else self._array(source, results, memory)
        for name, _ in self._held:
            memory.kept[name] = Kept(found[self._states[name]])
        return found

    def _array(self, source: Source, arrays: Sequence[np.ndarray], memory: StateMemory) -> np.ndarray:
        """A copy of an output that is no result of its own; ``arrays`` are inputs or results, as they are numbered."""
        if isinstance(source, np.ndarray):
            found: np.ndarray = source
        else:
            name = source if isinstance(source, str) else self._lent[source]
            found = memory.kept[name].array if name in memory.kept else arrays[self._inputs.index(name)]
        return np.array(found)

    def _match(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
        """What the open sizes are; none where there are none."""
        if self._sizes is not None:
            return self._sizes.match(shapes)
        return () if shapes == self._order else None


_NOTHING = np.zeros(0)
__all__ = ["StateRun"]
