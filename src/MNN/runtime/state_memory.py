"""Where states lie between runs: memory that programs are lent, laid out as the last one has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.backend import Bound
from MNN.backends.base.program import Place
from MNN.compiler.lower import Stage
from MNN.ir.graph import Value
from MNN.ir.prims import Tensor


@dataclass
class Kept:
    """An array that is kept: a view of ``block``, which may have room for more; None: of an array of its own."""

    array: np.ndarray
    block: NDArray[np.uint8] | None = None


class StateMemory:
    """The states of one sequence of runs, by the names of the inputs that they are."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def fork(self) -> StateMemory:
        """A copy of its own of everything."""
        found = StateMemory()
        for name, kept in self.kept.items():
            block = None if kept.block is None else kept.block.copy()
            found.kept[name] = Kept(kept.array.copy() if block is None else _moved(kept, block), block)
        return found

    def block(self, name: str, place: Place) -> NDArray[np.uint8]:
        """The memory of a state as a program wants it; what it holds is moved where it lay otherwise."""
        kept = self.kept[name]
        strides = tuple([s * kept.array.itemsize for s in place.strides])
        if kept.block is None or kept.block.nbytes < place.buffer.nbytes or not _lies(kept.array, strides):
            block = aligned_bytes(place.buffer.nbytes)
            array = _view(block, kept.array, kept.array.shape, strides)
            array[...] = kept.array
            self.kept[name] = kept = Kept(array, block)
        assert kept.block is not None
        return kept.block

    def grown(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """A state after a run that has made it one of this shape."""
        kept = self.kept[name]
        assert kept.block is not None
        kept.array = _view(kept.block, kept.array, shape, kept.array.strides)
        return kept.array


def _lies(array: np.ndarray, strides: tuple[int, ...]) -> bool:
    return all(own == s for n, own, s in zip(array.shape, array.strides, strides, strict=True) if n > 1)


def _view(block: NDArray[np.uint8], like: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    found: np.ndarray = np.ndarray(shape, like.dtype, block, 0, strides)
    return found


def _moved(kept: Kept, block: NDArray[np.uint8]) -> np.ndarray:
    return _view(block, kept.array, kept.array.shape, kept.array.strides)


def state_numbers(
    states: Sequence[tuple[Value, Value]],
    inputs: Sequence[Value],
    given: Sequence[Tensor],
    results: Sequence[Tensor],
    stage: Stage,
) -> tuple[tuple[int, int], ...]:
    """Numbers of the states' inputs and outputs among those of a stage, where it is the whole graph."""
    if stage.blocked is not None or len(inputs) != len(given):
        return ()
    made = {id(t): i for i, t in enumerate(results)}
    pairs = [(inputs.index(v), made.get(id(stage.env.get(w)))) for v, w in states if v in inputs]
    return tuple([(i, o) for i, o in pairs if o is not None])


def run_with_states(
    bound: Bound, inputs: Sequence[Value], arrays: Sequence[np.ndarray], threads: int, memory: StateMemory | None
) -> list[np.ndarray]:
    """The results of a program, which keeps its states in ``memory``."""
    states = bound.program.states if memory is not None else ()
    if memory is None or not states:
        return bound.run(arrays, threads)
    program = bound.program
    bound.lend([memory.block(inputs[i].name, program.inputs[i].place) for i, _ in states])
    results = bound.run(arrays, threads)
    types = bound.result_types()
    for i, o in states:
        results[o] = memory.grown(inputs[i].name, types[o][1])
    return results


__all__ = ["Kept", "StateMemory", "run_with_states", "state_numbers"]
