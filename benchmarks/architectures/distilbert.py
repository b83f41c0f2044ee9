"""DistilBERT (Sanh et al. 2019, arXiv:1910.01108): six of BERT's layers, no segments, no pooler."""

from __future__ import annotations

import torch
from torch import nn

from .bert import Config, Layer
from .weights import randomise


class DistilBert(nn.Module):
    """(input_ids, attention_mask), each int64 [batch, sequence] -> last_hidden_state [batch, sequence, width]."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.words = nn.Embedding(c.vocabulary, c.width)
        self.positions = nn.Embedding(c.positions, c.width)
        self.norm = nn.LayerNorm(c.width, eps=c.eps)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.depth))
        self.register_buffer("position_ids", torch.arange(c.positions)[None], persistent=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(input_ids) + self.positions(self.position_ids[:, : input_ids.size(1)]))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, bias)
        return x


def distilbert(seed: int = 0) -> nn.Module:
    return randomise(DistilBert(Config(depth=6)), seed)
