"""``fit``: results, what it tells, checkpoints that go on exactly, and what ends it."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from tests import zoo
from tests.train.networks import Small

F, nn, train = MNN.expr, MNN.nn, MNN.train


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.linear(64, 24), nn.batch_norm(24, 2), nn.dropout(0.3)
        self.last = nn.linear(24, 10)

    def forward(self, x):
        return self.last(self.drop(F.relu(self.norm(self.first(x)))))


@pytest.fixture(scope="module")
def digits():
    rows = np.loadtxt(zoo.path("digits"), delimiter=",")
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return (rows[:, :64] / 16).astype(np.float32), rows[:, 64].astype(np.int32)


def fitted(digits, epochs, **options):
    nn.seed(7)
    model = Tiny()
    optimizer = MNN.optim.ADAM(model, 3e-3)
    x, y = digits[0][:300], digits[1][:300]
    return model, train.fit(model, (x, y), epochs, optimizer=optimizer, progress=False, **options)


def test_digits(digits, tmp_path):
    x, y = digits[0].reshape(-1, 1, 8, 8), digits[1]
    nn.seed(0)
    model = Small()
    history = train.fit(
        model, (x[:1437], y[:1437]), 12, validation=(x[1437:], y[1437:]), progress=False,
        optimizer=MNN.optim.ADAM(model, 3e-3), schedule=train.schedules.cosine(3e-3, 12 * 45),
    )  # fmt: skip
    assert history.epochs[-1].validation["accuracy"] >= 0.985
    train.export(model, tmp_path / "digits.mnn", [1, 1, 8, 8])
    exported = MNN.load(str(tmp_path / "digits.mnn"))
    assert not any("Norm" in node.op for node in exported.graph.nodes)
    model.train(False)
    for sample in x[:5]:
        want = model(F.const(sample[None], [1, 1, 8, 8])).read()
        assert np.abs(exported.run(sample[None])["output"] - want).max() < 1e-4


def test_a_checkpoint_goes_on_exactly(digits, tmp_path):
    path = tmp_path / "state.npz"
    whole, history = fitted(digits, 4)
    fitted(digits, 2, checkpoint=path)
    model, later = fitted(digits, 4, checkpoint=path)
    assert later.losses == history.losses
    for a, z in zip(model.parameters, whole.parameters, strict=True):
        assert (a.read() == z.read()).all()


def test_a_checkpoint_of_another_model(digits, tmp_path):
    path = tmp_path / "state.npz"
    fitted(digits, 1, checkpoint=path)
    other = Small()
    with pytest.raises(MNNError, match="is of another module"):
        train.fit(other, (digits[0].reshape(-1, 1, 8, 8), digits[1]), 1, checkpoint=path, progress=False,
                  optimizer=MNN.optim.ADAM(other))  # fmt: skip
    model = Tiny()
    with pytest.raises(MNNError, match="is of the optimizer ADAM, this one is SGD"):
        train.fit(model, digits, 1, checkpoint=path, optimizer=MNN.optim.SGD(model), progress=False)
    path.write_bytes(b"nothing")
    with pytest.raises(MNNError, match="is no checkpoint of training"):
        fitted(digits, 1, checkpoint=path)


def test_a_full_disk_leaves_the_last_checkpoint(digits, tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    fitted(digits, 1, checkpoint=path)
    before = path.read_bytes()

    def full(file, array, **options):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(MNNError, match=r"cannot write .*No space left on device"):
        fitted(digits, 2, checkpoint=path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


def test_an_interruption_saves(digits, tmp_path):
    path = tmp_path / "state.npz"
    at = 13  # in the middle of the second epoch

    def interrupting(step):
        if step == at - 1:
            signal.raise_signal(signal.SIGINT)
        return 3e-3

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fitted(digits, 3, checkpoint=path, schedule=interrupting)
    assert signal.getsignal(signal.SIGINT) is before
    whole, history = fitted(digits, 3)
    model, later = fitted(digits, 3, checkpoint=path)
    assert later.losses == history.losses
    assert later.epochs[1].metrics == history.epochs[1].metrics
    for a, z in zip(model.parameters, whole.parameters, strict=True):
        assert (a.read() == z.read()).all()


def test_early_stopping(digits):
    model = Tiny()
    history = train.fit(model, digits, 50, optimizer=MNN.optim.SGD(model, 0.0), patience=2, progress=False,
    batch_size=600,
                        metrics=[], validation=(digits[0][:50], digits[1][:50]), schedule=lambda step: 0.0)  # fmt: skip
    assert 3 <= len(history.epochs) < 50
    assert "has not improved for 2 epochs" in history.stopped


def test_what_is_told(digits, capsys):
    model = Tiny()
    history = train.fit(model, digits, 1, batch_size=300)
    assert capsys.readouterr().err.startswith(f"epoch 1: loss {history.epochs[0].loss:.4g}, accuracy")


def test_floats_are_fitted_by_their_squares():
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3
    model = nn.linear(3, 1)
    history = train.fit(model, (x, y), 60, optimizer=MNN.optim.SGD(model, 0.05), progress=False, metrics=["mae"])
    assert history.epochs[-1].loss < 1e-6
    assert np.abs(model.weight.read() - [[1, -2, 0.5]]).max() < 1e-3
    assert train.evaluate(model, (x, y), metrics=["mae"])["mae"] < 1e-3


def test_data_that_do_not_fit(digits):
    model = Tiny()
    for data, text in (((digits[0], digits[1][:5]), "rows"), (3, "a DataLoader"), ((["a"], [1]), "arrays of numbers")):
        with pytest.raises(MNNError, match=text):
            train.fit(model, data, 1, progress=False)
    with pytest.raises(MNNError, match="another module"):
        train.fit(model, digits, 1, optimizer=MNN.optim.SGD(Tiny()), progress=False)
    with pytest.raises(MNNError, match="metric 'f1' is not known"):
        train.fit(model, digits, 1, metrics=["f1"], progress=False)


class Samples(MNN.data.Dataset):
    """What a function gives for each place."""

    def __init__(self, given):
        self.given = given

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.given(index)


X = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda i: (X, np.int32(i)), r"is \(ndarray, int32\), not \(\[inputs\], \[targets\]\): give lists"),
        (lambda i: [X, X], r"is \(ndarray, ndarray\), not"),
        (lambda i: [X], r"is not \(\[inputs\], \[targets\]\)"),
        (lambda i: ([X] * (1 + (i == 2)), [i]), r"sample \d of the dataset has \d inputs? and 1 target, and sample \d"),
        (lambda i: ([[1, [2, 3]]], [i]), "a sample is not numbers"),
        (lambda i: ([None], [i]), "a sample is not numbers"),
    ],
)
def test_samples_that_are_none(given, said):
    with pytest.raises(MNNError, match=said):
        train.fit(Tiny(), Samples(given), 1, progress=False)


@pytest.mark.parametrize("seed", [-5, "a", 1.5, 2**63])
def test_seeds_of_orders(seed):
    with pytest.raises(MNNError, match=r"^a seed "):
        MNN.data.DataLoader(Samples(None), 1, seed=seed)


def test_methods_that_a_class_lacks():
    class Net(nn.Module):
        """Without forward()."""

    class Data(MNN.data.Dataset):
        """Without a length."""

    for call, said in (
        (lambda: Net()(X), r"Net does not define forward\(\)"),
        (lambda: train.fit(Tiny(), Data(), 1, progress=False), r"Data does not define __len__\(\)"),
    ):
        with pytest.raises(MNNError, match=said):
            call()


def test_saving_and_loading(tmp_path):
    one, two = Small(), Small()
    nn.save(one, tmp_path / "weights.npz")
    nn.load(two, tmp_path / "weights.npz")
    for a, z in zip(one.parameters, two.parameters, strict=True):
        assert (a.read() == z.read()).all()
    with pytest.raises(MNNError, match="of another module"):
        nn.load(Tiny(), tmp_path / "weights.npz")
