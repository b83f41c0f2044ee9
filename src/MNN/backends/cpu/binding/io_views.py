"""Inputs or outputs of a bound program as arrays in its memory, at the sizes at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from MNN.backends.base.program import Located
from MNN.backends.cpu.binding.direct import Copied, Sizes, Tensors
from MNN.backends.cpu.native_loop.address import address_of
from MNN.backends.cpu.native_loop.layout import CARRIED
from MNN.ir.size_functions import Shape, shapes_at

View = Callable[[Located], np.ndarray]
_EXTENTS = ("planes", "rows", "nbytes")
"""The words of a record that may follow from open sizes."""
Cuts = dict[tuple[tuple[int, ...], ...], tuple[slice, ...]]


class IoViews:
    """Views of tensors; those at other sizes are cut from the ones at the program's own, which are its largest."""

    def __init__(
        self,
        tensors: Sequence[Located],
        directs: Tensors,
        shapes: Sequence[Shape],
        names: Sequence[str],
        copied: NDArray[np.int64],
    ) -> None:
        """``shapes``: of the tensors, in terms of open sizes of these ``names``. ``copied``: records CARRIED of those
        that native code copies, in their order."""
        self._tensors = tensors
        self._open: dict[Shape, Sizes] = {}
        """What arrays have that native code reads and writes, by sizes that follow from open ones."""
        for direct, tensor, shape in zip(directs, tensors, shapes, strict=True):
            if direct is not None and any(isinstance(n, str) for n in shape):
                direct.sizes = self._open.setdefault(shape, Sizes(tensor.shape))
        self._open_shapes = shapes_at(list(self._open), names)
        extents = [d.rows.extents for d in directs if isinstance(d, Copied)]
        self.words = [
            (address_of(copied) + CARRIED.size * row + CARRIED[name], size)
            for row, sizes in enumerate(extents)
            for name, size in zip(_EXTENTS, sizes, strict=True)
            if isinstance(size, str)
        ]
        """Words of the records that follow from open sizes."""
        self._all_shapes = shapes_at(shapes, names)
        self._shapes: list[tuple[int, ...]] | None = [t.shape for t in tensors]
        self._sizes: tuple[int, ...] = ()
        self._whole: list[np.ndarray] = []
        self._views: list[np.ndarray] | None = None

    def resize(self, sizes: tuple[int, ...]) -> None:
        """From the next run on, open sizes are these."""
        self._sizes, self._shapes, self._views = sizes, None, None
        for common, shape in zip(self._open.values(), self._open_shapes(*sizes), strict=True):
            common.shape = shape

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The tensors' shapes, found when they are asked for."""
        if self._shapes is None:
            self._shapes = self._all_shapes(*self._sizes)
        return self._shapes

    def views(self, view: View) -> list[np.ndarray]:
        """The tensors' numbers in place, made when they are asked for; of lent memory nothing. ``view`` is not kept:
        what it belongs to goes when nobody else has it."""
        if self._views is None:
            if not self._whole:
                nothing = np.zeros(0)
                self._whole = [nothing if t.place.buffer.lent else view(t) for t in self._tensors]
            cuts: Cuts = {}
            self._views = [self._at(i, shape, cuts, view) for i, shape in enumerate(self.shapes)]
        return self._views

    def _at(self, i: int, shape: tuple[int, ...], cuts: Cuts, view: View) -> np.ndarray:
        whole = self._whole[i]
        if whole.shape == shape or self._tensors[i].place.buffer.lent:
            return whole
        key = whole.shape, shape
        cut = cuts.get(key)
        if cut is None:
            last = max(a for a, (most, n) in enumerate(zip(whole.shape, shape, strict=True)) if most != n)
            cut = cuts[key] = tuple([slice(n) for n in shape[: last + 1]])
        found: np.ndarray = whole[cut]
        if found.shape == shape:
            return found
        return view(Located(self._tensors[i].dtype, shape, self._tensors[i].place))  # larger where sizes are smaller


__all__ = ["IoViews"]
