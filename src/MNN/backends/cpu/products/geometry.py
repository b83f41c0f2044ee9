"""The geometry of a convolution."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass


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
        )
