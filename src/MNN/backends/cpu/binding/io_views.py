"""Inputs or outputs of a bound program as arrays in its memory, at the sizes at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.backends.base.program import Located
from MNN.backends.cpu.binding.direct import Tensors

View = Callable[[Located], np.ndarray]
Cuts = dict[tuple[tuple[int, ...], ...], tuple[slice, ...]]


class IoViews:
    """Views of tensors; those at other sizes are cut from the ones at the program's own, which are its largest."""

    def __init__(self, tensors: Sequence[Located], directs: Tensors) -> None:
        self._tensors = tensors
        self._directs = [(i, direct) for i, direct in enumerate(directs) if direct is not None]
        self.shapes = [t.shape for t in tensors]
        self._whole: list[np.ndarray] = []
        self._views: list[np.ndarray] | None = None

    def resize(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """From the next run on, tensors have these shapes."""
        self.shapes, self._views = list(shapes), None
        for i, direct in self._directs:
            direct.resize(shapes[i])

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
