"""Results of elementwise functions that are not computed yet.

They know what they are computed from, and are computed when somebody reads them: then all that they depend on is one
loop over the elements, whose intermediates never reach memory. What is read depends on constants alone, whose arrays do
not change, so that it does not matter when, nor in which of several threads: who reads the operands of a function reads
them before its numbers, which are set before the operands are dropped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from MNN.expr.fused import copies, programs
from MNN.expr.fused.functions import Function
from MNN.expr.fused.loops import ElementLoop, Wiring, dense, loop_of
from MNN.ir.scalar import Body

MOST = 32
"""Functions of one loop, those that are used twice counted twice: more are computed in parts."""
MOST_OPERANDS = 12
"""Arrays that a loop reads: addresses have to fit into registers."""
MOST_ALONE = 1 << 18
"""Elements up to which calling numpy for a single function is what counts: a loop takes longer to be called."""
_CHAIN_SOONER, _FUNCTION_SOONER = 2, 10
"""How often what numpy spends on few numbers counts until a chain, or a function alone, is compiled: finding it takes
as long, and the kernel of a function alone serves everybody."""


class Deferred:
    """A function of operands, numbers of which are wanted later or never.

    Typed functions make and compute these, too (:mod:`MNN.expr.arrays.native.making`)."""

    __slots__ = ("array", "arrays", "function", "functions", "like", "operands", "passed", "shape")

    def __init__(self, function: Function, operands: tuple[Operand, ...], shape: tuple[int, ...]) -> None:
        """``operands``: those that are deferred have this ``shape``."""
        self.function, self.operands, self.shape = function, operands, shape
        self.array: np.ndarray | None = None
        self.passed = False
        """Whether a loop has computed it on the way to something else; the next one stores it."""
        self.like: np.ndarray | None = None
        """An array of its shape among what it is computed from, which generated code compares sizes with."""
        functions: int = 1
        arrays: int = 0
        for operand in operands:
            if operand.shape == shape:
                self.like = operand.like if isinstance(operand, Deferred) else operand
            if type(operand) is Deferred and operand.array is None:
                functions += operand.functions
                arrays += operand.arrays
            else:
                arrays += 1
        self.functions: int = functions
        self.arrays: int = arrays

    @staticmethod
    def of(function: Function, operands: Sequence[Operand], shape: tuple[int, ...]) -> Deferred:
        """A function with a result of this ``shape``, to which the operands broadcast. Those that would be computed
        more than once for that, or make the loop too long, are computed now."""
        for operand in operands:
            if type(operand) is Deferred and operand.shape != shape:
                operands = [o if o.shape == shape else _now(o) for o in operands]
                break
        made = Deferred(function, tuple(operands), shape)
        if made.functions > MOST or made.arrays > MOST_OPERANDS:
            made = Deferred(function, tuple([_now(o) for o in operands]), shape)
        return made

    def numbers(self) -> np.ndarray:
        """The numbers, which are kept. They must not be written to."""
        if self.array is None:
            self.array = self.like = self.computed()
            self.operands = ()
        return self.array

    def computed(self) -> np.ndarray:
        """The numbers in an array that nobody else has, where they were not kept yet; they are not kept for this."""
        operands, array = self.operands, self.array
        if array is not None:
            copy: np.ndarray = array.copy()
            return copy
        count = math.prod(self.shape)
        at_once = count <= programs.MOST and programs.ready()
        if at_once:
            found = programs.run(self)
            if found is not None:  # another thread may have kept them meanwhile
                return found.copy() if found is self.array else found
        elif self.functions == 1:
            self.passed = True
            if (alone := self.function.alone) is not None and count <= MOST_ALONE:
                return np.asarray(alone(*[_now(o) for o in operands]))
            return _alone(self.function).run(self.shape, [_now(o) for o in operands])[0]
        steps, wiring, arrays = self._walked(operands)
        stored = [i for i, step in enumerate(steps) if step.passed and step is not self]
        for step in steps:
            step.passed = True
        loop = loop_of(tuple(wiring), (len(steps) - 1, *stored))
        found_ = _step_by_step(wiring, arrays, loop, count) if at_once else None
        if found_ is not None:
            results = [found_[-1], *(found_[i] for i in stored)]
        else:
            results = loop.run(self.shape, arrays)
            if at_once and not stored:
                programs.learn(wiring, loop, dense(self.shape, arrays))
        for i, array in zip(stored, results[1:], strict=True):
            steps[i].array = steps[i].like = array
            steps[i].operands = ()
        return results[0]

    def given_away(self) -> np.ndarray:
        """The numbers in an array that is the caller's, in row-major order."""
        return copies.contiguous(self.computed()) if not self.passed else copies.owned(self.numbers())

    def in_passing(self) -> tuple[Body, list[np.ndarray]] | None:
        """What computes an element from those of arrays, for a loop that makes something else of it; None where the
        numbers are better kept, because a loop has computed some of them before."""
        operands, array = self.operands, self.array
        if array is not None:
            return None
        steps, wiring, arrays = self._walked(operands)
        if any(step.passed for step in steps):
            return None
        for step in steps:
            step.passed = True
        return loop_of(tuple(wiring), (len(steps) - 1,)).body, arrays

    def _walked(self, operands: Sequence[Operand]) -> tuple[list[Deferred], list[Wiring], list[np.ndarray]]:
        steps: list[Deferred] = []
        wiring: list[Wiring] = []
        arrays: list[np.ndarray] = []
        _walk(self, operands, {}, steps, wiring, arrays)
        return steps, wiring, arrays


Operand = Deferred | np.ndarray


def _step_by_step(
    wiring: Sequence[Wiring], arrays: Sequence[np.ndarray], loop: ElementLoop, count: int
) -> list[np.ndarray] | None:
    """The results of all steps by numpy, of few numbers, as long as their loop has not been worth compiling; None where
    that does it, or numpy does not have a function. A function alone is worth it soon: its kernel serves everybody."""
    eager = [step[0].eager for step in wiring if isinstance(step[0], Function)]
    sooner = _FUNCTION_SOONER if len(wiring) == 1 else _CHAIN_SOONER
    if any(e is None for e in eager) or not loop.interpreted(sooner * loop.cost(count)):
        return None
    found: list[np.ndarray] = []
    for function, (_, *places) in zip(eager, wiring, strict=True):
        given = [found[n] if n >= 0 else arrays[-1 - n] for n in places if isinstance(n, int)]
        found.append(np.asarray(function(*given)))  # type: ignore[misc]
    return found


@functools.lru_cache(maxsize=1024)
def _alone(function: Function) -> ElementLoop:
    """The loop of a single function."""
    return loop_of(((function, *range(-1, -1 - len(function.body.args), -1)),), (0,))


def _now(operand: Operand) -> np.ndarray:
    return operand.numbers() if isinstance(operand, Deferred) else operand


def _walk(
    node: Deferred,
    operands: Sequence[Operand],
    places: dict[int, int],
    steps: list[Deferred],
    wiring: list[Wiring],
    arrays: list[np.ndarray],
) -> int:
    """Lists what ``node`` is computed from, each step behind its operands: functions with the numbers of what they are
    applied to, steps from 0 up and arrays from -1 down. Gives the number of ``node``."""
    wires: list[Function | int] = [node.function]
    for operand in operands:
        place = places.get(id(operand))
        if place is None:
            if isinstance(operand, Deferred):
                inner, array = operand.operands, operand.array
            else:
                inner, array = (), operand
            if array is None:
                place = _walk(operand, inner, places, steps, wiring, arrays)  # type: ignore[arg-type]
            else:
                arrays.append(array)
                place = places[id(operand)] = -len(arrays)
        wires.append(place)
    place = places[id(node)] = len(steps)
    steps.append(node)
    wiring.append(tuple(wires))
    return place
