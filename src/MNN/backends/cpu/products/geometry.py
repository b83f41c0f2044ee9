"""The geometry of a convolution."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from MNN.ir.shape import elements
from MNN.ir.traced import room_of


@dataclass(frozen=True)
class Window:
    """A convolution's geometry; the spatial tuples have one entry per dimension, strides of memory are in elements."""

    images: int
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    image_step: int
    steps: tuple[int, ...]
    channels: int
    border: tuple[tuple[int, int], ...] = ()
    """Of the inputs, how many before and behind are known to be zeros; empty where nothing is known."""

    def reads(self, rows: int) -> int:
        """Positions of the input that so many neighbouring outputs read, about: windows side by side share some."""
        return _span(rows, self.outputs, self.inputs, self.kernel, self.strides, self.dilations)

    def rows_within(self, positions: int, most: int) -> int:
        """How many neighbouring outputs, up to ``most``, read no more than so many positions of the input."""
        few, many = 0, most
        while few < many:
            rows = (few + many + 1) // 2
            few, many = (rows, many) if self.reads(rows) <= positions else (few, rows - 1)
        return few

    def turned(self, order: Sequence[int]) -> Window:
        """The same with its spatial dimensions in another order."""

        def each(values: tuple[int, ...]) -> tuple[int, ...]:
            return tuple([values[i] for i in order])

        return dataclasses.replace(
            self,
            outputs=each(self.outputs),
            inputs=each(self.inputs),
            kernel=each(self.kernel),
            strides=each(self.strides),
            dilations=each(self.dilations),
            steps=each(self.steps),
            border=tuple([self.border[i] for i in order]) if self.border else (),
        )


def _span(
    rows: int,
    outputs: Sequence[int],
    inputs: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> int:
    """See :meth:`Window.reads`: whole lines of the outermost dimension, or of those within it for less than a line."""
    line = elements([room_of(n) for n in outputs[1:]])
    if rows <= line and len(outputs) > 1:
        return kernel[0] * _span(rows, outputs[1:], inputs[1:], kernel[1:], strides[1:], dilations[1:])
    count = -(-rows // line)
    lines = min(count * kernel[0], (count - 1) * strides[0] + (kernel[0] - 1) * dilations[0] + 1)
    across = zip(outputs[1:], inputs[1:], kernel[1:], strict=True)
    return lines * elements([min(room_of(n), room_of(out) * k) for out, n, k in across])
