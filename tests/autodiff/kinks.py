"""Runs in the environment that has torch: first and second derivatives where functions bend, meet or end.

``python -m tests.autodiff.kinks OUT FIRST COUNT`` writes for each seed a module of drawn functions with drawn settings,
each of a row of numbers, and torch's derivatives of their sum. Most numbers are those at which something changes: zeros
of both signs, limits that were drawn, whole numbers, very small and large ones, equal ones in a row.
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

Function = Callable[[Tensor], Tensor]
POINTS = (
    -1e4, -100.0, -20.5, -6.0, -3.0, -2.0, -1.0, -0.5, -1e-6, -1e-30, -0.0, 0.0, 1e-30, 1e-6, 0.5, 1.0, 2.0, 3.0, 6.0,
    19.5, 100.0, 1e4,
)  # fmt: skip
INSIDE = tuple(x for x in POINTS if abs(x) < 10 and (x == 0 or abs(x) > 1e-7))
NAMES = (
    "abs sigmoid tanh relu erf sin square sign floor frac round trunc atan asinh sinc exp2 expm1 nan_to_num special_i0 "
    "special_i1 special_ndtr special_i0e"
).split()
OF_NETWORKS = (
    "relu6 hardtanh hardswish hardsigmoid softplus gelu silu mish softsign tanhshrink hardshrink softshrink logsigmoid"
).split()
ROUGH = ("sinc", "special_i0e", "special_i1")
"""Functions whose second derivatives torch has otherwise: near 0, or none at 0 on purpose."""
ROWS, WIDTH = 24, 12


def drawn(r: random.Random) -> dict[str, tuple[Function, tuple[float, ...], bool]]:
    """Functions, the numbers that they are tried at, and whether second derivatives are compared: torch has other ones
    than those of the branch that it takes, or none, for some."""
    low, high = sorted(r.sample([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], 2))
    slope, near = round(r.uniform(0.05, 0.9), 2), r.choice([0.5, 1.0, 2.0])
    bound = torch.tensor([r.choice([low, high]) for _ in range(WIDTH)])
    signs = torch.tensor([r.choice([-1.0, 1.0]) for _ in range(WIDTH)])
    some, power = torch.tensor([r.choice(INSIDE) for _ in range(WIDTH)]), r.choice([0.0, 1.0, 2.0, 3.0])
    zero, truth, p = torch.zeros(WIDTH), signs / 2 + 0.5, r.choice([1.5, 2.5, 3.0, 4.0])
    limits = (*INSIDE, low, high)

    def rows(fn: Callable[[Tensor], Tensor]) -> Function:
        """Of four rows of three numbers."""
        return lambda x: fn(x.reshape(4, 3)).sum()[None].expand(WIDTH) / WIDTH

    plain: dict[str, tuple[Function, tuple[float, ...], bool]] = {
        **{n: (getattr(torch, n, None) or getattr(torch.special, n[8:]), POINTS, n not in ROUGH) for n in NAMES},
        **{n: (getattr(f, n), POINTS, n not in ("hardswish", "gelu", "mish")) for n in OF_NETWORKS},
    }
    return plain | {
        "elu": (lambda x: f.elu(x, slope), POINTS, False),
        "celu": (lambda x: f.celu(x, slope), POINTS, False),
        "selu": (f.selu, POINTS, False),
        "leaky": (lambda x: f.leaky_relu(x, slope), POINTS, True),
        "prelu": (lambda x: f.prelu(x, torch.tensor([slope])), POINTS, True),
        "hardtanh of limits": (lambda x: f.hardtanh(x, low, high), limits, True),
        "threshold": (lambda x: f.threshold(x, high, low), limits, True),
        "clamp": (lambda x: x.clamp(low, high), limits, True),
        "clamp of one": (lambda x: x.clamp(high, high), limits, True),
        "clamp of none": (lambda x: x.clamp(high, low), limits, True),
        "clamp from below": (lambda x: x.clamp(min=low), limits, True),
        "clamp from above": (lambda x: x.clamp(max=high), limits, True),
        "clamp by tensors": (lambda x: torch.clamp(x, bound, zero + high), limits, True),
        "maximum": (lambda x: torch.maximum(x, bound), limits, True),
        "minimum of itself": (lambda x: torch.minimum(x, x * x), INSIDE, True),
        "fmax": (lambda x: torch.fmax(x, bound), limits, True),
        "fmin": (lambda x: torch.fmin(x * x, x), INSIDE, True),
        "softplus": (lambda x: f.softplus(x, slope + 0.5), POINTS, True),
        "power": (lambda x: x**power, INSIDE, True),
        "where": (lambda x: torch.where(x > 0, torch.log(x), x), INSIDE, True),
        "root": (lambda x: torch.where(x > 0, torch.sqrt(x), -x), INSIDE, True),
        "relu squared": (lambda x: f.relu(x) ** 2, INSIDE, True),
        "size times sign": (lambda x: x.abs() * x.sign(), INSIDE, True),
        "hypot": (lambda x: torch.hypot(x, some), INSIDE, True),
        "atan2": (lambda x: torch.atan2(x, some), INSIDE, True),
        "atan2 below": (lambda x: torch.atan2(some, x), INSIDE, True),
        "xlogy": (lambda x: torch.xlogy(x, some.abs()), INSIDE, True),
        "logaddexp": (lambda x: torch.logaddexp(x, some), INSIDE, True),
        "logaddexp of itself": (lambda x: torch.logaddexp(x, x * x), INSIDE, True),
        "huber": (lambda x: f.huber_loss(x, some, reduction="none", delta=near), INSIDE, False),
        "smooth l1": (lambda x: f.smooth_l1_loss(x, some, reduction="none", beta=near), INSIDE, False),
        "l1": (lambda x: f.l1_loss(x, some, reduction="none"), INSIDE, True),
        "bce of logits": (lambda x: f.binary_cross_entropy_with_logits(x, truth, reduction="none"), POINTS, True),
        "bce": (lambda x: f.binary_cross_entropy(torch.sigmoid(x), truth, reduction="none"), POINTS, False),
        "soft margin": (lambda x: f.soft_margin_loss(x, signs, reduction="none"), INSIDE, True),
        "ranking": (lambda x: f.margin_ranking_loss(x, some, signs, near, reduction="none"), INSIDE, True),
        "hinge": (lambda x: f.hinge_embedding_loss(x, signs, near, reduction="none"), INSIDE, True),
        "digamma": (torch.digamma, (0.5, 1.0, 2.0, 3.0, 6.0, 19.5), True),
        "lgamma": (torch.lgamma, (0.5, 1.0, 2.0, 3.0, 6.0, 19.5, -0.5, -1.5), False),
        "amax": (rows(lambda x: x.amax(1) ** 2), INSIDE, True),
        "amin of all": (rows(lambda x: x.amin() * x.sum()), INSIDE, False),
        "prod": (rows(lambda x: x.prod(1)), INSIDE, False),
        "cumprod": (rows(lambda x: x.cumprod(0)), INSIDE, False),
        "cummax": (rows(lambda x: x.cummax(1)[0] ** 2), INSIDE, True),
        "norm": (rows(lambda x: torch.linalg.vector_norm(x, 2, 1)), (*INSIDE, 0.0, 0.0, 0.0, 0.0), False),
        "norm of powers": (rows(lambda x: torch.linalg.vector_norm(x, p, 1)), (*INSIDE, *[0.0] * 9), False),
        "largest size": (rows(lambda x: torch.linalg.vector_norm(x, float("inf"), 1)), INSIDE, False),
        "logcumsumexp": (rows(lambda x: x.logcumsumexp(1)), INSIDE, True),
        "logsumexp": (rows(lambda x: x.logsumexp(1)), INSIDE, True),
        "normalized": (rows(lambda x: f.normalize(x, dim=1)), (*INSIDE, 0.0, 0.0, 0.0), False),
        "multi margin": (rows(lambda x: f.multi_margin_loss(x, torch.tensor([0, 1, 2, 0]), margin=near)), INSIDE, True),
        "pooled": (rows(lambda x: f.max_pool1d(x[None], 2, 1) ** 2), INSIDE, True),
    }  # fmt: skip


class Rows(nn.Module):
    """A function for each row."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([fn(row) for fn, row in zip(self.functions, x.unbind(0), strict=True)])


def derivatives(fn: Function, row: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Of the sum of a function's results and of the sum of these; NaN where torch has none."""
    x = row.clone().requires_grad_()
    (slope,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True, allow_unused=True, materialize_grads=True)
    bend = torch.zeros_like(row)
    if slope.requires_grad:
        try:
            (bend,) = torch.autograd.grad(slope.sum(), x, allow_unused=True, materialize_grads=True)
        except RuntimeError:
            bend = bend + float("nan")
    return slope.numpy(force=True), bend.numpy(force=True)


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        r = random.Random(seed)
        chosen = r.sample(sorted(drawn(r).items()), ROWS)
        module = Rows([fn for _, (fn, _, _) in chosen])
        x = torch.tensor([[r.choice(points) for _ in range(WIDTH)] for _, (_, points, _) in chosen])
        slopes, bends = zip(
            *(derivatives(fn, row) for (_, (fn, _, _)), row in zip(chosen, x, strict=True)), strict=True
        )
        torch.export.save(torch.export.export(module, (x,)), f"{out}-{seed}.pt2")
        names, second = [name for name, _ in chosen], [twice for _, (_, _, twice) in chosen]
        found = {"x": x.numpy(), "first": np.stack(slopes), "second": np.stack(bends)}
        np.savez(f"{out}-{seed}.npz", names=names, twice=second, **found)


if __name__ == "__main__":
    main()
