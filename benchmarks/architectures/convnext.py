"""ConvNeXt-T (Liu et al. 2022, arXiv:2201.03545): depthwise 7x7, layer norm, GELU between linear layers, input 224."""

from __future__ import annotations

import torch
from torch import nn

from .weights import randomise

DEPTHS, WIDTHS = (3, 3, 9, 3), (96, 192, 384, 768)


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of [batch, channels, height, width]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width,), 0.5))  # a trained net's layer scales are well above their start

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mlp(self.filter(x).permute(0, 2, 3, 1)) * self.scale
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        cin = 3
        for depth, width in zip(DEPTHS, WIDTHS, strict=True):
            if cin == 3:
                layers += [nn.Conv2d(cin, width, 4, 4), ChannelNorm(width, eps=1e-6)]
            else:
                layers += [ChannelNorm(cin, eps=1e-6), nn.Conv2d(cin, width, 2, 2)]
            layers += [Block(width) for _ in range(depth)]
            cin = width
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(cin, eps=1e-6)
        self.head = nn.Linear(cin, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(x).mean((2, 3))))


def convnext_tiny(seed: int = 0) -> nn.Module:
    return randomise(ConvNeXt(), seed)
