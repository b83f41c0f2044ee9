"""Calls kernels of :mod:`MNN.backends.cpu.image` on arrays, on as many threads as the work is worth."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import Scratch
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.codegen.library import Library, shared_library
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from MNN.backends.cpu.native_loop.pool import MAX_THREADS, available_threads
from MNN.backends.cpu.targets.base import Target
from MNN.errors import MNNError
from MNN.ir.dtype import DType

Array = NDArray[Any]

TYPES = {t.numpy: t for t in (DType.U8, DType.U16, DType.I16, DType.F32)}
"""The types of pictures that kernels are for, by numpy's."""
KEPT = 64
"""Calls of each kind that are kept, for pictures of the same size."""
_LEAST = 1 << 12
"""Numbers below which numpy is as fast."""
_SHARED = 1 << 16
"""Numbers that a thread should have to be worth waking."""
_MOST = 16
"""Blocks for each thread, so that none waits long for another."""


class Settings:
    """``threads``: the most that a function may use, 0 for as many as there are processors. ``least``: the size of
    pictures from which on kernels are used."""

    threads = 0
    least = _LEAST


def setNumThreads(nthreads: int) -> None:  # noqa: N802
    """How many threads a function of ``MNN.cv`` may use on a large picture: 0 (the default) for all processors."""
    if not 0 <= nthreads <= MAX_THREADS:
        raise MNNError(f"nthreads is {nthreads}; it must be from 0 (all processors) to {MAX_THREADS}")
    Settings.threads = int(nthreads)


def getNumThreads() -> int:  # noqa: N802
    """How many threads a function of ``MNN.cv`` may use on a large picture."""
    return Settings.threads or available_threads()


class _Own(threading.local):
    """What one Python thread runs kernels with: memory of its own, so that threads do not wait for each other."""

    def __init__(self) -> None:
        self.lock, self.scratch = RunLock(), Scratch()
        self.programs: dict[int, tuple[NativeProgram, NDArray[np.int64], int]] = {}


_OWN = _Own()


@functools.cache
def library() -> Library:
    """The kernels of this process, kept on disk for others."""
    return shared_library(True)


def target() -> Target:
    """The processor that kernels are made for."""
    return library().target


def bands(height: int, numbers: int) -> int:
    """Rows of a block, where so many ``numbers`` are computed in ``height`` rows."""
    wanted = min(getNumThreads(), numbers // _SHARED)
    return height if wanted < 2 else max(-(-height // (2 * wanted)), min(height, 8))


class Call:
    """A kernel with all of its arguments but the addresses of pictures, to be run any number of times."""

    __slots__ = ("_blocks", "_kernel", "_label", "_moving", "_scratch", "_threads", "_values", "keep")

    def __init__(self, spec: KernelSpec, args: Mapping[str, int], moving: Sequence[str], blocks: int, keep: object):
        """``moving``: the slots that a run is given; ``keep``: whatever owns the memory that ``args`` point to."""
        self._values = np.array([args.get(name, 0) for name in spec.slots()], np.int64)
        self._moving = [spec.slots().index(name) for name in moving]
        self._kernel = library().load([spec])[0]
        self._scratch = spec.scratch(target(), args)
        self._blocks, self._threads = blocks, min(getNumThreads(), blocks) if blocks > 1 else 1
        self._label, self.keep = type(spec).__name__, keep

    def __call__(self, *addresses: int) -> None:
        """Runs the kernel over all its blocks; what lies at the ``addresses`` must stay until this returns."""
        found = _OWN.programs.get(self._kernel)
        if found is None or found[2] < self._scratch:
            command = Command(self._kernel, self._values.tolist(), self._blocks, 1, self._label)
            program = NativeProgram([command], self._scratch, run_lock=_OWN.lock, scratch=_OWN.scratch)
            found = _OWN.programs[self._kernel] = program, program.args(0), self._scratch
        program, args, _ = found
        args[:] = self._values
        for place, number in zip(self._moving, addresses, strict=True):
            args[place] = number
        program.set_blocks(0, self._blocks, 1)
        program.run(self._threads)


def address(array: Array) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0])


def bits(number: float) -> int:
    """The bits of an f32."""
    return int(np.float32(number).view(np.int32))


def worthwhile(numbers: int) -> bool:
    """Whether a picture of so many numbers is large enough for kernels."""
    return numbers >= Settings.least
