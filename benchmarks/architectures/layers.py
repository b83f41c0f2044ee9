"""Pieces that several convolution networks share."""

from __future__ import annotations

import torch
from torch import nn


def conv_norm(
    cin: int,
    cout: int,
    kernel: int | tuple[int, int] = 1,
    stride: int = 1,
    *,
    groups: int = 1,
    padding: int | tuple[int, int] | None = None,
    act: type[nn.Module] | None = nn.ReLU,
    eps: float = 1e-5,
) -> nn.Sequential:
    """Convolution without bias, batch norm, activation; padding defaults to half the kernel."""
    if padding is None:
        padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    layers: list[nn.Module] = [
        nn.Conv2d(cin, cout, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(cout, eps=eps),
    ]
    if act is not None:
        layers.append(act())
    return nn.Sequential(*layers)


def round_channels(channels: float, divisor: int = 8) -> int:
    """Nearest multiple of ``divisor`` that is not more than 10 % below ``channels`` (MobileNetV2 paper's code rule)."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class Head(nn.Module):
    """Global average pool, then a linear classifier."""

    def __init__(self, channels: int, classes: int = 1000) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(channels, classes)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.linear(self.pool(x).flatten(1))


class SqueezeExcite(nn.Module):
    """Channel gate from the global mean: 1x1 to ``hidden``, ``act``, 1x1, ``gate`` (Hu et al. 2018)."""

    def __init__(
        self, channels: int, hidden: int, gate: type[nn.Module] = nn.Sigmoid, act: type[nn.Module] = nn.ReLU
    ) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, hidden, 1), act(), nn.Conv2d(hidden, channels, 1), gate()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)
