"""MobileViT-XS (Mehta and Rastegari 2022, arXiv:2110.02178), input 256: convolutions that hand patches of 2x2 pixels to
transformers."""

from __future__ import annotations

import torch
from torch import nn

from .layers import Head, conv_norm
from .vit import Attention
from .weights import noise, randomise

PATCH, HEADS, EXPANSION = 2, 4, 4
# channels and stride of inverted bottlenecks
EARLY = ((32, 1), (48, 2), (48, 1), (48, 1))
# channels, width and depth of transformers, each behind a bottleneck of stride 2
STAGES = ((64, 96, 2), (80, 120, 4), (96, 144, 3))


class Bottleneck(nn.Module):
    """1x1 to a wider layer, depthwise 3x3, 1x1 back; a residual where the shape allows it."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        wide = EXPANSION * cin
        self.body = nn.Sequential(
            conv_norm(cin, wide, act=nn.SiLU),
            conv_norm(wide, wide, 3, stride, groups=wide, act=nn.SiLU),
            conv_norm(wide, cout, act=None),
        )
        self.residual = stride == 1 and cin == cout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, HEADS)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    """Every pixel of a patch attends to the pixels at its place in all other patches."""

    def __init__(self, channels: int, width: int, depth: int) -> None:
        super().__init__()
        self.near = nn.Sequential(
            conv_norm(channels, channels, 3, act=nn.SiLU), nn.Conv2d(channels, width, 1, bias=False)
        )
        self.far = nn.Sequential(*(Layer(width) for _ in range(depth)), nn.LayerNorm(width))
        self.back = conv_norm(width, channels, act=nn.SiLU)
        self.join = conv_norm(2 * channels, channels, 3, act=nn.SiLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.near(x)
        width, high, wide = y.shape[1], y.shape[2] // PATCH, y.shape[3] // PATCH
        y = y.reshape(-1, high, PATCH, wide, PATCH).transpose(2, 3)
        y = y.reshape(-1, width, high * wide, PATCH * PATCH).transpose(1, 3).reshape(-1, high * wide, width)
        y = self.far(y)
        y = y.reshape(-1, PATCH * PATCH, high * wide, width).transpose(1, 3)
        y = y.reshape(-1, high, wide, PATCH, PATCH).transpose(2, 3)
        y = y.reshape(-1, width, high * PATCH, wide * PATCH)
        return self.join(torch.cat([x, self.back(y)], 1))


class MobileViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_norm(3, 16, 3, 2, act=nn.SiLU)]
        channels = 16
        for cout, stride in EARLY:
            layers.append(Bottleneck(channels, cout, stride))
            channels = cout
        for cout, width, depth in STAGES:
            layers += [Bottleneck(channels, cout, 2), Patches(cout, width, depth)]
            channels = cout
        self.features = nn.Sequential(*layers, conv_norm(channels, 4 * channels, act=nn.SiLU))
        self.head = Head(4 * channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


def mobilevit_xs(seed: int = 0) -> nn.Module:
    return randomise(MobileViT(), seed, noise(seed, 2, 3, 256, 256))
