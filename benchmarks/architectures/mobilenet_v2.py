"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381), width 1.0, input 224."""

from __future__ import annotations

import torch
from torch import nn

from .layers import Head, conv_norm
from .weights import noise, randomise

# (expansion, output channels, repeats, first stride)
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter by 3x3 depthwise, project by a linear 1x1; a shortcut where shapes allow."""

    def __init__(self, cin: int, cout: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = cin * expansion
        expand = [conv_norm(cin, hidden, act=nn.ReLU6)] if expansion != 1 else []
        self.body = nn.Sequential(
            *expand,
            conv_norm(hidden, hidden, 3, stride, groups=hidden, act=nn.ReLU6),
            conv_norm(hidden, cout, act=None),
        )
        self.shortcut = stride == 1 and cin == cout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return x + y if self.shortcut else y


def mobilenet_v2(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2, act=nn.ReLU6)]
    cin = 32
    for expansion, cout, repeats, first_stride in STAGES:
        for k in range(repeats):
            layers.append(InvertedResidual(cin, cout, first_stride if k == 0 else 1, expansion))
            cin = cout
    layers += [conv_norm(cin, 1280, act=nn.ReLU6), Head(1280)]
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
