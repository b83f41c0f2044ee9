"""Runs where torch is: steps of training, as the drivers of the tests make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch


def steps(optimizer: torch.optim.Optimizer, losses: Iterable[Callable[[], torch.Tensor]]) -> Iterator[float]:
    """A step for each loss: the losses before it."""
    for loss in losses:
        found = loss()
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        yield found.item()
