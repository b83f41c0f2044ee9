"""Runs in the environment that has torch: networks of drawn blocks and sizes in types of 16 bits.

``python -m tests.frontends.torch.random_halves OUT FIRST COUNT`` writes ``OUT-SEED.pt2`` or ``OUT-SEED.pt`` (traced)
for so many seeds, and ``OUT-SEED.npz``: the input, the answer in float64, and how far torch's own is from it.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import torch
from torch import Tensor, nn

TYPES = (torch.bfloat16, torch.float16)


class Residual(nn.Module):
    """As ResNet has it."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels * stride, 3, stride, 1, bias=False), nn.BatchNorm2d(channels * stride),
            nn.ReLU(), nn.Conv2d(channels * stride, channels * stride, 3, 1, 1), nn.BatchNorm2d(channels * stride),
        )  # fmt: skip
        self.past = nn.Conv2d(channels, channels * stride, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.past(x))


class Up(nn.Module):
    """As U-Net has it: down, up again, and joined with what was before."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(channels, 2 * channels, 3, 2, 1), nn.GroupNorm(2, 2 * channels), nn.SiLU())
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.out = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([x, self.up(self.down(x))], 1))


class Tokens(nn.Module):
    """As ViT has it: patches, two layers of attention, and the mean of all."""

    def __init__(self, channels: int, heads: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, 4, 4)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, 0.0, "gelu", batch_first=True, norm_first=first)
            for first in (True, False)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


class Gated(nn.Module):
    """As Llama has it: root mean squares, a gate, and positions that turn."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.last = nn.RMSNorm(width), nn.Linear(width, 7)
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        n, width = x.shape[1], x.shape[2]
        angle = torch.arange(n)[:, None] * 100.0 ** -(torch.arange(width // 2) / (width // 2))
        cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        y = self.norm(x)
        a, b = y.chunk(2, -1)
        y = torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)
        y = nn.functional.scaled_dot_product_attention(y, y, x, is_causal=True)
        return self.last(x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)))


def network(r: random.Random) -> tuple[nn.Module, Tensor]:
    channels, kind = r.choice([3, 8, 32, 64]), r.choice("rrutg")
    image = torch.randn(r.randint(1, 3), channels, 4 * r.randint(2, 6), 4 * r.randint(2, 6))
    if kind == "r":
        return nn.Sequential(Residual(channels, 1), Residual(channels, 2), nn.AdaptiveAvgPool2d(1)), image
    if kind == "u":
        return nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), Up(8), nn.Hardswish(), Up(8)), image
    if kind == "t":
        heads = r.choice([1, 2, 4])
        return Tokens(channels, heads, 8 * heads * r.randint(1, 3)), image
    width = 2 * r.randint(8, 24)
    return Gated(width), torch.randn(r.randint(1, 3), r.randint(2, 20), width)


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    for seed in range(first, first + count):
        r = random.Random(seed)
        torch.manual_seed(seed)
        module, x = network(r)
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.7, 1.3)
        dtype = TYPES[seed % 2]
        module, x = module.eval().to(dtype), x.to(dtype)
        theirs = module(x).double()
        if r.random() < 0.5:
            torch.jit.trace(module, (x,), check_trace=False).save(f"{out}-{seed}.pt")
        else:
            torch.export.save(torch.export.export(module, (x,)), f"{out}-{seed}.pt2")
        exact = module.double()(x.double())
        error = float((theirs - exact).abs().max() / exact.abs().max())
        np.savez(f"{out}-{seed}.npz", x=x.double().numpy(), exact=exact.numpy(), error=np.array(error))


if __name__ == "__main__":
    main()
