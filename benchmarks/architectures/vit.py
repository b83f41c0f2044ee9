"""Vision transformers (Dosovitskiy et al. 2020, arXiv:2010.11929): ViT-Tiny/16 and ViT-B/16, input 224."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from .weights import randomise


class Attention(nn.Module):
    """Multi-head self-attention with one joint query-key-value projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width: int, heads: int, depth: int = 12, patch: int = 16, size: int = 224) -> None:
        super().__init__()
        tokens = (size // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.classify = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Embedding(tokens, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        first = self.classify.expand(tokens.size(0), -1, -1)
        y = torch.cat([first, tokens], 1) + self.positions.weight
        return self.head(self.norm(self.layers(y))[:, 0])


def vit_tiny(seed: int = 0) -> nn.Module:
    return randomise(VisionTransformer(192, 3), seed)


def vit_b16(seed: int = 0) -> nn.Module:
    return randomise(VisionTransformer(768, 12), seed)
