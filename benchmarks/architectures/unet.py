"""U-Net (Ronneberger et al. 2015, arXiv:1505.04597) with padding and batch norm, 32 maps at the top, input 192.

The decoder's transposed convolutions have a kernel of 2 as in the paper, but for the last, whose kernel of 4 makes
windows overlap as in generators and super-resolution nets.
"""

from __future__ import annotations

import torch
from torch import nn

from .layers import conv_norm
from .weights import noise, randomise

WIDTHS = (32, 64, 128, 256, 512)
CLASSES = 21


def _double(cin: int, cout: int) -> nn.Sequential:
    return nn.Sequential(conv_norm(cin, cout, 3), conv_norm(cout, cout, 3))


class UNet(nn.Module):
    """[batch, 3, h, w], h and w multiples of 16 -> class scores [batch, 21, h, w]."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double(a, b) for a, b in zip((3, *WIDTHS[:-1]), WIDTHS, strict=True))
        pairs = list(zip(WIDTHS[:0:-1], WIDTHS[-2::-1], strict=True))
        kernels = [(4, 1) if low == WIDTHS[0] else (2, 0) for _, low in pairs]
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(high, low, k, 2, p) for (high, low), (k, p) in zip(pairs, kernels, strict=True)
        )
        self.join = nn.ModuleList(_double(2 * low, low) for _, low in pairs)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(WIDTHS[0], CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for k, block in enumerate(self.down):
            x = block(self.pool(x) if k else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        return self.head(x)


def unet(seed: int = 0) -> nn.Module:
    return randomise(UNet(), seed, noise(seed + 1, 2, 3, 96, 96))
