"""Runs in the environment that has torch: networks of drawn blocks, as programs of torch.export.

``python -m tests.frontends.torch.random_modules OUT FIRST COUNT`` writes ``OUT-SEED.pt2`` and ``OUT-SEED.npz`` for so
many seeds: inputs, answers of torch in float64, and how far those in float32 are from them. Heights and widths are open
where the network exports so. Networks that are as far off in float32 already are left out.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.frontends.torch.random_blocks import block

_MOST_PLACES = 2500
_MOST_CHANNELS = 80
_RUNS = 4


def network(r: random.Random) -> tuple[nn.Module, int]:
    """Some blocks one after the other, and the channels of the image."""
    first = channels = r.choice([1, 3, 4, 8, 17])
    layers: list[nn.Module] = []
    for _ in range(r.randint(2, 7)):
        layer, channels = block(channels, r)
        layers.append(layer)
        if channels > _MOST_CHANNELS:
            layers.append(nn.Conv2d(channels, 16, 1))
            channels = 16
    return nn.Sequential(*layers).eval(), first


def judged(module: nn.Module, x: Tensor) -> tuple[np.ndarray, float] | None:
    """The answer in float64, and the error of float32; None where the network is of no use for this input."""
    y = x
    for layer in module.children():
        if y.shape[2] * y.shape[3] > _MOST_PLACES:
            return None
        try:
            y = layer(y)
        except (RuntimeError, ValueError):  # nothing is left of the image
            return None
    exact = module.double()(x.double())
    module.float()
    error = float((y - exact).abs().max() / exact.abs().max().clamp(min=1e-9))
    return (exact.numpy(), error) if error < 1e-4 else None


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    for seed in range(first, first + count):
        r = random.Random(seed)
        torch.manual_seed(seed)
        module, channels = network(r)
        n, h, w = r.choice([1, 1, 2, 3]), r.randint(9, 48), r.randint(9, 48)
        arrays: dict[str, np.ndarray] = {}
        shapes = [(h, w)] + [(h + r.randint(-4, 20), w + r.randint(-4, 20)) for _ in range(_RUNS - 1)]
        example = torch.randn(n, channels, h, w)
        if judged(module, example) is None:
            continue
        try:
            dims = {2: Dim("h", min=4, max=400), 3: Dim("w", min=4, max=400)}
            program = torch.export.export(module, (example,), dynamic_shapes=(dims,))
        except Exception:  # noqa: BLE001 - torch says in many ways that it cannot
            program, shapes = torch.export.export(module, (example,)), shapes[:1] * 2
        for run, shape in enumerate(shapes):
            x = torch.randn(n, channels, *shape)
            found = judged(module, x)
            if found is not None:
                arrays |= {f"x{run}": x.numpy(), f"y{run}": found[0], f"e{run}": np.array(found[1])}
        torch.export.save(program, f"{out}-{seed}.pt2")
        np.savez(f"{out}-{seed}.npz", **arrays)


if __name__ == "__main__":
    main()
