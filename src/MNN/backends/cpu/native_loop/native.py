"""A program as the native loop sees it: a table of commands, their arguments, and one call that runs them all."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import ALIGNMENT, Scratch, aligned_bytes
from MNN.backends.base.run_lock import RunLock
from MNN.backends.cpu.native_loop.functions import clock_tick_ns, loop_functions
from MNN.backends.cpu.native_loop.layout import CARRIED, COMMAND, FRAME, FRAME_BYTES, LENT
from MNN.backends.cpu.native_loop.pool import MAX_THREADS, pool_for
from MNN.errors import RunError

HostFunction = Callable[[NDArray[np.int64], int, int], None]
"""A command in Python: called with its arguments (a live view) and the blocks ``begin <= b < end`` to do."""

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_ERRORS = {1: "an index in the data is out of range"}


class Command(NamedTuple):
    """One row of the table.

    ``blocks`` blocks are handed out in chunks of ``grain``; a command with ``blocks <= grain`` runs in one thread.
    """

    function: int | HostFunction
    """Address of a kernel, or a Python function."""
    args: Sequence[int]
    """The kernel's i64 arguments; addresses must stay valid as long as the program."""
    blocks: int
    grain: int
    label: str = ""
    """What messages call the command: the node it came from."""
    condition: tuple[int, bool] | None = None
    """The address of a byte, 0 or 1, and which of these it has to be; otherwise the command is left out."""


class BoundBuffer(NamedTuple):
    """A word in memory, by address, that says where something lies.

    When a run begins and ``slot``, another address, holds that of a third word, the first one becomes ``offset`` more
    than what this one holds. When it ends, ``word`` is ``home`` again and ``slot`` 0.
    """

    word: int
    slot: int
    offset: int
    home: int


class CopiedBuffer(NamedTuple):
    """Memory, by address, that is copied in one run, in which ``slot``, another address, holds that of a word that says
    from where, or to where. The slot is 0 afterwards. There are ``planes`` of ``rows`` of ``nbytes``, which lie strides
    of bytes apart here and side by side there."""

    home: int
    slot: int
    nbytes: int
    rows: int = 1
    planes: int = 1
    row_stride: int = 0
    plane_stride: int = 0


class RunContext:
    """The words through which commands and the loop talk. Made before the program where kernels need its address."""

    __slots__ = ("_memory", "address", "exception", "words")

    def __init__(self) -> None:
        self._memory = aligned_bytes(FRAME_BYTES, ALIGNMENT, zero=True)
        self.address: int = self._memory.ctypes.data
        self.words: NDArray[np.int64] = self._memory.view(np.int64)
        self.exception: BaseException | None = None

    @property
    def error_address(self) -> int:
        """Where a kernel stores a code (integer of up to 8 bytes, not 0; 1 = index out of range) to fail the run."""
        return self.address + FRAME["error"]


class NativeProgram:
    """Commands ready to run. ``run`` makes one native call and allocates nothing once a thread count has been used.

    One run at a time per program (its commands share memory): a second Python thread waits for the first. Programs
    with turns of their own run at the same time and share the workers.
    """

    def __init__(
        self,
        commands: Sequence[Command | tuple[int | HostFunction, Sequence[int], int, int]],
        scratch_bytes: int = 0,
        context: RunContext | None = None,
        keep: object = None,
        run_lock: RunLock | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        """``scratch_bytes``: the most scratch that any command needs per thread. ``keep``: whatever owns the memory
        that arguments point to (arena, weights); held as long as the program. ``run_lock`` and ``scratch``: by default
        its own; only programs of one turn may share scratch."""
        rows = [command if isinstance(command, Command) else Command(*command) for command in commands]
        self.context = context or RunContext()
        self.labels = [row.label for row in rows]
        self.keep = keep
        self._count = len(rows)
        self._hosts: list[Any] = []
        self._parallel: bool | None = None  # some command may be shared; None: not known
        self._run_lock = run_lock or RunLock()
        self.entered: object = None
        """The lock that it runs under."""
        self._starts = list(itertools.accumulate((len(row.args) for row in rows), initial=0))
        count = self._starts[-1]
        self._first_row = -(-max(count, 1) // 16) * 16
        self._words = aligned_bytes(8 * self._first_row + COMMAND.size * max(len(rows), 1)).view(np.int64)
        """Arguments, and behind them the table."""
        self._args, table_words = self._words[: max(count, 1)], self._words[self._first_row :]
        self._args[:count] = list(itertools.chain.from_iterable(row.args for row in rows))
        self._table: NDArray[np.int64] = table_words.reshape(-1, COMMAND.count)
        self._loop = loop_functions()
        base = self._args.ctypes.data
        table = []
        for i, row in enumerate(rows):
            function, args = self._loop.plain, base + 8 * self._starts[i]
            if isinstance(row.function, int):
                function = row.function
            else:
                args = self._host(i, row.function, args)
            blocks, grain = _shares(i, row.blocks, row.grain)
            condition, value = row.condition or (0, False)
            own = {"function": function, "args": args, "blocks": blocks, "grain": grain}
            table.append(COMMAND.row(**own, condition=condition, value=int(value)))
        if table:
            self._table[:] = table
        self._stride = -(-scratch_bytes // 128) * 128
        self._room = scratch or Scratch()
        self._scratch = aligned_bytes(0)
        words = self.context.words
        words[FRAME["table"] // 8] = self._table.ctypes.data
        words[FRAME["last"] // 8] = self._count
        words[FRAME["stride"] // 8] = self._stride
        words[FRAME["threads"] // 8] = 0
        self.call = self._loop.run
        """The native call that a run is, for the frame's address; whoever times it may put something else here."""
        self.frame_address = self.context.address
        self.threads: int | None = None
        """What the frame is set up for."""
        self._pool: object = None
        self.io: dict[str, NDArray[np.int64]] = {}
        """The tables of :meth:`bind_io`: ``lent`` (records LENT), ``taken`` and ``given`` (CARRIED)."""

    def __len__(self) -> int:
        return self._count

    @property
    def calls_python(self) -> bool:
        """Whether some command is a Python function."""
        return bool(self._hosts)

    def args(self, index: int) -> NDArray[np.int64]:
        """The arguments of a command, writable: for inputs that move, or extents of a new input size."""
        return self._args[self._starts[index] : self._starts[index + 1]]

    def position(self, index: int, argument: int) -> int:
        """The place of an argument of a command, for :meth:`rewrite` and :meth:`address`."""
        return self._starts[index] + argument

    def grain(self, index: int) -> int:
        """How many blocks of a command are handed out at a time."""
        return int(self._table[index, COMMAND.index("grain")])

    def position_of_blocks(self, index: int) -> int:
        """The place of a command's number of blocks; its grain follows."""
        return self._first_row + index * COMMAND.count + COMMAND.index("blocks")

    def address(self, place: int) -> int:
        """Where the word of a place lies; whoever writes there calls :meth:`changed` afterwards."""
        return int(self._words.ctypes.data) + 8 * place

    def changed(self) -> None:
        """Says that commands may have other numbers of blocks."""
        self._parallel = None

    def rewrite(self, places: NDArray[np.intp], values: NDArray[np.int64]) -> None:
        """Gives arguments in some ``places`` other values."""
        self._words[places] = values

    def rows(self) -> list[tuple[int, int, int, int]]:
        """Per command: the address of its function, that of its arguments, blocks and grain."""
        return [(int(f), int(a), int(b), int(g)) for f, a, b, g, *_ in self._table[: self._count]]

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory per thread."""
        return self._stride

    def set_blocks(self, index: int, blocks: int, grain: int) -> None:
        """Changes how many blocks a command has, and how many are handed out at a time."""
        self._table[index, COMMAND.index("blocks") : COMMAND.index("condition")] = _shares(index, blocks, grain)
        self._parallel = None

    def run(self, threads: int = 1) -> None:
        """Runs all commands on up to ``threads`` threads, this one included.

        Raises what a host command raised, or ``RunError`` when a kernel reported an error in the data; commands after
        that one have not run.
        """
        with self._run_lock.lock:
            self._enter()
            try:
                if threads != self.threads or threads > 1:
                    self._prepare(threads)
                if self.call(self.frame_address) != self._count:
                    raise self.failed()
            finally:
                self.entered = None

    def bind_io(
        self, lent: Sequence[BoundBuffer], taken: Sequence[CopiedBuffer] = (), given: Sequence[CopiedBuffer] = ()
    ) -> None:
        """What may lie elsewhere in a run, what may be copied before it, and what behind it; called before the first
        one."""
        for name, record, rows in (("lent", LENT, lent), ("taken", CARRIED, taken), ("given", CARRIED, given)):
            self.io[name] = np.zeros((0, record.count), np.int64)
            if rows:
                table = aligned_bytes(record.size * len(rows)).view(np.int64).reshape(-1, record.count)
                table[:] = [record.row(**row._asdict()) for row in rows]
                self.io[name] = table
                self.context.words[FRAME[name] // 8] = table.ctypes.data
                self.context.words[FRAME[f"{name}_count"] // 8] = len(rows)

    def run_range(self, first: int, last: int, threads: int = 1) -> None:
        """Runs the commands ``first <= i < last``; raises like :meth:`run`."""
        with self._run_lock.lock:
            self._enter()
            try:
                self._run_range(first, last, threads)
            finally:
                self.entered = None

    def profile(self, threads: int = 1) -> NDArray[np.float64]:
        """Runs all commands; gives the nanoseconds that each took, float64 of shape (commands,)."""
        with self._run_lock.lock:
            self._enter()
            try:
                return self._profile(threads) if self._loop.clock else self._profile_in_steps(threads)
            finally:
                self.entered = None

    def _profile(self, threads: int) -> NDArray[np.float64]:
        tick = clock_tick_ns()
        ticks = np.zeros(self._count + 1, np.int64)
        self.context.words[FRAME["times"] // 8] = ticks.ctypes.data
        try:
            self._run_range(0, self._count, threads)
        finally:
            self.context.words[FRAME["times"] // 8] = 0
        return np.diff(ticks) * tick

    def _profile_in_steps(self, threads: int) -> NDArray[np.float64]:
        result = np.zeros(self._count)
        for i in range(self._count):
            start = time.perf_counter_ns()
            self._run_range(i, i + 1, threads)
            result[i] = time.perf_counter_ns() - start
        return result

    def _run_range(self, first: int, last: int, threads: int) -> None:
        if not 0 <= first <= last <= self._count:
            raise ValueError(f"commands {first} to {last} are outside of this program of {self._count}")
        words = self.context.words
        words[FRAME["first"] // 8], words[FRAME["last"] // 8] = first, last
        try:
            self._prepare(threads)
            if self.call(self.frame_address) != last:
                raise self.failed()
        finally:
            words[FRAME["first"] // 8], words[FRAME["last"] // 8] = 0, self._count

    def _enter(self) -> None:
        lock = self._run_lock.lock
        if self.entered is lock:
            raise RunError("a program was run from within one of its own commands")
        self.entered = lock

    def _prepare(self, threads: int) -> None:
        """Brings the frame's thread count, pool and scratch memory up to date."""
        if not 1 <= threads <= MAX_THREADS:
            raise RunError(f"the number of threads is {threads}; it must be from 1 to {MAX_THREADS}")
        if self._parallel is None:
            blocks, grain = (self._table[: self._count, COMMAND.index(name)] for name in ("blocks", "grain"))
            self._parallel = bool((blocks > grain).any())
        pool = pool_for(threads) if threads > 1 and self._parallel else None
        if threads == self.threads and pool is self._pool:
            return
        words = self.context.words
        if self._scratch.nbytes < threads * self._stride:
            self._scratch = self._room.of(threads * self._stride)
        words[FRAME["scratch"] // 8] = self._scratch.ctypes.data
        words[FRAME["threads"] // 8] = threads
        words[FRAME["pool"] // 8] = pool.address if pool is not None else 0
        self.threads, self._pool = threads, pool

    def frame(self) -> int:
        """The address of the frame, ready for the loop's ``run`` in one thread."""
        self._prepare(1)
        return self.frame_address

    def failure(self) -> BaseException | None:
        """What a kernel reported, if one did, where the loop was run by other native code; see :meth:`frame`."""
        return self.failed() if self.context.words[FRAME["error"] // 8] else None

    def failed(self) -> BaseException:
        """Why the loop stopped early; afterwards the context is fit for the next run."""
        words, context = self.context.words, self.context
        index, code = int(words[FRAME["stopped"] // 8]), int(words[FRAME["error"] // 8])
        words[FRAME["error"] // 8] = words[FRAME["abort"] // 8] = 0
        exception, context.exception = context.exception, None
        if exception is not None:
            return exception
        what = _ERRORS.get(code, f"a kernel reported the error {code}")
        return RunError(f"{self.labels[index] or f'command {index}'}: {what}; check the values of the model's inputs")

    def _host(self, index: int, function: HostFunction, address: int) -> int:
        """The address of what ``plain`` takes to call ``function``, which stops the run if that raises."""
        context, args = self.context, self.args(index)
        abort = FRAME["abort"] // 8

        def call(_args: int, begin: int, end: int, _scratch: int) -> None:
            if context.words[abort]:
                return
            try:
                function(args, begin, end)
            except BaseException as error:  # noqa: BLE001  (native code cannot pass it on; run() raises it again)
                context.exception = error
                context.words[abort] = 1

        callback = _CALLBACK(call)
        pair = np.array([ctypes.cast(callback, ctypes.c_void_p).value or 0, address], np.int64)
        self._hosts.append((callback, pair))
        return int(pair.ctypes.data)


def _shares(index: int, blocks: int, grain: int) -> tuple[int, int]:
    """Blocks of a command, and how many are handed out at a time. Raises ``ValueError`` for numbers below 0."""
    if blocks < 0:
        raise ValueError(f"command {index} cannot have {blocks} blocks")
    return blocks, max(grain, 1)
