"""Runs in the environment that has torch: functions of matrices, special functions and losses on seeded operands.

``python -m tests.frontends.torch.function_cases OUT SEED COUNT`` writes what
:func:`tests.frontends.torch.operator_cases.record` does. Vectors whose signs are free are tested by what they are
(``tests/ops/test_matrices.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from tests.frontends.torch.recording import Draw, record

CALLS: dict[str, Callable[[Draw], Any]] = {}


def entry(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    CALLS[function.__name__] = function
    return function


def square(d: Draw, definite: bool = False) -> torch.Tensor:
    """One or several matrices that are far from singular."""
    n = int(d.rng.integers(1, 6))
    made = d.tensor([*d.shape(0, 2), n, n], d.one(torch.float32, torch.float64))
    eye = torch.eye(n, dtype=made.dtype)
    return made @ made.mT + eye if definite else made + 8 * eye


@entry
def inverses(d: Draw) -> Any:
    x = square(d)
    return [
        torch.linalg.inv(x),
        torch.linalg.inv_ex(x),
        torch.linalg.slogdet(x),
        torch.logdet(x),
        torch.linalg.det(x),
        torch.linalg.matrix_power(x, d.one(-2, 0, 1, 3)),
        torch.matrix_exp(x / 8),
        torch.linalg.pinv(x),
    ]


@entry
def systems(d: Draw) -> Any:
    x, upper, unit = square(d), bool(d.one(True, False)), bool(d.one(True, False))
    y = d.tensor([*x.shape[:-1], 3], x.dtype)
    if unit:
        x = x / 16
    triangle = torch.linalg.solve_triangular(x, y, upper=upper, unitriangular=unit)
    return [
        torch.linalg.solve(x, y),
        torch.linalg.solve(x, y.mT, left=False),
        torch.linalg.solve(x, y[..., 0]),
        triangle,
        torch.linalg.solve_triangular(x, y.mT, upper=upper, left=False, unitriangular=unit),
    ]


@entry
def factors(d: Draw) -> Any:
    x = square(d, True)
    lower = torch.linalg.cholesky(x)
    y = d.tensor([*x.shape[:-1], 2], x.dtype)
    tall = d.tensor([*d.shape(0, 1), *d.shape(2, 2)], d.one(torch.float32, torch.float64))
    found = torch.linalg.lu_factor(tall)
    return [
        lower,
        torch.linalg.cholesky(x, upper=True),
        torch.cholesky_solve(y, lower),
        torch.cholesky_inverse(lower),
        found,
        torch.lu_unpack(*found),
        torch.linalg.lu(tall),
        torch.linalg.eigvalsh(x),
        torch.linalg.svdvals(tall),
        torch.linalg.matrix_rank(tall),
        torch.linalg.cond(x),
    ]


@entry
def norms(d: Draw) -> Any:
    x, keep = d.tensor([*d.shape(0, 2), *d.shape(2, 2)], torch.float32), bool(d.one(True, False))
    kinds = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    return [
        torch.linalg.matrix_norm(x, d.one(*kinds), keepdim=keep),
        torch.linalg.norm(x, d.one(*kinds), (-2, -1), keep),
        torch.linalg.norm(x[..., 0], 3, -1),
        torch.renorm(x, d.one(1, 2, 3), d.dim(x), 2.5),
    ]


@entry
def special(d: Draw) -> Any:
    scale = d.one(0.3, 1.0, 6.0, 30.0)
    x = d.tensor([17], d.one(torch.float32, torch.float64)) * scale
    s, two = torch.special, [torch.abs(x), torch.abs(d.tensor([17], x.dtype)) + 1.1]
    found = [f(x) for f in (s.i0, s.i0e, s.i1, s.i1e, s.bessel_j0, s.bessel_j1, s.bessel_y0, s.bessel_y1)]
    found += [
        f(two[0])
        for f in (
            s.modified_bessel_k0,
            s.modified_bessel_k1,
            s.scaled_modified_bessel_k0,
            s.scaled_modified_bessel_k1,
            s.bessel_y0,
            s.bessel_y1,
            s.spherical_bessel_j0,
        )
    ]
    return [*found, s.zeta(two[1], two[0] + 0.1), s.polygamma(d.one(1, 2, 3, 5), two[0] + 0.1), s.erfc(x)]


@entry
def numbers(d: Draw) -> Any:
    x, y = (d.tensor([2, 5], d.one(torch.int64, torch.int32)) * d.one(1, 6, 10) for _ in range(2))
    z = d.tensor([6], d.one(torch.float32, torch.float64))
    z[d.one(0, 3)] = d.one(float("nan"), float("inf"), -0.0)
    return [torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x, y[:1]), torch.sign(z), torch.sgn(z), torch.float_power(x, 2)]


@entry
def losses(d: Draw) -> Any:
    x, y, z = (d.tensor([5, 4], torch.float32) for _ in range(3))
    signs, how = torch.sign(d.tensor([5], torch.float32)), {"reduction": d.one("none", "mean", "sum")}
    margin = d.one(0.0, 0.4, 1.0)
    return [
        F.margin_ranking_loss(x[:, 0], y[:, 0], signs, margin, **how),
        F.hinge_embedding_loss(x[:, 0], signs, margin, **how),
        F.cosine_embedding_loss(x, y, signs, margin, **how),
        F.triplet_margin_loss(x, y, z, margin + 0.1, d.one(1, 2), swap=bool(d.one(True, False)), **how),
        F.multi_margin_loss(x, d.tensor([5], torch.int64, positive=True) % 4, d.one(1, 2), margin + 0.1, **how),
        F.poisson_nll_loss(x, y.abs() * 3, bool(d.one(True, False)), bool(d.one(True, False)), **how),
        torch.cumulative_trapezoid(x, dim=d.dim(x)),
        torch.fft.fftshift(x),
        torch.fft.ifftshift(x, d.dim(x)),
        d.tensor([2, 3], d.one(torch.int8, torch.int32, torch.float16)).sum_to_size(
            d.one((1, 3), (1, 1), (3,), (2, 3))
        ),
    ]


@entry
def segments(d: Draw) -> Any:
    """Some without anything in them."""
    counts = torch.from_numpy(d.rng.integers(0, 4, int(d.rng.integers(1, 6))))
    x = d.tensor([int(counts.sum()), *d.shape(0, 2)], d.one(torch.float32, torch.float64))
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    kinds = ("sum", "mean", "max", "min", "prod")
    rows = d.tensor([2, 5, 3], torch.float32)
    return [
        torch.segment_reduce(x, d.one(*kinds), lengths=counts),
        torch.segment_reduce(x, d.one(*kinds), offsets=bounds, initial=d.one(None, 1.5)),
        torch.segment_reduce(rows, d.one(*kinds), lengths=torch.tensor([[2, 3], [0, 5]]), axis=1),
    ]


@entry
def far_away(d: Draw) -> Any:
    """Quantiles of the smallest shares, and the zeta function between poles."""
    s, shape = torch.special, d.shape(1, 3)
    share = 10 ** -(d.tensor(shape, torch.float64).abs() * 12)
    places = (
        -torch.floor(d.tensor(shape, torch.float64).abs() * 20) - 0.5 + d.tensor(shape, torch.float64).clamp(-1, 1) / 4
    )
    order = torch.from_numpy(d.rng.integers(2, 6, shape)).double()
    kind = d.one(torch.float32, torch.float64)
    return [s.ndtri(share.to(kind)), s.zeta(order, places), s.polygamma(d.one(2, 3), places)]


@entry
def incomplete_gammas(d: Draw) -> Any:
    """Shapes from 0 to thousands and places near and far from them, and where there is nothing to integrate."""
    kind = d.one(torch.float32, torch.float64)
    a = torch.from_numpy(np.exp(d.rng.uniform(-5, 9, (12, 1)))).to(kind)
    near = a.flatten() * torch.from_numpy(np.exp(0.2 * d.rng.standard_normal(12))).to(kind)
    x = torch.cat([near, torch.from_numpy(np.exp(d.rng.uniform(-5, 9, 6))).to(kind)])
    ends = torch.tensor([0, -1, torch.inf, torch.nan, 1, 3], dtype=kind)
    tails = torch.cat([x, -x.clamp(max=20), ends])
    return [f(*pair) for f in (torch.igamma, torch.igammac) for pair in ((a, x), (ends, ends[:, None]))] + [
        torch.special.erfcx(tails)
    ]


@entry
def alignments(d: Draw) -> Any:
    """CTC: targets in rows or one after another, empty ones, and those that are too long for their input."""
    steps, count, classes, longest = (int(n) for n in d.rng.integers((1, 1, 2, 1), (10, 4, 6, 5)))
    x = F.log_softmax(d.tensor([steps, count, classes], d.one(torch.float32, torch.float64)), -1)
    blank = int(d.rng.integers(classes))
    targets = torch.from_numpy(d.rng.integers(0, classes - 1, (count, longest)))
    targets += targets >= blank
    given = torch.from_numpy(d.rng.integers(d.one(0, 1), steps + 1, count))
    wanted = torch.from_numpy(d.rng.integers(0, longest + 1, count))
    joined = torch.cat([t[:n] for t, n in zip(targets, wanted, strict=True)])
    found = [F.ctc_loss(x, targets, given, wanted, blank, "none")]
    behind = torch.where(torch.arange(longest) < wanted[:, None], targets, -100)  # anything may stand there
    found.append(F.ctc_loss(x, behind, tuple(given.tolist()), tuple(wanted.tolist()), blank, "none"))
    return [*found, F.ctc_loss(x, joined, given, wanted, blank, "none")] if len(joined) else found


@entry
def bags(d: Draw) -> Any:
    weights, index = d.tensor([10, 4], torch.float32), torch.from_numpy(d.rng.integers(0, 10, 12))
    mode, row = d.one("sum", "mean", "max"), int(d.rng.integers(10))
    starts, ends = torch.tensor([0, 3, 3, 7]), torch.tensor([0, 5, 5, 12])
    shares = d.tensor([12], torch.float32)
    return [
        F.embedding_bag(index, weights, starts, mode=mode, padding_idx=row),
        F.embedding_bag(index.view(3, 4), weights, mode=mode, padding_idx=row),
        F.embedding_bag(index, weights, ends, None, 2.0, False, "sum", False, shares, True, row),
        torch.embedding_renorm_(weights.clone(), index[:5], d.one(1.0, 2.0), d.one(1.0, 2.0)),
    ]


@entry
def parts(d: Draw) -> Any:
    """Reductions of parts of an axis, of which some are empty, and which some elements are in none of."""
    axis, kind = d.one(0, 1), d.one(torch.float32, torch.float64)
    lengths = torch.from_numpy(d.rng.integers(0, 4, (d.one(1, 5),) if axis == 0 else (3, d.one(1, 4))))
    if axis == 1:  # rows have as many elements each
        lengths[:, -1] += lengths.sum(1).max() - lengths.sum(1)
    count = int(lengths.sum(-1).max())
    x = d.tensor([*([] if axis == 0 else [3]), count, *d.shape(0, 2)], kind).contiguous()
    first = {} if d.rng.random() < 0.5 else {"initial": 0.5}
    ways = ("sum", "mean", "max", "min", "prod")
    return [torch.segment_reduce(x, way, lengths=lengths, axis=axis, unsafe=True, **first) for way in ways]


@entry
def uneven_windows(d: Draw) -> Any:
    """Maxima of windows of several sizes and their places, and sums of windows that reach beyond the padding."""
    found: list[Any] = []
    for rank, pool in enumerate((F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d), 1):
        x = d.tensor([2, 3, *(int(n) for n in d.rng.integers(4, 9, rank))], torch.float32).round()
        size = [int(n) for n in d.rng.integers(1, 6, rank)]
        found += [pool(x, size, return_indices=True), pool(x[0], size, return_indices=True)]
    x = d.tensor([1, 2, 7, 8], torch.float32)
    return [*found, F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=4)]


@entry
def spread(d: Draw) -> Any:
    x = d.tensor([d.one(1, 3), 6], d.one(torch.float32, torch.float64))
    times = torch.from_numpy(d.rng.integers(1, 4, 6))
    shares = d.tensor([6], x.dtype, positive=True)
    gaps = torch.where(x > 1, torch.nan, x)
    q = torch.tensor([0.2, 0.5, 1.0], dtype=x.dtype)
    row, classes = d.tensor([5], torch.float32), torch.from_numpy(d.rng.permutation(5)) - 1
    return [
        torch.cov(x, correction=d.one(0, 1)), torch.cov(x, fweights=times, aweights=shares), torch.corrcoef(x),
        torch.nanquantile(gaps, q, d.one(0, 1), interpolation=d.one("linear", "lower", "nearest")),
        torch.vander(x[0], d.one(2, 4), increasing=d.one(True, False)),
        *[F.multilabel_margin_loss(row, classes, reduction=how) for how in ("none", "mean")],
        F.multilabel_margin_loss(row.expand(2, 5), torch.stack([classes, classes.flip(0)])),
    ]  # fmt: skip


@entry
def pixels_at_factors(d: Draw) -> Any:
    """Nearest pixels at factors whose rounding decides, and rows of which a factor leaves as many as there were."""
    image = d.tensor([1, 2, int(d.rng.integers(3, 30)), int(d.rng.integers(3, 30))], torch.float32)
    factor = d.one(0.6, 1.1, 1.3, 2.7, 0.35, 1.02)
    return [
        F.interpolate(image, scale_factor=factor if image.shape[2] * factor >= 1 else 1.7, mode=mode)
        for mode in ("nearest", "nearest-exact", "bilinear")
    ]


@entry
def whole_numbers(d: Draw) -> Any:
    """Sums of small integers in 64 bits, and batches of nothing."""
    x = d.tensor([3, 4], d.one(torch.int8, torch.int32, torch.float32))
    columns = F.unfold(d.tensor([d.one(0, 2), 3, 5, 6], torch.float32), d.one(2, (1, 3)))
    diagonal = torch.einsum("ii", torch.full((3, 3), 100, dtype=torch.int8))
    return [
        diagonal,
        torch.einsum(d.one("ij->i", "ij->ji", "ij->"), x),
        torch.einsum(d.one("ik,j->ij", "ij,j->i"), x, x[0]),
        x.sum().to(x.dtype).sum_to_size(()),
        torch.linalg.vander(x[0]),
        columns,
        torch.isreal(x),
    ]


@entry
def masks_of_nothing(d: Draw) -> Any:
    """Places for all, or none, of what a tensor has, which may be nothing."""
    x = d.tensor([3, 4])
    mask = d.tensor([3, 4], torch.bool) if d.rng.random() < 0.5 else torch.zeros(3, 4, dtype=torch.bool)
    source = d.tensor([int(mask.sum())], x.dtype)
    return x.masked_scatter(mask, source)


@entry
def margins_in_half(d: Draw) -> Any:
    shape = d.shape(1, 3)
    x, y = d.tensor(shape, torch.float16), torch.sign(d.tensor(shape, torch.float16))
    return [F.soft_margin_loss(x * 6, y, reduction=r) for r in ("none", "mean", "sum")]


def main() -> None:
    record(CALLS, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "_linalg_eigh", "_linalg_svd", "promote_types")


if __name__ == "__main__":
    main()


@entry
def antialiased(d: Draw) -> Any:
    """Images of bytes and of floats by sizes and by factors with a rest, corners on corners or not."""
    kind = d.one(torch.uint8, torch.uint8, torch.float32)
    x = d.tensor([d.one(1, 2), d.one(1, 3, 5), 7, 9], torch.float32, positive=True) * 60
    x = x.clamp(max=255).to(kind)
    by = d.one({"size": (d.one(2, 5, 13), d.one(3, 9, 11))}, {"scale_factor": (d.one(0.6, 1.7), d.one(0.3, 1.0, 2.3))})
    mode, corners = d.one("bilinear", "bicubic"), bool(d.one(True, False))
    return [
        F.interpolate(x, mode=mode, align_corners=corners, antialias=True, **by),
        F.interpolate(x, mode=mode, align_corners=corners, **by),
    ]
