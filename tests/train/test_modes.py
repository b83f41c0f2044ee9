"""What a training leaves behind: the modes of modules, and losses of validations of what the model is then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN

F, nn, train = MNN.expr, MNN.nn, MNN.train


class Frozen(nn.Module):
    """A network whose normalisation stays in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.linear(3, 4), nn.batch_norm(4, 2), nn.linear(4, 1)
        self.norm.train(False)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def _data(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(np.float32)
    return x, x.reshape(len(x), -1).sum(1, keepdims=True).astype(np.float32)


@pytest.mark.parametrize("what", ["evaluate", "export", "save_program"])
def test_each_module_is_in_the_mode_that_it_was_in(what: str, tmp_path: Path) -> None:
    model, (x, y) = Frozen(), _data((8, 3))
    if what == "evaluate":
        train.evaluate(model, (x, y), metrics=())
    elif what == "export":
        train.export(model, tmp_path / "model.mnn", [1, 3])
    else:
        train.save_program(tmp_path / "step.mnn", model, MNN.optim.SGD(model), x, y)
    assert [m.is_training for m in (model, model.first, model.norm, model.last)] == [True, True, False, True]


@pytest.mark.parametrize("whole", [True, False])
def test_layers_in_inference_mode_stay_so(whole: bool, tmp_path: Path) -> None:
    """A model that is in inference mode as a whole is trained as a whole."""
    model, (x, y) = Frozen(), _data((16, 3))
    if not whole:
        model.train(False)
    before = [v.read() for v in model.norm.statistics]
    optimizer = MNN.optim.SGD(model, 0.01)
    train.save_program(tmp_path / "step.mnn", model, optimizer, x[:8], y[:8])
    program = train.TrainingProgram.load(tmp_path / "step.mnn")
    losses = [program.step(x[:8], y[:8]) for _ in range(2)]
    found = train.fit(model, (x[:8], y[:8]), 2, optimizer=optimizer, batch_size=8, validation=(x, y), progress=False)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-5)  # samples come in another order
    assert [m.is_training for m in (model, model.first, model.norm, model.last)] == [True, True, not whole, True]
    kept = [np.array_equal(a, v.read()) for a, v in zip(before, model.norm.statistics, strict=True)]
    assert kept == [whole] * 2


def test_validations_of_integers_are_of_the_weights_of_their_epoch() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.conv(1, 2, 3), nn.linear(32, 1)

        def forward(self, x):
            return self.last(F.reshape(F.convert(F.relu(self.conv(x)), F.NCHW), [-1, 32]))

    nn.seed(0)
    model, data = Net(), _data((8, 1, 6, 6))
    nn.compress.train_quant(model, 4)
    history = train.fit(
        model, data, 3, optimizer=MNN.optim.SGD(model, 0.02), batch_size=8, validation=data, progress=False
    )
    now = train.evaluate(model, data, metrics=())["loss"]
    assert history.epochs[-1].validation["loss"] == pytest.approx(now, rel=1e-5)
    assert history.epochs[0].validation["loss"] != pytest.approx(now, rel=1e-2)


def test_statistics_of_a_program_stay_where_the_loss_is_no_number(tmp_path: Path) -> None:
    model, (x, y) = Frozen(), _data((8, 3))
    model.norm.train(True)
    train.save_program(tmp_path / "step.mnn", model, MNN.optim.SGD(model, 0.01), x, y)
    program = train.TrainingProgram.load(tmp_path / "step.mnn")
    program.step(x, y)
    before, answer = program.numbers, program.predict(x)
    with pytest.raises(MNN.errors.RunError, match="left as they were"):
        program.step(x * np.float32(np.nan), y)
    for name, array in program.numbers.items():
        np.testing.assert_array_equal(array, before[name], name)
    np.testing.assert_array_equal(program.predict(x), answer)
    program.step(x, y)
    assert any(not np.array_equal(program.numbers[name], array) for name, array in before.items())


def test_a_checkpoint_of_other_moments_changes_nothing(tmp_path: Path) -> None:
    path, data = tmp_path / "training.npz", _data((8, 3))
    first = Frozen()
    train.fit(first, data, 1, optimizer=MNN.optim.ADAM(first, 0.1, amsgrad=True), checkpoint=path, progress=False)
    model = Frozen()
    optimizer, before = MNN.optim.ADAM(model, 0.1), {n: v.read() for n, v in model.named_parameters().items()}
    with pytest.raises(MNN.errors.MNNError, match="of another optimizer"):
        train.fit(model, data, 2, optimizer=optimizer, checkpoint=path, progress=False)
    assert optimizer.steps == 0
    for name, var in model.named_parameters().items():
        np.testing.assert_array_equal(var.read(), before[name], name)


def test_running_statistics_are_those_of_the_numbers_that_were_normalised() -> None:
    """Of a last batch that is smaller, too: the variance is divided by n, as MNN's is, not by n - 1 as torch's."""

    class Net(Frozen):
        def __init__(self) -> None:
            super().__init__()
            self.norm.train(True)

        def forward(self, x):
            return self.last(self.norm(F.concat([x, x[:, :1]], 1)))

    model, (x, y) = Net(), _data((8, 3))
    train.fit(model, MNN.data.DataLoader(MNN.data.ArrayDataset(x, y), 5, shuffle=False), progress=False)
    mean, variance = np.zeros(4), np.ones(4)
    for part in (x[:5], x[5:]):
        wide = np.concatenate([part, part[:, :1]], 1)
        mean, variance = 0.99 * mean + 0.01 * wide.mean(0), 0.99 * variance + 0.01 * wide.var(0)
    np.testing.assert_allclose(model.norm.running_mean.read(), mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(model.norm.running_variance.read(), variance, rtol=1e-6)
