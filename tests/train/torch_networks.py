"""Runs where torch is: ``python -m tests.train.torch_networks FOLDER NAME...``.

Small networks of many kinds, each exported with its weights (``NAME.pt2``) and trained by torch: ``NAME.npz`` has the
batches and the losses of all steps."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.train.torch_steps import steps

STEPS, BATCH, CLASSES, RATE = 30, 4, 5, 2e-3


def conv(given, made, kernel=3, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(given, made, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(made), nn.ReLU()
    )


class Scaled(nn.Module):
    """Squeeze and excitation (Hu et al., 2018)."""

    def __init__(self, width):
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3), keepdim=True)))))


class RegNet(nn.Module):
    """Radosavovic et al., 2020: bottlenecks of grouped convolutions with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 16, stride=2)
        self.bodies = nn.ModuleList(
            nn.Sequential(conv(n, m, 1), conv(m, m, 3, s, m // 8), Scaled(m), nn.Conv2d(m, m, 1, bias=False))
            for n, m, s in ((16, 16, 1), (16, 32, 2))
        )
        self.sides = nn.ModuleList([nn.Identity(), nn.Conv2d(16, 32, 1, 2, bias=False)])
        self.last = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for body, side in zip(self.bodies, self.sides, strict=True):
            x = torch.relu(body(x) + side(x))
        return self.last(x.mean((2, 3)))


class DenseNet(nn.Module):
    """Huang et al., 2017: each layer sees all before it."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 12)
        widths = [12 + 6 * i for i in range(4)]
        self.parts = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, 6, 3, 1, 1)) for n in widths
        )
        self.between, self.last = conv(36, 18, 1), nn.Linear(18, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for part in self.parts:
            x = torch.cat([x, part(x)], 1)
        return self.last(functional.avg_pool2d(self.between(x), 2).mean((2, 3)))


class ShuffleNet(nn.Module):
    """Ma et al., 2018: halves of channels, one of them computed on, then shuffled."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 16, stride=2)
        self.parts = nn.ModuleList(nn.Sequential(conv(8, 8, 1), conv(8, 8, 3, 1, 8), conv(8, 8, 1)) for _ in range(3))
        self.last = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = functional.max_pool2d(self.stem(x), 3, 2, 1)
        for part in self.parts:
            left, right = x.chunk(2, 1)
            x = torch.cat([left, part(right)], 1)
            x = x.reshape(x.shape[0], 2, 8, *x.shape[2:]).transpose(1, 2).flatten(1, 2)
        return self.last(x.mean((2, 3)))


class ConvNeXt(nn.Module):
    """Liu et al., 2022: depthwise 7 x 7, layer normalisation over channels, and two products."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.depth = nn.ModuleList(nn.Conv2d(16, 16, 7, 1, 3, groups=16) for _ in range(2))
        self.rest = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(2)
        )
        self.scales = nn.ParameterList(nn.Parameter(torch.full((16,), 0.1)) for _ in range(2))
        self.last = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for depth, rest, scale in zip(self.depth, self.rest, self.scales, strict=True):
            x = x + (rest(depth(x).permute(0, 2, 3, 1)) * scale).permute(0, 3, 1, 2)
        return self.last(x.mean((2, 3)))


class Block(nn.Module):
    """Of a transformer, normalised before its parts."""

    def __init__(self, width, causal=False):
        super().__init__()
        self.one, self.two, self.causal = nn.LayerNorm(width), nn.LayerNorm(width), causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.rest = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(self.one(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.rest(self.two(x))


class ViT(nn.Module):
    """Dosovitskiy et al., 2021."""

    def __init__(self):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, 16, 6, 6), nn.Parameter(torch.randn(1, 1, 16) * 0.1)
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.1)
        self.blocks, self.last = nn.Sequential(Block(16), Block(16)), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.last(self.blocks(x)[:, 0])


class Recurrent(nn.Module):
    """A classifier of sequences; both directions."""

    def __init__(self, kind):
        super().__init__()
        self.words = nn.Embedding(20, 12)
        self.body, self.last = kind(12, 10, batch_first=True, bidirectional=True), nn.Linear(20, CLASSES)

    def forward(self, x):
        return self.last(self.body(self.words(x))[0].mean(1))


class UNet(nn.Module):
    """Ronneberger et al., 2015: a class for each pixel."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.low = conv(3, 8), conv(8, 16), conv(16, 16)
        self.up, self.back = nn.ConvTranspose2d(16, 8, 2, 2), conv(16, 8)
        self.last = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        fine = self.one(x)
        deep = self.low(functional.max_pool2d(self.two(fine), 2))
        deep = functional.interpolate(functional.max_pool2d(deep, 2), scale_factor=2, mode="bilinear")
        return self.last(self.back(torch.cat([fine, self.up(deep)], 1))).permute(0, 2, 3, 1).flatten(0, 2)


class GPT(nn.Module):
    """A language model: the next of 20 tokens at every place."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Parameter(torch.randn(9, 16) * 0.1)
        self.blocks, self.norm = nn.Sequential(Block(16, True), Block(16, True)), nn.LayerNorm(16)

    def forward(self, x):
        h = self.norm(self.blocks(self.words(x) + self.places))
        return functional.linear(h, self.words.weight).flatten(0, 1)


WORDS = ("LSTM", "GRU", "GPT")
NETWORKS = {
    "RegNet": RegNet, "DenseNet": DenseNet, "ShuffleNet": ShuffleNet, "ConvNeXt": ConvNeXt, "ViT": ViT, "UNet": UNet,
    "GPT": GPT, "LSTM": lambda: Recurrent(nn.LSTM), "GRU": lambda: Recurrent(nn.GRU),
}  # fmt: skip


def batches(name, net, rng):
    """What it is given, and the classes of all its answers."""
    shape = (STEPS, BATCH, 9) if name in WORDS else (STEPS, BATCH, 3, 24, 24)
    x = rng.integers(0, 20, shape) if name in WORDS else rng.normal(size=shape).astype(np.float32)
    answer = net(torch.from_numpy(x[0]))
    return x, rng.integers(0, answer.shape[1], (STEPS, len(answer)))


def main(folder, *names):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in names:
        torch.manual_seed(sum(map(ord, name)))
        net = NETWORKS[name]().eval()
        with torch.no_grad():
            for buffer in (b for b in net.buffers() if b.is_floating_point()):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
            x, y = batches(name, net, np.random.default_rng(len(name)))
        torch.export.save(torch.export.export(net, (torch.from_numpy(x[0]),)), f"{folder}/{name}.pt2")
        net.train()
        optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=0.01)

        def loss(k, net=net, x=x, y=y):
            return functional.cross_entropy(net(torch.from_numpy(x[k])), torch.from_numpy(y[k]))

        losses = list(steps(optimizer, (lambda k=k: loss(k) for k in range(STEPS))))
        np.savez(f"{folder}/{name}.npz", x=x, y=y, losses=np.array(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
