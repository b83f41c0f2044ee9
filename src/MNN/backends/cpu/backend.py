"""The CPU as a back end; it does everything, and is where what others cannot do goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from MNN.backends.base.arena import Room
from MNN.backends.base.backend import Backend, Filled, NotPortableError
from MNN.backends.base.program import Command, Program, Ref
from MNN.backends.base.registry import register
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.binding.bind import BoundProgram, load_kernels
from MNN.backends.cpu.codegen import library as kernels
from MNN.backends.cpu.codegen.library import KnownKernel, Library, shared_library
from MNN.backends.cpu.codegen.toolchain import release_rest
from MNN.backends.cpu.native_loop.functions import loop_functions
from MNN.backends.cpu.native_loop.pool import usable_threads
from MNN.backends.cpu.targets.base import host_target
from MNN.cache.packed import PackedStore
from MNN.ir.dtype import DType

if TYPE_CHECKING:
    from MNN.backends.base.constants import ConstantPool
    from MNN.backends.base.options import Options
    from MNN.ir.prims import Prim, Tensor

_HERTZ = 3e9
_BYTES_A_SECOND = 1e10
"""Rough numbers: they only weigh this processor against other machines."""


class CpuBackend(Backend):
    """This machine's processor, with kernels generated for it."""

    name = "cpu"
    opens_sizes = True
    stored_classes = {
        "MNN.backends.cpu.codegen.chain": frozenset({"ChainSpec"}),
        "MNN.backends.cpu.codegen.library": frozenset({"KnownKernel"}),
    }

    def __init__(self, cache: bool = True, library: Library | None = None) -> None:
        """``cache``: kernels and packed weights are kept on disk. ``library``: where kernels come from, by default the
        process's own."""
        self._cache = cache
        self.library = library or shared_library(cache)

    def device(self) -> str:
        return repr(host_target())

    def generators(self) -> str:
        return kernels.generator_digest()

    def usable_threads(self, wanted: int) -> int:
        return usable_threads(wanted)

    def prefers_unsigned(self) -> bool:
        from MNN.backends.cpu.products.dot8 import moved

        target = self.library.target
        return bool(moved(target, DType.I8)) and not moved(target, DType.U8)

    def multiplies_words(self) -> bool:
        from MNN.backends.cpu.targets.instructions import capability as can

        target = self.library.target
        return target.can(can.PAIRS_I16) and not target.can(can.TILE_DOT_BF16)

    def cost(self, prim: Prim) -> float | None:
        """By the roofline: arithmetic at its peak, or bytes from memory."""
        from MNN.compiler.work import work

        target = self.library.target
        operations, nbytes = work(prim)
        peak = 2 * target.lanes(DType.F32) * target.fma_per_cycle * _HERTZ
        return max(operations / peak, nbytes / _BYTES_A_SECOND)

    def constants(self) -> ConstantPool:
        from MNN.backends.base.constants import ConstantPool

        return ConstantPool(PackedStore.shared() if self._cache else None, self.library.target.key())

    def compile(
        self,
        prims: Sequence[Prim],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        options: Options,
        pool: ConstantPool,
    ) -> Program:
        from MNN.backends.cpu.compile import compile_stage

        return compile_stage(prims, inputs, outputs, self.library.target, options, pool)

    def room(self, run_lock: RunLock) -> Room:
        return Room(run_lock)

    def bind(
        self, program: Program, threads: int, filled: Filled | None = None, room: Room | None = None
    ) -> BoundProgram:
        loop_functions(self.library.cache)
        return BoundProgram(program, self.library, threads, filled, room)

    def portable(self, program: Program) -> Program:
        """The same program with its kernels named by their keys."""
        return dataclasses.replace(program, commands=[self._portable(c) for c in program.commands], companions=())

    def _portable(self, command: Command) -> Command:
        kernel = command.kernel
        if kernel is None:
            raise NotPortableError("it has steps in Python")
        if command.stages:  # the kernel that runs the stages has no fields
            stages = tuple(dataclasses.replace(s, command=self._portable(s.command)) for s in command.stages)
            return dataclasses.replace(command, stages=stages)
        numbers = {name: 0 if isinstance(value, Ref) else value for name, value in command.args.items()}
        known = KnownKernel(self.library.key(kernel), kernel.scratch(self.library.target, numbers))
        return dataclasses.replace(command, kernel=known)

    def load(self, program: Program) -> None:
        loop_functions(self.library.cache)  # before the kernels, after which LLVM's memory is given back
        load_kernels(program, self.library)

    def release(self) -> None:
        release_rest()


_MADE: dict[Library, CpuBackend] = {}


def _backend(cache: bool) -> CpuBackend:
    """The one for the processor as it is called now: ``MNN_TARGET`` may have changed."""
    library = shared_library(cache)
    if library not in _MADE:
        _MADE[library] = CpuBackend(cache, library)
    return _MADE[library]


register(CpuBackend.name, _backend)
