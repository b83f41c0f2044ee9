"""Calls the kernel of an elementwise loop on arrays."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import Scratch
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.codegen.library import Library, shared_library
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from MNN.backends.cpu.native_loop.pool import available_threads
from MNN.ir.scalar import Body

CHUNK = 1 << 14
"""Elements of the innermost loop in a block, where threads share the work."""
SHARED = 1 << 20
"""Instructions on elements from which on waking another thread pays."""
_address, _view = ctypes.addressof, ctypes.c_char.from_buffer
_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Layout(NamedTuple):
    """Loops over arrays: their ``extents``, outermost first; the ``classes`` of the arrays that are read along the
    innermost one, as :class:`MapSpec` has them; and per array that is read, and behind them that of the results, the
    strides of the outer loops (those of all loops for class "s"), in elements."""

    extents: tuple[int, ...]
    classes: tuple[str, ...]
    strides: Sequence[tuple[int, ...]]


class _Own(threading.local):
    """What one Python thread runs shared loops with, so that threads do not wait for each other."""

    def __init__(self) -> None:
        self.lock, self.scratch = RunLock(), Scratch()
        self.programs: dict[int, tuple[NativeProgram, NDArray[np.int64]]] = {}


_OWN = _Own()


@functools.cache
def _library() -> Library:
    return shared_library(True)


def address(array: np.ndarray) -> int:
    """Where an array begins."""
    try:
        # a few times as fast, for arrays that are contiguous and may be written to
        return _address(_view(array))  # type: ignore[arg-type] # a buffer, which numpy says from Python 3.12 on
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


@functools.cache
def _packing(count: int) -> Callable[..., bytes]:
    return struct.Struct(f"{count}q").pack


class LoopKernel:
    """A kernel that needs no scratch, on arguments of any sizes."""

    __slots__ = ("_call", "address")

    def __init__(self, spec: KernelSpec) -> None:
        self.address = _library().load([spec])[0]
        self._call = _CALL(self.address)

    def run(self, values: list[int], blocks: int) -> None:
        """All blocks, by the calling thread; ``values`` as the spec's slots."""
        self._call(_packing(len(values))(*values), 0, blocks, None)

    def share(self, values: list[int], blocks: int, grain: int, threads: int) -> None:
        """The same by threads (0: all processors) that take ``grain`` blocks at a time."""
        found = _OWN.programs.get(self.address)
        if found is None:
            command = Command(self.address, values, blocks, grain, "elementwise loop")
            program = NativeProgram([command], run_lock=_OWN.lock, scratch=_OWN.scratch)
            found = _OWN.programs[self.address] = program, program.args(0)
        program, arguments = found
        arguments[:] = values
        program.set_blocks(0, blocks, grain)
        program.run(threads or available_threads())


class MapKernel(LoopKernel):
    """A body over loops of any extents."""

    __slots__ = ("shared_from",)

    def __init__(self, body: Body, rank: int, classes: tuple[str, ...]) -> None:
        """For all layouts with so many loops and these classes."""
        super().__init__(MapSpec.of(body, rank, classes, ("1",) * len(body.outputs)))
        self.shared_from = SHARED // len(body.code)
        """Elements from which on threads share the work."""

    def fill(self, layout: Layout, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], threads: int) -> None:
        """Fills the ``results``, which are dense, on up to so many ``threads``; 0: on all processors."""
        places: list[int] = []
        for operand, strides in zip(operands, layout.strides, strict=False):
            places.append(address(operand))
            places += strides
        for result in results:
            places.append(address(result))
            places += layout.strides[-1]
        self._start(layout.extents, places, threads)

    def fill_dense(
        self, count: int, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], threads: int
    ) -> None:
        """As :meth:`fill`, for a single loop without strides."""
        self._start((count,), [*map(address, operands), *map(address, results)], threads)

    def _start(self, extents: tuple[int, ...], places: list[int], threads: int) -> None:
        blocks, inner = math.prod(extents[:-1]), extents[-1]
        if threads == 1 or blocks * inner < self.shared_from:
            self.run([*extents, inner, *places], blocks)
        else:
            chunk = CHUNK if inner > 2 * CHUNK else inner
            self.share([*extents, chunk, *places], blocks * -(-inner // chunk), max(1, CHUNK // chunk), threads)


__all__ = ["Layout", "LoopKernel", "MapKernel", "address"]
