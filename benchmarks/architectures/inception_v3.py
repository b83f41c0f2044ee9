"""Inception-v3 (Szegedy et al. 2015, arXiv:1512.00567) without the auxiliary classifier, input 299."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .layers import Head, conv_norm
from .weights import noise, randomise

Kernel = int | tuple[int, int]


class Parallel(nn.Module):
    """Runs branches on the same input and joins their channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _conv(cin: int, cout: int, kernel: Kernel = 1, stride: int = 1, padding: int | None = None) -> nn.Sequential:
    return conv_norm(cin, cout, kernel, stride, padding=padding, eps=1e-3)


def _chain(cin: int, steps: Sequence[tuple[int, Kernel]]) -> nn.Sequential:
    """Convolutions one after the other: (channels, kernel) each, "same" padding."""
    layers = []
    for cout, kernel in steps:
        layers.append(_conv(cin, cout, kernel))
        cin = cout
    return nn.Sequential(*layers)


def _pooled(cin: int, cout: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(cin, cout))


def _block35(cin: int, pool: int) -> Parallel:
    """35x35 grid (figure 5 of the paper)."""
    return Parallel(
        _conv(cin, 64),
        _chain(cin, ((48, 1), (64, 5))),
        _chain(cin, ((64, 1), (96, 3), (96, 3))),
        _pooled(cin, pool),
    )


def _reduce35(cin: int) -> Parallel:
    deep = nn.Sequential(_chain(cin, ((64, 1), (96, 3))), _conv(96, 96, 3, 2, 0))
    return Parallel(_conv(cin, 384, 3, 2, 0), deep, nn.MaxPool2d(3, 2))


def _block17(width: int) -> Parallel:
    """17x17 grid with 1x7 and 7x1 factors (figure 6)."""
    row, column = (1, 7), (7, 1)
    return Parallel(
        _conv(768, 192),
        _chain(768, ((width, 1), (width, row), (192, column))),
        _chain(768, ((width, 1), (width, column), (width, row), (width, column), (192, row))),
        _pooled(768, 192),
    )


def _reduce17() -> Parallel:
    plain = nn.Sequential(_conv(768, 192), _conv(192, 320, 3, 2, 0))
    factored = nn.Sequential(_chain(768, ((192, 1), (192, (1, 7)), (192, (7, 1)))), _conv(192, 192, 3, 2, 0))
    return Parallel(plain, factored, nn.MaxPool2d(3, 2))


def _block8(cin: int) -> Parallel:
    """8x8 grid, whose branches fan out (figure 7)."""

    def fan() -> Parallel:
        return Parallel(_conv(384, 384, (1, 3)), _conv(384, 384, (3, 1)))

    return Parallel(
        _conv(cin, 320),
        nn.Sequential(_conv(cin, 384), fan()),
        nn.Sequential(_chain(cin, ((448, 1), (384, 3))), fan()),
        _pooled(cin, 192),
    )


def inception_v3(seed: int = 0) -> nn.Module:
    model = nn.Sequential(
        _conv(3, 32, 3, 2, 0),
        _conv(32, 32, 3, 1, 0),
        _conv(32, 64, 3),
        nn.MaxPool2d(3, 2),
        _conv(64, 80, 1),
        _conv(80, 192, 3, 1, 0),
        nn.MaxPool2d(3, 2),
        _block35(192, 32),
        _block35(256, 64),
        _block35(288, 64),
        _reduce35(288),
        _block17(128),
        _block17(160),
        _block17(160),
        _block17(192),
        _reduce17(),
        _block8(1280),
        _block8(2048),
        Head(2048),
    )
    return randomise(model, seed, noise(seed + 1, 4, 3, 299, 299))
