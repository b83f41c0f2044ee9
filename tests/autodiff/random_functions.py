"""Runs in the environment that has torch: gradients of single functions with drawn settings.

``python -m tests.autodiff.random_functions OUT FIRST COUNT`` writes what :mod:`tests.autodiff.random_networks` does.
Numbers of some cases are whole, so that many are equal; some tensors have no elements; places are taken several times.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

Made = tuple[Callable[..., Tensor], list[Tensor]]


class Draw(random.Random):
    """Draws settings and operands."""

    whole = False

    def tensor(self, *shape: int, low: float | None = None, high: float = 2.0) -> Tensor:
        """Normal numbers, or some between bounds; whole ones where the case has ties."""
        if low is not None:
            return torch.rand(shape) * (high - low) + low
        return torch.randint(-2, 3, shape).float() if self.whole else torch.randn(shape)

    def shape(self, rank: int, most: int = 7) -> list[int]:
        return [self.randint(1, most) for _ in range(rank)]

    def flag(self, share: float = 0.5) -> bool:
        return self.random() < share


def pointwise(r: Draw) -> Made:
    shape = r.shape(r.randint(0, 4))
    if shape and r.flag(0.1):
        shape[r.randrange(len(shape))] = 0
    kind = r.choice("abs sin tanh sigmoid exp relu relu6 hardtanh hardswish softplus gelu silu elu erf square".split())
    if kind in ("hardswish", "softplus", "gelu", "silu", "elu", "relu6", "hardtanh"):
        return lambda x: getattr(f, kind)(x), [r.tensor(*shape)]
    return lambda x: getattr(torch, kind)(x), [r.tensor(*shape)]


def broadcast(r: Draw) -> Made:
    whole = r.shape(r.randint(1, 4), 5)
    if r.flag(0.1):
        whole[0] = 0
    parts = [[1 if r.flag(0.3) else n for n in whole][r.randint(0, len(whole) - 1) :] for _ in range(2)]
    kind = r.choice("add sub mul div maximum minimum pow where atan2 clamp".split())
    x, y = (r.tensor(*s) for s in parts)
    if kind in ("div", "pow", "atan2"):
        x, y = r.tensor(*parts[0], low=0.5), r.tensor(*parts[1], low=0.5)
    if kind == "where":
        return lambda a, b: torch.where(a > b, a * b, b - a), [x, y]
    if kind == "clamp":  # limits themselves are drawn too
        low, high = r.choice([-1.3, -1.0, 0.0]), r.choice([1.0, 1.3])
        return lambda a, b: torch.clamp(a, low, high) * b, [x, y]
    return lambda a, b: getattr(torch, kind)(a, b), [x, y]


def reduction(r: Draw) -> Made:
    shape = r.shape(r.randint(1, 4), 5)
    axes = r.sample(range(len(shape)), r.randint(1, len(shape)))
    keep, less, kind = r.flag(), r.randint(0, 1), r.choice("sum mean amax amin prod norm logsumexp var std".split())
    x = r.tensor(*shape)
    if kind == "prod":
        return lambda x: torch.prod(x, axes[0], keep), [x]
    if kind == "norm":
        return lambda x: torch.linalg.vector_norm(x, 2, axes, keep), [r.tensor(*shape, low=0.2)]
    if kind in ("var", "std"):
        more = [n + 1 for n in shape]
        return lambda x: getattr(torch, kind)(x, axes, correction=less, keepdim=keep), [r.tensor(*more, low=0.0)]
    return lambda x: getattr(torch, kind)(x, axes, keepdim=keep), [x]


def running(r: Draw) -> Made:
    shape = r.shape(r.randint(1, 3))
    axis, kind = r.randrange(len(shape)), r.choice(["cumsum", "cumprod", "flip", "roll", "sort", "topk", "softmax"])
    x = r.tensor(*shape)
    if kind == "flip":
        return lambda x: torch.flip(x, [axis]) * x, [x]
    if kind == "roll":
        places = r.randint(-3, 3)
        return lambda x: torch.roll(x, places, axis) * x, [x]
    if kind == "sort":
        return lambda x: torch.sort(x, dim=axis, descending=True, stable=True)[0] ** 2, [torch.randn(shape)]
    if kind == "topk":
        count = r.randint(1, shape[axis])
        return lambda x: torch.topk(x, count, axis)[0] ** 2, [torch.randn(shape)]
    if kind == "softmax":
        return lambda x: f.log_softmax(x, axis) * f.softmax(x, axis), [x]
    return lambda x: getattr(torch, kind)(x, axis), [x]


def convolution(r: Draw) -> Made:
    axes, groups = r.choice([1, 2, 2, 2, 3]), r.choice([1, 1, 2, 3])
    into, out, batch = groups * r.randint(1, 5), groups * r.randint(1, 5), r.randint(1, 3)
    if r.flag(0.2):  # depthwise
        groups, out = into, into * r.randint(1, 2)
    kernel, strides, dilations = ([r.choice(of) for _ in range(axes)] for of in ([1, 2, 3, 5], [1, 1, 2, 3], [1, 1, 2]))
    pads = [r.randint(0, k) for k in kernel]
    sizes = [(k - 1) * d + 1 + r.randint(0, 6) for k, d in zip(kernel, dilations, strict=True)]
    x, b = r.tensor(batch, into, *sizes), r.tensor(out)
    if r.flag(0.3):
        made = getattr(f, f"conv_transpose{axes}d")
        more = [r.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
        pads = [min(p, (k - 1) * d) for p, k, d in zip(pads, kernel, dilations, strict=True)]
        w = r.tensor(into, out // groups, *kernel)
        return lambda x, w, b: made(x, w, b, strides, pads, more, groups, dilations), [x, w, b]
    w = r.tensor(out, into // groups, *kernel)
    return lambda x, w, b: getattr(f, f"conv{axes}d")(x, w, b, strides, pads, dilations, groups), [x, w, b]


def pooling(r: Draw) -> Made:
    axes = r.choice([1, 2, 2, 3])
    kernel, ceil = [r.randint(1, 4) for _ in range(axes)], r.flag()
    strides, pads = [r.randint(1, 3) for _ in range(axes)], [r.randint(0, k // 2) for k in kernel]
    x = r.tensor(r.randint(1, 2), r.randint(1, 5), *[k + r.randint(0, 8) for k in kernel])
    if r.flag():
        return lambda x: getattr(f, f"max_pool{axes}d")(x, kernel, strides, pads, ceil_mode=ceil), [x]
    counted = r.flag()
    return lambda x: getattr(f, f"avg_pool{axes}d")(x, kernel, strides, pads, ceil, counted), [x]


def places(r: Draw) -> Made:
    """Reads and writes at places that come several times."""
    rows, width, count = r.randint(2, 6), r.randint(1, 5), r.randint(1, 12)
    x, kind = r.tensor(rows, width), r.choice(["select", "embedding", "gather", "index_add", "put", "amax", "index"])
    at = torch.randint(0, rows, (count,))
    if kind == "select":
        return lambda x: torch.index_select(x, 0, at) ** 2, [x]
    if kind == "embedding":
        spots = at.reshape(1, -1).expand(2, -1)
        return lambda x: f.embedding(spots, x) ** 2, [x]
    if kind == "index":
        return lambda x: x[at, at % width] ** 2, [x]
    here = torch.randint(0, rows, (count, width))
    if kind == "gather":
        return lambda x: torch.gather(x, 0, here) ** 2, [x]
    given = r.tensor(count, width)
    if kind == "index_add":
        return lambda x, u: torch.index_add(x, 0, at, u) ** 2, [x, given]
    if kind == "put":
        return lambda x, u: torch.scatter_add(x, 0, here, u) ** 2, [x, given]
    return lambda x, u: torch.scatter_reduce(x, 0, here, u, "amax") ** 2, [x, given]


def normalisation(r: Draw) -> Made:
    groups = r.randint(1, 3)
    channels, sizes = groups * r.randint(1, 4), r.shape(2, 6)
    x, w, b = r.tensor(r.randint(2, 4), channels, *[n + 1 for n in sizes]), r.tensor(channels), r.tensor(channels)
    kind = r.choice(["batch", "group", "instance", "layer", "rms", "local"])
    if kind == "batch":
        return lambda x, w, b: f.batch_norm(x, None, None, w, b, True), [x, w, b]
    if kind == "group":
        return lambda x, w, b: f.group_norm(x, groups, w, b), [x, w, b]
    if kind == "instance":
        return lambda x, w, b: f.instance_norm(x, None, None, w, b), [x, w, b]
    if kind == "local":
        return lambda x: f.local_response_norm(x, 3), [x]
    shape = x.shape[r.randint(1, 3) :]
    if kind == "rms":
        return lambda x, w: f.rms_norm(x, shape, w, 1e-5), [x, r.tensor(*shape)]
    return lambda x, w, b: f.layer_norm(x, shape, w, b), [x, r.tensor(*shape), r.tensor(*shape)]


def attention(r: Draw) -> Made:
    batch, heads, width = r.randint(1, 2), r.randint(1, 3), r.choice([3, 4, 8])
    queries, keys = r.randint(1, 9), r.randint(1, 9)
    q, k, v = r.tensor(batch, heads, queries, width), *(r.tensor(batch, heads, keys, width) for _ in range(2))
    kind = r.choice(["none", "causal", "bool", "float"])
    if kind == "bool":
        mask = torch.rand(queries, keys) < 0.6
        mask[:, 0] = True
        return lambda q, k, v: f.scaled_dot_product_attention(q, k, v, mask), [q, k, v]
    if kind == "float":
        given = torch.randn(batch, 1, queries, keys)
        return lambda q, k, v, m: f.scaled_dot_product_attention(q, k, v, m), [q, k, v, given]
    return lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=kind == "causal"), [q, k, v]


def arranging(r: Draw) -> Made:
    shape = [n + 1 for n in r.shape(4, 5)]
    x, kind = (
        r.tensor(*shape),
        r.choice(["pad", "reflect", "unfold", "shuffle", "slice", "tile", "tril", "resize", "cat"]),
    )
    if kind == "pad":
        pads = [r.randint(-1, 3) for _ in range(4)]
        return lambda x: f.pad(x, pads, value=0.5) ** 2, [x]
    if kind == "reflect":
        mode = r.choice(["reflect", "replicate", "circular"])
        return lambda x: f.pad(x, [1, 0, 1, 1], mode) ** 2, [x]
    if kind == "unfold":
        return lambda x: f.unfold(x, 2, 1, 1, 2) ** 2, [x]
    if kind == "shuffle":
        return lambda x: f.pixel_shuffle(x, 2) ** 2, [r.tensor(shape[0], 4, *shape[2:])]
    if kind == "slice":
        step = r.randint(1, 3)
        return lambda x: x[:, ::2, 1:, ::step] ** 2, [x]
    if kind == "tile":
        return lambda x: x.repeat(2, 1, 3, 1) ** 2, [x]
    if kind == "tril":
        return lambda x: torch.tril(x, -1) ** 2 + torch.triu(x), [x]
    if kind == "resize":
        mode, corners = r.choice([("nearest", None), ("bilinear", True), ("bilinear", False), ("bicubic", False)])
        size = [r.randint(1, 9) for _ in range(2)]
        return lambda x: f.interpolate(x, size, mode=mode, align_corners=corners) ** 2, [x]
    return lambda x, y: torch.cat([x, y, x], 1) ** 2, [x, r.tensor(shape[0], r.randint(0, 3), *shape[2:])]


def product(r: Draw) -> Made:
    m, k, n = r.shape(3, 40)
    if r.flag(0.1):
        m = 0
    kind = r.choice(["matmul", "linear", "batched", "vector", "einsum", "outer"])
    if kind == "linear":
        return f.linear, [r.tensor(2, m, k), r.tensor(n, k), r.tensor(n)]
    if kind == "batched":
        return torch.matmul, [r.tensor(r.choice([1, 3]), 2, m, k), r.tensor(3, 1, k, n)]
    if kind == "vector":
        return torch.matmul, [r.tensor(m, k), r.tensor(k)]
    if kind == "einsum":
        return lambda a, b: torch.einsum("bik,bjk->ijb", a, b), [r.tensor(3, m, k), r.tensor(3, n, k)]
    if kind == "outer":
        return torch.outer, [r.tensor(k), r.tensor(n)]
    return torch.matmul, [r.tensor(m, k), r.tensor(k, n)]


def losses(r: Draw) -> Made:
    rows, classes = r.randint(1, 8), r.randint(2, 7)
    x, y = r.tensor(rows, classes), torch.randint(0, classes, (rows,))
    kind = r.choice(["cross_entropy", "kl", "bce", "huber", "weighted"])
    if kind == "weighted":
        w = torch.rand(classes) + 0.1
        return lambda x: f.cross_entropy(x, y, w, reduction="sum"), [x]
    if kind == "kl":
        return lambda a, b: f.kl_div(f.log_softmax(a, 1), f.softmax(b, 1), reduction="batchmean"), [
            x,
            torch.randn_like(x),
        ]
    if kind == "bce":
        return lambda a, b: f.binary_cross_entropy_with_logits(a, torch.sigmoid(b)), [x, torch.randn_like(x)]
    if kind == "huber":
        return lambda a, b: f.smooth_l1_loss(a, b, reduction="none"), [torch.randn_like(x), torch.randn_like(x)]
    return lambda x: f.cross_entropy(x, y), [x]


FAMILIES = (
    pointwise, broadcast, reduction, running, convolution, pooling, places, normalisation, attention, arranging,
    product, losses,
)  # fmt: skip


class Function(nn.Module):
    """A function as a module, which alone can be exported."""

    def __init__(self, made: Callable[..., Tensor]) -> None:
        super().__init__()
        self.made = made

    def forward(self, operands: list[Tensor]) -> Tensor:
        found: Tensor = self.made(*operands)
        return found


def slopes(module: Function, operands: list[Tensor], weight: Tensor) -> list[np.ndarray]:
    """Gradients of the weighted sum, in the element type of the weights."""
    given = [t.detach().to(weight.dtype).requires_grad_() for t in operands]
    loss = (module(given) * weight).sum()
    return [g.numpy() for g in torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)]


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        torch.manual_seed(seed)
        r = Draw(seed)
        r.whole = r.flag(0.3)
        made, operands = FAMILIES[seed % len(FAMILIES)](r)
        module = Function(made)
        try:
            answer = module(operands)
        except RuntimeError:  # settings that torch has no function of
            continue
        weight = torch.from_numpy(np.random.default_rng(seed).uniform(0.5, 1.5, tuple(answer.shape)))
        try:
            exact = slopes(module, operands, weight)
        except RuntimeError:  # masks and weights that are constants, in f32
            exact = slopes(module, operands, weight.float())
        rough = slopes(module, operands, weight.float())
        if not all(np.isfinite(g).all() for g in exact):
            continue
        torch.export.save(torch.export.export(module, (operands,)), f"{out}-{seed}.pt2")
        arrays = {f"x{i}": t.numpy() for i, t in enumerate(operands)}
        arrays |= {f"g{i}": g for i, g in enumerate(exact)}
        off = [np.abs(g - e).max(initial=0) for g, e in zip(rough, exact, strict=True)]
        np.savez(
            f"{out}-{seed}.npz", weight=weight.float().numpy(), **arrays, **{f"e{i}": e for i, e in enumerate(off)}
        )


if __name__ == "__main__":
    main()
