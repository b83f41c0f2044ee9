"""Small modules that remember: buffers, parameters and plain tensors that a run writes (see ``program_cases``)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Counter(nn.Module):
    """Buffers that go on from run to run: one that begins as zeros, one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("steps", torch.tensor([7.0]))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0))
        self.steps.mul_(2)
        return self.total / self.steps


class Held(nn.Module):
    """Tensors that are no buffers, as transformers' caches have them, and one that is made in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.zeros(3), torch.tensor([2.0])]

    def forward(self, x: Tensor) -> Tensor:
        fresh = torch.tensor([1.0, 2.0, 3.0])
        fresh.add_(x[0])
        self.held[0].add_(x.sum(0))
        return self.held[0] * self.held[1] + fresh


class Started(nn.Module):
    """A parameter that is written, and a number that does not begin as 0."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("count", torch.tensor(2.5))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        self.weight.mul_(0.5).add_(x[0])
        return self.weight * self.count


class Beside(nn.Module):
    """Tensors in the same memory: a buffer and a part of it, a tensor and its transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.ones(4, 3))
        self.register_buffer("part", self.whole[1:3])
        self.held = torch.zeros(3, 3)
        self.turned = self.held.t()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.whole.mul_(x.sum(0))
        self.part.add_(1)
        self.turned[0] += x[0]
        return self.whole + self.part.sum(), self.held * 1


class Window(nn.Module):
    """A stream's window: the newest in, the oldest out."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.zeros(1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.cat([self.window, x], 2)
        self.window.copy_(joined[:, :, -4:])
        return joined.mean(2)


class Moving(nn.Module):
    """Normalisations by the batch and by the sample, which move running statistics; these are read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(2):
            self.register_buffer(f"mean{i}", torch.arange(3.0) - i)
            self.register_buffer(f"var{i}", torch.arange(3.0) + 0.5 + i)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = F.batch_norm(x, self.mean0, self.var0, None, None, True, 0.3, 1e-3)
        z = F.instance_norm(x, self.mean1, self.var1, None, None, True, 0.2, 1e-3)
        return y * self.var0[:, None], z + self.mean1[:, None], self.mean0 * 1, self.var1 * 1
