"""Runs in the environment that has torch: gradients of networks of drawn blocks.

``python -m tests.autodiff.random_networks OUT FIRST COUNT`` writes ``OUT-SEED.pt2`` and ``OUT-SEED.npz`` for so many
seeds: a network whose parameters are operands, these, and the gradients in float64 of a weighted sum of its answer with
regard to all of them, with how far those in float32 are off. Networks that are of no use are left out.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from tests.frontends.torch.random_modules import judged, network


class Opened(nn.Module):
    """A network that takes its parameters as operands; its statistics are those of the batch, or constants."""

    def __init__(self, module: nn.Module, names: list[str]) -> None:
        super().__init__()
        self._held, self._names = [module], names

    def forward(self, x: Tensor, parameters: list[Tensor]) -> Tensor:
        found: Tensor = functional_call(self._held[0], dict(zip(self._names, parameters, strict=True)), (x,))
        return found


def with_batch_statistics(module: nn.Module) -> None:
    """Batch normalisations compute as they do while they are trained."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean = layer.running_var = None
            layer.track_running_stats = False


def slopes(module: Opened, x: Tensor, parameters: list[Tensor], weight: Tensor) -> list[np.ndarray]:
    """Gradients with regard to the image and the parameters, zeros where the answer does not depend on them."""
    operands = [t.detach().to(weight.dtype).requires_grad_() for t in (x, *parameters)]
    loss = (module(operands[0], operands[1:]) * weight).sum()
    found = torch.autograd.grad(loss, operands, allow_unused=True, materialize_grads=True)
    return [g.numpy() for g in found]


def main() -> None:
    out, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        r = random.Random(seed)
        torch.manual_seed(seed)
        module, channels = network(r)
        if seed % 2:
            with_batch_statistics(module)
        n, h, w = r.choice([1, 2, 3]), r.randint(9, 30), r.randint(9, 30)
        x = torch.randn(n, channels, h, w)
        with torch.no_grad():
            answer = judged(module, x)
        if answer is None:
            continue
        names = [name for name, _ in module.named_parameters()]
        parameters = [p.detach() for _, p in module.named_parameters()]
        opened = Opened(module, names)
        weight = torch.from_numpy(np.random.default_rng(seed).uniform(0.5, 1.5, answer[0].shape))
        rough = slopes(opened, x, parameters, weight.float())
        for buffer in module.buffers():
            buffer.data = buffer.data.double() if buffer.is_floating_point() else buffer.data
        exact = slopes(opened, x, parameters, weight)
        for buffer in module.buffers():
            buffer.data = buffer.data.float() if buffer.is_floating_point() else buffer.data
        if not all(np.isfinite(g).all() for g in exact):
            continue
        torch.export.save(torch.export.export(opened, (x, parameters)), f"{out}-{seed}.pt2")
        arrays = {f"x{i}": t.numpy() for i, t in enumerate((x, *parameters))}
        arrays |= {f"g{i}": g for i, g in enumerate(exact)}
        arrays |= {f"e{i}": np.array(np.abs(g - e).max()) for i, (g, e) in enumerate(zip(rough, exact, strict=True))}
        np.savez(f"{out}-{seed}.npz", weight=weight.float().numpy(), **arrays)


if __name__ == "__main__":
    main()
