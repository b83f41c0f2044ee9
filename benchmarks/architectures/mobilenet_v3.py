"""MobileNetV3-Large (Howard et al. 2019, arXiv:1905.02244), width 1.0, input 224."""

from __future__ import annotations

import torch
from torch import nn

from .layers import SqueezeExcite, conv_norm, round_channels
from .weights import noise, randomise

# table 1 of the paper: kernel, expanded channels, output channels, squeeze-and-excite, hard-swish, stride
ROWS = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


class Block(nn.Module):
    def __init__(self, cin: int, row: tuple[int, int, int, bool, bool, int]) -> None:
        super().__init__()
        kernel, hidden, cout, excite, hard_swish, stride = row
        act = nn.Hardswish if hard_swish else nn.ReLU
        expand = [conv_norm(cin, hidden, act=act, eps=1e-3)] if hidden != cin else []
        gate = [SqueezeExcite(hidden, round_channels(hidden / 4), nn.Hardsigmoid)] if excite else []
        self.body = nn.Sequential(
            *expand,
            conv_norm(hidden, hidden, kernel, stride, groups=hidden, act=act, eps=1e-3),
            *gate,
            conv_norm(hidden, cout, act=None, eps=1e-3),
        )
        self.shortcut = stride == 1 and cin == cout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return x + y if self.shortcut else y


def mobilenet_v3_large(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 16, 3, 2, act=nn.Hardswish, eps=1e-3)]
    cin = 16
    for row in ROWS:
        layers.append(Block(cin, row))
        cin = row[2]
    layers += [
        conv_norm(cin, 960, act=nn.Hardswish, eps=1e-3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1280),
        nn.Hardswish(),
        nn.Linear(1280, 1000),
    ]
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
