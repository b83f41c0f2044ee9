"""ShuffleNetV2 1.0x (Ma et al. 2018, arXiv:1807.11164), input 224."""

from __future__ import annotations

import torch
from torch import nn

from .layers import Head, conv_norm
from .weights import noise, randomise

STAGES = ((116, 4), (232, 8), (464, 4))  # output channels, units


def shuffle(x: torch.Tensor) -> torch.Tensor:
    """Interleave the two halves of the channels."""
    batch, channels, height, width = x.shape
    return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


class Unit(nn.Module):
    """Basic unit: half of the channels pass by, half are filtered."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = _branch(half, half, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, worked = x.chunk(2, 1)
        return shuffle(torch.cat([kept, self.branch(worked)], 1))


class DownUnit(nn.Module):
    """Unit that halves the picture: both branches are filtered with stride 2."""

    def __init__(self, cin: int, cout: int) -> None:
        super().__init__()
        half = cout // 2
        self.left = nn.Sequential(conv_norm(cin, cin, 3, 2, groups=cin, act=None), conv_norm(cin, half))
        self.right = _branch(cin, half, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return shuffle(torch.cat([self.left(x), self.right(x)], 1))


def _branch(cin: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        conv_norm(cin, channels),
        conv_norm(channels, channels, 3, stride, groups=channels, act=None),
        conv_norm(channels, channels),
    )


def shufflenet_v2(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    cin = 24
    for channels, units in STAGES:
        layers.append(DownUnit(cin, channels))
        layers += [Unit(channels) for _ in range(units - 1)]
        cin = channels
    layers += [conv_norm(cin, 1024), Head(1024)]
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
