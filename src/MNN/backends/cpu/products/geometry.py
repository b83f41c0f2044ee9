"""The geometry of a convolution."""

from __future__ import annotations

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
