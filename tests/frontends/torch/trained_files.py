"""Runs in the environment that has torch: EfficientNet-Lite0 as ``-net.pt`` (TorchScript) and ``-net.pt2``.

``python -m tests.frontends.torch.trained_files OUT WEIGHTS``
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from benchmarks.export_trained import efficientnet_lite0


def main() -> None:
    out, weights = sys.argv[1:3]
    model, x = efficientnet_lite0(Path(weights)), torch.zeros(1, 3, 224, 224)
    torch.jit.trace(model, x).save(f"{out}-net.pt")
    torch.export.save(torch.export.export(model, (x,)), f"{out}-net.pt2")


if __name__ == "__main__":
    main()
