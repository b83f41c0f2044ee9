"""ResNet-18, ResNet-50 (He et al. 2015, arXiv:1512.03385) and ResNeXt-50 32x4d (Xie et al. 2016, arXiv:1611.05431),
stride in the 3x3 of a bottleneck, input 224."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .layers import Head, conv_norm
from .weights import noise, randomise


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); the shortcut is a 1x1 projection where the shape changes."""

    def __init__(self, body: nn.Module, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = body
        changes = stride != 1 or cin != cout
        self.shortcut = conv_norm(cin, cout, 1, stride, act=None) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.body(x) + self.shortcut(x)).relu()


def _basic(cin: int, width: int, stride: int) -> tuple[Residual, int]:
    body = nn.Sequential(conv_norm(cin, width, 3, stride), conv_norm(width, width, 3, act=None))
    return Residual(body, cin, width, stride), width


def _bottleneck(cin: int, width: int, stride: int) -> tuple[Residual, int]:
    cout = 4 * width
    body = nn.Sequential(conv_norm(cin, width), conv_norm(width, width, 3, stride), conv_norm(width, cout, act=None))
    return Residual(body, cin, cout, stride), cout


def _grouped(cin: int, width: int, stride: int) -> tuple[Residual, int]:
    inner, cout = 2 * width, 4 * width
    middle = conv_norm(inner, inner, 3, stride, groups=32)
    body = nn.Sequential(conv_norm(cin, inner), middle, conv_norm(inner, cout, act=None))
    return Residual(body, cin, cout, stride), cout


def _resnet(seed: int, make: Callable[[int, int, int], tuple[Residual, int]], depths: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        for k in range(depth):
            block, channels = make(channels, 64 << stage, 2 if stage and k == 0 else 1)
            layers.append(block)
    layers.append(Head(channels))
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))


def resnet18(seed: int = 0) -> nn.Module:
    return _resnet(seed, _basic, (2, 2, 2, 2))


def resnet50(seed: int = 0) -> nn.Module:
    return _resnet(seed, _bottleneck, (3, 4, 6, 3))


def resnext50(seed: int = 0) -> nn.Module:
    return _resnet(seed, _grouped, (3, 4, 6, 3))
