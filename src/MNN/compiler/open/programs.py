"""One program for a range of sizes, found by compiling a stage at some of them.

The programs of all traces lay memory out alike (for the room that sizes may take), have the same commands with the
same kernels, and differ in numbers that follow from traced sizes. Every one of these is checked at all traces, which
are no multiples of anything that kernels step by; so what depends on sizes in another way is found out, and then there
is no such program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from MNN.backends.base.offset_table import OffsetTable
from MNN.backends.base.open_words import BLOCKS, GRAIN, OpenSizes, OpenWord, Shape
from MNN.backends.base.program import Buffer, Command, Located, Program, Ref, Slices
from MNN.compiler.open.errors import NotOpenError
from MNN.ir.symbolic import evaluate
from MNN.ir.traced import Trace, size_of


def unite(
    programs: Sequence[Program],
    traces: Sequence[Trace],
    least: Sequence[int],
    most: Sequence[int],
    numbers: Sequence[Sequence[int]],
) -> Program:
    """The last program, of the trace with the largest sizes, with what others need to know of it. ``numbers``: those
    of the last inputs, which are not the caller's. Raises :class:`NotOpenError`."""
    last = programs[-1]
    if len({(len(q.commands), q.slices is None) for q in programs}) > 1:
        raise NotOpenError("other commands at other sizes")
    found = _Words(traces)
    if last.slices is not None:
        found.count([q.slices for q in programs if q.slices is not None])
    for number, same in enumerate(zip(*[q.commands for q in programs], strict=True)):
        if last.slices is None:
            found.compare(number, same)
        elif len(set(map(_numbers, same))) > 1:
            raise NotOpenError(f"{same[-1].origin}: other numbers in a slice at other sizes")
    inputs, outputs = (found.shapes([getattr(q, part) for q in programs]) for part in ("inputs", "outputs"))
    names = tuple(traces[0].numbers)
    own = tuple([tuple([_formula(n) for n in each]) for each in numbers])
    given = inputs[: len(inputs) - len(own)]
    sizes = OpenSizes(names, tuple(least), tuple(most), tuple(found.words), given, outputs, own, last.alone_is_faster)
    for buffer, table in found.tables.items():
        buffer.table = table
    return _plain(dataclasses.replace(last, open_sizes=sizes))


class _Words:
    """The words of commands that follow from sizes."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces
        self.words: list[OpenWord] = []
        self._buffers: list[dict[Buffer, Buffer]] = [{} for _ in traces]
        """The last program's buffers by those of each."""
        self._same: set[tuple[Buffer, ...]] = set()
        """Buffers of all programs that were found to be one."""
        self.tables: dict[Buffer, OffsetTable] = {}
        """Of its tables that follow from open sizes."""

    def count(self, same: Sequence[Slices]) -> None:
        """Notes how many slices there are, each of which is the same program."""
        if len({(s.hands, s.nbytes, s.room) for s in same}) > 1:
            raise NotOpenError("other slices at other sizes")
        self._number([s.count for s in same], OpenWord(0, BLOCKS, ""), "slices of the batch")

    def compare(self, number: int, same: Sequence[Command]) -> None:
        """Notes the open words of a command."""
        last = same[-1]
        if any(c.kernel != last.kernel or c.args.keys() != last.args.keys() for c in same):
            kernels = sorted({c.kernel.key() for c in same if c.kernel is not None})
            raise NotOpenError(f"{last.origin}: another kernel at another size: {kernels}")
        if last.kernel is None or last.stages:
            raise NotOpenError(f"{last.origin}: {'a chain' if last.stages else 'computed in Python'}")
        self._number([c.blocks for c in same], OpenWord(number, BLOCKS, ""), last.origin)
        if any(isinstance(size_of(c.grain), str) for c in same):  # a plain one of the largest size is as good for all
            self._number([c.grain for c in same], OpenWord(number, GRAIN, ""), last.origin)
        columns = [c.args for c in same]
        for slot, value in last.args.items():
            values = [args[slot] for args in columns]
            if type(value) is int and all(type(v) is int and v == value for v in values):
                continue  # as most are
            refs = [v for v in values if isinstance(v, Ref)]
            numbers = [v.offset if isinstance(v, Ref) else v for v in values]
            if refs:
                if len(refs) < len(values):
                    raise NotOpenError(f"{last.origin}: {slot} is an address at some sizes only")
                self._address(tuple([r.buffer for r in refs]), last.origin, slot)
            if not all(type(n) is int and n == numbers[0] for n in numbers):
                self._number(numbers, OpenWord(number, slot, ""), f"{last.origin}: {slot}")

    def _number(self, numbers: Sequence[int], word: OpenWord, where: str) -> None:
        size = self.size(numbers, where)
        if isinstance(size, str):
            self.words.append(dataclasses.replace(word, size=str(size)))

    def size(self, numbers: Sequence[int], where: str) -> int | str:
        """What a number is, checked at every trace."""
        size = size_of(numbers[0])
        if size is None or isinstance(size, int):
            if len({int(n) for n in numbers}) > 1:
                raise NotOpenError(f"{where}: {[int(n) for n in numbers]} is no formula of sizes")
            return int(numbers[0])
        if any(evaluate(size, s.numbers) != int(n) for n, s in zip(numbers, self._traces, strict=True)):
            raise NotOpenError(f"{where}: {[int(n) for n in numbers]} is not {size}")
        return size

    def _text(self, numbers: Sequence[int], where: str) -> int | str:
        """The same as a number or a plain text."""
        size = self.size(numbers, where)
        return str(size) if isinstance(size, str) else size

    def _address(self, buffers: tuple[Buffer, ...], where: str, slot: str = "") -> None:
        if buffers in self._same:
            return
        self._same.add(buffers)
        last, where = buffers[-1], f"{where}: {slot}" if slot else where
        for buffer, known in zip(buffers, self._buffers, strict=True):
            if known.setdefault(buffer, last) is not last:
                raise NotOpenError(f"{where}: lies in other memory at other sizes")
            if (buffer.const is None) != (last.const is None) or buffer.nbytes > last.nbytes:
                raise NotOpenError(f"{where}: takes other memory at other sizes")
            if buffer is last or buffer.const is None or last in self.tables:
                continue
            if last.table is not None:
                self.tables[last] = self._table([b.table for b in buffers], where)
            elif not _begins(buffer, last):
                raise NotOpenError(f"{where}: another table at another size")

    def _table(self, tables: Sequence[OffsetTable | None], where: str) -> OffsetTable:
        """What a table holds at all sizes."""
        known = [t for t in tables if t is not None]
        if len(known) < len(tables) or len({t.form() for t in known}) > 1:
            raise NotOpenError(f"{where}: a table of another form at another size")
        numbers = zip(*[t.numbers() for t in known], strict=True)
        return known[-1].of([self._text([n for n in same if isinstance(n, int)], where) for same in numbers])

    def shapes(self, tensors: Sequence[Sequence[Located]]) -> tuple[Shape, ...]:
        found = []
        for same in zip(*tensors, strict=True):
            place = same[-1].place
            if any((t.place.offset, t.place.strides) != (place.offset, place.strides) for t in same):
                raise NotOpenError("an input or output lies elsewhere at other sizes")
            self._address(tuple([t.place.buffer for t in same]), "an input or output")
            numbers = zip(*[t.shape for t in same], strict=True)
            found.append(tuple([self._text(n, "an input or output") for n in numbers]))
        return tuple(found)


def _numbers(c: Command) -> tuple[object, ...]:
    """What a command of a slice is, but for where its memory lies."""
    values = [int(v.offset if isinstance(v, Ref) else v) for v in c.args.values()]
    stages = tuple([_numbers(s.command) for s in c.stages])
    return c.kernel, c.blocks, c.grain, tuple(c.args), tuple(values), c.inner, c.local_bytes, stages


def _formula(number: int) -> int | str:
    size = size_of(number)
    return str(size) if isinstance(size, str) else int(number)


def _begins(buffer: Buffer, last: Buffer) -> bool:
    """Whether a constant is how another one begins."""
    if buffer.const is None or last.const is None or buffer.setup or last.setup:
        return False
    ours, theirs = buffer.const.reshape(-1), last.const.reshape(-1)
    return ours.dtype == theirs.dtype and ours.tobytes() == theirs[: ours.size].tobytes()


def _plain(program: Program) -> Program:
    """The same with plain numbers in place of traced ones."""
    for command in program.commands:
        command.args.update({s: _number(v) for s, v in command.args.items()})
        command.blocks, command.grain, command.flops = int(command.blocks), int(command.grain), int(command.flops)
    inputs, outputs = ([_located(t) for t in part] for part in (program.inputs, program.outputs))
    slices = program.slices and dataclasses.replace(program.slices, count=int(program.slices.count))
    total = int(program.arena_bytes)
    return dataclasses.replace(program, inputs=inputs, outputs=outputs, arena_bytes=total, slices=slices)


def _number(value: int | Ref) -> int | Ref:
    return Ref(value.buffer, int(value.offset)) if isinstance(value, Ref) else int(value)


def _located(t: Located) -> Located:
    place = t.place._replace(offset=int(t.place.offset), strides=tuple(map(int, t.place.strides)))
    return Located(t.dtype, tuple(map(int, t.shape)), place)


__all__ = ["unite"]
