"""GhostNet 1.0x (Han et al. 2019, arXiv:1911.11907): half of each layer's maps come from cheap depthwise ones."""

from __future__ import annotations

import torch
from torch import nn

from .layers import SqueezeExcite, conv_norm, round_channels
from .weights import noise, randomise

# table 7 of the paper: kernel, expanded channels, output channels, squeeze-and-excite, stride
ROWS = (
    (3, 16, 16, False, 1),
    (3, 48, 24, False, 2),
    (3, 72, 24, False, 1),
    (5, 72, 40, True, 2),
    (5, 120, 40, True, 1),
    (3, 240, 80, False, 2),
    (3, 200, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 184, 80, False, 1),
    (3, 480, 112, True, 1),
    (3, 672, 112, True, 1),
    (5, 672, 160, True, 2),
    (5, 960, 160, False, 1),
    (5, 960, 160, True, 1),
    (5, 960, 160, False, 1),
    (5, 960, 160, True, 1),
)


class Ghost(nn.Module):
    """1x1 to half of the channels, depthwise 3x3 of those for the other half."""

    def __init__(self, cin: int, cout: int, relu: bool) -> None:
        super().__init__()
        act = nn.ReLU if relu else None
        self.primary = conv_norm(cin, cout // 2, act=act)
        self.cheap = conv_norm(cout // 2, cout // 2, 3, groups=cout // 2, act=act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.primary(x)
        return torch.cat([y, self.cheap(y)], 1)


class Block(nn.Module):
    def __init__(self, cin: int, row: tuple[int, int, int, bool, int]) -> None:
        super().__init__()
        kernel, hidden, cout, excite, stride = row
        layers: list[nn.Module] = [Ghost(cin, hidden, True)]
        if stride > 1:
            layers.append(conv_norm(hidden, hidden, kernel, stride, groups=hidden, act=None))
        if excite:
            layers.append(SqueezeExcite(hidden, round_channels(hidden / 4, 4), nn.Hardsigmoid))
        self.body = nn.Sequential(*layers, Ghost(hidden, cout, False))
        if stride == 1 and cin == cout:
            self.shortcut: nn.Module = nn.Identity()
        else:
            filtered = conv_norm(cin, cin, kernel, stride, groups=cin, act=None)
            self.shortcut = nn.Sequential(filtered, conv_norm(cin, cout, act=None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.shortcut(x)


def ghostnet(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 16, 3, 2)]
    cin = 16
    for row in ROWS:
        layers.append(Block(cin, row))
        cin = row[2]
    layers += [
        conv_norm(cin, 960),
        nn.AdaptiveAvgPool2d(1),
        nn.Conv2d(960, 1280, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1280, 1000),
    ]
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
