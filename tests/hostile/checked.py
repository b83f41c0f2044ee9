"""Programs whose kernels test every access: each may touch the buffers that it was given, its scratch, nothing else.

A kernel in a real session is trusted with whole address space; here the same program runs with checked builds, kernel
by kernel, on memory full of rubbish, so that a wrong extent, stride or block count is seen even where it does no harm.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.program import Buffer, Command, Ref, Slices
from MNN.backends.cpu import backend
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.binding.chains import ChainTables
from MNN.backends.cpu.binding.direct import Place
from MNN.backends.cpu.lang.declarations import checked_build
from MNN.backends.cpu.native_loop.native import Command as Row
from MNN.backends.cpu.native_loop.native import HostFunction, NativeProgram

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class OutOfBounds(BaseException):
    """A kernel reached outside of its buffers; no MNNError, and nothing that is caught on the way."""


class CheckedProgram(BoundProgram):
    """Stands where the runtime binds a program. Nothing is used in place: what is checked are the arena's bounds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._slice = 0
        super().__init__(*args, **kwargs)

    def _places(self) -> dict[Buffer, Sequence[Place]]:
        return {}

    def _native(self, steps: Sequence[Command]) -> NativeProgram:
        return self._rows(steps, 1)

    def _sliced(self, steps: Sequence[Command], slices: Slices) -> NativeProgram:  # type: ignore[override]
        """One slice after the other, in one thread's memory."""
        return self._rows(steps, slices.count)

    def _rows(self, steps: Sequence[Command], slices: int) -> NativeProgram:
        block = self._arena.view(0, (self._arena.nbytes,), np.uint8)
        block[:] = 0xFF
        rows: list[Row] = []
        keep: list[object] = [*steps, self._arena]
        for self._slice in range(slices):
            for step in steps:
                if step.kernel is None:
                    assert step.host is not None
                    rows.append(Row(self._host(step.host), [], 1, 1, step.origin))
                else:
                    rows.append(Row(self._checked(step, keep), [], step.blocks, step.blocks, step.origin))
        self._slice = 0
        return NativeProgram(rows, context=self._context, keep=keep)

    def _base(self, buffer: Buffer) -> int:
        return super()._base(buffer) + self._slice * self.program.slice_bytes().get(buffer, 0)

    def _checked(self, step: Command, keep: list[object]) -> HostFunction:
        assert step.kernel is not None
        with checked_build():
            address, *functions = self._library.load(list(step.kernels()))
        entry = _ENTRY(address)
        numbers = {name: self._address(v) if isinstance(v, Ref) else v for name, v in step.args.items()}
        ranges: list[int] = []
        for buffer in dict.fromkeys(ref.buffer for ref in step.refs()):
            ranges += self._range(buffer)
        table = np.zeros(2 + len(ranges) + 8, np.int64)  # room for scratch and a chain's three tables
        tables: list[np.ndarray] = []
        if step.stages:
            chain = ChainTables(step, functions, self._address, self._library.target, [table.ctypes.data])
            numbers, tables = chain.args, [a for a in chain.arrays if a.size]
            keep.append(chain)
        values = list(numbers.values())
        scratch = aligned_bytes(max(step.kernel.scratch(self._library.target, numbers), 64))
        for array in (scratch, *tables):
            ranges += [array.ctypes.data, array.ctypes.data + array.nbytes]
        name = f"{step.kernel.key()[:200]} of {step.origin}"

        def run(args: np.ndarray, begin: int, end: int) -> None:
            del args
            scratch[:] = 0xFF
            table[: 2 + len(ranges)] = [0, len(ranges) // 2, *ranges]
            arguments = np.array([*values, table.ctypes.data], np.int64)
            entry(arguments.ctypes.data, begin, end, scratch.ctypes.data)
            if table[0]:
                raise OutOfBounds(f"access number {table[0]} of {name}")

        return run

    def _range(self, buffer: Buffer) -> list[int]:
        if buffer is self.program.error_word:
            return [self._context.error_address, self._context.error_address + 8]
        base = self._base(buffer)
        nbytes = buffer.nbytes if buffer.const is None else buffer.const.nbytes
        return [base, base + self.program.slice_bytes().get(buffer, nbytes)]


@contextlib.contextmanager
def checked_programs() -> Iterator[None]:
    """Within this context sessions make checked programs."""
    plain = backend.BoundProgram
    backend.BoundProgram = CheckedProgram  # type: ignore[misc]
    try:
        yield
    finally:
        backend.BoundProgram = plain  # type: ignore[misc]
