"""A program of several parts on different machines, with the copies between their memories."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.backends.base.backend import Backend, Bound, TimedBound, Value
from MNN.backends.base.program import Buffer, Program
from MNN.backends.base.space import HOST
from MNN.compiler.cut import Part
from MNN.ir.prims import Tensor


@dataclass(frozen=True)
class Copy:
    """A tensor is brought from the host's memory to a device's, or back."""

    tensor: Tensor
    backend: Backend
    to_host: bool


@dataclass(frozen=True)
class Call:
    """A part runs; what nobody needs after it is let go of."""

    part: Part
    bound: Bound
    done: tuple[Tensor, ...]


class CutProgram(Bound):
    """Runs parts in order. Tensors stay in a device's memory from part to part; they are copied when another one needs
    them."""

    def __init__(
        self, parts: Sequence[tuple[Part, Bound]], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        self._inputs, self._outputs = list(inputs), list(outputs)
        self.steps = _steps(parts, inputs, outputs)
        """What a run does, in order."""
        arena = sum(bound.program.arena_bytes for _, bound in parts)
        self.program = Program([], [], [], arena, Buffer(0))

    def run(self, values: Sequence[Value], threads: int) -> list[Value]:
        """One inference; arrays of the host in and out."""
        held: dict[tuple[Tensor, object], Value] = {(t, HOST): v for t, v in zip(self._inputs, values, strict=True)}
        for step in self.steps:
            if isinstance(step, Copy):
                space = step.backend.space
                if step.to_host:
                    held[step.tensor, HOST] = step.backend.send(held[step.tensor, space])
                else:
                    held[step.tensor, space] = step.backend.receive(np.asarray(held[step.tensor, HOST]))
            else:
                space = step.part.backend.space
                given = [held[t, space] for t in step.part.inputs]
                for tensor, value in zip(step.part.outputs, step.bound.run(given, threads), strict=True):
                    held[tensor, space] = value
                for key in [key for key in held if key[0] in step.done]:
                    del held[key]
        return [held[t, HOST] for t in self._outputs]

    def parts(self) -> list[TimedBound]:
        """The programs of all parts."""
        return [timed for step in self.steps if isinstance(step, Call) for timed in step.bound.parts()]

    def memory(self) -> Mapping[Hashable, int]:
        """That of all parts."""
        return {k: n for step in self.steps if isinstance(step, Call) for k, n in step.bound.memory().items()}

    def placement(self) -> list[tuple[str, str]]:
        """Which back end computes what, in order: its name and the node that a primitive came from."""
        calls = [step for step in self.steps if isinstance(step, Call)]
        return list(dict.fromkeys((c.part.backend.name, q.origin) for c in calls for q in c.part.prims))


def _steps(
    parts: Sequence[tuple[Part, Bound]], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> list[Copy | Call]:
    last = {t: number for number, (part, _) in enumerate(parts) for t in (*part.inputs, *part.outputs)}
    kept = {*inputs, *outputs}
    home = {t: part.backend for part, _ in parts for t in part.outputs}
    found: list[Copy | Call] = []
    there: set[tuple[Tensor, object]] = {(t, HOST) for t in inputs}

    def bring(tensor: Tensor, backend: Backend | None) -> None:
        """Copies from where the tensor was made, by way of the host."""
        space = HOST if backend is None else backend.space
        if (tensor, space) in there:
            return
        if (tensor, HOST) not in there:
            found.append(Copy(tensor, home[tensor], to_host=True))
            there.add((tensor, HOST))
        if space != HOST and backend is not None:
            found.append(Copy(tensor, backend, to_host=False))
            there.add((tensor, space))

    for number, (part, bound) in enumerate(parts):
        for tensor in part.inputs:
            bring(tensor, part.backend)
        there |= {(t, part.backend.space) for t in part.outputs}
        done = tuple(t for t, n in last.items() if n == number and t not in kept)
        found.append(Call(part, bound, done))
    for tensor in outputs:
        bring(tensor, None)
    return found


__all__ = ["Call", "Copy", "CutProgram"]
