"""A detector of the YOLOv8-nano shape: CSP backbone, two-way feature pyramid, anchor-free head; input 640.

Written from the published description of the layout (channels, depths and strides), not from any implementation. The
head decodes a distribution over 16 distances per box side (Li et al. 2020, "Generalized Focal Loss") and ends, as
exported detectors do, in [batch, 4 + classes, anchors] with boxes as centre and size in pixels.
"""

from __future__ import annotations

import torch
from torch import nn

from .layers import conv_norm
from .weights import noise, randomise

STRIDES = (8, 16, 32)
BINS = 16
CLASSES = 80


def _conv(cin: int, cout: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    return conv_norm(cin, cout, kernel, stride, act=nn.SiLU, eps=1e-3)


class Bottleneck(nn.Module):
    def __init__(self, channels: int, shortcut: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(channels, channels, 3), _conv(channels, channels, 3))
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.shortcut else self.body(x)


class SplitStage(nn.Module):
    """Cross-stage-partial block that keeps the output of every bottleneck for its last 1x1."""

    def __init__(self, cin: int, cout: int, depth: int, shortcut: bool) -> None:
        super().__init__()
        half = cout // 2
        self.enter = _conv(cin, cout)
        self.steps = nn.ModuleList(Bottleneck(half, shortcut) for _ in range(depth))
        self.leave = _conv(half * (2 + depth), cout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for step in self.steps:
            parts.append(step(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class PyramidPool(nn.Module):
    """Three chained 5x5 max pools, joined with their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = _conv(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.leave = _conv(2 * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.enter(x)]
        for _ in range(3):
            levels.append(self.pool(levels[-1]))
        return self.leave(torch.cat(levels, 1))


class Detector(nn.Module):
    def __init__(self, size: int = 640) -> None:
        super().__init__()
        self.to8 = nn.Sequential(
            _conv(3, 16, 3, 2),
            _conv(16, 32, 3, 2),
            SplitStage(32, 32, 1, True),
            _conv(32, 64, 3, 2),
            SplitStage(64, 64, 2, True),
        )
        self.to16 = nn.Sequential(_conv(64, 128, 3, 2), SplitStage(128, 128, 2, True))
        self.to32 = nn.Sequential(_conv(128, 256, 3, 2), SplitStage(256, 256, 1, True), PyramidPool(256))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge16 = SplitStage(256 + 128, 128, 1, False)
        self.merge8 = SplitStage(128 + 64, 64, 1, False)
        self.down16 = _conv(64, 64, 3, 2)
        self.out16 = SplitStage(64 + 128, 128, 1, False)
        self.down32 = _conv(128, 128, 3, 2)
        self.out32 = SplitStage(128 + 256, 256, 1, False)
        widths = (64, 128, 256)
        self.boxes = nn.ModuleList(self._tower(w, 64, 4 * BINS) for w in widths)
        self.scores = nn.ModuleList(self._tower(w, CLASSES, CLASSES) for w in widths)
        centres, strides = _anchors(size)
        self.register_buffer("centres", centres)
        self.register_buffer("strides", strides)
        self.register_buffer("distances", torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1))

    @staticmethod
    def _tower(cin: int, hidden: int, cout: int) -> nn.Sequential:
        return nn.Sequential(_conv(cin, hidden, 3), _conv(hidden, hidden, 3), nn.Conv2d(hidden, cout, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p8 = self.to8(x)
        p16 = self.to16(p8)
        p32 = self.to32(p16)
        m16 = self.merge16(torch.cat([self.up(p32), p16], 1))
        n8 = self.merge8(torch.cat([self.up(m16), p8], 1))
        n16 = self.out16(torch.cat([self.down16(n8), m16], 1))
        n32 = self.out32(torch.cat([self.down32(n16), p32], 1))
        levels = (n8, n16, n32)
        boxes = torch.cat([t(f).flatten(2) for t, f in zip(self.boxes, levels, strict=True)], 2)
        scores = torch.cat([t(f).flatten(2) for t, f in zip(self.scores, levels, strict=True)], 2)
        return torch.cat([self._decode(boxes), scores.sigmoid()], 1)

    def _decode(self, boxes: torch.Tensor) -> torch.Tensor:
        """Expected distance to each side, then corner pairs to centre and size, in pixels."""
        sides = boxes.view(boxes.size(0), 4, BINS, -1).transpose(1, 2).softmax(1)
        sides = (sides * self.distances).sum(1)
        low, high = self.centres - sides[:, :2], self.centres + sides[:, 2:]
        return torch.cat([(low + high) / 2, high - low], 1) * self.strides


def _anchors(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cell centres [1, 2, anchors] in cells of their own level, and strides [1, 1, anchors]."""
    centres, strides = [], []
    for stride in STRIDES:
        n = size // stride
        line = torch.arange(n, dtype=torch.float32) + 0.5
        y, x = torch.meshgrid(line, line, indexing="ij")
        centres.append(torch.stack([x, y]).flatten(1))
        strides.append(torch.full((1, n * n), float(stride)))
    return torch.cat(centres, 1)[None], torch.cat(strides, 1)[None]


def yolov8n_like(seed: int = 0) -> nn.Module:
    return randomise(Detector(), seed, noise(seed + 1, 2, 3, 640, 640))
