"""Runs in the environment that has torch: what branches and loops change by other names, in place or within containers.

``python -m tests.frontends.torch.branch_cases OUT`` writes ``OUT-NAME.pt`` and ``OUT-NAME.npz`` for each module: inputs
of three numbers, one that takes the branch and one that does not, and torch's answers.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor, nn


class BeganInside(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            v = torch.zeros(3)
            v.add_(1.0)
        else:
            v = torch.ones(3) * 5
        return v + x


class AnotherName(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        if bool(x.sum() > 0):
            y.mul_(2)
            z = y
        else:
            z = x
        return z


class View(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        if bool(x.sum() > 0):
            y.mul_(2)
            z = y[:2]
        else:
            z = x[:2]
        return z


class Dictionary(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        d = {"a": x}
        if bool(x.sum() > 0):
            d["a"] = x * 2
        return d["a"]


class Nested(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        d: dict[str, list[Tensor]] = {"a": [x, x]}
        if bool(x.sum() > 0):
            d["a"][0] = x + 1
        else:
            d["a"][1] = x - 1
        return d["a"][0] * d["a"][1]


class Shared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held: list[Tensor] = [x]
        both = [held, held]
        if bool(x.sum() > 0):
            held[0] = x * 2
        return both[1][0]


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held: list[Tensor] = [torch.ones(3)]

    def forward(self, x: Tensor) -> Tensor:
        self.held[0] = torch.ones(3)
        if bool(x.sum() > 0):
            self.held[0] = x * 2
        return self.held[0] + 1


class Swapped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = [x, x * 2, x * 3]
        if bool(x.sum() > 0):
            held[0], held[1] = held[1], held[0]
            held.reverse()
        return torch.stack(held)


class LoopInPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held: list[Tensor] = [x, x]
        n = 0
        while bool(held[0].sum() < 20) and n < 10:
            held[0] = held[0].abs() * 2
            held[1] = held[1] + n
            n += 1
        return held[0] * held[1]


class LoopAnew(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held: list[Tensor] = [x]
        counts: dict[str, int] = {"a": 1}
        for i in range(int(x.abs().sum())):
            counts["a"] = counts["a"] + i
            held = [held[0] * 0.5]
        return held[0] + counts["a"]


class LoopOfItsOwn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        for _ in range(int(x.abs().sum())):
            t = y.clone()
            t[0] += 1
            t.mul_(0.5)
            y = t
        return y


class LoopWrites(nn.Module):
    """As torchvision's suppression of boxes by class does: what the loop writes lies outside, and has views."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.zeros(3)
        last, same = kept[1:], kept
        for sign in torch.unique(torch.sign(x)):
            at = torch.where(torch.sign(x) == sign)[0]
            kept[at] += x[at] * 2.0
            last.mul_(0.5)
        return torch.cat([kept, last * 3, same + 1])


class LoopWritesNested(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(3)
        n = 0
        while bool(total.sum() < 9) and n < 8:
            total[n % 3] += 1.0
            if bool(x[0] > 0):
                total.add_(x.abs())
            n += 1
        return total + n


@torch.jit.script
class Held:
    def __init__(self, tensor: Tensor, count: int) -> None:
        self.tensor = tensor
        self.count = count

    def more(self) -> Tensor:
        self.tensor = self.tensor + 1.0
        return self.tensor * self.count


class OwnClass(nn.Module):
    """An object that lives in one run alone, with an attribute that the module has too."""

    def __init__(self) -> None:
        super().__init__()
        self.tensor = torch.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        held = Held(x * 2, 3)
        return held.more() + held.more() * self.tensor


class HalfKnown(nn.Module):
    """As torchvision puts images into a batch: the number of images is known, their sizes follow from numbers."""

    def forward(self, x: Tensor) -> Tensor:
        images = [x[: int(x.sum().abs() + 1)]]
        batch = images[0].new_full([len(images), int(torch.ceil(x.sum().abs())) + 4], -1.0)
        for i in range(batch.shape[0]):
            batch[i, : images[i].shape[0]].copy_(images[i])
        return batch


class Numbers(nn.Module):
    """Traced: numbers become tensors of f64 or i64, which types are not promoted to."""

    def forward(self, x: Tensor) -> Tensor:
        third = x.abs().sum() * 3 / 7.0
        return torch.stack([third * 2.5, 160.0 / third, x.to(torch.int32).sum() * 0.1, x.sum() + 2])


MODULES = (
    BeganInside, AnotherName, View, Dictionary, Nested, Shared, Attribute, Swapped, LoopInPlace, LoopAnew, LoopOfItsOwn,
    LoopWrites, LoopWritesNested, OwnClass, HalfKnown,
)  # fmt: skip


def main() -> None:
    out = sys.argv[1]
    for made in (*MODULES, Numbers):
        x = torch.tensor([1.0, 2.0, -0.5])
        module, arrays = torch.jit.trace(made(), x) if made is Numbers else torch.jit.script(made()), {}
        module.save(f"{out}-{made.__name__}.pt")
        for run, x in enumerate((torch.tensor([1.0, 2.0, -0.5]), torch.tensor([-1.0, -2.0, 0.5]))):
            arrays |= {f"x{run}": x.numpy(), f"y{run}": module(x).numpy().copy()}
        np.savez(f"{out}-{made.__name__}.npz", **arrays)


if __name__ == "__main__":
    main()
