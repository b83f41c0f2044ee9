"""Training programs in files: what goes on from them is what would have gone on without, and needs no Python model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn.write import write_mnn
from tests import zoo
from tests.train.networks import Small

F, nn, train = MNN.expr, MNN.nn, MNN.train
BATCH = 25


class Dropped(Small):
    """With dropout, whose numbers follow from the number of the loss."""

    def __init__(self):
        super().__init__()
        self.drop = nn.dropout(0.3)

    def forward(self, x):
        return super().forward(self.drop(x))


@pytest.fixture(scope="module")
def digits():
    rows = np.loadtxt(zoo.path("digits"), delimiter=",")
    images, labels = (rows[:, :64] / 16).astype(np.float32).reshape(-1, 1, 8, 8), rows[:, 64].astype(np.int32)
    return [(images[i : i + BATCH], labels[i : i + BATCH]) for i in range(0, 30 * BATCH, BATCH)]


OPTIMIZERS = {
    "sgd": lambda model: MNN.optim.SGD(model, 0.05, 0.9, 1e-4),
    "adam": lambda model: MNN.optim.ADAM(model, 3e-3, clip_norm=1.0),
    "adamw": lambda model: MNN.optim.AdamW(model, 3e-3, accumulate=3),
    "lion": lambda model: MNN.optim.Lion(model, 1e-3, clip_value=0.1),
    "rmsprop": lambda model: MNN.optim.RMSprop(model, 1e-3, momentum=0.5),
}


def trained(make, batches):
    """A model after a pass over batches, its optimizer and the losses."""
    nn.seed(3)
    model = Dropped()
    optimizer = make(model)
    losses = [
        loss
        for images, labels in batches
        for loss in train.fit(
            model, MNN.data.DataLoader(MNN.data.ArrayDataset(images, labels), BATCH, False), 1, optimizer=optimizer,
            progress=False,
        ).losses
    ]  # fmt: skip
    return model, optimizer, losses


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_goes_on_as_the_model_would(name, digits, tmp_path):
    model, optimizer, _ = trained(OPTIMIZERS[name], digits[:7])
    train.save_program(tmp_path / "a.mnn", model, optimizer, *digits[0])
    _, _, losses = trained(OPTIMIZERS[name], digits[:20])
    program = train.TrainingProgram.load(tmp_path / "a.mnn")
    found = [program.step(*batch) for batch in digits[7:13]]
    program.export(tmp_path / "model.mnn")
    wanted = program.predict(digits[0][0])
    assert np.abs(MNN.load(str(tmp_path / "model.mnn")).run(digits[0][0])["prediction"] - wanted).max() < 1e-4
    program.save(tmp_path / "b.mnn")
    later = train.TrainingProgram.load(tmp_path / "b.mnn")
    found += [later.step(*batch) for batch in digits[13:20]]
    assert found == losses[7:]
    assert later.steps == (20 if name != "adamw" else 6)


def test_older_files_draw_by_the_number_of_the_step(digits, tmp_path):
    model, optimizer, _ = trained(OPTIMIZERS["adam"], digits[:2])
    train.save_program(tmp_path / "a.mnn", model, optimizer, *digits[0])
    graph = load_graph(tmp_path / "a.mnn")
    inputs = {v.name: v for v in graph.inputs}
    for node in graph.nodes:
        node.inputs = [inputs["time"] if v is inputs["draw"] else v for v in node.inputs]
    graph.inputs.remove(inputs["draw"])
    write_mnn(graph, tmp_path / "older.mnn")
    found, older = (train.TrainingProgram.load(tmp_path / name) for name in ("a.mnn", "older.mnn"))
    assert [older.step(*batch) for batch in digits[2:5]] == [found.step(*batch) for batch in digits[2:5]]


def test_parameters_may_be_called_as_anything_else_in_the_file(tmp_path):
    names = ["rate", "time", "input", "target", "loss", "scale", "steps", "good"]

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            for name in names:
                setattr(self, name, F.const(np.ones(3, np.float32), [3]))
                getattr(self, name).fix_as_trainable()

        def forward(self, x):
            return sum((getattr(self, name) for name in names), x)

    batch = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    model = Named()
    optimizer = MNN.optim.SGD(model, 0.01, loss_scale=8.0, clip_norm=9.0)
    train.save_program(tmp_path / "a.mnn", model, optimizer, *batch)
    train.TrainingProgram.load(tmp_path / "a.mnn").save(tmp_path / "b.mnn")
    program = train.TrainingProgram.load(tmp_path / "b.mnn")
    losses = train.fit(model, batch, 3, optimizer=optimizer, progress=False).losses
    assert [program.step(*batch) for _ in range(3)] == losses
    assert {n for n in program.numbers if "momentum" not in n} == {*(f"model.{n}" for n in names[:-1]), names[-1]}


def test_gradients_that_are_infinite_are_told_of_as_by_the_optimizer(tmp_path):
    model = nn.linear(3, 1)
    optimizer = MNN.optim.SGD(model, 0.01, loss_scale=2.0**126)
    inputs, targets = np.full((2, 3), 1e6, np.float32), np.zeros((2, 1), np.float32)
    train.save_program(tmp_path / "a.mnn", model, optimizer, inputs, targets)
    program = train.TrainingProgram.load(tmp_path / "a.mnn")
    before = program.numbers
    with pytest.raises(MNNError, match=r"step 1: gradients of the loss .* are not finite; the parameters are left"):
        program.step(inputs, targets)
    assert program.steps == 0
    assert all(np.array_equal(a, program.numbers[name]) for name, a in before.items())


def test_each_loss_of_a_step_has_its_own_mask():
    model = Dropped()
    optimizer = MNN.optim.SGD(model, 0.0, accumulate=3)
    kept = []
    for _ in range(6):
        drawn = model.drop(np.ones((4, 50), np.float32))
        loss = F.reduce_sum(drawn) + 0.0 * F.reduce_sum(model.parameters[0])
        optimizer.step(loss, [drawn])
        kept.append(drawn.read().tobytes())
    assert len(set(kept)) == 6


def test_it_needs_no_model(digits, tmp_path):
    """Another process, which knows nothing of the classes here, trains as the model would, and writes it for
    inference."""
    model, optimizer, _ = trained(OPTIMIZERS["adam"], [])
    train.save_program(tmp_path / "a.mnn", model, optimizer, *digits[0])
    np.savez(tmp_path / "data.npz", x=np.stack([x for x, _ in digits]), y=np.stack([y for _, y in digits]))
    code = (
        "import numpy as np, MNN; p = MNN.train.TrainingProgram.load('a.mnn'); d = np.load('data.npz')\n"
        "for x, y in zip(d['x'][:25], d['y'][:25]): loss = p.step(x, y)\n"
        "np.save('answers.npy', p.predict(d['x'][28])); p.export('digits.mnn')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    answers = np.load(tmp_path / "answers.npy")
    model, _, _ = trained(OPTIMIZERS["adam"], digits[:25])
    train.export(model, tmp_path / "own.mnn", [BATCH, 1, 8, 8])
    images, _ = digits[28]
    wanted = MNN.load(str(tmp_path / "own.mnn")).run(images)["output"]
    assert np.abs(answers - wanted).max() < 1e-4
    exported = MNN.load(str(tmp_path / "digits.mnn"))
    assert not any("Norm" in node.op or "Dropout" in node.op for node in exported.graph.nodes)
    assert np.abs(exported.run(images)["prediction"] - wanted).max() < 1e-4


def test_what_is_frozen_is_no_state(digits, tmp_path):
    def frozen(model):
        model.first.freeze()
        return MNN.optim.SGD(model, 0.05)

    model, optimizer, _ = trained(frozen, digits[:2])
    train.save_program(tmp_path / "a.mnn", model, optimizer, *digits[0])
    _, _, losses = trained(frozen, digits[:5])
    program = train.TrainingProgram.load(tmp_path / "a.mnn")
    assert [program.step(*batch) for batch in digits[2:5]] == losses[2:]
    assert "second.weight" in program.numbers
    assert "first.weight" not in program.numbers


def test_what_is_refused(digits, tmp_path):
    model = Small()
    optimizer = MNN.optim.SGD(model, 0.1)
    path = tmp_path / "a.mnn"
    train.save_program(path, model, optimizer, *digits[0])
    program = train.TrainingProgram.load(path)
    with pytest.raises(MNNError, match=r"input is \[25, 1, 8, 8\] of f32, found \[5, 1, 8, 8\]"):
        program.step(digits[0][0][:5], digits[0][1][:5])
    with pytest.raises(MNNError, match=r"target is .* found .* of float64"):
        program.step(digits[0][0], digits[0][1] + 0.5)
    before = program.numbers
    with pytest.raises(MNNError, match="step 1: the loss is nan; the parameters are left as they were"):
        program.step(digits[0][0] * np.nan, digits[0][1])
    after = program.numbers
    assert all((after[n] == before[n]).all() for n in before if "running" not in n)
    train.export(model, path, [1, 1, 8, 8])
    with pytest.raises(MNNError, match="holds no training program"):
        train.TrainingProgram.load(path)
    with pytest.raises(MNNError, match="trains another module"):
        train.save_program(path, Small(), optimizer, *digits[0])
