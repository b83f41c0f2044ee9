"""Calls kernels of :mod:`MNN.backends.cpu.image` on arrays, on as many threads as the work is worth."""

from __future__ import annotations

import ctypes
import functools
import itertools
import operator
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import Scratch
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.codegen.library import Library, shared_library
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from MNN.backends.cpu.native_loop.pool import MAX_THREADS, available_threads
from MNN.backends.cpu.targets.base import Target
from MNN.cv.kernels.entry import Function, Given, maker
from MNN.errors import MNNError
from MNN.ir.dtype import DType

Array = NDArray[Any]
Call = Function
"""A kernel to be called with what it moves."""

TYPES = {t.numpy: t for t in (DType.U8, DType.U16, DType.I16, DType.F32)}
"""The types of pictures that kernels are for, by numpy's."""
KEPT = 64
"""Calls of each kind that are kept, for pictures of the same size."""
_LEAST = 1 << 6
"""Numbers below which no kernel is compiled; even then it would be as fast as numpy."""
_OFTEN = 64
"""Calls after which a change of the processors that there are is noticed."""
_SHARED = 1 << 16
"""Numbers that a thread should have to be worth waking."""
_MOST = 16
"""Blocks for each thread, so that none waits long for another."""

_address, _view = ctypes.addressof, ctypes.c_char.from_buffer


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


_asked = itertools.count().__next__
_found = [1]
"""Processors, as they were when the system was asked last."""


def thread_count() -> int:
    """The same for functions that are called often: asking the system takes as long as a small picture, so that it is
    asked again every :data:`_OFTEN` calls."""
    if Settings.threads:
        return Settings.threads
    if not _asked() % _OFTEN:
        _found[0] = available_threads()
    return _found[0]


class _Own(threading.local):
    """What one Python thread runs kernels with: memory of its own, so that threads do not wait for each other."""

    def __init__(self) -> None:
        self.lock, self.scratch = RunLock(), Scratch()
        self.programs: dict[int, _Shared] = {}
        self._memory, self._place = self.scratch.of(0), 0

    def room(self, nbytes: int) -> int:
        """Where scratch of at least ``nbytes`` begins."""
        if self._memory.nbytes < nbytes:
            self._memory = self.scratch.of(nbytes)  # held, as larger memory may take its place there
            self._place = address(self._memory)
        return self._place


class _Shared(NamedTuple):
    """A program of a kernel that threads share, for at most so much scratch, and its last number of blocks."""

    program: NativeProgram
    args: NDArray[np.int64]
    scratch: int
    blocks: list[int]


_CALL = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)

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
    wanted = min(thread_count(), numbers // _SHARED)
    return height if wanted < 2 else max(-(-height // (2 * wanted)), min(height, 8))


Moving = Sequence["str | Mapping[str, int]"]
"""What a call is given, operand by operand: the slot for it, or slots that point some bytes behind where it begins."""


def call_of(spec: KernelSpec, args: Mapping[str, int], moving: Moving, blocks: int, keep: object = None) -> Call:
    """A kernel with all of its arguments but ``moving``, to be called any number of times with these: arrays, or whole
    numbers such as addresses. It runs over all its blocks; ``keep`` owns the memory that ``args`` point to."""
    threads = min(thread_count(), blocks) if blocks > 1 else 1
    made = maker(library()) if threads == 1 else None  # with nobody to share with, the kernel is all there is to call
    if made is None:
        return _Shares(spec, args, moving, blocks, threads, keep)
    slots, scratch = spec.slots(), spec.scratch(target(), args)
    given = [(slots.index(name), operand, behind) for name, operand, behind in _places(moving)]
    values = [int(args.get(name, 0)) for name in slots]
    call = made.function(library().load([spec])[0], values, given, blocks, scratch > 0, keep)
    return _with_room(call, scratch) if scratch else call


def _places(moving: Moving) -> list[Given]:
    pairs = [(i, {m: 0} if isinstance(m, str) else m) for i, m in enumerate(moving)]
    return [(name, operand, behind) for operand, names in pairs for name, behind in names.items()]


def _with_room(call: Call, scratch: int) -> Call:
    def run(*given: object) -> None:
        call(*given, _OWN.room(scratch))

    return run


class _Shares:
    """A call on several threads, or by ``ctypes``."""

    def __init__(
        self, spec: KernelSpec, args: Mapping[str, int], moving: Moving, blocks: int, threads: int, keep: object
    ) -> None:
        slots, places = spec.slots(), _places(moving)
        names = [name for name, _, _ in places]
        fixed = [name for name in slots if name not in names]
        self._values = tuple(args.get(name, 0) for name in fixed)
        self._given = [(operand, behind) for _, operand, behind in places]
        behind = [*fixed, *names]
        self._order = [behind.index(name) for name in slots]  # of those, the slots as they come
        self._kernel = library().load([spec])[0]
        self._alone, self._pack = _CALL(self._kernel), struct.Struct(f"{len(slots)}q").pack
        self._scratch = spec.scratch(target(), args)
        self._blocks, self._threads = blocks, threads
        self._label, self.keep = type(spec).__name__, keep

    def __call__(self, *given: object) -> None:
        begins = [address(x) if isinstance(x, np.ndarray) else operator.index(x) for x in given]  # type: ignore[arg-type]
        numbers = (*self._values, *(begins[operand] + behind for operand, behind in self._given))
        values = [numbers[i] for i in self._order]
        if self._threads == 1:
            self._alone(self._pack(*values), 0, self._blocks, _OWN.room(self._scratch) if self._scratch else None)
            return
        found = _OWN.programs.get(self._kernel)
        if found is None or found.scratch < self._scratch:
            command = Command(self._kernel, list(values), self._blocks, 1, self._label)
            program = NativeProgram([command], self._scratch, run_lock=_OWN.lock, scratch=_OWN.scratch)
            found = _OWN.programs[self._kernel] = _Shared(program, program.args(0), self._scratch, [self._blocks])
        found.args[:] = values
        if found.blocks[0] != self._blocks:
            found.program.set_blocks(0, self._blocks, 1)
            found.blocks[0] = self._blocks
        found.program.run(self._threads)


@functools.cache
def alone(spec: KernelSpec) -> Call:
    """A kernel of one block without scratch, called with all of its slots."""
    return call_of(spec, {}, spec.slots(), 1)


def address(array: Array) -> int:
    """Where an array begins."""
    try:
        # a few times as fast, for arrays that are contiguous and may be written to
        return _address(_view(array))  # type: ignore[arg-type] # a buffer, which numpy says from Python 3.12 on
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


def bits(number: float) -> int:
    """The bits of an f32."""
    return int(np.float32(number).view(np.int32))


def worthwhile(numbers: int) -> bool:
    """Whether a picture of so many numbers is large enough for kernels."""
    return numbers >= Settings.least
