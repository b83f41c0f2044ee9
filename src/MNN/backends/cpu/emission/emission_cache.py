"""Emission said again: work that a plan holds several times is emitted once and copied with other addresses.

The layers of a network repeat. What emitters make of some groups follows from what is written into a key here: the
primitives, their shapes and element types, how the operands lie in memory, and what was chosen for these nodes at
other sizes. Where all of that is equal, the commands differ in addresses, constants and names only.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from MNN.backends.base.program import Buffer, Command, Place, Ref, StageCall
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.compiler.fuse import Group
from MNN.compiler.layout import SpacedOrder
from MNN.compiler.usage import VIEWS
from MNN.ir import prims as p
from MNN.ir.prims import Tensor

_SINGLE = (p.Conv, p.MatMul, p.CompressedMatMul, p.Window, p.Pad, p.Concat)
"""Primitives with no others around them whose emission is worth remembering."""
_VIEWS = frozenset(VIEWS)
_LARGEST_NUMBER = 1 << 31
"""Numbers in keys of constants beyond this are identities of arrays."""


class _Other(Exception):  # noqa: N818 - a reason to emit as usual
    """Something has no counterpart in the work at hand."""


class Work:
    """Groups that are emitted together, their tensors, buffers and nodes numbered as they come."""

    def __init__(self, e: Emitter, groups: Sequence[Group]) -> None:
        self._e = e
        self._numbers: dict[int, int] = {}
        self._results: set[int] = set()
        self.tensors: list[Tensor] = []
        self.arrays: dict[int, int] = {}
        """Numbers of constants by the identity of the array."""
        self.constants: list[Tensor] = []
        self.counts = False
        """Whether any constant is a list of integers or of flags."""
        self.origins: dict[str, int] = {}
        self.bases: dict[Buffer, int] = {}
        """Numbers of buffers in which operands and results lie."""
        self.starts: list[tuple[Buffer, int]] = []
        """Those buffers, and the byte at which the first tensor in each begins."""
        origins, numbers, tensors = self.origins, self._numbers, self.tensors
        number = origins.setdefault
        key: list[Hashable] = [number(e.origin, len(origins)), e.precision]
        add = key.append
        for group in groups:
            origin = number(group.origin(), len(origins))
            key += (group.kind, group.shape, group.axes, group.anchor is None, origin)
            for prim in group.prims if group.anchor is None else [group.anchor, *group.prims]:
                sort: Hashable = prim.sort or (type(prim), prim.attributes())
                key += (sort, number(prim.origin, len(origins)))
                for t in prim.inputs:
                    known = numbers.get(id(t))
                    if known is not None:
                        add(known)
                    elif t.const is not None or type(t.producer) in _VIEWS:
                        add(self._operand(t))
                    else:
                        numbers[id(t)] = len(tensors)
                        tensors.append(t)
                        key += (t.dtype, t.shape, self._lies(e.place(t), t))
                for t in prim.outputs:
                    self._results.add(id(t))
                    numbers[id(t)] = len(tensors)
                    tensors.append(t)
                    if prim.sort is None:
                        key += (t.dtype, t.shape)
        for t in groups[-1].root.outputs:
            key += [e.order(t), self._lies(e.output(t), t)]
        key += [e.order(t) for g in groups[:-1] for t in g.root.outputs]
        self.kept_choices = self.chosen()
        self.key = (*key, self.kept_choices)

    def chosen(self) -> Hashable:
        """What was chosen for these nodes, at this size or before."""
        return tuple([self._e.pool.kept_choices.of(origin) for origin in self.origins])

    def _operand(self, t: Tensor) -> Hashable:
        """What a constant or a view is that has not been named yet."""
        source = t
        seen: list[Hashable] = []
        if isinstance(t.producer, VIEWS):
            while (
                source.producer is not None and id(source) not in self._results and isinstance(source.producer, VIEWS)
            ):
                seen.append((type(source.producer), source.producer.attributes(), source.shape))
                source = source.producer.inputs[0]
        self._add(t)
        if id(source) in self._results:  # computed by these groups: it lies nowhere yet
            return t.dtype, self._numbers[id(source)], tuple(seen)
        if t.const is None:
            return t.dtype, t.shape, self._lies(self._e.place(t), t)
        array = self.arrays.setdefault(id(t.const), len(self.arrays))
        if array == len(self.constants):
            self.constants.append(t)
            self.counts = self.counts or (len(t.shape) > 0 and not t.dtype.is_float)
        return t.dtype, t.shape, array, t.sized, t.const.tobytes() if t.const.size == 1 else b""

    def _add(self, t: Tensor) -> None:
        self._numbers[id(t)] = len(self.tensors)
        self.tensors.append(t)

    def _lies(self, place: Place, t: Tensor) -> Hashable:
        """How a tensor lies, relative to the first one in the same memory."""
        at = place.offset * t.dtype.size
        number = self.bases.setdefault(place.buffer, len(self.bases))
        if number == len(self.starts):
            self.starts.append((place.buffer, at))
        return number, place.strides, at - self.starts[number][1], place.buffer.const is None


@dataclasses.dataclass
class _Emitted:
    """What was emitted for a piece of work."""

    work: Work
    commands: list[Command]
    fresh: set[Buffer]
    placed: list[tuple[int, Place]]
    """Numbers of the work's tensors that got a place with it."""
    copies: list[tuple[int, SpacedOrder, Place]]
    """Numbers of those of which copies in another order were made."""


def _sketch(group: Group) -> Hashable:
    """A part of what a work's key says of its last group, which few have in common and costs little."""
    lead, root = group.anchor or group.root, group.root
    return group.kind, len(group.prims), type(lead), root.outputs[0].shape, *[t.shape for t in lead.inputs]


def _is_known(group: Group) -> bool:
    return group.kind != "single" or isinstance(group.anchor or group.root, _SINGLE)


class EmissionCache:
    """Emits the groups of one stage."""

    def __init__(self, e: Emitter, groups: Sequence[Group]) -> None:
        self._e = e
        self._said: dict[Hashable, _Emitted | None] = {}
        sketches = [(group, _sketch(group)) for group in groups]
        counted = Counter([sketch for _, sketch in sketches])
        self._alike = {id(group) for group, sketch in sketches if counted[sketch] > 1 and _is_known(group)}

    def emit(self, groups: Sequence[Group], emit: Callable[[], None]) -> None:
        """What ``emit`` does for these groups."""
        if id(groups[-1]) not in self._alike or not all(_is_known(g) for g in groups[:-1]):
            emit()
            return
        e = self._e
        work = Work(e, groups)
        if work.counts:  # kernels may depend on such numbers
            emit()
            return
        said = self._said.get(work.key)
        if said is not None:
            try:
                commands, placed, copied = _Copy(said, work, e).all()
            except _Other:
                emit()
                return
            e.commands += commands
            for old, other in zip(said.work.origins, work.origins, strict=True):
                e.pool.kept_choices.follow(other, old)
            for tensor, place in placed:
                e.assign(tensor, place)
            for tensor, order, place in copied:
                e.copies[tensor, order] = place
            return
        commands_before, buffers_before = len(e.commands), len(e.buffers)
        places, copies = e.count(), len(e.copies)
        free = [n for n, t in enumerate(work.tensors) if not e.is_placed(t)]
        emit()
        placed_now = [n for n in free if e.is_placed(work.tensors[n])]
        new = e.commands[commands_before:]
        numbers = {id(t): n for n, t in enumerate(work.tensors)} if len(e.copies) > copies else {}
        made = itertools.islice(e.copies.items(), copies, None) if numbers else ()
        turned = [(numbers.get(id(t), -1), order, place) for (t, order), place in made]
        if (
            work.kept_choices == work.chosen()
            and e.count() == places + len(placed_now)
            and all(n >= 0 for n, _, _ in turned)
            and all(c.kernel is not None for c in new)
        ):
            given = [(n, e.place(work.tensors[n])) for n in placed_now]
            self._said[work.key] = _Emitted(work, new, set(e.buffers[buffers_before:]), given, turned)


class _Copy:
    """What was said of one piece of work, for another. Raises :class:`_Other` where it cannot be."""

    def __init__(self, said: _Emitted, work: Work, e: Emitter) -> None:
        self._said, self._work, self._e = said, work, e
        self._buffers: dict[Buffer, tuple[Buffer, int]] = {}
        self._arrays = dict(zip(said.work.arrays, work.arrays, strict=True))
        self._origins = dict(zip(said.work.origins, work.origins, strict=True))

    def all(self) -> tuple[list[Command], list[tuple[Tensor, Place]], list[tuple[Tensor, SpacedOrder, Place]]]:
        """The commands, the places that tensors get with them, and copies of tensors in another order."""
        commands = [self._command(c) for c in self._said.commands]
        placed = []
        for number, place in self._said.placed:
            tensor = self._work.tensors[number]
            if tensor.const is not None:
                self._e.place(tensor)
                continue
            placed.append((tensor, self._place(tensor, place)))
        copied = [(self._work.tensors[number], order, place) for number, order, place in self._said.copies]
        if any((tensor, order) in self._e.copies for tensor, order, _ in copied):
            raise _Other
        return commands, placed, [(t, order, self._place(t, place)) for t, order, place in copied]

    def _place(self, tensor: Tensor, place: Place) -> Place:
        buffer, shift = self._buffer(place.buffer)
        return Place(buffer, place.offset + shift // tensor.dtype.size, place.strides)

    def _command(self, c: Command) -> Command:
        args, known = c.args.copy(), self._buffers
        for slot, old, offset in c.links():
            buffer, shift = known.get(old) or self._buffer(old)
            if buffer is not old or shift:
                args[slot] = Ref(buffer, offset + shift)
        if c.stages:
            stages = tuple(self._stage(s) for s in c.stages)
            return c.moved(args, stages, " + ".join(dict.fromkeys(s.command.origin for s in stages)))
        if c.origin not in self._origins:
            raise _Other
        return c.moved(args, (), self._origins[c.origin])

    def _stage(self, s: StageCall) -> StageCall:
        patches = tuple(
            dataclasses.replace(q, base=self._ref(q.base)) if isinstance(q.base, Ref) else q for q in s.patches
        )
        return dataclasses.replace(s, command=self._command(s.command), patches=patches)

    def _ref(self, ref: Ref) -> Ref:
        buffer, shift = self._buffer(ref.buffer)
        return ref if buffer is ref.buffer and not shift else Ref(buffer, ref.offset + shift)

    def _buffer(self, old: Buffer) -> tuple[Buffer, int]:
        """What takes the place of a buffer, and how many bytes further on."""
        found = self._buffers.get(old)
        if found is None:
            found = self._buffers[old] = self._counterpart(old)
        return found

    def _counterpart(self, old: Buffer) -> tuple[Buffer, int]:
        number = self._said.work.bases.get(old)
        if number is not None:
            buffer, start = self._work.starts[number]
            return buffer, start - self._said.work.starts[number][1]
        if old in self._said.fresh:
            buffer = Buffer(old.nbytes)
            self._e.buffers.append(buffer)
            return buffer, 0
        if old.const is None:
            return self._copied(old), 0
        if old.key is None:  # a table, which is the same for equal numbers
            return old, 0
        if old.key[0] == "const":
            source = old.key[1]
            array = self._said.work.arrays.get(source) if isinstance(source, int) else None
            if array is None:
                raise _Other
            return self._e.place(self._work.constants[array]).buffer, 0
        known = self._e.pool.known(self._moved(old.key))
        if known is None:
            raise _Other
        return known, 0

    def _copied(self, old: Buffer) -> Buffer:
        """The copy of an operand in another order, such as panels, that other work made before."""
        tensors, copies = self._said.work.tensors, self._e.copies
        for (tensor, order), place in copies.items():
            if place.buffer is old:
                numbers = [n for n, t in enumerate(tensors) if t is tensor]
                found = copies.get((self._work.tensors[numbers[0]], order)) if numbers else None
                if found is not None:
                    return found.buffer
        raise _Other

    def _moved(self, key: tuple[object, ...]) -> tuple[object, ...]:
        """The key of a constant that is made in the same way from the array at hand."""
        arrays, found = self._arrays, list(key)
        for i, part in enumerate(key):
            if isinstance(part, int):
                if part in arrays:
                    found[i] = arrays[part]
                elif part >= _LARGEST_NUMBER:
                    raise _Other
            elif isinstance(part, tuple):
                found[i] = self._moved(part)
        return tuple(found)
