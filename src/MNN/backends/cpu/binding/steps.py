"""What commands use: kernels, buffers, constants, and where in memory the addresses that they are given stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.program import Buffer, Ref
from MNN.backends.base.program import Command as Step
from MNN.backends.cpu.native_loop.native import NativeProgram

if TYPE_CHECKING:
    from MNN.backends.cpu.binding.chains import ChainTables


def constants_of(steps: Sequence[Step]) -> list[Buffer]:
    return [b for b in buffers_of(steps) if b.const is not None]


def buffers_of(steps: Sequence[Step]) -> dict[Buffer, None]:
    """Every buffer whose address is an argument, in order of first use."""
    return dict.fromkeys([ref.buffer for c in steps for ref in c.refs()])


def address_words(
    steps: Sequence[Step], native: NativeProgram, tables: Sequence[ChainTables]
) -> Iterator[tuple[int, Ref]]:
    """Where in memory the addresses that steps are given stand."""
    chains = iter(tables)
    for number, c in enumerate(steps):
        if c.stages:
            yield from next(chains).addresses()
        else:
            start = native.args(number).ctypes.data
            yield from ((start + 8 * i, v) for i, v in enumerate(c.args.values()) if isinstance(v, Ref))


def kernels_of(steps: Sequence[Step]) -> list[KernelSpec]:
    """The kernels that commands call, in order."""
    found: list[KernelSpec] = []
    for c in steps:
        if c.stages:
            found += c.kernels()
        elif c.kernel is not None:
            found.append(c.kernel)
    return found
