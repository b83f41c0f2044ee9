"""RegNetY-800MF (Radosavovic et al. 2020, arXiv:2003.13678): grouped 3x3 with squeeze-and-excite, input 224."""

from __future__ import annotations

import torch
from torch import nn

from .layers import Head, SqueezeExcite, conv_norm
from .weights import noise, randomise

GROUP_WIDTH, DEPTHS, WIDTHS = 16, (1, 3, 8, 2), (64, 144, 320, 784)


class Block(nn.Module):
    """relu(shortcut(x) + 1x1(excite(grouped 3x3(1x1(x))))); the gate's width is a quarter of the block's input."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(cin, cout),
            conv_norm(cout, cout, 3, stride, groups=cout // GROUP_WIDTH),
            SqueezeExcite(cout, round(cin / 4)),
            conv_norm(cout, cout, act=None),
        )
        changes = stride != 1 or cin != cout
        self.shortcut = conv_norm(cin, cout, 1, stride, act=None) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.shortcut(x) + self.body(x)).relu()


def regnet_y_800mf(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 32, 3, 2)]
    cin = 32
    for depth, width in zip(DEPTHS, WIDTHS, strict=True):
        for k in range(depth):
            layers.append(Block(cin, width, 2 if k == 0 else 1))
            cin = width
    return randomise(nn.Sequential(*layers, Head(cin)), seed, noise(seed + 1, 4, 3, 224, 224))
