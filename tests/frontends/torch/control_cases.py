"""Runs in the environment that has torch: exported programs whose graphs hold graphs, and what open sizes may become.

``python -m tests.frontends.torch.control_cases OUT`` writes ``OUT-NAME.pt2`` and ``OUT-NAME.npz`` with several runs.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812

from tests.frontends.torch.fused_cases import Function


def repeated(part: nn.Module, x: Tensor, times: Tensor) -> Any:
    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, x: i < times, lambda i, x: (i + 1, torch.tanh(part(x)) + i), (start, x))


def backwards(x: Tensor, h: Tensor) -> Any:
    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(h + x)
        return h.clone(), (h * 2).clone()

    return scan(step, h, x, dim=1, reverse=True)


def attention(q: Tensor, mask: Tensor) -> Tensor:
    """Some queries see nothing."""
    added = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    return F.scaled_dot_product_attention(q, q, q, mask) + F.scaled_dot_product_attention(q, q, q, added)


def lowered(part: nn.Module, x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = part(x)
    return y.dtype.itemsize * 1 + y.float(), y * 0


def windows(x: Tensor) -> Any:
    return x.unfold(1, 4, 2).sum(-1), x.unfold(1, 3, 1)[:, ::2]


def chunks(x: Tensor) -> Any:
    a, b, c = x.chunk(3, 1)
    return a + 1, torch.cat([b, c * 2], 1), x.mT.chunk(2)[1] * 3


def by_sizes(x: Tensor, y: Tensor) -> Tensor:
    """What becomes of it hangs on sizes, of which torch notes what it found."""
    if x.shape[1] > 10:
        x = x * 2
    if y.shape[0] != 5 and y.shape[1] % 2 == 0:
        x = x + 1
    if x.shape[0] * 2 <= y.shape[1]:
        x = x - 3
    return x[:, : int(y.shape[1] * 0.7)] + y.sum()


def moved_by_sizes(x: Tensor, y: Tensor) -> Any:
    """Diagonals, as of masks beside a cache, and turns that follow from sizes."""
    seen = torch.ones(x.shape[1], y.shape[1], dtype=torch.bool).tril(y.shape[1] - x.shape[1])
    return seen, x.roll((x.shape[1] // 2, -1), (1, 0)), y.roll(-y.shape[0] - 1), torch.triu(y, x.shape[0] - 2)


class Counted(nn.Module):
    """Sums what it is given, in ways that hang on how much that is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0) * (2 if x.shape[0] > 3 else 1))
        return self.total + x


def gated(a: Tensor, x: Tensor) -> Any:
    """A linear recurrence, and running maxima from the end."""
    state = associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, x), 1, combine_mode="generic")
    return state[1], associative_scan(torch.maximum, x, 2, reverse=True, combine_mode="generic")


def masks(x: Tensor, seen: Tensor) -> Any:
    """As transformers makes masks: functions of numbers, over heads, texts, queries and keys."""
    places, batch = torch.arange(x.shape[1]), torch.arange(x.shape[0])

    def visible(b: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (q - k < 4) & torch.ops.aten.index.Tensor(seen, [b, k]) | (q == k).any()

    found = visible
    for axes in ((None, None, 0), (None, 0, None), (0, None, None)):
        found = torch.vmap(found, in_dims=axes)
    mask = found(batch, places, places)
    return mask, x.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def mapped_rows(x: Tensor, y: Tensor) -> Any:
    """Reductions, axes and parts of what nobody sees the batch of."""

    def one(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (a * b).sum(0) + b[0], torch.softmax(a, -1).unsqueeze(0) - b.mean(), torch.where(a > 0, a, b)[1:]

    return torch.vmap(one, in_dims=(1, None))(x, y)


def ranked_rows(x: Tensor) -> Any:
    """Operators whose axis is not their second argument, or is left out."""

    def one(a: Tensor) -> tuple[Tensor, ...]:
        return *torch.topk(a, 2), torch.topk(a, 2, 0)[1], torch.sort(a)[0], a.var(False), a.std(), a.prod()

    return torch.vmap(one)(x)


class Alternating(nn.Module):
    """A condition in each turn, whose only result is read there."""

    def forward(self, h: Tensor, x: Tensor) -> Any:
        def turn(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.cond(h.sum() > 0, lambda h, x: torch.tanh(h - x), lambda h, x: h * 0.5 + x, (h, x))
            return h, h * 2

        return scan(turn, h, x, dim=0)


def resized(x: Tensor) -> Any:
    return F.interpolate(x, scale_factor=(0.7, 0.3), mode="bilinear", align_corners=True)


def empty(x: Tensor) -> Any:
    return (x > 0).any(), (x > 0).any(0), (x > 0).all(0), x.sum(0), torch.cat([x, x])


def cases() -> dict[str, tuple[nn.Module, list[tuple[Tensor, ...]], Any]]:
    noise = torch.randn
    open_size = Dim("n", min=2, max=99)
    sees = torch.rand(2, 1, 5, 5) > 0.4
    sees[0, 0, 2] = False
    return {
        "while": (Function(repeated, nn.Linear(4, 4)), [(noise(3, 4), torch.tensor(n)) for n in (3, 0, 7)], None),
        "map": (
            Function(lambda x, y: mapped(lambda a, y: a @ y, x, y)), [(noise(n, 3, 4), noise(4, 2)) for n in (5, 8)],
            (({0: open_size}, None),),
        ),
        "scan": (Function(backwards), [(noise(3, 5), noise(3))], None),
        "attention": (Function(attention), [(noise(2, 4, 5, 8), sees)], None),
        "autocast": (Function(lowered, nn.Linear(4, 4)), [(noise(2, 4),)], None),
        "windows": (Function(windows), [(noise(2, n),) for n in (9, 14)], (({1: Dim("n", min=6, max=99)},),)),
        "chunks": (Function(chunks), [(noise(2, n),) for n in (9, 8, 12)], (({1: Dim.AUTO},),)),
        "gated": (Function(gated), [(torch.rand(2, 9, 3), noise(2, 9, 3))], None),
        "masks": (
            Function(masks), [(noise(b, n, 5), torch.rand(b, n) > 0.3) for b, n in ((2, 7), (3, 12), (4, 3))],
            (({0: Dim("b", min=2, max=99), 1: open_size}, {0: Dim("b", min=2, max=99), 1: open_size}),),
        ),
        "rows": (Function(mapped_rows), [(noise(3, 5, 4), noise(3, 4))], None),
        "ranked": (Function(ranked_rows), [(noise(5, 4, 3),)], None),
        "turns": (Alternating(), [(noise(3), noise(n, 3)) for n in (6, 4)], (None, {0: Dim.AUTO})),
        "resized": (
            Function(resized), [(noise(1, 2, *n),) for n in ((10, 20), (30, 10), (7, 11))],
            (({2: Dim.AUTO, 3: Dim.AUTO},),),
        ),
        "sizes": (
            Function(by_sizes), [(noise(4, 12), noise(3, 4)), (noise(9, 11), noise(8, 4)), (noise(3, 20), noise(1, 4))],
            (({0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}),),
        ),
        "moved": (
            Function(moved_by_sizes), [(noise(n, 2 * n), noise(4, m)) for n, m in ((5, 12), (4, 3), (3, 7))],
            (({0: Dim.AUTO, 1: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}),),
        ),
        "counted": (Counted(), [(noise(n, 4),) for n in (5, 4, 9)], ({0: Dim.AUTO},)),
        "empty": (Function(empty), [(noise(n, 4),) for n in (3, 1, 0)], (({0: Dim("n", min=0, max=99)},),)),
    }  # fmt: skip


def flat(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def main() -> None:
    out = sys.argv[1]
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    for name, (module, runs, dynamic) in cases().items():
        torch.export.save(torch.export.export(module.eval(), runs[0], dynamic_shapes=dynamic), f"{out}-{name}.pt2")
        arrays: dict[str, np.ndarray] = {}
        for i, given in enumerate(runs):
            arrays |= {f"{i}_in_{k}": t.numpy() for k, t in enumerate(given)}
            arrays |= {f"{i}_out_{k}": t.float().numpy() for k, t in enumerate(flat(module(*given)))}
        np.savez(f"{out}-{name}.npz", **arrays)


if __name__ == "__main__":
    main()
