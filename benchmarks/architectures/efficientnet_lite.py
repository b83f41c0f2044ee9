"""EfficientNet-Lite0: EfficientNet-B0 (Tan and Le 2019, arXiv:1905.11946) without squeeze-and-excite and with ReLU6.

The trained weights that exist come from TensorFlow, whose "SAME" padding puts the odd row of a stride-2 window at the
bottom right; ``tf_padding`` builds that form.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from .weights import noise, randomise

# kernel, repeats, expansion, output channels, first stride
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 3, 6, 80, 2),
    (5, 3, 6, 112, 1),
    (5, 4, 6, 192, 2),
    (3, 1, 6, 320, 1),
)


class Conv(nn.Module):
    """Convolution, batch norm and (unless linear) ReLU6."""

    def __init__(
        self, cin: int, cout: int, kernel: int, stride: int, groups: int, tf_padding: bool, linear: bool = False
    ) -> None:
        super().__init__()
        half = kernel // 2
        self.border = (half - 1, half, half - 1, half) if tf_padding and stride == 2 else None
        padding = 0 if self.border else half
        self.conv = nn.Conv2d(cin, cout, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(cout, eps=1e-3)
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.border:
            x = functional.pad(x, self.border)
        y = self.norm(self.conv(x))
        return y if self.linear else functional.relu6(y)


class Block(nn.Module):
    def __init__(self, cin: int, cout: int, kernel: int, stride: int, expansion: int, tf_padding: bool) -> None:
        super().__init__()
        hidden = cin * expansion
        self.expand = Conv(cin, hidden, 1, 1, 1, tf_padding) if expansion != 1 else None
        self.filter = Conv(hidden, hidden, kernel, stride, hidden, tf_padding)
        self.project = Conv(hidden, cout, 1, 1, 1, tf_padding, linear=True)
        self.shortcut = stride == 1 and cin == cout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.filter(self.expand(x) if self.expand else x))
        return y + x if self.shortcut else y


class EfficientNetLite(nn.Module):
    """``tf_padding`` needs inputs of an even size at every stride-2 layer (224 is)."""

    def __init__(self, tf_padding: bool = False) -> None:
        super().__init__()
        self.stem = Conv(3, 32, 3, 2, 1, tf_padding)
        blocks = []
        cin = 32
        for kernel, repeats, expansion, cout, first_stride in STAGES:
            for k in range(repeats):
                blocks.append(Block(cin, cout, kernel, first_stride if k == 0 else 1, expansion, tf_padding))
                cin = cout
        self.blocks = nn.Sequential(*blocks)
        self.top = Conv(cin, 1280, 1, 1, 1, tf_padding)
        self.linear = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.top(self.blocks(self.stem(x)))
        return self.linear(functional.adaptive_avg_pool2d(y, 1).flatten(1))


def efficientnet_lite0(seed: int = 0) -> nn.Module:
    return randomise(EfficientNetLite(), seed, noise(seed + 1, 4, 3, 224, 224))
