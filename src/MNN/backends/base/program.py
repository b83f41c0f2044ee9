"""A compiled stage: commands over buffers, not yet bound to memory.

An address is a buffer and an offset into it; where buffers lie is known when a program is bound, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from MNN.backends.base.candidates import Choice
from MNN.backends.base.kernel import Argument, KernelSpec, Kind
from MNN.backends.base.offset_table import OffsetTable
from MNN.backends.base.open_words import OpenSizes, Shape
from MNN.backends.base.space import HOST, MemorySpace
from MNN.cache.packed import Draft
from MNN.ir.dtype import DType

if TYPE_CHECKING:
    from MNN.ir.prims import HostFunction


@dataclass(eq=False)
class Buffer:
    """A block of memory: a constant, or room in the arena for ``nbytes``."""

    nbytes: int
    const: np.ndarray | None = None
    """Its numbers, as the host has them."""
    offset: int = -1
    """Where in the arena, once planned."""
    pinned: bool = False
    """Must keep its contents for the whole run (inputs and outputs of the program)."""
    source: object = None
    """What the constant was made from, kept alive with it."""
    setup: list[Command] = field(default_factory=list)
    """What fills a constant once, before the first program that uses it runs."""
    draft: Draft | None = None
    """The entry of the cache of packed weights that the constant becomes once it is filled."""
    stored: str = ""
    """The name of the entry that the constant is."""
    key: tuple[object, ...] | None = None
    """What the constant goes by while plans are made; None for tables, which go by their numbers."""
    space: MemorySpace = HOST
    """Where it lies when the program runs."""
    lent: bool = False
    """Lies outside of the arena: whoever runs the program says where (see ``Program.states``)."""
    table: OffsetTable | None = None
    """Of a table that follows from open sizes: what it holds at any of them."""


class Place(NamedTuple):
    """Where a tensor lies: ``offset`` and ``strides`` in elements from the start of ``buffer``."""

    buffer: Buffer
    offset: int
    strides: tuple[int, ...]


class Ref(NamedTuple):
    """An argument that is an address: ``offset`` bytes into ``buffer``."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True)
class Local:
    """An address in the memory that every worker has for a chain's intermediates: ``offset`` bytes into it."""

    offset: int


@dataclass(frozen=True)
class Patch:
    """An argument of a stage that differs between the blocks ``b = o*inner + i`` of a chain.

    It is ``min(base + o*outer + i*step, limit)``, in bytes where ``base`` is an address. An intermediate that a stage
    addresses as a whole, though local memory holds one block of it, has a negative step.
    """

    slot: str
    base: int | Ref | Local
    step: int = 0
    outer: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class StageCall:
    """A stage of a chain: an ordinary command, and which of its blocks belong to which block of the chain.

    The command's arguments are those of the largest block: its scratch is planned from them. It runs ``count`` (``per``
    when None) blocks from ``o*outer + i*per + shift`` on, where ``outer`` is its blocks per ``o``, as far as they lie
    between ``o*outer`` and ``(o+1)*outer``; or all of its blocks every time when it is ``repeated``.

    ``when`` is "always"; "continued": only in blocks that follow the one that the same worker has just done (same
    ``o``), whose intermediates are still there; or "fresh": only in the others.
    """

    command: Command
    per: int = 1
    repeated: bool = False
    patches: tuple[Patch, ...] = ()
    shift: int = 0
    count: int | None = None
    when: str = "always"


@dataclass(frozen=True)
class Located:
    """A tensor in memory, for the host to read or write."""

    dtype: DType
    shape: tuple[int, ...]
    place: Place


@dataclass(frozen=True)
class HostCall:
    """A Python function that reads and writes tensors between kernels."""

    label: str
    fn: HostFunction
    inputs: tuple[Located, ...]
    outputs: tuple[Located, ...]


class Values(Mapping[str, "Argument"]):
    """Arguments with the contents of constants in place of their addresses, and 0 for other addresses."""

    def __init__(self, args: Mapping[str, int | Ref]) -> None:
        self._args = args

    def __getitem__(self, slot: str) -> Argument:
        value = self._args[slot]
        if not isinstance(value, Ref):
            return value if isinstance(value, int) else 0
        return 0 if value.buffer.const is None else value.buffer.const.reshape(-1).view(np.uint8)[value.offset :]

    def __iter__(self) -> Iterator[str]:
        return iter(self._args)

    def __len__(self) -> int:
        return len(self._args)


@dataclass(eq=False)
class Command:
    """One step: a kernel with its arguments by slot name, or a host call.

    ``blocks`` is the size of the kernel's block index space; workers take ``grain`` blocks at a time.
    """

    kernel: KernelSpec | None
    args: dict[str, int | Ref]
    blocks: int
    grain: int
    origin: str = ""
    flops: int = 0
    host: HostCall | None = None
    choice: Choice | None = None
    """The algorithm this command belongs to, where there was one to choose."""
    choices: tuple[Choice, ...] = ()
    """All choices that led to this command, from the innermost on."""
    stages: tuple[StageCall, ...] = ()
    """What a chain runs per block; its ``kernel`` runs them, its ``args`` are empty."""
    inner: int = 1
    """Blocks of a chain per step of the outer index."""
    local_bytes: int = 0
    """What a chain's intermediates take per worker."""
    part: bool = False
    """One of several commands that write different elements of one result."""
    condition: tuple[Ref, bool] | None = None
    """A boolean, and what it has to be for anybody to need the results: otherwise the command may be left out."""
    _refs: tuple[Ref, ...] | None = field(default=None, init=False, repr=False)
    _links: list[tuple[str, Buffer, int]] | None = field(default=None, init=False, repr=False)
    _buffers: list[Buffer] | None = field(default=None, init=False, repr=False)

    @property
    def kind(self) -> Kind:
        """How it is carried out."""
        return Kind.HOST if self.kernel is None else self.kernel.kind

    def moved(self, args: dict[str, int | Ref], stages: tuple[StageCall, ...], origin: str) -> Command:
        """The same with other arguments and stages, for another node; of its condition nothing is known yet."""
        return Command(
            self.kernel, args, self.blocks, self.grain, origin, self.flops, self.host, self.choice, self.choices,
            stages, self.inner, self.local_bytes, self.part,
        )  # fmt: skip

    def links(self) -> list[tuple[str, Buffer, int]]:
        """Slots of the arguments that are addresses, with buffers and offsets; asked of what is copied many times."""
        if self._links is None:
            self._links = [(slot, *value) for slot, value in self.args.items() if type(value) is Ref]
        return self._links

    def kernels(self) -> Iterator[KernelSpec]:
        """Every kernel that this command calls."""
        if self.kernel is not None:
            yield self.kernel
        for stage in self.stages:
            yield from stage.command.kernels()

    def refs(self) -> tuple[Ref, ...]:
        """Every address among the arguments, which stay as they are once this has been asked."""
        if self._refs is None:
            found = [v for v in self.args.values() if type(v) is Ref]
            for stage in self.stages:
                found += stage.command.refs()
                found += [patch.base for patch in stage.patches if isinstance(patch.base, Ref)]
            if self.condition is not None:
                found.append(self.condition[0])
            self._refs = tuple(found)
        return self._refs

    def only_when(self, place: Ref, value: bool) -> None:
        """Gives it a ``condition``."""
        self.condition, self._refs, self._buffers = (place, value), None, None

    def values(self) -> Values:
        return Values(self.args)

    def buffers(self) -> list[Buffer]:
        """Arena buffers that this command touches."""
        if self._buffers is None:
            found = dict.fromkeys([ref.buffer for ref in self._refs or self.refs()])
            if self.host is not None:
                found |= dict.fromkeys([t.place.buffer for t in (*self.host.inputs, *self.host.outputs)])
            self._buffers = [b for b in found if b.const is None and b.nbytes > 0]
        return self._buffers


@dataclass(frozen=True)
class Slices:
    """A batch a few samples at a time: what the commands compute is one of ``count`` equal slices of it.

    Inputs and outputs hold all slices, one after the other, and have memory for ``room`` of them. Of what else lies in
    the arena, each of the ``hands`` threads that take part in a run has its own: ``nbytes``, those of the first thread
    first.
    """

    count: int
    hands: int
    nbytes: int
    room: int


@dataclass(eq=False)
class Program:
    """All commands of a stage, where its inputs go and its outputs are found, and the arena it needs."""

    commands: list[Command]
    inputs: list[Located]
    outputs: list[Located]
    arena_bytes: int
    error_word: Buffer
    """Stands for the word in which kernels report an error; its address is the run's, not the arena's."""
    companions: tuple[KernelSpec, ...] = ()
    """Kernels that the same work needs at other sizes: compiled with the others, side by side."""
    slices: Slices | None = None
    """How often the commands run, where that is not once."""
    space: MemorySpace = HOST
    """Where its arena lies, and with it its inputs and outputs."""
    states: tuple[tuple[int, int], ...] = ()
    """Numbers of inputs and outputs that lie in the same memory, which outlives a run: the output is the input and what
    the run has written behind it."""
    open_sizes: OpenSizes | None = None
    """What of it depends on sizes of the inputs that may change from run to run, where some may."""
    alone_is_faster: bool = False
    """Of one with open sizes: that one for a single size would be clearly faster."""

    def io_shapes(self) -> tuple[list[Shape], list[Shape]]:
        """The sizes of inputs and outputs, in terms of open ones where there are some."""
        taken: list[Shape] = [t.shape for t in self.inputs]
        given: list[Shape] = [t.shape for t in self.outputs]
        if self.open_sizes is not None:
            taken[: len(self.open_sizes.inputs)] = self.open_sizes.inputs
            given = list(self.open_sizes.outputs)
        return taken, given

    @property
    def times(self) -> int:
        """How often every command runs."""
        return 1 if self.slices is None else self.slices.count

    def slice_bytes(self) -> dict[Buffer, int]:
        """What a slice takes of the memory of every input and output."""
        room = 1 if self.slices is None else self.slices.room
        return {t.place.buffer: t.place.buffer.nbytes // room for t in (*self.inputs, *self.outputs)}

    @property
    def flops(self) -> int:
        return self.times * sum(c.flops for c in self.commands)
