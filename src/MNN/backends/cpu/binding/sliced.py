"""A batch slice by slice: the program of one slice, bound once for every thread that takes part in a run.

The native loop has one command for all of it, with a block per slice. Threads share these like any other blocks, so
that each goes through the whole network alone, in its own part of the arena, and none waits for another before the
end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import ALIGNMENT, aligned_bytes
from MNN.backends.base.program import Buffer
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.binding.direct import Place
from MNN.backends.cpu.native_loop.functions import clock_tick_ns, loop_functions
from MNN.backends.cpu.native_loop.layout import FRAME, HAND, MOVE, SLICES
from MNN.backends.cpu.native_loop.native import BoundBuffer, Command, CopiedBuffer, NativeProgram, RunContext
from MNN.errors import RunError


class Move(NamedTuple):
    """A word in memory that holds an address in an input or output: ``base + offset`` for the first slice, ``step``
    bytes more for each that follows."""

    address: int
    buffer: Buffer
    base: int
    offset: int
    step: int


class SlicedProgram:
    """Runs like a :class:`~MNN.backends.cpu.native_loop.native.NativeProgram`, of which it holds one per thread."""

    def __init__(
        self, hands: Sequence[tuple[NativeProgram, Iterable[Move]]], count: int, run_lock: RunLock | None = None
    ) -> None:
        """``hands``: for every thread the program of a slice in memory of its own, and what moves in it. ``run_lock``:
        by default its own."""
        loop, context = loop_functions(), RunContext()
        self._hands = [program for program, _ in hands]
        self._moves = []
        self._places: dict[Buffer, list[Place]] = {}
        rows = []
        for program, moves in hands:
            kept = list(moves)
            clock = program.context.address + FRAME["times"]  # the last row, for profiles
            words = [MOVE.row(word=m.address, base=m.base + m.offset, step=m.step) for m in kept]
            table = _table([*words, MOVE.row(word=clock, base=0, step=0)])
            for number, move in enumerate(kept):
                at = MOVE.count * number + MOVE.index("base")
                self._places.setdefault(move.buffer, []).append((table.reshape(-1), at, move.offset))
            self._moves.append(table)
            rows.append(HAND.row(frame=program.frame(), moves=table.ctypes.data, count=len(table)))
        self._rows = _table(rows)
        args = SLICES.row(run=loop.run_address, outer=context.address, hands=self._rows.ctypes.data)
        whole = Command(loop.slices(), args, count, 1, "a slice of the batch")
        keep = (self._hands, self._moves, self._rows)
        self._all = NativeProgram([whole], scratch_bytes=ALIGNMENT, context=context, keep=keep, run_lock=run_lock)

    @property
    def count(self) -> int:
        """How many slices there are."""
        (row,) = self._all.rows()
        return row[2]

    def __len__(self) -> int:
        return len(self._hands[0])

    @property
    def places(self) -> dict[Buffer, list[Place]]:
        """Where the addresses of inputs and outputs stand; to be changed between runs only."""
        return self._places

    @property
    def io(self) -> dict[str, NDArray[np.int64]]:
        """See :class:`MNN.backends.cpu.native_loop.native.NativeProgram`."""
        return self._all.io

    def position_of_blocks(self, index: int) -> int:
        """The place of the number of slices; ``index`` is 0. See
        :meth:`MNN.backends.cpu.native_loop.native.NativeProgram.position_of_blocks`."""
        return self._all.position_of_blocks(index)

    def grain(self, index: int) -> int:
        """One slice is handed out at a time. See :meth:`MNN.backends.cpu.native_loop.native.NativeProgram.grain`."""
        return self._all.grain(index)

    def position(self, index: int, argument: int) -> int:
        """See :meth:`MNN.backends.cpu.native_loop.native.NativeProgram.position`."""
        return self._all.position(index, argument)

    def address(self, place: int) -> int:
        """See :meth:`MNN.backends.cpu.native_loop.native.NativeProgram.address`."""
        return self._all.address(place)

    def changed(self) -> None:
        """See :meth:`MNN.backends.cpu.native_loop.native.NativeProgram.changed`."""
        self._all.changed()

    def bind_io(
        self, lent: Sequence[BoundBuffer], taken: Sequence[CopiedBuffer] = (), given: Sequence[CopiedBuffer] = ()
    ) -> None:
        """See :meth:`MNN.backends.cpu.native_loop.native.NativeProgram.bind_io`."""
        self._all.bind_io(lent, taken, given)

    def run(self, threads: int = 1) -> None:
        """Computes all slices on up to ``threads`` threads, this one included. Raises ``RunError`` like a program."""
        try:
            self._all.run(min(threads, len(self._hands)))
        except RunError:
            found = [failure for failure in (hand.failure() for hand in self._hands) if failure is not None]
            if found:
                raise found[0] from None
            raise

    def profile(self, threads: int = 1) -> NDArray[np.float64]:
        """Runs all; gives the nanoseconds that each command took in all slices, divided by how many of these were
        computed at the same time: float64 of shape (commands,). Where the processor has no clock for it, those of the
        first slice alone, times the slices."""
        if not loop_functions().clock:
            return self.first().profile() * self.count
        ticks = np.zeros((self.count, len(self) + 1), np.int64)
        for moves in self._moves:
            moves[-1, 1:] = ticks.ctypes.data, ticks.strides[0]
        try:
            self.run(threads)
        finally:
            for moves in self._moves:
                moves[-1, 1:] = 0
            for hand in self._hands:
                hand.context.words[FRAME["times"] // 8] = 0
        spent: NDArray[np.float64] = np.diff(ticks).sum(axis=0) * (clock_tick_ns() / _at_once(ticks))
        return spent

    def first(self) -> NativeProgram:
        """The program of the first slice alone, in the first thread's memory. Nothing else may run meanwhile."""
        for address, base, _ in self._moves[0].tolist():
            ctypes.c_int64.from_address(address).value = base
        return self._hands[0]


def _at_once(ticks: NDArray[np.int64]) -> float:
    """How many slices were computed at the same time, on average."""
    begin, end = ticks[:, 0], ticks[:, -1]
    return max(float((end - begin).sum() / max(end.max() - begin.min(), 1)), 1.0)


def _table(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    table = aligned_bytes(8 * sum(map(len, rows))).view(np.int64).reshape(len(rows), -1)
    table[...] = rows
    return table
