"""Programs whose memory is filled with NaN before it is used (see :mod:`MNN.backends.base.poison`).

A kernel that reads memory before anybody has written it computes with whatever was there: zeros of a fresh page, most
of the time, and with another network's numbers, now and then. Even what it multiplies by zero must be written, as zero
times infinity is NaN. Here all of it is filled before it is used: memory as it is allocated, the arena before every
run, each of its buffers again ahead of the first command that touches it (something else may have lain there), scratch
ahead of every single block (blocks may go to any thread), and arrays for outputs. Results must have the same bits as
without.

Block by block, a product takes up to twenty times as long: each packs what the others of a worker's share would find.
Which places of scratch it reads follows from its kernel and sizes, whatever the numbers are, so that its blocks are
alone the first time that a process computes it; later, scratch is filled ahead of as many as a worker takes at least.
(Where numbers decide, as with rows that are routed, blocks are always alone: ``KernelSpec.numbers_decide``.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.poison import filler
from MNN.backends.cpu.native_loop.functions import loop_functions

if TYPE_CHECKING:
    from MNN.backends.base.program import Buffer
    from MNN.backends.base.program import Command as Step

Span = tuple[int, int]
"""An address and how many bytes from there on."""
HostFunction = Callable[[NDArray[np.int64], int, int], None]
"""See :mod:`MNN.backends.cpu.native_loop.native`."""
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
Product = tuple[int, ...]
"""What tells a product from others, wherever its numbers lie: its kernel's address, how many blocks, and its sizes."""
_WERE_ALONE: set[Product] = set()


def _memory(span: Span) -> NDArray[np.uint8]:
    address, nbytes = span
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def fresh_spans(steps: Sequence[Step], base: Callable[[Buffer], int]) -> list[list[Span]]:
    """For every step the memory that comes into use with it: buffers of the arena that it is the first to touch, less
    what others take that are still needed (an operand that is overwritten in place)."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for number, step in enumerate(steps):
        for buffer in step.buffers():
            first.setdefault(buffer, number)
            last[buffer] = number
    found: list[list[Span]] = [[] for _ in steps]
    for buffer, number in first.items():
        if buffer.pinned:  # inputs are there, and outputs may be parts of one buffer that others have begun
            continue
        used = [b for b in first if b is not buffer and (b.pinned or (first[b] < number <= last[b]))]
        found[number] += _without((base(buffer), buffer.nbytes), [(base(b), b.nbytes) for b in used])
    return found


def _without(span: Span, others: Sequence[Span]) -> list[Span]:
    left = [(span[0], span[0] + span[1])]
    for address, nbytes in others:
        past = address + nbytes
        left = [
            (low, high)
            for begin, end in left
            for low, high in ((begin, min(end, address)), (max(begin, past), end))
            if low < high
        ]
    return [(begin, end - begin) for begin, end in left]


def before(function: HostFunction, fresh: Sequence[Span]) -> HostFunction:
    """A command in Python that finds poisoned memory."""
    fills = [filler(_memory(span)) for span in fresh]

    def run(args: NDArray[np.int64], begin: int, end: int) -> None:
        for again in fills:
            again()
        function(args, begin, end)

    return run


def product_of(kernel: int, step: Step) -> Product | None:
    """What a step computes if it is a product by itself whose numbers do not decide its way, and nothing otherwise."""
    if not step.flops or step.stages or step.kernel is None or step.kernel.numbers_decide:
        return None
    return (kernel, step.blocks, *(v for v in step.args.values() if isinstance(v, int)))


def alone(kernel: int, scratch: NDArray[np.uint8], grain: int = 1, product: Product | None = None) -> HostFunction:
    """A command in Python that runs all blocks of a kernel, which it is handed in one piece, each alone in poisoned
    ``scratch``; of a ``product`` whose blocks were alone before, ``grain`` together."""
    entry, again, where = _ENTRY(loop_functions().flushed()), filler(scratch), scratch.ctypes.data

    def run(args: NDArray[np.int64], begin: int, end: int) -> None:
        call = np.array([kernel, args.ctypes.data], np.int64)
        this, together = call.ctypes.data, grain if product in _WERE_ALONE else 1
        for block in range(begin, end, together):
            again()
            entry(this, block, min(block + together, end), where)
        if product is not None:
            _WERE_ALONE.add(product)

    return run


__all__ = ["alone", "before", "fresh_spans", "product_of"]
