"""Video networks: 3-D ResNet-18 and R(2+1)D-18 (Tran et al. 2018, arXiv:1711.11248), X3D-M (Feichtenhofer 2020,
arXiv:2004.04730), on clips of 16 pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from .layers import round_channels
from .weights import noise, randomise

Make = Callable[[int, int, int, bool], nn.Module]
"""A 3x3x3 convolution of some kind: channels in and out, stride, whether an activation follows."""


def conv_norm_3d(
    cin: int,
    cout: int,
    kernel: Sequence[int] = (1, 1, 1),
    stride: int | Sequence[int] = 1,
    *,
    groups: int = 1,
    act: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution without bias, batch norm, activation; borders of half the kernel."""
    steps = (stride,) * 3 if isinstance(stride, int) else tuple(stride)
    pads = tuple(k // 2 for k in kernel)
    layers: list[nn.Module] = [
        nn.Conv3d(cin, cout, tuple(kernel), steps, pads, groups=groups, bias=False),  # type: ignore[arg-type]
        nn.BatchNorm3d(cout),
    ]
    return nn.Sequential(*layers, *([act()] if act is not None else []))


class Head3d(nn.Module):
    """Mean of all pixels of all pictures, then a linear classifier."""

    def __init__(self, channels: int, classes: int = 400) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool3d(1)
        self.linear = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.pool(x).flatten(1))  # type: ignore[no-any-return]


class Residual3d(nn.Module):
    """relu(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, cin: int, cout: int, stride: int | Sequence[int]) -> None:
        super().__init__()
        self.body = body
        changes = stride not in (1, (1, 1, 1)) or cin != cout
        self.shortcut = conv_norm_3d(cin, cout, stride=stride, act=None) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.body(x) + self.shortcut(x)).relu()  # type: ignore[no-any-return]


def _plain(cin: int, cout: int, stride: int, act: bool) -> nn.Module:
    return conv_norm_3d(cin, cout, (3, 3, 3), stride, act=nn.ReLU if act else None)


def _factored(cin: int, cout: int, stride: int, act: bool) -> nn.Module:
    """Windows over pictures, then over time, with as many weights as a 3x3x3 window has."""
    middle = cin * cout * 27 // (cin * 9 + cout * 3)
    return nn.Sequential(
        conv_norm_3d(cin, middle, (1, 3, 3), (1, stride, stride)),
        conv_norm_3d(middle, cout, (3, 1, 1), (stride, 1, 1), act=nn.ReLU if act else None),
    )


def _resnet(seed: int, stem: Sequence[nn.Module], make: Make) -> nn.Module:
    layers, cin = list(stem), 64
    for stage in range(4):
        for k in range(2):
            width, stride = 64 << stage, 2 if stage and k == 0 else 1
            body = nn.Sequential(make(cin, width, stride, True), make(width, width, 1, False))
            layers.append(Residual3d(body, cin, width, stride))
            cin = width
    return randomise(nn.Sequential(*layers, Head3d(cin)), seed, noise(seed + 1, 2, 3, 16, 112, 112))


def resnet3d_18(seed: int = 0) -> nn.Module:
    return _resnet(seed, [conv_norm_3d(3, 64, (3, 7, 7), (1, 2, 2))], _plain)


def r2plus1d_18(seed: int = 0) -> nn.Module:
    stem = [conv_norm_3d(3, 45, (1, 7, 7), (1, 2, 2)), conv_norm_3d(45, 64, (3, 1, 1))]
    return _resnet(seed, stem, _factored)


class Excite3d(nn.Module):
    """Channel gate from the mean of all pixels (Hu et al. 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = round_channels(channels / 16)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool3d(1),
            nn.Conv3d(channels, hidden, 1),
            nn.ReLU(),
            nn.Conv3d(hidden, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)  # type: ignore[no-any-return]


def _x3d_block(cin: int, cout: int, stride: int, excite: bool) -> nn.Module:
    wide, steps = round(cout * 2.25), (1, stride, stride)
    body = nn.Sequential(
        conv_norm_3d(cin, wide),
        conv_norm_3d(wide, wide, (3, 3, 3), steps, groups=wide, act=None),
        Excite3d(wide) if excite else nn.Identity(),
        nn.SiLU(),
        conv_norm_3d(wide, cout, act=None),
    )
    return Residual3d(body, cin, cout, steps)


def x3d_m(seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False),
        conv_norm_3d(24, 24, (5, 1, 1), groups=24),
    ]
    cin = 24
    for width, depth in ((24, 3), (48, 5), (96, 11), (192, 7)):
        for k in range(depth):
            layers.append(_x3d_block(cin, width, 2 if k == 0 else 1, k % 2 == 0))
            cin = width
    layers += [conv_norm_3d(cin, 432), nn.AdaptiveAvgPool3d(1), nn.Conv3d(432, 2048, 1, bias=False), nn.ReLU()]
    return randomise(nn.Sequential(*layers, Head3d(2048)), seed, noise(seed + 1, 2, 3, 16, 160, 160))
