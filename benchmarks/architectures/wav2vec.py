"""The feature encoder of wav2vec 2.0 (Baevski et al. 2020, arXiv:2006.11477): seven 1-D convolutions on raw sound."""

from __future__ import annotations

import torch
from torch import nn

from .weights import randomise

WIDTH = 512
# kernel, stride
LAYERS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))


class Encoder(nn.Module):
    """Samples [batch, time] -> features [batch, time / 320, 768]; each channel is normalised over time once."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, *[WIDTH] * len(LAYERS))
        self.filters = nn.ModuleList(
            nn.Conv1d(cin, WIDTH, kernel, stride, bias=False)
            for cin, (kernel, stride) in zip(widths, LAYERS, strict=False)
        )
        self.first_norm = nn.GroupNorm(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.project = nn.Linear(WIDTH, 768)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        x = samples[:, None]
        for k, conv in enumerate(self.filters):
            x = conv(x)
            x = nn.functional.gelu(self.first_norm(x) if k == 0 else x)
        return self.project(self.norm(x.transpose(1, 2)))


def wav2vec_encoder(seed: int = 0) -> nn.Module:
    return randomise(Encoder(), seed)
