"""Where states lie between runs: memory that programs are lent, laid out as the last one has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.arena import aligned_bytes, sparse_zeros
from MNN.backends.base.lent import LentBlocks
from MNN.backends.base.program import Place
from MNN.errors import MNNError

Zeros = Callable[[int], NDArray[np.uint8]]


class Extent:
    """The sizes that one or more states have, which change together."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class Kept:
    """A state: an array of its own, or the beginning of a block of memory, which may have room for more."""

    __slots__ = ("_array", "_dtype", "_strides", "_zero", "block", "extent")

    def __init__(self, array: np.ndarray, zero: bool = False) -> None:
        """``zero``: the array holds zeros, which need no memory before something else is written."""
        self._array: np.ndarray | None = array
        self._zero = zero
        self._dtype, self._strides = array.dtype, array.strides
        self.block: NDArray[np.uint8] | None = None
        self.extent = Extent(array.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.extent.shape

    @property
    def array(self) -> np.ndarray:
        """Its numbers, in place."""
        if self._array is not None:
            return self._array
        assert self.block is not None
        found: np.ndarray = np.ndarray(self.extent.shape, self._dtype, self.block, 0, self._strides)
        return found

    def put(self, place: Place, zeros: Zeros | None = None) -> NDArray[np.uint8]:
        """The block of memory that it is in, in which it lies as a program wants it; moved where it lay otherwise.
        ``zeros``: what makes such memory."""
        strides = tuple([s * self._dtype.itemsize for s in place.strides])
        old, block = self.array, self.block
        if block is None or block.nbytes < place.buffer.nbytes or not _lies(old, strides):
            size = place.buffer.nbytes
            block = (zeros or sparse_zeros)(size) if self._zero or zeros else aligned_bytes(size)
            if not self._zero:
                np.ndarray(old.shape, self._dtype, block, 0, strides)[...] = old
        self._zero = False
        self._array, self._strides, self.block = None, strides, block
        return block

    def cut(self, length: int, axis: int) -> None:
        """Leaves the first ``length`` along an axis."""
        shape = self.extent.shape
        if self._array is not None:
            self._array = self._array[(slice(None),) * axis + (slice(length),)]
        self.extent.shape = (*shape[:axis], length, *shape[axis + 1 :])

    def copy(self, extent: Extent) -> Kept:
        """Another one with the same numbers, in as much room."""
        found = Kept(self.array)
        if self.block is None:
            found._array = self.array.copy()
        else:
            found._array, found._strides = None, self._strides
            found.block = aligned_bytes(self.block.nbytes)
            found.block[:] = self.block
        found.extent = extent
        return found


class StateMemory:
    """The states of one sequence of runs, by the names of the inputs that they are."""

    def __init__(self, zeros: Zeros | None = None) -> None:
        """``zeros``: what makes memory for states, of so many bytes; by default it is the process's own."""
        self._zeros = zeros
        self.kept: dict[str, Kept] = {}
        self.layout: object = None
        """For what the memory is laid out, where it is."""
        self.extents: list[Extent] = []
        """The sizes of what is laid out, in the order of the layout's."""
        self.blocks: LentBlocks | None = None
        """What is laid out."""
        self.known: list[NDArray[np.uint8] | None] = []
        """Where states that others have too lay after the last run (:mod:`MNN.runtime.shared_states`)."""

    def fork(self) -> StateMemory:
        """A copy of its own of everything."""
        found = StateMemory()
        extents: dict[int, Extent] = {}
        for name, kept in self.kept.items():
            extent = extents.setdefault(id(kept.extent), Extent(kept.extent.shape))
            found.kept[name] = kept.copy(extent)
        return found

    def lay_out(self, layout: object, places: Mapping[str, tuple[Place, int]], count: int) -> None:
        """Has states lie in ``places``, which come with the number, below ``count``, of the sizes that they have."""
        self.layout = None  # until all is where it should be
        extents = [Extent(()) for _ in range(count)]
        blocks = []
        for name, (place, number) in places.items():
            kept = self.kept[name]
            blocks.append(kept.put(place, self._zeros))
            extents[number].shape = kept.extent.shape
            kept.extent = extents[number]
        self.layout, self.extents = layout, extents
        self.blocks = LentBlocks(blocks) if blocks else None

    def cut(self, length: int, axes: Mapping[str, int]) -> None:
        """Leaves the first ``length`` along the axes of states, by their names."""
        done: set[int] = set()
        for name, axis in axes.items():
            kept = self.kept.get(name)
            if kept is not None and id(kept.extent) not in done:
                done.add(id(kept.extent))
                kept.cut(length, axis)


class Turn:
    """One thread's use of a state; a second one is refused, as it could not know what the state will be."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise MNNError("the state is in use by another thread; give every thread a state of its own (new_state())")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _lies(array: np.ndarray, strides: tuple[int, ...]) -> bool:
    return all(own == s for n, own, s in zip(array.shape, array.strides, strides, strict=True) if n > 1)


__all__ = ["Extent", "Kept", "StateMemory", "Turn", "Zeros"]
