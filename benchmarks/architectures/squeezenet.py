"""SqueezeNet 1.1 (Iandola et al. 2016, arXiv:1602.07360, and the authors' later 1.1 layout), input 224."""

from __future__ import annotations

import torch
from torch import nn

from .weights import noise, randomise


class Fire(nn.Module):
    """Squeeze by 1x1, expand by 1x1 and 3x3 side by side."""

    def __init__(self, cin: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(cin, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = self.squeeze(x).relu()
        return torch.cat([self.expand1(s).relu(), self.expand3(s).relu()], 1)


def squeezenet1_1(seed: int = 0) -> nn.Module:
    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2),
        nn.ReLU(),
        pool(),
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        pool(),
        Fire(128, 32, 128),
        Fire(256, 32, 128),
        pool(),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        Fire(512, 64, 256),
        nn.Dropout(),
        nn.Conv2d(512, 1000, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return randomise(model, seed, noise(seed + 1, 2, 3, 224, 224))
