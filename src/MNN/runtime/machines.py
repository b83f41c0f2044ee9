"""The machines that a session runs on: the back end that was asked for, and the CPU for what that one cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from MNN.backends.base import registry
from MNN.backends.base.backend import Backend, Bound
from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Program
from MNN.backends.base.run_lock import RunLock
from MNN.compiler import usage
from MNN.compiler.copies import isolated
from MNN.compiler.cut import Part, cut
from MNN.ir.prims import Prim, Tensor
from MNN.runtime.config import Config
from MNN.runtime.cut_program import CutProgram
from MNN.runtime.storage.background import IDLE, run_in_background

Rooms = dict[str, Any]
"""Memory that programs of one turn may share, by back end."""
Check = Callable[[Program], None]
"""Raises where a program takes more memory than it may."""


class Machines:
    """Back ends with the constants that a model has on each."""

    def __init__(self, config: Config) -> None:
        self.main: Backend = registry.backend(config.backend, config.cache)
        self.host: Backend = registry.backend(registry.DEFAULT, config.cache)
        self.pools: dict[str, ConstantPool] = {b.name: b.constants() for b in (self.main, self.host)}

    @property
    def pool(self) -> ConstantPool:
        """The main back end's constants."""
        return self.pools[self.main.name]

    def rooms(self, run_lock: RunLock) -> Rooms:
        """Memory to share for programs of which one runs at a time."""
        return {b.name: b.room(run_lock) for b in (self.main, self.host)}

    def prepare(
        self,
        prims: Sequence[Prim],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        options: Options,
        rooms: Rooms,
        check: Check,
    ) -> Bound:
        """Programs for a stage, bound; what ``check`` raises is raised before memory is taken."""
        if self.main is self.host:
            return self._bound(self.main, prims, inputs, outputs, options, rooms, check)
        parts = cut(usage.live(prims, outputs), outputs, self.main, self.host)
        return CutProgram([(p, self._part(p, options, rooms, check)) for p in parts], inputs, outputs)

    @property
    def opens_sizes(self) -> bool:
        """Whether stages can be planned for a range of sizes."""
        return self.main is self.host and self.main.opens_sizes

    def compile(
        self, prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor], options: Options
    ) -> Program:
        """The main back end's program for a stage."""
        return self.main.compile(prims, inputs, outputs, options, self.pool)

    def bind(self, program: Program, options: Options, rooms: Rooms, check: Check) -> Bound:
        """A program of the main back end, bound; what ``check`` raises is raised before memory is taken."""
        return self._ready(self.main, program, options, rooms, check)

    def _part(self, part: Part, options: Options, rooms: Rooms, check: Check) -> Bound:
        prims, inputs, outputs = isolated(part.prims, part.inputs, part.outputs)
        options = replace(options, states=())  # a part has other inputs, and memory that goes with it
        return self._bound(part.backend, prims, inputs, outputs, options, rooms, check)

    def _bound(
        self,
        backend: Backend,
        prims: Sequence[Prim],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        options: Options,
        rooms: Rooms,
        check: Check,
    ) -> Bound:
        program = backend.compile(prims, inputs, outputs, options, self.pools[backend.name])
        return self._ready(backend, program, options, rooms, check)

    def _ready(self, backend: Backend, program: Program, options: Options, rooms: Rooms, check: Check) -> Bound:
        check(program)
        bound = backend.bind(program, options.threads, self.pools[backend.name].filled, rooms[backend.name])
        run_in_background(backend.release, IDLE, once=True)  # what further plans would need at once if it were now
        return bound


__all__ = ["Check", "Machines", "Rooms"]
