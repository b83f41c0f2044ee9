"""Sequence taggers with recurrent layers: embedding, two LSTM or GRU layers, a linear layer for each token.

The LSTM reads in both directions (Graves and Schmidhuber 2005), the GRU (Cho et al. 2014, arXiv:1406.1078) forward.
"""

from __future__ import annotations

import torch
from torch import nn

from .weights import randomise

VOCABULARY, EMBEDDING, TAGS = 10000, 256, 50


class Tagger(nn.Module):
    """Tokens int64 [batch, sequence] -> tag scores [batch, sequence, 50]."""

    def __init__(self, recurrent: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, EMBEDDING)
        self.recurrent = recurrent
        self.tags = nn.Linear(recurrent.hidden_size * (2 if recurrent.bidirectional else 1), TAGS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tags(self.recurrent(self.words(tokens))[0])


def lstm_tagger(seed: int = 0) -> nn.Module:
    return randomise(Tagger(nn.LSTM(EMBEDDING, 256, 2, batch_first=True, bidirectional=True)), seed)


def gru_tagger(seed: int = 0) -> nn.Module:
    return randomise(Tagger(nn.GRU(EMBEDDING, 384, 2, batch_first=True)), seed)
