"""DenseNet-121 (Huang et al. 2016, arXiv:1608.06993): every layer sees all earlier ones of its block; input 224."""

from __future__ import annotations

import torch
from torch import nn

from .layers import Head, conv_norm
from .weights import noise, randomise

GROWTH, DEPTHS = 32, (6, 12, 24, 16)


class Layer(nn.Module):
    """Norm, ReLU, 1x1 to four growths, then 3x3 to one growth, joined to what came in."""

    def __init__(self, cin: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(cin),
            nn.ReLU(),
            conv_norm(cin, 4 * GROWTH),
            nn.Conv2d(4 * GROWTH, GROWTH, 3, 1, 1, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.body(x)], 1)


def _transition(cin: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, cin // 2, 1, bias=False), nn.AvgPool2d(2)]


def densenet121(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for block, depth in enumerate(DEPTHS):
        for _ in range(depth):
            layers.append(Layer(channels))
            channels += GROWTH
        if block < len(DEPTHS) - 1:
            layers += _transition(channels)
            channels //= 2
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), Head(channels)]
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
