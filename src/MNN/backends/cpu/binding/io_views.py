"""Inputs or outputs of a bound program as arrays in its memory, at the sizes at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.backends.base.open_words import Shape, shapes_at
from MNN.backends.base.program import Located
from MNN.backends.cpu.binding.direct import Tensors

View = Callable[[Located], np.ndarray]
Cuts = dict[tuple[tuple[int, ...], ...], tuple[slice, ...]]


class IoViews:
    """Views of tensors; those at other sizes are cut from the ones at the program's own, which are its largest."""

    def __init__(
        self, tensors: Sequence[Located], directs: Tensors, shapes: Sequence[Shape], names: Sequence[str]
    ) -> None:
        """``shapes``: of the tensors, in terms of open sizes of these ``names``."""
        self._tensors = tensors
        changing = [any(isinstance(n, str) for n in shape) for shape in shapes]
        found = [(d, s) for d, s, c in zip(directs, shapes, changing, strict=True) if d is not None and c]
        self._directs = [direct for direct, _ in found]
        self._direct_shapes = shapes_at([shape for _, shape in found], names)
        self._all_shapes = shapes_at(shapes, names)
        self._shapes: list[tuple[int, ...]] | None = [t.shape for t in tensors]
        self._sizes: tuple[int, ...] = ()
        self._whole: list[np.ndarray] = []
        self._views: list[np.ndarray] | None = None

    def resize(self, sizes: tuple[int, ...]) -> None:
        """From the next run on, open sizes are these."""
        self._sizes, self._shapes, self._views = sizes, None, None
        if self._directs:
            for direct, shape in zip(self._directs, self._direct_shapes(*sizes), strict=True):
                direct.resize(shape)

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
