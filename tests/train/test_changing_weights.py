"""Products with parameters, which change from step to step, by inner products: steps as numpy makes them in float64."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from MNN.backends.cpu.inner_product.cost import has_inner_product
from MNN.backends.cpu.inner_product.pack import InnerProductPackSpec
from MNN.backends.cpu.inner_product.spec import InnerProductSpec
from MNN.backends.cpu.targets import host_target
from MNN.train.step import Steps

F, nn = MNN.expr, MNN.nn
RATE = 0.05

pytestmark = pytest.mark.usefixtures("without_tiles")


class _Net(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.first, self.second = nn.linear(sizes[0], sizes[1]), nn.linear(sizes[1], sizes[2])

    def forward(self, x):
        return self.second(F.tanh(self.first(x)))


def _step64(numbers: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and what plain gradient descent makes of the parameters."""
    w, b, v, c = (numbers[n].astype(np.float64) for n in ("first.weight", "first.bias", "second.weight", "second.bias"))
    hidden = np.tanh(x @ w.T + b)
    off = hidden @ v.T + c - y
    out = 2 * off / off.size
    inside = (out @ v) * (1 - hidden**2)
    slopes = {
        "first.weight": inside.T @ x, "first.bias": inside.sum(0),
        "second.weight": out.T @ hidden, "second.bias": out.sum(0),
    }  # fmt: skip
    return float(np.square(off).mean()), {n: numbers[n] - RATE * slope for n, slope in slopes.items()}


def _count(optimizer: MNN.optim.SGD, kind: type) -> int:
    """Kernels of a kind in the program of its steps."""
    (program,) = optimizer._programs.values()
    return sum(isinstance(c.kernel, kind) for part in program.bound.parts() for c in part.program.commands)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["usual", "pruned"])
@pytest.mark.parametrize(("batch", "sizes"), [(192, [128, 192, 96]), (250, [150, 130, 66])])
def test_steps(batch: int, sizes: list[int], kind: str, threads: int) -> None:
    rng = np.random.default_rng(batch)
    x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    y = rng.normal(size=(batch, sizes[2])).astype(np.float32)
    nn.seed(3)
    model = _Net(sizes)
    if kind == "pruned":
        for module in (model.first, model.second):
            weight = module.weight.read()
            module.weight.write(np.where(rng.random(weight.shape) < 0.5, weight, 0).astype(np.float32))
    optimizer = MNN.optim.SGD(model, RATE, momentum=0.0, threads=threads)
    steps = Steps(model, optimizer, None)
    data = [F.const(x, list(x.shape))], [F.const(y, list(y.shape))]
    for _ in range(3):
        before = {n: np.array(v.read()).reshape(v.shape) for n, v in model.named_parameters().items()}
        loss, _ = steps.step(*data)
        wanted, after = _step64(before, x, y)
        assert abs(loss - wanted) <= 2e-6 * wanted
        for name, value in model.named_parameters().items():
            moved, right = (np.asarray(v, np.float64) - before[name] for v in (value.read(), after[name]))
            assert np.abs(moved - right).max() <= 3e-6 * np.abs(before[name]).max() + 1e-5 * np.abs(right).max(), name
    target, found = host_target(), _count(optimizer, InnerProductSpec)
    assert found == 3 if has_inner_product(target) and target.vector_bytes == 64 else found in (0, 1, 2, 3)


class _Recurrence(nn.Module):
    """``h = tanh(R h + x)`` for each step of a sequence; a mask is given beside it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.again = nn.linear(width, width, bias=False)

    def forward(self, h, x, keep):
        return F.tanh(self.again(h) + x) * keep


class _Sequence(nn.Module):
    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.cell, self.steps = _Recurrence(width), steps

    def forward(self, x):
        h = F.const(np.zeros(x.shape[::2], np.float32), x.shape[::2])
        for part in F.split(x, [1] * self.steps, 1):
            h = self.cell(h, F.squeeze(part, [1]), keep=0.5)
        return h


def test_steps_of_a_sequence_share_panels() -> None:
    """Weights that every step of a sequence is multiplied by are brought to size once; modules take several inputs."""
    batch, width, steps = 96, 128, 5
    rng = np.random.default_rng(8)
    x = rng.normal(size=(batch, steps, width)).astype(np.float32)
    y = rng.normal(size=(batch, width)).astype(np.float32)
    nn.seed(4)
    model = _Sequence(width, steps)
    (weight,) = model.parameters
    optimizer = MNN.optim.SGD(model, RATE, momentum=0.0, threads=1)
    for _ in range(3):
        before = np.array(weight.read()).reshape(width, width)
        loss, _ = Steps(model, optimizer, None).step([F.const(x, list(x.shape))], [F.const(y, list(y.shape))])
        w, hs, slope = before.astype(np.float64), [np.zeros((batch, width))], np.zeros((width, width))
        for t in range(steps):
            hs.append(np.tanh(hs[-1] @ w.T + x[:, t]) / 2)
        assert abs(loss - np.square(hs[-1] - y).mean()) <= 2e-6 * loss
        g = 2 * (hs[-1] - y) / y.size
        for t in reversed(range(steps)):
            g = g / 2 * (1 - np.square(2 * hs[t + 1]))
            slope += g.T @ hs[t]
            g = g @ w
        moved = np.asarray(weight.read(), np.float64).reshape(before.shape) - before
        assert np.abs(moved + RATE * slope).max() <= 3e-8 + 1e-5 * RATE * np.abs(slope).max()
    assert _count(optimizer, InnerProductPackSpec) <= 2  # forward and backward
