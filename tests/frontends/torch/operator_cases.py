"""Runs in the environment that has torch: calls of ATen operators on seeded operands, with torch's answers.

``python -m tests.frontends.torch.operator_cases OUT SEED COUNT`` writes ``OUT.json`` and ``OUT.npz``: for each family
of calls below, COUNT draws; every ATen operator that a call comes to is a case of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from tests.frontends.torch.recording import FLOATS, INTS, Draw, record

UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p log2 neg reciprocal"
    " round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc isnan isinf square relu frac"
).split()
BINARY = "add sub mul div maximum minimum eq ne gt ge lt le atan2 floor_divide remainder fmod".split()
ACTIVATIONS = (
    "gelu silu mish hardswish hardsigmoid hardtanh leaky_relu elu selu celu softplus softsign logsigmoid relu6"
    " tanhshrink hardshrink softshrink"
).split()
CALLS: dict[str, Callable[[Draw], Any]] = {}


def entry(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    CALLS[function.__name__] = function
    return function


@entry
def unary(d: Draw) -> Any:
    return [getattr(torch, n)(d.tensor(d.shape())) for n in UNARY]


@entry
def binary(d: Draw) -> Any:
    out = [getattr(torch, n)(*d.pair()) for n in BINARY[:12]]
    for n in BINARY[12:]:
        x, y = d.pair()
        out.append(getattr(torch, n)(x, torch.where(y == 0, torch.ones_like(y), y)))
    x = d.tensor(d.shape(), d.one(*INTS, *FLOATS))
    return [*out, x + 2, x - 1.5, 3 * x, x / 4, x**2, torch.add(x, x, alpha=2), torch.rsub(x, 2), x > 1, x.clamp(-1, 2)]


@entry
def activations(d: Draw) -> Any:
    x = d.tensor(d.shape(1), torch.float32)
    out = [getattr(F, n)(x) for n in ACTIVATIONS]
    return [
        *out,
        F.softmax(x, d.dim(x)),
        F.log_softmax(x, d.dim(x)),
        F.gelu(x, approximate="tanh"),
        F.threshold(x, 0.1, 2.0),
    ]


@entry
def logic(d: Draw) -> Any:
    x, y = (d.tensor([3, 4], d.one(torch.bool, *INTS)) for _ in range(2))
    b = d.tensor([3, 4], torch.bool)
    found = [torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y), torch.logical_not(x)]
    i, j = (d.tensor([3, 4], torch.int64) for _ in range(2))
    bits = [i & j, i | j, i ^ j, ~i, b & ~b, b ^ b]
    return [
        *found,
        *bits,
        torch.where(b, i, 2.5),
        torch.any(b),
        torch.all(b, 1),
        torch.any(b, 0, True),
        i.masked_fill(b, 7),
    ]


@entry
def reductions(d: Draw) -> Any:
    x = d.tensor(d.shape(1))
    a, keep = d.dim(x), bool(d.one(True, False))
    i = d.tensor(d.shape(1), torch.int64)
    return [
        x.sum(), x.sum(a, keep), x.mean(a, keep), x.amax(a, keep), x.amin(a), x.prod(a), x.max(a, keep), x.min(a),
        x.argmax(a),
        x.argmin(a, keep), x.argmax(), i.sum(), i.max(), i.sum(0), x.var(a, correction=0), x.std(), x.cumsum(a),
        i.cumsum(0),
        torch.logsumexp(x, a), torch.linalg.vector_norm(x, d.one(1, 2, 3, float("inf")), a), x.norm(), i.prod(0),
    ]  # fmt: skip


@entry
def views(d: Draw) -> Any:
    x = d.tensor([2, 3, 4], d.one(*FLOATS, *INTS))
    a, b = d.dim(x), d.dim(x)
    return [
        x.contiguous().view(6, 4), x.reshape(-1, 2), x.permute(2, 0, 1), x.transpose(a, b), x.unsqueeze(a),
        x[:, :1].squeeze(1),
        x.flatten(1),
        x[:1].expand(5, 3, 4), x.repeat(2, 1, 3), x.select(a, -1), x.narrow(1, 1, 2), x[:, 1:, ::2], x.flip(a),
        x.roll(2, 1),
        x.split(2, 2), x.chunk(2, 1), x.unbind(0), torch.cat([x, x], a), torch.stack([x, x], a), x.diagonal(0, 1, 2),
        x.tril(),
        x.triu(1), torch.slice_scatter(x, x[:, :1] * 2, 1, 0, 1), torch.select_scatter(x, x[0] * 2, 0, 1),
        x.movedim(0, 2),
        F.pad(x.float(), (1, 2, 0, 1), value=2.0), F.pad(x.float(), (1, 1), mode="reflect"), x.repeat_interleave(2, 1),
        F.pad(x.float(), (2, 1), mode="replicate"), x.to(d.one(*FLOATS, *INTS)), x.unfold(2, 2, 1),
    ]  # fmt: skip


@entry
def indexing(d: Draw) -> Any:
    x = d.tensor([4, 3, 5])
    i = torch.from_numpy(d.rng.integers(-3, 3, (2, 4)))
    j = torch.from_numpy(d.rng.integers(0, 3, (4,)))
    k = torch.from_numpy(d.rng.integers(0, 3, (4, 3, 5)))
    m = d.tensor([4, 3, 5], torch.bool)
    y = x.clone()
    y[:, 1] = 2.0
    z = x.clone()
    z[m] = -1.0
    w = x.clone()
    w[j, 1] = x[0, 0]
    return [
        x[i], x[:, i], x[j, j - 1], x[:, j, j], x[j, :, j], x[m], x.gather(1, k), x.index_select(2, j), y, z, w,
        x.scatter(1, k, 2.0), x.scatter_add(1, k, x), x.scatter_reduce(1, k, x, "amax"), x.topk(2, 1), x.sort(2)[0],
        F.embedding(i.abs(), x[:, :, 0]), x.nonzero(), torch.bucketize(x.float(), torch.tensor([-1.0, 0.0, 1.0])),
        x.index_add(0, j, x), x.masked_scatter(m, x), torch.take_along_dim(x, k, 1),
    ]  # fmt: skip


@entry
def images(d: Draw) -> Any:
    x = d.tensor([2, 4, int(d.rng.integers(7, 12)), int(d.rng.integers(7, 12))], torch.float32)
    groups = d.one(1, 2, 4)
    w, b = d.tensor([8, 4 // groups, 3, 2], torch.float32), d.tensor([8], torch.float32)
    stride, pad, dilation = d.one(1, 2, (2, 1)), d.one(0, 1, (1, 0)), d.one(1, 2)
    t = d.tensor([4, 8 // groups, 3, 3], torch.float32)
    pool = {"kernel_size": 3, "stride": d.one(1, 2, 3), "padding": d.one(0, 1), "ceil_mode": d.one(True, False)}
    line, volume = x[:, :, 0], d.tensor([1, 2, 5, 6, 5], torch.float32)
    places = d.tensor([2, 5, 6, 2], torch.float32) * 0.7
    return [
        F.conv2d(x, w, b, stride, pad, dilation, groups), F.conv2d(x[0], w, None, 1, "same", 1, groups),
        F.conv_transpose2d(x, t, b, d.one(1, 2), d.one(0, 1), 0, groups), F.conv1d(line, w[:, :, 0], b, 1, 1, 1,
        groups),
        F.conv3d(volume, d.tensor([3, 2, 2, 3, 2], torch.float32), None, 1, 1), F.max_pool2d(x, **pool),
        F.avg_pool2d(x, **pool, count_include_pad=d.one(True, False)), F.avg_pool1d(line, 2), F.max_pool3d(volume, 2),
        F.max_pool2d(x, 2, return_indices=True), F.adaptive_avg_pool2d(x, d.one(1, (2, 3), (5, 4))),
        F.avg_pool3d(volume, 2),
        F.adaptive_max_pool2d(x, 3), F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 13), mode="bilinear"),
        F.interpolate(x, scale_factor=1.7, mode="bicubic"), F.interpolate(x, size=(9, 4), mode="bilinear",
        align_corners=True),
        F.interpolate(line, size=13, mode="linear"), F.pixel_shuffle(x, 2), F.unfold(x, 3, padding=1, stride=2),
        *[F.grid_sample(x, places, d.one("bilinear", "nearest", "bicubic"), padding, d.one(True, False))
          for padding in ("zeros", "border", "reflection")],
        *[F.grid_sample(volume, d.tensor([1, 3, 4, 2, 3], torch.float32), "bilinear", padding, d.one(True, False))
          for padding in ("zeros", "border", "reflection")],
        F.fold(F.unfold(x, 2), x.shape[2:], 2),
    ]  # fmt: skip


@entry
def normalizations(d: Draw) -> Any:
    x = d.tensor([2, 4, 5, 3], torch.float32)
    w, b, m, v = (d.tensor([4], torch.float32, positive=True) for _ in range(4))
    g = d.tensor([5, 3], torch.float32)
    return [
        F.batch_norm(x, m, v, w, b), F.batch_norm(x, m, v), F.layer_norm(x, [5, 3], g, g), F.layer_norm(x, [3]),
        F.group_norm(x, 2, w, b), F.instance_norm(x), F.instance_norm(x, weight=w, bias=b), F.rms_norm(x, [3]),
        F.local_response_norm(x, 3), F.normalize(x, dim=1), F.cosine_similarity(x, x + 1, 1),
    ]  # fmt: skip


@entry
def products(d: Draw) -> Any:
    n, m, k, batch = (int(v) for v in d.rng.integers(1, 7, 4))
    f = torch.float32
    a, b = d.tensor([n, k], f), d.tensor([k, m], f)
    q, key = d.tensor([2, 3, n, 4], f), d.tensor([2, 3, m, 4], f)
    mask = d.tensor([n, m], torch.bool) | (torch.arange(m) == 0)
    return [
        a @ b, torch.bmm(a.expand(batch, n, k), b.expand(batch, k, m)), F.linear(a, b.T, d.tensor([m], f)), a @ b[:, 0],
        torch.addmm(d.tensor([m], f), a, b, beta=d.one(1, 0.5), alpha=d.one(1, 2)), torch.einsum("nk,km->mn", a, b),
        torch.baddbmm(d.tensor([batch, n, m], f), a.expand(batch, n, k), b.expand(batch, k, m)), torch.outer(a[0],
        b[0]),
        F.scaled_dot_product_attention(q, key, key), F.scaled_dot_product_attention(q, key, key, mask),
        F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3), torch.cdist(a, b.T), torch.dot(a[0], a[0]),
        F.bilinear(a, a, d.tensor([2, k, k], f)), torch.tensordot(a, b, 1), torch.cross(q[..., :3], q[..., :3] + 1, -1),
    ]  # fmt: skip


@entry
def groups(d: Draw) -> Any:
    """Numbers in classes, and rows in groups, of which some are empty."""
    n, count, bins = (int(v) for v in d.rng.integers(1, 9, 3))
    f = torch.float32
    x, times = d.tensor([n, 4 * d.one(1, 2)], f), torch.from_numpy(d.rng.integers(0, 4, n))
    ends = torch.from_numpy(np.sort(d.rng.integers(0, n + 1, count)).astype(np.int32))
    ends[-1] = n  # what rows behind the last group give is not said
    weights = d.tensor([count, x.shape[1], 4 * d.one(1, 2)], f).contiguous()
    return [
        torch._grouped_mm(x.contiguous(), weights, ends), x.histc(bins, -1, 1.5), x.histc(bins), x[:1, :1].histc(bins),
        times.float().histc(4, 0, 3), x.double().histc(), torch.repeat_interleave(times),
    ]  # fmt: skip


@entry
def ordering(d: Draw) -> Any:
    """What follows from the order of numbers; few different ones, so that some are equal."""
    kind = d.one(*FLOATS, *INTS)
    x = (d.tensor([d.one(1, 3, 5), d.one(2, 7)], kind) / 3).to(kind)
    a = d.dim(x)
    y = x.clone()
    if kind.is_floating_point:
        y[0, -1] = float("nan")
    full = {"return_inverse": True, "return_counts": True}
    counts = d.tensor([9], torch.int64, positive=True)
    return [
        y.cummax(a),
        y.cummin(a),
        x[0, 0].cummax(0),
        x.to(torch.bool).cummin(a)[0],
        x.float().logcumsumexp(a),
        x.unique(**full),
        x.unique(dim=a, **full),
        torch.unique_consecutive(x, **full),
        torch.unique_consecutive(x, dim=a, **full),
        counts.bincount(minlength=d.one(0, 20)),
        counts.bincount(d.tensor([9])),
        torch.nonzero_static(x, size=d.one(2, 50)),
        x.float().angle(),
        y.angle(),
    ]


@entry
def scattering(d: Draw) -> Any:
    x, f = d.tensor([4, 5]), torch.float32
    i = torch.from_numpy(d.rng.permutation(4)[:3])
    source, line = d.tensor([3, 5], x.dtype), d.tensor([3], x.dtype)
    target = torch.from_numpy(d.rng.integers(0, 5, 4))
    target[0] = d.one(-100, 2)
    narrow = [d.tensor([n, m], d.one(torch.int8, torch.uint8)).to(torch.int16) for n, m in ((3, 4), (4, 2))]
    return [
        x.clone().put_(i * 5, line, d.one(True, False)), torch.block_diag(x, line, source), torch.dist(x, x * 2, 3),
        *[x.float().index_reduce(0, i, source.float(), way, include_self=d.one(True, False))
          for way in ("amax", "amin", "mean", "prod")],
        torch.diagonal_scatter(x, line, d.one(-1, 2)), torch.as_strided_scatter(x, source[:, :2], (3, 2), (6, 1), 2),
        x.clone().fill_diagonal_(2.5), torch.logaddexp2(x.float(), x.float() + 1),
        torch.ldexp(x.float(), target[:, None]),
        F.cross_entropy(d.tensor([4, 5], f), target, d.tensor([5], f, positive=True), reduction=d.one("none", "mean")),
        narrow[0] @ narrow[1], torch.logspace(d.one(-2, 0.5), 3, 4, dtype=d.one(f, torch.int64)),
        torch.arange(d.one(-0.9, 0.5), d.one(2.1, 5.0), d.one(0.5, 2.0), dtype=f),
        torch.arange(-0.9, d.one(2.1, 5.0), d.one(1.5, 2.0), dtype=d.one(*INTS)),
    ]  # fmt: skip


@entry
def creation(d: Draw) -> Any:
    x = d.tensor([2, 3])
    return [
        torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32), torch.full_like(x, 2.5), x.new_zeros([2, 2]),
        torch.eye(3, 4),
        torch.arange(5), torch.arange(1, 7, 2.5), torch.linspace(0, 1, 5), torch.full([2], 3), torch.tril_indices(3, 3),
        torch.scalar_tensor(2.0), torch.zeros(2, 3, dtype=torch.bool), x.fill_(3), torch.meshgrid(x[0], x[1],
        indexing="ij"),
    ]  # fmt: skip


@entry
def frequencies(d: Draw) -> Any:
    x = d.tensor([4, 5, 3], torch.float32).round()
    y = torch.where(x > 2, torch.nan, x)
    z = torch.cat([d.tensor([30], d.one(torch.float32, torch.float64)) * 9, torch.tensor([0.0, -2, 1e20, -torch.inf])])
    return [
        x.mode(d.dim(x)), x.long().mode(1, True), y.median(1), y.median(), y.nanmedian(1), y.nanmedian(), x.histc(5),
        torch.histogram(x, 6, range=(-1.5, 2)), torch.histogram(x, torch.tensor([-2.0, 0, 1, 2.5]), density=True),
        z.lgamma(), z.digamma(), torch.special.log_ndtr(z), torch.mvlgamma(z.abs() + 2, 3), F.threshold(y, 0.5, 1),
    ]  # fmt: skip


def main() -> None:
    record(CALLS, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))


if __name__ == "__main__":
    main()
