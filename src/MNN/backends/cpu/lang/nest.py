"""Walking the outer dimensions of a loop nest: from a range of block numbers to runs of rows with moving pointers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.element import storage_type
from MNN.backends.cpu.lang.module import Kernel, Value
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body


@dataclass(frozen=True)
class Operand:
    """An operand of a nest: its slots are ``name`` (address) and ``{name}_s{d}`` (strides in elements).

    ``inner`` is its class along the innermost loop: "0" the same element, "1" contiguous, "s" any stride (a slot).
    """

    name: str
    dtype: DType
    inner: str

    def slots(self, dims: int, inner_dim: int | None) -> tuple[str, ...]:
        """``dims`` outer dimensions; the innermost stride is slot ``s{inner_dim}``, present only for class "s"."""
        names = [self.name, *[f"{self.name}_s{d}" for d in range(dims)]]
        if self.inner == "s" and inner_dim is not None:
            names.append(f"{self.name}_s{inner_dim}")
        return tuple(names)

    def stride(self, k: Kernel, dim: int) -> Value:
        return k.slot(f"{self.name}_s{dim}")

    def inner_stride(self, k: Kernel, inner_dim: int) -> Value | None:
        """The innermost stride, None for contiguous."""
        return k.slot(f"{self.name}_s{inner_dim}") if self.inner == "s" else None

    def move(self, k: Kernel, pointer: Value, index: Value | int, stride: Value | None = None) -> Value:
        """The pointer ``index * stride`` elements on."""
        offset = index if stride is None else stride * index
        return k.b.gep(pointer, storage_type(self.dtype), offset)


@functools.lru_cache(maxsize=1024)
def operands_of(body: Body, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> tuple[list[Operand], list[Operand]]:
    """A body's operands and results by their classes along the innermost loop."""
    ins = [Operand(f"in{i}", d, c) for i, (d, c) in enumerate(zip(body.args, inputs, strict=True))]
    results = zip(body.result_dtypes, outputs, strict=True)
    return ins, [Operand(f"out{j}", d, c) for j, (d, c) in enumerate(results)]


def coordinates(k: Kernel, linear: Value, extents: Sequence[Value]) -> list[Value]:
    """The row-major coordinates of a linear index; the first needs no extent check."""
    found: list[Value] = []
    for extent in reversed(extents[1:]):
        found.append(linear % extent)
        linear = linear // extent
    return [linear, *reversed(found)] if extents else []


def operand_at(k: Kernel, operand: Operand, at: Sequence[Value]) -> Value:
    """The operand's address at these outer coordinates."""
    pointer = k.pointer(operand.name)
    offset = None
    for d, c in enumerate(at):
        part = c * operand.stride(k, d)
        offset = part if offset is None else offset + part
    return pointer if offset is None else operand.move(k, pointer, offset)


def minimum(k: Kernel, x: Value, y: Value) -> Value:
    return k.b.select(k.b.icmp("slt", x, y), x, y)


def for_rows(
    k: Kernel,
    outer: Sequence[Value],
    chunks: Value | None,
    operands: Sequence[Operand],
    row: Callable[[list[Value], Value | None], None],
    blocks: tuple[Value, Value] | None = None,
) -> None:
    """Runs ``row(pointers, chunk number)`` for the blocks, outer coordinates times ``chunks`` (None for 1).

    ``blocks`` is the range to run, the kernel's own when it is None.

    Blocks that follow one another along the last outer dimension form a run, within which a row costs one addition
    per operand; divisions happen once per run.
    """
    b = k.b
    begin, end = blocks or (k.begin, k.end)

    def run(block: Value) -> Value:
        linear, chunk = (block, None) if chunks is None else (block // chunks, block % chunks)
        at = coordinates(k, linear, outer)
        pointers = [operand_at(k, o, at) for o in operands]
        if not outer:
            row(pointers, chunk)
            return block + 1
        last = len(outer) - 1
        left = end - block
        count = minimum(k, left, outer[last] - at[last])
        if chunks is not None:
            count = b.select(b.icmp("eq", chunks, 1), count, 1)
        strides = [o.stride(k, last) for o in operands]
        with b.loop(0, count, carry=pointers, guard=False) as rows:
            moved = [o.move(k, p, s) for o, p, s in zip(operands, rows.carried, strides, strict=True)]
            row(rows.carried, chunk)
            rows.next(*moved)
        return block + count

    def body(block: Value) -> tuple[Value, list[Value]]:
        after = run(block)
        return b.icmp("slt", after, end), [after]

    b.if_(b.icmp("slt", begin, end), lambda: b.do_while([begin], body))
