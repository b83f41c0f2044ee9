"""Conv-TasNet (Luo and Mesgarani 2019, arXiv:1809.07454), global layer norms, with half the paper's blocks: two voices
from a mixture of 8 kHz."""

from __future__ import annotations

import torch
from torch import nn

from .weights import randomise

FILTERS, WINDOW, BOTTLENECK, HIDDEN = 512, 16, 128, 512
REPEATS, DILATIONS = 2, (1, 2, 4, 8, 16, 32)
VOICES = 2


class Block(nn.Module):
    """A separable dilated convolution with a residual and a skip output."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(BOTTLENECK, HIDDEN, 1),
            nn.PReLU(),
            nn.GroupNorm(1, HIDDEN, eps=1e-8),
            nn.Conv1d(HIDDEN, HIDDEN, 3, padding=dilation, dilation=dilation, groups=HIDDEN),
            nn.PReLU(),
            nn.GroupNorm(1, HIDDEN, eps=1e-8),
        )
        self.residual = nn.Conv1d(HIDDEN, BOTTLENECK, 1)
        self.skip = nn.Conv1d(HIDDEN, BOTTLENECK, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.body(x)
        return x + self.residual(y), self.skip(y)


class ConvTasNet(nn.Module):
    """Samples [batch, time] -> voices [batch, 2, time], for times that are multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, FILTERS, WINDOW, WINDOW // 2, bias=False)
        self.begin = nn.Sequential(nn.GroupNorm(1, FILTERS, eps=1e-8), nn.Conv1d(FILTERS, BOTTLENECK, 1))
        self.blocks = nn.ModuleList(Block(d) for d in DILATIONS * REPEATS)
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(BOTTLENECK, VOICES * FILTERS, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(FILTERS, 1, WINDOW, WINDOW // 2, bias=False)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        encoded = self.encoder(samples[:, None])
        x, total = self.begin(encoded), None
        for block in self.blocks:
            x, skip = block(x)
            total = skip if total is None else total + skip
        masked = self.masks(total).unflatten(1, (VOICES, FILTERS)) * encoded[:, None]
        return self.decoder(masked.flatten(0, 1)).unflatten(0, (-1, VOICES)).squeeze(2)


def conv_tasnet(seed: int = 0) -> nn.Module:
    return randomise(ConvTasNet(), seed)
