"""Calls the kernel of an elementwise loop on arrays."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import Scratch
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.codegen.library import Library, shared_library
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.native_loop.native import Command, NativeProgram
from MNN.backends.cpu.native_loop.pool import available_threads
from MNN.ir.scalar import Body

_CHUNK = 1 << 14
"""Elements of the innermost loop in a block, where threads share the work."""
_SHARED = 1 << 18
"""Instructions on elements from which on waking another thread pays."""
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


class LoopKernel:
    """A body over loops of any extents."""

    __slots__ = ("_address", "_call", "_least")

    def __init__(self, body: Body, layout: Layout) -> None:
        """For all layouts with as many loops and the same classes."""
        spec = MapSpec.of(body, len(layout.extents), layout.classes, ("1",) * len(body.outputs))
        self._address = _library().load([spec])[0]
        self._call = _CALL(self._address)
        self._least = _SHARED // len(body.code)

    def run(self, layout: Layout, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], threads: int) -> None:
        """Fills the ``results``, which are dense, on up to so many ``threads``; 0: on all processors."""
        *outer, inner = layout.extents
        blocks = math.prod(outer)
        shared = threads != 1 and blocks * inner >= self._least
        chunk = _CHUNK if shared and inner > 2 * _CHUNK else inner
        values = [*layout.extents, chunk]
        for operand, strides in zip(operands, layout.strides, strict=False):
            values.append(operand.__array_interface__["data"][0])
            values += strides
        for result in results:
            values.append(result.__array_interface__["data"][0])
            values += layout.strides[-1]
        if shared:
            self._share(values, blocks * -(-inner // chunk), max(1, _CHUNK // chunk), threads or available_threads())
        else:
            arguments = array("q", values)
            self._call(arguments.buffer_info()[0], 0, blocks, None)

    def _share(self, values: list[int], blocks: int, grain: int, threads: int) -> None:
        """The same by threads that take ``grain`` blocks at a time."""
        found = _OWN.programs.get(self._address)
        if found is None:
            command = Command(self._address, values, blocks, grain, "elementwise loop")
            program = NativeProgram([command], run_lock=_OWN.lock, scratch=_OWN.scratch)
            found = _OWN.programs[self._address] = program, program.args(0)
        program, arguments = found
        arguments[:] = values
        program.set_blocks(0, blocks, grain)
        program.run(threads)


__all__ = ["Layout", "LoopKernel"]
