"""Sequences and optionals: lists of tensors whose length is known when the program is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor


@dataclass(eq=False)
class ListTensor(Tensor):
    """A sequence of tensors passed around as one value; it never reaches a kernel.

    ``items`` is None for an optional that is absent. ``shape`` is ``(length,)``, ``dtype`` that of the items.
    """

    items: tuple[Tensor, ...] | None = None

    @property
    def absent(self) -> bool:
        return self.items is None

    @staticmethod
    def of(items: Sequence[Tensor] | None, dtype: DType = DType.F32) -> ListTensor:
        """A sequence of these tensors; ``dtype`` counts when there are none."""
        kept = None if items is None else tuple(items)
        return ListTensor(kept[0].dtype if kept else dtype, (len(kept or ()),), items=kept)
