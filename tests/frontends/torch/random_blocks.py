"""Blocks of networks with drawn parameters, for :mod:`tests.frontends.torch.random_modules`: images in, images out."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[nn.Module, int]
"""A block, and the channels that it gives."""
Block = Callable[[int, random.Random], Made]
_ACTIVATIONS = (
    nn.ReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.Hardsigmoid, nn.ELU, nn.LeakyReLU, nn.Mish, nn.Tanh, nn.Softplus,
    nn.SELU, nn.Softsign, nn.LogSigmoid,
)  # fmt: skip


class NonLocal(nn.Module):
    """Attention of every place to every other; without projections queries, keys and values are one tensor."""

    def __init__(self, channels: int, projected: bool) -> None:
        super().__init__()
        inner = max(channels // 2, 1)
        self.parts = nn.ModuleList([nn.Conv2d(channels, inner, 1) for _ in range(3)] if projected else [])
        self.out = nn.Conv2d(inner, channels, 1) if projected else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = [part(x).flatten(2) for part in self.parts] or [x.flatten(2)] * 3
        weights = torch.softmax(q.transpose(1, 2) @ k / q.shape[1] ** 0.5, -1)
        return x + self.out((v @ weights.transpose(1, 2)).view(x.shape[0], -1, *x.shape[2:]))


class Heads(nn.Module):
    """Self-attention over places, as vision transformers have it."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(channels), heads
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        t = x.flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.norm(t)).view(b, -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, -1, c)
        return (t + self.out(y)).transpose(1, 2).view(b, c, h, w)


class Windows(nn.Module):
    """Attention within windows of 4 x 4, the image filled up to whole ones."""

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        k, high, wide = 4, h + -h % 4, w + -w % 4
        y = functional.pad(x, (0, wide - w, 0, high - h)).view(b, c, high // k, k, wide // k, k)
        y = y.permute(0, 2, 4, 3, 5, 1).reshape(-1, k * k, c)
        y = torch.softmax(y @ y.transpose(1, 2) * 0.1, -1) @ y
        y = y.view(b, high // k, wide // k, k, k, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, high, wide)
        return x + y[:, :, :h, :w]


class Gate(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(channels // 4, 1)
        self.layers = nn.Sequential(nn.Conv2d(channels, inner, 1), nn.SiLU(), nn.Conv2d(inner, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.layers(x.mean((2, 3), keepdim=True)))


class Dense(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 8, 3, padding=1)
        self.second = nn.Conv2d(channels + 8, 8, 3, padding=2, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        a = functional.relu(self.first(x))
        return torch.cat([x, a, functional.gelu(self.second(torch.cat([x, a], 1)))], 1)


class Halves(nn.Module):
    """A convolution of half of the channels, joined in another order."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cut = channels // 2
        self.layer = nn.Conv2d(channels - self.cut, channels - self.cut, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.layer(x[:, self.cut :]), x[:, : self.cut]], 1)


class Shuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        groups = 1 + (c % 2 == 0)
        return x.view(b, groups, c // groups, h, w).transpose(1, 2).reshape(b, c, h, w)


class BackToSize(nn.Module):
    def __init__(self, mode: str, corners: bool) -> None:
        super().__init__()
        self.mode, self.more = mode, {} if mode == "nearest" else {"align_corners": corners}

    def forward(self, x: Tensor) -> Tensor:
        small = functional.max_pool2d(x, 2, 2, ceil_mode=True)
        return x + functional.interpolate(small, size=x.shape[2:], mode=self.mode, **self.more)


class Recurrent(nn.Module):
    """Along the width."""

    def __init__(self, channels: int, kind: type[nn.LSTM | nn.GRU], both: bool) -> None:
        super().__init__()
        self.layer, self.channels = kind(channels, channels, batch_first=True, bidirectional=both), channels

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(x.mean(2).transpose(1, 2))
        return x + y[..., : self.channels].transpose(1, 2)[:, :, None]


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return x + y if y.shape == x.shape else y


class Plain(nn.Module):
    """A function of tensors."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _convolution(c: int, r: random.Random) -> Made:
    kernel, stride, groups = r.choice([1, 2, 3, 5, 7]), r.choice([1, 1, 1, 2, 3]), 1
    out = r.choice([1, 3, 8, 13, 16, 24, 40])
    if r.random() < 0.4:
        groups = next((g for g in r.sample((4, 2, 3, c), 4) if c % g == 0), 1)
        out = groups * r.choice([1, 2, 5])
    return nn.Conv2d(
        c, out, (kernel, r.choice([1, 3, kernel])), (stride, r.choice([1, stride])), r.choice([0, kernel // 2, 1]),
        r.choice([1, 1, 2]), groups, r.random() < 0.7, r.choice(["zeros", "zeros", "reflect", "replicate"]),
    ), out  # fmt: skip


def _transposed(c: int, r: random.Random) -> Made:
    groups, stride, kernel = 1 + (c % 2 == 0 and r.random() < 0.4), r.choice([1, 2, 3]), r.choice([1, 2, 3, 5])
    out, more = groups * r.choice([1, 3, 8]), r.choice([0, stride - 1])
    return nn.ConvTranspose2d(c, out, kernel, stride, min(kernel // 2, 1), more, groups), out


def _separable(c: int, r: random.Random) -> Made:
    out, kernel = r.choice([8, 16, 32]), r.choice([3, 5])
    middle = nn.Conv2d(4 * c, 4 * c, kernel, r.choice([1, 1, 2]), kernel // 2, groups=4 * c)
    return nn.Sequential(nn.Conv2d(c, 4 * c, 1), nn.ReLU6(), middle, nn.Hardswish(), nn.Conv2d(4 * c, out, 1)), out


def _pooled(c: int, r: random.Random) -> Made:
    ceil, included = r.random() < 0.5, r.random() < 0.5
    return r.choice([
        nn.MaxPool2d(3, 2, 1, ceil_mode=ceil), nn.AvgPool2d(3, 2, 1, ceil, included), nn.AdaptiveAvgPool2d((5, 4)),
        nn.AdaptiveMaxPool2d((6, 3)), nn.LPPool2d(2, 2), nn.AvgPool2d((1, 3), 1, (0, 1)),
    ]), c  # fmt: skip


def _norm(c: int, r: random.Random) -> Made:
    batch = nn.BatchNorm2d(c)
    assert batch.running_mean is not None
    assert batch.running_var is not None
    batch.running_mean.normal_()
    batch.running_var.uniform_(0.5, 2)
    instance = nn.InstanceNorm2d(c, affine=r.random() < 0.5)
    return r.choice([
        batch, nn.GroupNorm(1 + (c % 2 == 0), c), instance, Plain(lambda x: functional.normalize(x, dim=1)),
    ]), c  # fmt: skip


def _moved(c: int, r: random.Random) -> Made:
    axis = r.choice([1, 2, 3])
    return r.choice([
        Plain(lambda x: x.transpose(2, 3).contiguous().transpose(2, 3) + x.flip(3)), Shuffle(),
        Plain(lambda x: torch.cumsum(x, axis) / 8), nn.Softmax(axis), nn.ZeroPad2d((1, 2, 0, 3)), nn.ReflectionPad2d(1),
        nn.ReplicationPad2d((2, 0, 1, 1)), Plain(lambda x: x + x.flatten(2).topk(3, -1)[0].mean(-1)[..., None, None]),
        Plain(lambda x: torch.einsum("bchw,bdhw,bdhv->bchv", x, x, x) / (x.shape[1] * x.shape[2] * 4)),
    ]), c  # fmt: skip


def _residual(c: int, r: random.Random) -> Made:
    inner, out = block(c, r)
    return Residual(inner), out


BLOCKS: tuple[Block, ...] = (
    _convolution, _convolution, _convolution, _transposed, _separable, _pooled, _norm, _moved, _moved, _residual,
    lambda c, r: (r.choice(_ACTIVATIONS)(), c),
    lambda c, r: (NonLocal(c, r.random() < 0.5), c),
    lambda c, r: (Heads(c, next(h for h in (4, 2, 3, 1) if c % h == 0)), c),
    lambda c, r: (r.choice([Windows(), Gate(c), Halves(max(c, 2)) if c > 1 else nn.ReLU()]), c),
    lambda c, r: (Dense(c), c + 16),
    lambda c, r: (BackToSize(r.choice(["nearest", "bilinear", "bicubic"]), r.random() < 0.5), c),
    lambda c, r: (Recurrent(c, r.choice([nn.LSTM, nn.GRU]), r.random() < 0.5), c),
    lambda c, r: (nn.PixelShuffle(2), c // 4) if c % 4 == 0 else (nn.Identity(), c),
)  # fmt: skip


def block(channels: int, r: random.Random) -> Made:
    """Any of the blocks."""
    return r.choice(BLOCKS)(channels, r)
