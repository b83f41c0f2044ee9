"""The shortest way through Python of a run in one thread whose inputs are known to fit: networks of a few microseconds
spend more time there than in their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import empty, ndarray

from MNN.backends.base.arena import Block
from MNN.backends.base.backend import Given, NamedRun
from MNN.backends.base.program import Program
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.binding.direct import Tensors
from MNN.backends.cpu.binding.sliced import SlicedProgram
from MNN.backends.cpu.native_loop.address import pointer_to
from MNN.backends.cpu.native_loop.native import NativeProgram

_PLAIN = 0x101
"""Flags of an array in one block, aligned: numpy's C_CONTIGUOUS and ALIGNED."""


def short_run(
    program: Program,
    native: NativeProgram | SlicedProgram,
    io: tuple[Tensors, Tensors],
    given: Sequence[Given],
    outputs: Sequence[str],
    long: NamedRun,
    turn: tuple[Block, RunLock, object],
) -> NamedRun:
    """What :meth:`BoundProgram.run` comes to for arrays by name of the types and sizes ``given``: inputs and outputs of
    which native code knows where they are, one lock, one native call. The ``long`` way where these are not the
    program's own, a command is Python code, or numpy copies something.

    ``turn``: whose turn it is: block, lock, and the token which says in the block that it holds the program's numbers.
    The function gives the ``outputs``, the caller's own. Where inputs are not like that, an array has gaps, the memory
    holds other numbers, or it is used from within a run, it goes the ``long`` way.
    """
    ins, outs = ([d for d in part if d is not None] for part in io)
    if not isinstance(native, NativeProgram) or native.calls_python or len(ins) + len(outs) < sum(map(len, io)):
        return long
    if [tuple(known) for _, *known in given] != [(t.dtype.numpy, t.shape) for t in program.inputs]:
        return long
    block, run_lock, token = turn
    count, taken = len(native), len(given)
    read = tuple([(*known, *d.cells()) for known, d in zip(given, ins, strict=True)])
    written = tuple([(name, d.sizes.shape, d.kind, *d.cells()) for name, d in zip(outputs, outs, strict=True)])

    def run(feeds: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        if type(feeds) is not dict or len(feeds) != taken:
            return long(feeds)
        found: dict[str, np.ndarray] = {}
        lock = run_lock.lock
        with lock:
            if block.user is not token or block.running is not None or native.threads != 1 or native.entered:
                return long(feeds)
            block.running, block.under = token, lock
            try:
                for name, dtype, shape, slot, cell in read:
                    array = feeds.get(name)
                    if type(array) is not ndarray or array.shape != shape or array.flags.num & _PLAIN != _PLAIN:
                        return other(feeds)
                    if array.dtype is not dtype and array.dtype != dtype:  # numpy takes its time to compare them
                        return other(feeds)
                    slot[0] = pointer_to(array, cell)
                for name, shape, kind, slot, cell in written:
                    found[name] = array = empty(shape, kind)
                    slot[0] = pointer_to(array, cell)
                if native.call(native.frame_address) != count:
                    raise native.failed()
                return found
            except BaseException:
                give_back()
                raise
            finally:
                block.running = None

    def other(feeds: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        give_back()
        block.running = None
        return long(feeds)

    def give_back() -> None:
        """Native code has not come to the arrays, or may not have."""
        for *_, slot, _ in (*read, *written):
            slot[0] = 0

    return run


__all__ = ["short_run"]
