"""Activations that are computed again: the same losses, in less memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from MNN.formatting import parse_bytes

F, nn = MNN.expr, MNN.nn


class Deep(nn.Module):
    """Convolutions with batch normalisation and a residual, then gates of several kinds."""

    def __init__(self, width):
        super().__init__()
        self.convolutions = [nn.conv(3 if i == 0 else width, width, 3, 1, 1) for i in range(4)]
        self.norms = [nn.batch_norm(width, momentum=0.9) for _ in range(4)]
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            setattr(self, f"convolution{i}", convolution)
            setattr(self, f"norm{i}", norm)
        self.last = nn.linear(width, 5)

    def forward(self, x):
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = norm(convolution(x))
            y = F.relu(y) if i % 2 else F.gelu(y)
            x = y + x if i else F.sigmoid(y)
        return self.last(F.reduce_mean(F.convert(x, F.NCHW), [2, 3]))


def trained(shape, seed, steps=4, **options):
    """Losses, and bytes that a step works in."""
    nn.seed(seed)
    model = Deep(shape[1])
    optimizer = MNN.optim.SGD(model, 0.05, **options)
    rng = np.random.default_rng(seed)
    batch, _, height, width = shape
    losses = []
    for _ in range(steps):
        x = rng.normal(size=(batch, 3, height, width)).astype(np.float32)
        y = rng.integers(0, 5, batch).astype(np.int32)
        loss = nn.loss.softmax_cross_entropy(model(F.const(x, list(x.shape))), y)
        optimizer.step(loss)
        losses.append(float(loss.read()))
    (program,) = optimizer._programs.values()
    return np.array(losses), program.bound.program.arena_bytes


ALL = 1 << 40
"""More than all activations take."""


@pytest.mark.parametrize("shape", [(4, 16, 24, 24), (3, 9, 31, 17)])
def test_the_same_losses_in_less_memory(shape):
    wanted, whole = trained(shape, 1, activation_memory=ALL)
    size = 4 * np.prod(shape)
    sizes = []
    for budget in (ALL, 16 * size, 12 * size):
        losses, arena = trained(shape, 1, activation_memory=budget)
        assert np.allclose(losses, wanted, rtol=2e-5)
        sizes.append(arena)
    assert sizes[0] == whole
    assert all(b < a for a, b in itertools.pairwise(sizes))
    losses, cheap = trained(shape, 1)
    assert np.allclose(losses, wanted, rtol=2e-5)
    assert cheap < 0.75 * whole


def test_sums_of_gradients_and_limits_with_it():
    shape, options = (2, 16, 15, 15), {"accumulate": 2, "clip_norm": 0.1}
    wanted, whole = trained(shape, 2, **options, activation_memory=ALL)
    losses, arena = trained(shape, 2, **options, activation_memory=12 * 4 * int(np.prod(shape)))
    assert np.allclose(losses, wanted, rtol=2e-5)
    assert arena < whole


def test_what_cannot_be():
    with pytest.raises(MNNError, match=r"activation_memory.*they need at least [\d.]+ [kM]B") as said:
        trained((2, 8, 15, 15), 2, activation_memory=1)
    trained((2, 8, 15, 15), 2, activation_memory=parse_bytes(str(said.value).split("at least ")[1].split(";")[0], "it"))
    with pytest.raises(MNNError, match="at least 1, found 0"):
        trained((2, 8, 15, 15), 2, activation_memory=0)
