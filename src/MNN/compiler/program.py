"""A compiled stage: commands over buffers, not yet bound to memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from MNN.compiler.algorithms import Choice
from MNN.ir.dtype import DType
from MNN.ir.prims import HostFunction
from MNN.kernels.spec import KernelSpec


@dataclass(eq=False)
class Buffer:
    """A block of memory: a constant, or room in the arena for ``nbytes``."""

    nbytes: int
    const: np.ndarray | None = None
    offset: int = -1
    """Where in the arena, once planned."""
    pinned: bool = False
    """Must keep its contents for the whole run (inputs and outputs of the program)."""
    source: object = None
    """What the constant was made from, kept alive with it."""
    setup: list[Command] = field(default_factory=list)
    """What fills a constant once, before the first program that uses it runs."""


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: ``offset`` and ``strides`` in elements from the start of ``buffer``."""

    buffer: Buffer
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Ref:
    """An argument that is an address: ``offset`` bytes into ``buffer``."""

    buffer: Buffer
    offset: int


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

    def buffers(self) -> list[Buffer]:
        """Arena buffers that this command touches."""
        found = [v.buffer for v in self.args.values() if isinstance(v, Ref)]
        if self.host is not None:
            found += [t.place.buffer for t in (*self.host.inputs, *self.host.outputs)]
        return [b for b in dict.fromkeys(found) if b.const is None and b.nbytes > 0]


@dataclass(eq=False)
class Program:
    """All commands of a stage, where its inputs go and its outputs are found, and the arena it needs."""

    commands: list[Command]
    inputs: list[Located]
    outputs: list[Located]
    arena_bytes: int
    error_word: Buffer
    """Stands for the word in which kernels report an error; its address is the run's, not the arena's."""

    @property
    def flops(self) -> int:
        return sum(c.flops for c in self.commands)
