"""Losses that are scaled: powers of two change nothing, what is too large is left out, and training goes on exactly."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from MNN.backends.cpu import low_precision
from MNN.errors import MNNError, RunError
from MNN.ir.dtype import DType
from MNN.optim import scaling

F, nn, optim = MNN.expr, MNN.nn, MNN.optim


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.linear(5, 3)

    def forward(self, x):
        return F.tanh(self.dense(x))


def data(k):
    return F.const(np.random.default_rng(k).normal(size=(4, 5)).astype(np.float32), [4, 5])


def trained(factor=1.0, steps=6, begin=None, **options):
    """Parameters and the optimizer after some losses, those of odd numbers times ``factor``."""
    nn.seed(4)
    model = Line()
    made = optim.ADAM(model, 0.01, **options)
    if begin is not None:
        made.scale.now = begin
    for k in range(steps):
        made.step(F.reduce_sum(F.square(model(data(k)))) * (factor if k % 2 else 1.0))
    return [v.read() for v in model.parameters], made


@pytest.mark.parametrize("options", [{}, {"accumulate": 2, "clip_norm": 0.1}, {"activation_memory": 1 << 20}])
@pytest.mark.parametrize("scale", [2.0**-20, 1024.0, "dynamic"])
def test_powers_of_two_change_nothing(scale, options):
    plain, _ = trained(**options)
    found, made = trained(loss_scale=scale, **options)
    assert all(np.array_equal(a, b) for a, b in zip(found, plain, strict=True))
    assert made.steps == 6 // options.get("accumulate", 1)


def test_a_scale_that_is_too_large_is_halved_until_it_is_not():
    """Gradients of losses near the largest float: these losses are left out, which are no steps."""
    found, made = trained(1e36, 12, 2.0**24, loss_scale="dynamic")
    assert made.scale.left_out == 6
    assert made.scale.now == 2.0**18
    assert made.steps == 6
    assert all(np.isfinite(a).all() for a in found)
    nn.seed(4)
    model = Line()
    even = optim.ADAM(model, 0.01)
    for k in range(0, 12, 2):
        even.step(F.reduce_sum(F.square(model(data(k)))))
    assert all(np.array_equal(a, v.read()) for a, v in zip(found, model.parameters, strict=True))


def test_a_step_all_of_whose_losses_are_left_out_is_none():
    """Moments and the number of the step stay; of a step that has one loss at least, that one counts."""
    nn.seed(4)
    model = Line()
    made = optim.ADAM(model, 0.01, accumulate=2, loss_scale="dynamic")
    made.scale.now = 2.0**24
    numbers = []
    for k, factor in enumerate([1.0, 1.0, 1e36, 1e36, 1e36, 1.0, 1.0, 1e36]):
        made.step(F.reduce_sum(F.square(model(data(k)))) * factor)
        numbers.append([v.read() for v in model.parameters])
        if k == 4:
            again = optim.ADAM(model, 0.01, accumulate=2, loss_scale="dynamic")
            again.load_state(made.state())
            made = again
    moved = [not np.array_equal(a[0], b[0]) for a, b in zip(numbers[1::2], numbers[3::2], strict=False)]
    assert (made.steps, moved) == (3, [False, True, True])


@pytest.mark.parametrize(("scale", "within"), [(2.0**16, 0.01), ("dynamic", 0.01), (None, None)])
def test_small_gradients_in_f16(monkeypatch, scale, within):
    """They vanish between kernels, unless their loss is scaled; what they are divided by does not make them vanish."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.linear(64, 128), nn.linear(128, 96)

        def forward(self, x):
            return self.last(F.tanh(self.first(x)))

    def moved(**options):
        nn.seed(4)
        model = Two()
        before = [v.read().copy() for v in model.parameters]
        x, y = (np.random.default_rng(5).normal(size=(80, n)).astype(np.float32) for n in (64, 96))
        loss = F.reduce_sum(F.square(model(F.const(x, [80, 64])) - F.const(y, [80, 96]))) * 1e-8
        optim.SGD(model, 1e5, **options).step(loss)
        return [v.read() - a for v, a in zip(model.parameters, before, strict=True)]

    wanted = moved(precision="high")
    monkeypatch.setattr(low_precision, "storage", lambda target, precision: DType.F16 if precision == "low" else None)
    found = moved(precision="low", loss_scale=scale)
    errors = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, wanted, strict=True)]
    assert max(errors) <= within if within else max(errors) > 0.2


def test_a_scale_that_is_given_stays(monkeypatch):
    with pytest.raises(RunError, match=r"step 2: gradients of the loss .* are not finite"):
        trained(1e34, loss_scale=2.0**20)
    monkeypatch.setattr(scaling, "GROWS_AFTER", 3)
    assert trained(loss_scale="dynamic")[1].scale.now == 4 * scaling.FIRST
    assert trained(loss_scale=8.0)[1].scale.now == 8.0


def test_no_scale_helps():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = F.const(np.zeros(3, np.float32), [3])

        def forward(self, x):
            return F.reduce_sum(F.sqrt(self.w * x))

    model = Root()
    made = optim.SGD(model, 0.1, loss_scale="dynamic")
    while made.scale.now > scaling.LEAST:
        made.step(model(np.ones(3, np.float32)))
    with pytest.raises(RunError, match=r"gradients are infinite or NaN with a loss scale of .* too"):
        made.step(model(np.ones(3, np.float32)))
    assert not model.w.read().any()


def test_it_goes_on_from_a_state(tmp_path):
    _, made = trained(1e36, 5, 2.0**24, loss_scale="dynamic")
    state = made.state()
    again = optim.ADAM(made.module, 0.01, loss_scale="dynamic")
    again.load_state(state)
    assert (again.scale.now, again.scale.good) == (made.scale.now, made.scale.good)
    x, y = np.zeros((4, 5), np.float32), np.zeros((4, 3), np.float32)
    with pytest.raises(MNNError, match="no loss scale that changes"):
        MNN.train.save_program(tmp_path / "step.mnn", made.module, again, x, y)
    fixed = optim.ADAM(made.module, 0.01, loss_scale=64.0)
    MNN.train.save_program(tmp_path / "step.mnn", made.module, fixed, x + 1, y)
    program = MNN.train.TrainingProgram.load(tmp_path / "step.mnn")
    wanted = MNN.train.fit(made.module, (x + 1, y), 3, optimizer=fixed, batch_size=4, progress=False).losses
    assert [program.step(x + 1, y) for _ in range(3)] == wanted
