"""A compiled program bound to memory: kernels loaded, arena allocated, addresses filled in."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import Arena, Block, Room, Scratch, aligned_bytes
from MNN.backends.base.backend import Filled, Given, NamedRun, TimedBound
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.lent import LentBlocks
from MNN.backends.base.machine import Span
from MNN.backends.base.poison import fill, wanted
from MNN.backends.base.program import Buffer, HostCall, Located, Program, Ref, Slices
from MNN.backends.base.program import Command as Step
from MNN.backends.cpu.binding import poison
from MNN.backends.cpu.binding.direct import Copied, Direct, Place, direct_tensors, plain_places
from MNN.backends.cpu.binding.io_views import IoViews
from MNN.backends.cpu.binding.lent import LentMemory
from MNN.backends.cpu.binding.open_words import OpenProgramSizes
from MNN.backends.cpu.binding.short_run import short_run
from MNN.backends.cpu.binding.sliced import Move, SlicedProgram
from MNN.backends.cpu.binding.steps import address_words, buffers_of, constants_of, kernels_of
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.codegen.toolchain import release_memory_sometimes, trim
from MNN.backends.cpu.native_loop.address import address_of
from MNN.backends.cpu.native_loop.native import Command, HostFunction, NativeProgram, RunContext
from MNN.ir.dtype import DType

if TYPE_CHECKING:
    from MNN.backends.cpu.binding.chains import ChainTables

_TOGETHER = 8 << 20
"""Bytes of constants that are filled at a time."""
_WHOLE = 1 << 62
"""Blocks of which Python takes all in one piece."""
_NOTHING = np.zeros(0)
"""In the place of a result that is a state, which its owner has."""


class BoundProgram(TimedBound):
    """Ready to run: write the inputs, call :meth:`run`, read the outputs."""

    def __init__(
        self,
        program: Program,
        library: Library,
        threads: int = 1,
        filled: Filled | None = None,
        room: Room | None = None,
    ) -> None:
        """``filled`` is called with every constant that the program is the first to use, once it holds its numbers.
        Of programs in one ``room``, which share their memory, one may run at a time."""
        self.program, self._library = program, library
        self._filled = filled or (lambda buffer: buffer.setup.clear())
        self._room = room or Room()
        self._run_lock = self._room.run_lock
        self._arena = Arena(program.arena_bytes, room)
        self._token = object()
        self._poisoned = wanted()
        self._context = RunContext()
        constants = constants_of(program.commands)
        self._tables = {b: b.const.copy() for b in constants if b.table is not None and b.const is not None}
        load_kernels(program, library, constants)
        self._fill_constants(constants, threads)
        slices, steps = program.slices, program.commands
        native = self.native = self._native(steps) if slices is None else self._sliced(steps, slices)
        inputs, outputs = direct_tensors(program, self._places(), self._base)
        self._direct_inputs, self._direct_outputs = inputs, outputs
        self._direct = [d for d in (*inputs, *outputs) if d is not None]
        native.bind_io(
            [lent for d in self._direct if isinstance(d, Direct) for lent in d.lent()],
            [d.carried() for d in inputs if isinstance(d, Copied)],
            [d.carried() for d in outputs if isinstance(d, Copied)],
        )
        names = () if program.open_sizes is None else program.open_sizes.names
        taken, given = program.io_shapes()
        self._io = (
            IoViews(program.inputs, inputs, taken, names, native.io["taken"]),
            IoViews(program.outputs, outputs, given, names, native.io["given"]),
        )
        self._open: OpenProgramSizes | None = None
        if program.open_sizes is not None:
            tables = [(memory, b.table) for b, memory in self._tables.items() if b.table is not None]
            extents = [word for views in self._io for word in views.words]
            self._open = OpenProgramSizes(program, native, self._address, tables, extents)
        self._lent: LentMemory | None = None
        if program.states:
            assert isinstance(native, NativeProgram)
            self._lent = LentMemory(program, native, self._open)
        lent_in, lent_out = (set(n) for n in zip(*program.states, strict=True)) if program.states else (set(), set())
        self._taken = [(i, direct) for i, direct in enumerate(inputs) if i not in lent_in]
        self._given = [(i, direct) for i, direct in enumerate(outputs) if i not in lent_out]
        self._copied = [i for i, direct in self._given if direct is None]

    def resize(self, sizes: tuple[int, ...]) -> None:
        """See :class:`MNN.backends.base.backend.Bound`."""
        assert self._open is not None
        if self._open.write(sizes):
            for views in self._io:
                views.resize(sizes)

    def run_at(
        self, sizes: tuple[int, ...], values: Sequence[np.ndarray], threads: int, states: LentBlocks | None = None
    ) -> list[np.ndarray]:
        """See :class:`MNN.backends.base.backend.Bound`."""
        with self._run_lock.lock:
            if states is not None and self._lent is not None:
                self._lent.lend(states)
            if sizes:
                self.resize(sizes)
            return self.run(values, threads) if states is None else self._run(values, threads)

    def result_types(self) -> list[tuple[DType, tuple[int, ...]]]:
        """See :class:`MNN.backends.base.backend.Bound`."""
        return [(t.dtype, s) for t, s in zip(self.program.outputs, self._io[1].shapes, strict=True)]

    @property
    def _inputs(self) -> list[np.ndarray]:
        return self._io[0].views(self.view)

    @property
    def _outputs(self) -> list[np.ndarray]:
        return self._io[1].views(self.view)

    @property
    def library(self) -> Library:
        """Where its kernels come from."""
        return self._library

    @property
    def block(self) -> Block:
        """The memory that it works in."""
        return self._arena.block

    def memory(self) -> dict[Hashable, int]:
        """See :class:`MNN.backends.base.backend.Bound`."""
        return {self.block: self.block.used}

    def compute(self, threads: int) -> None:
        """Runs all commands on what is in memory."""
        if self._lent is not None:
            self._lent.lend_some()
        self.native.run(threads)

    def profile(self, threads: int) -> NDArray[np.float64]:
        """Nanoseconds that each command took."""
        if self._lent is not None:
            self._lent.lend_some()
        return self.native.profile(threads)

    def trace(self, threads: int) -> list[Span]:
        """Of one slice where a batch is cut into some, which one thread does."""
        from MNN.backends.cpu.measuring.trace import trace

        native = self.native
        if isinstance(native, SlicedProgram):
            return trace(native.first(), self._library, 1)
        return trace(native, self._library, threads)

    def arithmetic(self, command: Step) -> str:
        """That of a chain is its first stage's that computes."""
        for stage in command.stages:
            if stage.command.flops:
                return self.arithmetic(stage.command)
        return command.kernel.arithmetic(self._library.target) if command.kernel is not None else "f32"

    def _fill_constants(self, constants: Sequence[Buffer], threads: int) -> None:
        """Runs what fills constants that no program has used before (packing of weights)."""
        waiting = [b for b in constants if b.setup][::-1]  # first come, first filled: some are made of others
        while waiting:  # some at a time: what they are made from need not all be in memory at once
            some, size = [waiting.pop()], 0
            while waiting and size < _TOGETHER:
                size += some[-1].nbytes
                some.append(waiting.pop())
            self._native([c for b in some for c in b.setup]).run(threads)
            for buffer in some:
                self._filled(buffer)
            if not waiting:
                trim()

    def _places(self) -> Mapping[Buffer, Sequence[Place]]:
        """Where the addresses of inputs and outputs stand, of those that may be anywhere."""
        native = self.native
        if isinstance(native, SlicedProgram):
            return native.places
        return plain_places(self.program, native.args, self._chains)

    def _native(self, steps: Sequence[Step]) -> NativeProgram:
        native, self._chains = self._bound(steps, self._base, self._context, self._room.scratch())
        return native

    def _sliced(self, steps: Sequence[Step], slices: Slices) -> SlicedProgram:
        """The same steps for every thread, in its part of the arena."""
        strides = self.program.slice_bytes()

        def one(hand: int) -> tuple[NativeProgram, list[Move]]:
            context = RunContext()

            def base(buffer: Buffer) -> int:
                if buffer is self.program.error_word:
                    return context.error_address
                own = buffer.const is None and buffer not in strides
                return self._base(buffer) + own * hand * slices.nbytes

            native, tables = self._bound(steps, base, context, self._room.scratch(hand))
            return native, [
                Move(address, ref.buffer, base(ref.buffer), ref.offset, strides[ref.buffer])
                for address, ref in address_words(steps, native, tables)
                if ref.buffer in strides
            ]

        return SlicedProgram([one(hand) for hand in range(slices.hands)], slices.count, self._run_lock)

    def _bound(
        self, steps: Sequence[Step], base: Callable[[Buffer], int], context: RunContext, room: Scratch
    ) -> tuple[NativeProgram, list[ChainTables]]:
        """A program of steps, ``base`` saying where buffers lie, and the tables of its chains; commands work in
        ``room``."""
        used = buffers_of(steps)
        bases = {buffer: base(buffer) for buffer in used}

        def address_of(ref: Ref) -> int:
            return bases[ref.buffer] + ref.offset

        addresses = iter(self._library.load(kernels_of(steps)))
        fresh = poison.fresh_spans(steps, base) if self._poisoned else None
        tables: list[ChainTables] = []
        commands: list[Command] = []
        scratch = 0
        for number, c in enumerate(steps):
            if c.kernel is not None:
                address, own = next(addresses), 0
                if c.stages:
                    from MNN.backends.cpu.binding.chains import ChainTables

                    functions = [next(addresses) for _ in c.stages]
                    tables.append(ChainTables(c, functions, address_of, self._library.target))
                    args: Sequence[int] = list(tables[-1].args.values())
                    own = c.kernel.scratch(self._library.target, tables[-1].args)
                else:
                    args = [bases[v.buffer] + v.offset if type(v) is Ref else v for v in c.args.values()]  # type: ignore[misc]
                    if type(c.kernel).scratch is not KernelSpec.scratch:
                        own = c.kernel.scratch(self._library.target, c.args)  # type: ignore[arg-type]
                scratch = max(scratch, own)
                if fresh is None:
                    commands.append(Command(address, args, c.blocks, c.grain, c.origin))
                else:
                    product = poison.product_of(address, c) if self.program.open_sizes is None else None
                    run = poison.alone(address, aligned_bytes(own), c.grain, product)
                    commands.append(Command(poison.before(run, fresh[number]), args, c.blocks, _WHOLE, c.origin))
            else:
                assert c.host is not None
                host = self._host(c.host)
                host = host if fresh is None else poison.before(host, fresh[number])
                commands.append(Command(host, [], 1, 1, c.origin))
            if c.condition is not None and self.program.slices is None:
                commands[-1] = commands[-1]._replace(condition=(address_of(c.condition[0]), c.condition[1]))
        keep = (self._arena, [b.const for b in used if b.const is not None], tables)
        return NativeProgram(commands, scratch, context, keep, self._run_lock, room), tables

    def _address(self, ref: Ref) -> int:
        return self._base(ref.buffer) + ref.offset

    def _base(self, buffer: Buffer) -> int:
        if buffer is self.program.error_word:
            return self._context.error_address
        if buffer.lent:
            return 0  # known when it is lent
        if buffer.const is not None:
            return address_of(self._tables.get(buffer, buffer.const))
        return self._arena.at(buffer.offset)

    def view(self, tensor: Located) -> np.ndarray:
        """The numbers of a tensor in place (valid until memory is reused)."""
        place, kind = tensor.place, tensor.dtype.numpy
        if 0 in tensor.shape:
            return np.empty(tensor.shape, kind)
        if place.buffer.const is not None:
            flat = place.buffer.const.reshape(-1)
        else:
            flat = self._arena.view(place.buffer.offset, (place.buffer.nbytes // kind.itemsize,), kind)
        strides = tuple(s * kind.itemsize for s in place.strides)
        raw = np.uint8 if tensor.dtype.is_narrow else kind  # numpy's strided views do not know these types
        return np.lib.stride_tricks.as_strided(flat[place.offset :].view(raw), tensor.shape, strides).view(kind)

    def _host(self, call: HostCall) -> HostFunction:
        sources = [self.view(t) for t in call.inputs]
        results = [self.view(t) for t in call.outputs]

        def run(args: np.ndarray, begin: int, end: int) -> None:
            del args, begin, end
            for to, value in zip(results, call.fn([s.copy() for s in sources]), strict=True):
                to[...] = np.asarray(value).reshape(to.shape)

        return run

    def run(self, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """One inference; the results are the caller's own. States, for which nobody lends memory here, are inputs and
        outputs like others."""
        if self._lent is None:
            return self._run(arrays, threads)
        with self._run_lock.lock:
            self._lent.fill(arrays)
            results = self._run(arrays, threads)
            for i, became in self._lent.read(self._io[1].shapes).items():
                results[i] = became
            return results

    def _run(self, arrays: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """One inference on states that lie where they were lent.

        Large inputs are read and large outputs written in place where they can be, but not the first time, nor after
        another program has used the memory: profiles, which run the native program alone, find numbers of the usual
        kind in the arena. What is called here is found in cold caches: see :mod:`MNN.runtime.fast_path`.
        """
        if self._open is not None:
            arrays = [*arrays, *self._open.numbers]
        lock, block, token = self._run_lock.lock, self._arena.block, self._token
        with lock:
            outer = block.running
            if outer is not None and outer is not token and block.under is lock:
                return BoundProgram(self.program, self._library, threads).run(arrays, threads)  # within a host call
            results = [_NOTHING] * len(self._direct_outputs)
            known = block.user is token
            block.user = block.running = token
            block.under = lock
            if not known:
                self._take_back()
            if self._poisoned:
                fill(self._arena.bytes)
            try:
                for i, direct in self._taken:
                    if direct is None or not known or not direct.bind_io(arrays[i]):
                        self._inputs[i][...] = arrays[i]
                for i, direct in self._given:
                    results[i] = self._outputs[i] if direct is None or not known else direct.fresh()
                self.native.run(threads)
            except BaseException:
                self._take_back()  # the native run may not have come to it
                raise
            finally:
                block.running = outer
            for i in self._copied if known else [i for i, _ in self._given]:
                results[i] = results[i].copy()
            return results

    def short_run(self, given: Sequence[Given], outputs: Sequence[str], threads: int, long: NamedRun) -> NamedRun:
        """See :class:`MNN.backends.base.backend.Bound`."""
        if threads != 1 or self._open is not None or self._lent is not None or self._poisoned:
            return long
        io, turn = (self._direct_inputs, self._direct_outputs), (self._arena.block, self._run_lock, self._token)
        return short_run(self.program, self.native, io, given, outputs, long, turn)

    def _take_back(self) -> None:
        """Nothing is lent in the next run, whatever was before."""
        for direct in self._direct:
            direct.give_back()

    def write(self, arrays: Sequence[np.ndarray]) -> None:
        """Copies the inputs in."""
        for to, array in zip(self._inputs, arrays, strict=True):
            to[...] = array

    def read(self) -> list[np.ndarray]:
        """Copies of the outputs."""
        return [o.copy() for o in self._outputs]


def load_kernels(program: Program, library: Library, constants: Sequence[Buffer] | None = None) -> None:
    """Loads a program's kernels, those that fill its constants too. Done before weights come into memory, so that LLVM
    and they are not there at the same time."""
    constants = constants_of(program.commands) if constants is None else constants
    setup = [c for b in constants for c in b.setup]
    before = library.loaded
    library.load([*kernels_of([*setup, *program.commands]), *program.companions])
    if library.loaded > before:
        gc.collect(0)  # what planning left behind; it would be collected a little later in any case
        release_memory_sometimes()
