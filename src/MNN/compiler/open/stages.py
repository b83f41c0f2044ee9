"""One lowered stage for a range of sizes, found by lowering it at some of them.

Sizes are traced while operators lower themselves (:mod:`MNN.ir.traced`). What has to be so besides is checked: at all
the sizes that were tried, the same primitives come in the same order, attributes are the same numbers or follow from
traced sizes, and constants are the same or the first parts of one (positions, causal masks).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from MNN.compiler.lower import Stage
from MNN.compiler.open.errors import NeverOpenError, NotOpenError
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ir.symbolic import Size, evaluate
from MNN.ir.traced import Trace, size_of


class TracedStage(NamedTuple):
    """A stage lowered at the sizes of a trace."""

    stage: Stage
    trace: Trace


def agree(traces: Sequence[TracedStage]) -> None:
    """Checks that stages are one for all sizes between those of the traces, the last one having the largest, and
    gives constants that grow with sizes the last one's memory. Raises :class:`NotOpenError`."""
    lists = [s.stage.prims for s in traces]
    if any(s.stage.guards or s.stage.blocked for s in traces):
        raise NeverOpenError("what numbers are decides what is computed")
    if len({len(prims) for prims in lists}) > 1:
        raise NotOpenError(f"other primitives at other sizes{_first_other(lists)}")
    known = _Known(traces)
    known.note(lists[0])
    for same in zip(*lists, strict=True):
        known.check_primitive(same)
    known.grow(lists)
    if len({_formulas(s.stage) for s in traces}) > 1:
        raise NotOpenError("other numbers of sizes at other sizes")


class _Known:
    """What is known of the sizes of one stage."""

    def __init__(self, traces: Sequence[TracedStage]) -> None:
        self._traces = [s.trace for s in traces]
        self._at: dict[str, tuple[int, ...]] = {}
        """Numbers of traced sizes in all traces."""
        self._sizes: dict[tuple[int, ...], int] = {}
        """Traced sizes by the numbers that they are in all traces."""
        for s in traces[:1]:
            for name in s.trace.numbers:
                self._note(s.trace.size(name))
        self._last = len(traces) - 1
        self._checked: set[tuple[Hashable, ...]] = set()
        """Sorts of primitives, one of every trace, that agree: so do others of these sorts."""

    def note(self, prims: Sequence[Prim]) -> None:
        """Learns all traced sizes: others, that were lost in a comparison with a constant's, are found by them."""
        sorts: set[Hashable] = set()
        for prim in prims:
            if prim.sort in sorts:
                continue
            if prim.sort is not None:
                sorts.add(prim.sort)
            for tensor in prim.outputs:
                for number in tensor.shape:
                    self._note(number)

    def _note(self, number: int) -> None:
        size = size_of(number)
        if isinstance(size, str):
            self._sizes.setdefault(self._numbers(size), number)

    def _numbers(self, size: str) -> tuple[int, ...]:
        """What a traced size is in all traces."""
        found = self._at.get(size)
        if found is None:
            found = self._at[size] = tuple([evaluate(size, s.numbers) for s in self._traces])
        return found

    def check_numbers(self, found: Sequence[int], where: str) -> None:
        """One number in all traces, or a size that says what it is in each."""
        size = size_of(found[0])
        numbers = tuple(map(int, found))
        if numbers != (self._numbers(size) if isinstance(size, str) else (size,) * len(numbers)):
            raise NotOpenError(f"{where}: {list(numbers)} is no formula of sizes")
        self._note(found[0])

    def check_primitive(self, same: Sequence[Prim]) -> None:
        first, where = same[0], same[0].origin
        sorts = tuple([q.sort for q in same])
        if sorts in self._checked:
            return
        if len({(type(q), len(q.inputs), len(q.outputs)) for q in same}) > 1:
            raise NotOpenError(f"{where}: another primitive at another size")
        if isinstance(first, p.Host):
            raise NeverOpenError(f"{where}: computed in Python")
        lost = False
        for tensors in zip(*[q.outputs for q in same], strict=True):
            if len({(t.dtype, t.rank) for t in tensors}) > 1:
                raise NotOpenError(f"{where}: another type at another size")
            lost |= self._size(tensors, where)
        for values in zip(*[_leaves(q.attributes()) for q in same], strict=True):
            if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
                self.check_numbers([v for v in values if isinstance(v, int)], where)
            elif any(v != values[0] for v in values):
                raise NotOpenError(f"{where}: another attribute at another size")
        if None not in sorts and not lost:
            self._checked.add(sorts)

    def _size(self, tensors: Sequence[Tensor], where: str) -> bool:
        """Checks the sizes of a tensor; those that were lost (in a comparison with a constant's) are found again. Gives
        whether there are such."""
        sizes = list(zip(*[t.shape for t in tensors], strict=True))
        found = [
            numbers[0] if size_of(numbers[0]) != int(numbers[0]) else self._sized(numbers, where) for numbers in sizes
        ]
        for i, numbers in enumerate(sizes):
            if found[i] is numbers[0]:
                self.check_numbers(numbers, where)
        if any(isinstance(n, str) for n in found):
            for trace, tensor in zip(self._traces, tensors, strict=True):
                at = [trace.size(n) if isinstance(n, str) else n for n in found]
                tensor.shape = tuple(
                    [own if isinstance(n, int) else new for n, own, new in zip(found, tensor.shape, at, strict=True)]
                )
            return True
        return False

    def grow(self, lists: Sequence[Sequence[Prim]]) -> None:
        """Has constants of the same places be one, or lie in the largest of them."""
        for same in zip(*lists, strict=True):
            for tensors in zip(*[q.inputs for q in same], strict=True):
                arrays = [t.const for t in tensors if t.const is not None]
                if not arrays:
                    continue
                if len(arrays) < len(tensors):
                    raise NotOpenError(f"{same[0].origin}: a constant at some sizes only")
                if any(a is not arrays[0] for a in arrays):
                    self._grow(tensors, arrays, same[0].origin)

    def _grow(self, tensors: Sequence[Tensor], arrays: Sequence[np.ndarray], where: str) -> None:
        last = arrays[self._last]
        for array in arrays:
            if array.ndim != last.ndim or not _same(array, last[tuple(slice(n) for n in array.shape)]):
                raise NotOpenError(f"{where}: another constant at another size")
        if all(array.shape == last.shape for array in arrays):  # made anew at every size, as small ones are
            for tensor in tensors:
                tensor.const, tensor.keep = last, (tensor.keep, last)
            return
        shape = [self._sized(numbers, where) for numbers in zip(*[a.shape for a in arrays], strict=True)]
        for trace, tensor in zip(self._traces, tensors, strict=True):
            tensor.whole = last
            tensor.keep = (tensor.keep, last)
            tensor.shape = tuple([n if isinstance(n, int) else trace.size(n) for n in shape])

    def _sized(self, numbers: tuple[int, ...], where: str) -> int | str:
        """The size that is these numbers in the traces."""
        if len(set(map(int, numbers))) == 1:
            return int(numbers[0])
        found = self._sizes.get(tuple(map(int, numbers)))
        size: Size = None if found is None else size_of(found)
        if not isinstance(size, str):
            raise NotOpenError(f"{where}: a constant of {list(numbers)} is of no known size")
        return size


def _first_other(lists: Sequence[Sequence[Prim]]) -> str:
    """Where the first of them stands."""
    for same in itertools.zip_longest(*lists):
        if len({type(q) for q in same}) > 1 or len({q.origin for q in same if q is not None}) > 1:
            kinds = sorted({type(q).__name__ for q in same if q is not None})
            return f", first {next(q.origin for q in same if q is not None)}: {', '.join(kinds)}"
    return ""


def _formulas(stage: Stage) -> tuple[object, ...]:
    """What the numbers are that follow from open sizes."""
    return tuple([(t.dtype, t.shape, *map(size_of, sizes.flat)) for t, sizes in stage.open_inputs.items()])


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


__all__ = ["TracedStage", "agree"]
