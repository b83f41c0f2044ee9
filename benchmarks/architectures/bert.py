"""BERT encoder (Devlin et al. 2018, arXiv:1810.04805) for any batch and sequence length.

``Encoder`` also holds the trained MiniLM sentence encoder (see ``from_huggingface``), which has the same layers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from .weights import randomise


@dataclass(frozen=True)
class Config:
    width: int = 768
    heads: int = 12
    depth: int = 12
    hidden: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    segments: int = 2
    eps: float = 1e-12


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.shape = (c.heads, c.width // c.heads)
        self.width = c.width
        self.query = nn.Linear(c.width, c.width)
        self.key = nn.Linear(c.width, c.width)
        self.value = nn.Linear(c.width, c.width)
        self.out = nn.Linear(c.width, c.width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), x.size(1), *self.shape).transpose(1, 2)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.shape[1]) + bias
        y = (scores.softmax(3) @ v).transpose(1, 2)
        return self.out(y.reshape(x.size(0), x.size(1), self.width))


class Layer(nn.Module):
    """Post-norm transformer layer."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.attention = Attention(c)
        self.norm1 = nn.LayerNorm(c.width, eps=c.eps)
        self.up = nn.Linear(c.width, c.hidden)
        self.act = nn.GELU()
        self.down = nn.Linear(c.hidden, c.width)
        self.norm2 = nn.LayerNorm(c.width, eps=c.eps)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x, bias))
        return self.norm2(x + self.down(self.act(self.up(x))))


class Encoder(nn.Module):
    """(input_ids, attention_mask, token_type_ids), each int64 [batch, sequence] ->
    last_hidden_state [batch, sequence, width] and pooler_output [batch, width], float32."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.words = nn.Embedding(c.vocabulary, c.width)
        self.positions = nn.Embedding(c.positions, c.width)
        self.segments = nn.Embedding(c.segments, c.width)
        self.norm = nn.LayerNorm(c.width, eps=c.eps)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.depth))
        self.pooler = nn.Linear(c.width, c.width)
        self.register_buffer("position_ids", torch.arange(c.positions)[None], persistent=False)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        positions = self.position_ids[:, : input_ids.size(1)]
        x = self.words(input_ids) + self.segments(token_type_ids) + self.positions(positions)
        x = self.norm(x)
        # masked keys get the lowest finite float, which softmax turns into exactly zero
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, bias)
        return x, self.pooler(x[:, 0]).tanh()


_NAMES = (
    (r"^bert\.", ""),
    (r"^embeddings\.(word|position)_embeddings\.", r"\1s."),
    (r"^embeddings\.token_type_embeddings\.", "segments."),
    (r"^embeddings\.LayerNorm\.", "norm."),
    (r"^encoder\.layer\.", "layers."),
    (r"\.attention\.self\.", ".attention."),
    (r"\.attention\.output\.dense\.", ".attention.out."),
    (r"\.attention\.output\.LayerNorm\.", ".norm1."),
    (r"\.intermediate\.dense\.", ".up."),
    (r"\.output\.dense\.", ".down."),
    (r"\.output\.LayerNorm\.", ".norm2."),
    (r"^pooler\.dense\.", "pooler."),
)


def from_huggingface(config: Config, tensors: Mapping[str, torch.Tensor]) -> Encoder:
    """An encoder with trained weights under the names that published BERT checkpoints use; every weight must fit."""
    state = {}
    for name, tensor in tensors.items():
        if name.endswith("position_ids"):
            continue
        for pattern, replacement in _NAMES:
            name = re.sub(pattern, replacement, name)
        state[name] = tensor
    model = Encoder(config)
    model.load_state_dict(state)
    return model.eval()


def bert_base(seed: int = 0) -> nn.Module:
    return randomise(Encoder(Config()), seed)
