"""Where the elements of PyTorch's tensors lie in memory: it decides whether ``reshape`` gives a view or a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.ir import symbolic
from MNN.ir.symbolic import Size

Sizes = tuple[Size, ...]


@dataclass(frozen=True)
class Layout:
    """Sizes and strides of a tensor, counted in elements. None among them is not known."""

    sizes: Sizes
    strides: Sizes

    @staticmethod
    def plain(sizes: Sequence[Size]) -> Layout:
        """Elements in their order, without gaps."""
        strides: list[Size] = [1] * len(sizes)
        for i in range(len(sizes) - 2, -1, -1):
            strides[i] = symbolic.multiply(strides[i + 1], sizes[i + 1])
        return Layout(tuple(sizes), tuple(strides))

    @property
    def in_order(self) -> bool | None:
        """Whether elements lie in their order, without gaps (torch: contiguous); None where that is not known."""
        if 0 in self.sizes:
            return True
        expected = Layout.plain(self.sizes).strides
        unknown = False
        for size, stride, want in zip(self.sizes, self.strides, expected, strict=True):
            if size == 1 or (stride is not None and stride == want):
                continue
            if stride is None or want is None:
                unknown = True
            else:  # two sizes that differ as texts are taken for different: open sizes are not 1
                return False
        return None if unknown else True

    def viewed(self, sizes: Sequence[Size]) -> Layout | bool | None:
        """The layout of these elements in other sizes; False where they must be copied for that, None where it is not
        known. As torch has it (ATen/TensorUtils.cpp, ``computeStride``)."""
        if self.in_order:
            return Layout.plain(sizes)
        if any(s is None and n != 1 for n, s in zip(self.sizes, self.strides, strict=True)):
            return None
        strides: list[Size] = [1] * len(sizes)
        at = len(sizes) - 1
        for total, step in self._lines():
            reached: Size = 1
            while at >= 0 and (sizes[at] == 1 or reached != total):
                strides[at] = symbolic.multiply(step, reached)
                reached = symbolic.multiply(reached, sizes[at])
                at -= 1
                if total is None or reached is None:
                    return None
                if isinstance(reached, int) and isinstance(total, int) and reached > total:
                    return False
            if reached != total:
                return False if isinstance(reached, int) and isinstance(total, int) else None
        return Layout(tuple(sizes), tuple(strides)) if all(n == 1 for n in sizes[: at + 1]) else False

    def _lines(self) -> list[tuple[Size, Size]]:
        """From the back: numbers of elements that lie in equal steps, and the step."""
        found: list[tuple[Size, Size]] = []
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if size == 1:
                continue
            if found and stride != symbolic.multiply(*found[-1]):
                found.append((size, stride))
            elif found:
                found[-1] = (symbolic.multiply(found[-1][0], size), found[-1][1])
            else:
                found.append((size, stride))
        return found

    def permuted(self, order: Sequence[int]) -> Layout:
        """Axes in another order."""
        return Layout(tuple(self.sizes[i] for i in order), tuple(self.strides[i] for i in order))

    def resized(self, sizes: Sequence[Size]) -> Layout:
        """A part of it: the same steps in memory, where neither axes nor their steps change."""
        return Layout(tuple(sizes), self.strides)

    def stepping(self, axis: int, step: Size) -> Layout:
        """Only each ``step``-th element of an axis; the sizes are told by :meth:`resized`."""
        strides = list(self.strides)
        strides[axis] = symbolic.multiply(strides[axis], step)
        return Layout(self.sizes, tuple(strides))

    def without(self, axis: int) -> Layout:
        """An axis left out."""
        return Layout(self.sizes[:axis] + self.sizes[axis + 1 :], self.strides[:axis] + self.strides[axis + 1 :])

    def expanded(self, sizes: Sequence[Size]) -> Layout:
        """Broadcast: axes that grow, and new ones in front, have no steps in memory."""
        lead = len(sizes) - len(self.sizes)
        strides: list[Size] = [0] * lead
        for have, want, stride in zip(self.sizes, sizes[lead:], self.strides, strict=True):
            strides.append(0 if have == 1 and want != 1 else stride)
        return Layout(tuple(sizes), tuple(strides))
