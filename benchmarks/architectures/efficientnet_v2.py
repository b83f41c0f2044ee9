"""EfficientNetV2-S (Tan and Le 2021, arXiv:2104.00298): fused, then depthwise blocks; input 224."""

from __future__ import annotations

import torch
from torch import nn

from .layers import Head, SqueezeExcite, conv_norm
from .weights import noise, randomise

# table 4 of the paper: fused, expansion, first stride, output channels, repeats
STAGES = (
    (True, 1, 1, 24, 2),
    (True, 4, 2, 48, 4),
    (True, 4, 2, 64, 4),
    (False, 4, 2, 128, 6),
    (False, 6, 1, 160, 9),
    (False, 6, 2, 256, 15),
)


class Block(nn.Module):
    def __init__(self, cin: int, cout: int, fused: bool, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = cin * expansion
        layers: list[nn.Module]
        if fused and expansion == 1:
            layers = [conv_norm(cin, cout, 3, stride, act=nn.SiLU, eps=1e-3)]
        elif fused:
            layers = [conv_norm(cin, hidden, 3, stride, act=nn.SiLU, eps=1e-3)]
            layers.append(conv_norm(hidden, cout, act=None, eps=1e-3))
        else:
            layers = [
                conv_norm(cin, hidden, act=nn.SiLU, eps=1e-3),
                conv_norm(hidden, hidden, 3, stride, groups=hidden, act=nn.SiLU, eps=1e-3),
                SqueezeExcite(hidden, cin // 4, act=nn.SiLU),
                conv_norm(hidden, cout, act=None, eps=1e-3),
            ]
        self.body = nn.Sequential(*layers)
        self.shortcut = stride == 1 and cin == cout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return x + y if self.shortcut else y


def efficientnet_v2_s(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2, act=nn.SiLU, eps=1e-3)]
    cin = 24
    for fused, expansion, stride, cout, repeats in STAGES:
        for k in range(repeats):
            layers.append(Block(cin, cout, fused, expansion, stride if k == 0 else 1))
            cin = cout
    layers += [conv_norm(cin, 1280, act=nn.SiLU, eps=1e-3), Head(1280)]
    return randomise(nn.Sequential(*layers), seed, noise(seed + 1, 4, 3, 224, 224))
