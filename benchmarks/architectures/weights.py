"""Seeded random weights that keep activations in the range a trained network has."""

from __future__ import annotations

import math

import torch
from torch import nn


def randomise(model: nn.Module, seed: int, *calibration: torch.Tensor) -> nn.Module:
    """Give ``model`` random weights and return it in evaluation mode.

    Convolutions and linear layers get zero-mean weights of variance gain/fan-in (He et al. 2015), recurrent layers
    uniform ones within 1/sqrt(width). Batch norms get scales in 0.5..1.5 and shifts of deviation 0.2, and their running
    statistics are *measured* on the calibration inputs layer by layer, as training would leave them, so that no
    activation explodes or dies out.
    """
    generator = torch.Generator().manual_seed(seed)
    norms = [m for m in model.modules() if isinstance(m, (nn.BatchNorm2d, nn.BatchNorm3d))]
    with torch.no_grad():
        for module in model.modules():
            _fill(module, generator)
        if norms:
            for norm in norms:
                norm.momentum = None  # cumulative mean instead of a moving one
                norm.reset_running_stats()
            model.train()
            model(*calibration)
    return model.eval()


def noise(seed: int, *shape: int) -> torch.Tensor:
    """Standard normal float32 data of the given shape, for calibration."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _fill(module: nn.Module, generator: torch.Generator) -> None:
    if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d)):
        fan_in = module.weight[0].numel()
        if module.transposed:  # each output sees one in stride^2 of the kernel's places
            places = math.prod(module.kernel_size) / math.prod(module.stride)
            fan_in = round(module.in_channels // module.groups * places)
        module.weight.normal_(0.0, math.sqrt(2.0 / fan_in), generator=generator)
        if module.bias is not None:
            module.bias.normal_(0.0, 0.05, generator=generator)
    elif isinstance(module, nn.Linear):
        module.weight.normal_(0.0, math.sqrt(1.0 / module.in_features), generator=generator)
        if module.bias is not None:
            module.bias.normal_(0.0, 0.05, generator=generator)
    elif isinstance(module, nn.Embedding):
        module.weight.normal_(0.0, 0.5, generator=generator)
    elif isinstance(module, nn.RNNBase):  # LSTM and GRU
        bound = 1.0 / math.sqrt(module.hidden_size)
        for weight in module.parameters():
            weight.uniform_(-bound, bound, generator=generator)
    elif isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm)):
        module.weight.uniform_(0.5, 1.5, generator=generator)
        module.bias.normal_(0.0, 0.2, generator=generator)
