"""What a program can do wrong around a training: one sentence each, before anything is changed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError, ShapeError
from MNN.nn import initial

F, nn, optim, train = MNN.expr, MNN.nn, MNN.optim, MNN.train
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(8, 3)).astype(np.float32), np.arange(8, dtype=np.int32) % 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.linear(3, 2)

    def forward(self, x):
        return self.a(x)


class One(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.linear(3, 1)

    def forward(self, x):
        return self.a(x)


def fitted(model=None, data=(X, Y), **options):
    return train.fit(model or Net(), data, progress=False, **options)


def test_a_module_that_is_not_begun():
    class Hasty(nn.Module):
        def __init__(self):
            self.a = nn.linear(3, 2)

    with pytest.raises(MNNError, match=r"Hasty.a is set before .* call super\(\).__init__\(\) first"):
        Hasty()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_is_gone_over_twice_at_a_time(workers):
    data = MNN.data.ArrayDataset(X, Y)
    loader = MNN.data.DataLoader(data, 2, num_workers=workers, seed=1)
    with pytest.raises(MNNError, match=r"another pass over this DataLoader has begun .* a DataLoader for each loop"):
        for _ in zip(loader, loader, strict=True):
            pass
    outer = iter(loader)
    next(outer)
    assert len(list(loader)) == 4
    with pytest.raises(MNNError, match="another pass over this DataLoader has begun"):
        next(outer)
    assert len(list(zip(loader, MNN.data.DataLoader(data, 2, seed=2), strict=True))) == 4


@pytest.mark.parametrize("kind", [list, tuple, lambda layers: dict(enumerate(layers))])
def test_modules_that_are_not_found(kind):
    class Listed(Net):
        def __init__(self):
            super().__init__()
            self.layers = kind([nn.linear(3, 3), nn.linear(3, 3)])

        def forward(self, x):
            for layer in self.layers.values() if isinstance(self.layers, dict) else self.layers:
                x = layer(x)
            return self.a(x)

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Listed()

        def forward(self, x):
            return self.inner(x)

    with pytest.warns(UserWarning, match=r"Around's inner.layers are not trained: modules in a list"):
        optim.SGD(Around())
    model = Listed()
    model._register_submodules(list(model.layers.values() if isinstance(model.layers, dict) else model.layers))
    assert not model.unlisted()
    assert not Net().unlisted()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 1.5}, "epochs is a whole number, found 1.5"),
        ({"epochs": "3"}, "epochs is a whole number, found '3'"),
        ({"patience": -1}, "patience must not be negative, found -1"),
        ({"seed": "x"}, "a seed is a whole number, found 'x'"),
        ({"seed": 2**70}, "a seed has at most 63 bits, found 1180591620717411303424"),
        ({"batch_size": 2.5}, "batch_size must be a positive whole number .* found 2.5"),
        ({"batch_size": "many"}, "batch_size must be a positive whole number .* found 'many'"),
        ({"schedule": 0.1}, r"schedule is a function, such as MNN.train.schedules.cosine\(0.01, 1000\), found 0.1"),
        ({"schedule": lambda step: None}, "the schedule's rate is a finite number, found None"),
        ({"schedule": lambda step: -1}, "the schedule's rate must not be negative, found -1"),
        ({"loss": "mse"}, "loss is a function, such as MNN.nn.loss.mse, found 'mse'"),
        ({"metrics": {"m": lambda p, t: None}}, "the metric 'm' must give one number, it gives NoneType"),
        ({"metrics": {"m": lambda p, t: p}}, "the metric 'm' must give one number, it gives ndarray"),
        ({"metrics": {"m": "mae"}}, "metrics are a list of names or a dict of functions, found {'m': 'mae'}"),
        ({"metrics": ["mae"]}, r"'mae' takes as many predictions as targets, found \[8, 2\] and \[8\]"),
        (
            {"data": (X, X[:, :1]), "model": One(), "metrics": ["accuracy"]},
            r"'accuracy' .* found \[8, 1\] and \[8, 1\]",
        ),
    ],
)
def test_settings_of_fit(options, said):
    with pytest.raises(MNNError, match=said):
        fitted(**options)


def test_losses_that_no_parameter_moves():
    """The model's answer depends on parameters, its loss does not."""
    model = Net()
    before = model.a.weight.read()
    for loss in (lambda p, t: F.const([1.0], [1]), lambda p, t: F.reduce_mean(F.cast(t, F.float))):
        with pytest.raises(MNNError, match="the loss depends on no parameter"):
            fitted(model, loss=loss)
    assert np.array_equal(before, model.a.weight.read())


def test_states_and_files_of_others(tmp_path):
    model = Net()
    for state in ({}, {"a": np.zeros(1)}, {"steps": np.asarray(1)}):
        with pytest.raises(MNNError, match=r"that is no state of an optimizer: it has no '(losses|steps)'"):
            optim.SGD(model).load_state(state)
    for name, fn in (("save", nn.save), ("load", nn.load)):
        with pytest.raises(MNNError, match=rf"{name}\(\) takes a module and a path, in this order; the first is str"):
            fn("w", model)
    with pytest.raises(MNNError, match=r"an input is given by its shape, .* found 3"):
        train.export(model, tmp_path / "a.mnn", 3)
    with pytest.raises(MNNError, match="inputs and outputs have names of their own, found a, a"):
        train.export(model, tmp_path / "a.mnn", [1, 3], names=["a", "a"])
    assert not list(tmp_path.iterdir())


def test_checkpoints_that_are_damaged(tmp_path):
    """Each part of one in turn is something else: one sentence, and nothing is changed."""
    path = tmp_path / "c.npz"
    fitted(epochs=1, checkpoint=path)
    with np.load(path) as file:
        whole = dict(file)
    texts = (b"[]", b"{}", b"junk", b"\xff\xfe")
    wrong = [np.full(3, np.nan), np.asarray(-5), np.full(3, "q"), *(np.frombuffer(t, np.uint8) for t in texts)]
    for name, array in ((n, a) for n in whole for a in wrong):
        if (name == "settings" and array.tobytes() == b"{}") or array.shape == whole[name].shape != ():
            continue  # which may be
        np.savez(path, **{**whole, name: array})
        model = Net()
        before = model.a.weight.read()
        with pytest.raises(MNNError, match=r"c\.npz|the state '"):
            fitted(model, epochs=2, checkpoint=path)
        assert np.array_equal(before, model.a.weight.read())


def test_an_interrupted_epoch_goes_on_with_its_batches(tmp_path):
    path = tmp_path / "c.npz"

    class Failing(MNN.data.Dataset):
        broken = True

        def __len__(self):
            return 8

        def __getitem__(self, i):
            if self.broken and i == 5:
                raise OSError("gone")
            return [X[i]], [Y[i]]

    data = Failing()
    with pytest.raises(MNNError, match="sample 5 of the dataset cannot be had"):
        fitted(data=MNN.data.DataLoader(data, 2, False), checkpoint=path)
    data.broken = False
    with pytest.raises(MNNError, match=r"8 samples in batches of 2 that was interrupted, now .* 8 in batches of 4"):
        fitted(data=MNN.data.DataLoader(data, 4, False), checkpoint=path)
    assert len(fitted(data=MNN.data.DataLoader(data, 2, False), checkpoint=path).losses) == 4


def test_training_programs(tmp_path):
    model = Net()
    sgd = optim.SGD(model, 0.1)
    with pytest.raises(MNNError, match="the label 2 is none of the 2 classes"):
        train.save_program(tmp_path / "a.mnn", model, sgd, X, Y + 1)
    train.save_program(tmp_path / "a.mnn", model, sgd, X, Y)
    program = train.TrainingProgram.load(tmp_path / "a.mnn")
    program.save(tmp_path / "b.mnn")
    for loaded in (program, train.TrainingProgram.load(tmp_path / "b.mnn")):
        before = loaded.numbers
        with pytest.raises(MNNError, match="the label -1 is none of the 2 classes"):
            loaded.step(X, Y - 1)
        for rate in (float("nan"), -1.0, "fast"):
            loaded.learning_rate = rate
            with pytest.raises(MNNError, match=f"learning_rate .*found {re.escape(repr(rate))}"):
                loaded.step(X, Y)
        loaded.learning_rate = 0.1
        with pytest.raises(ShapeError, match="the training program's target is"):
            loaded.step(X, Y.astype(np.float32))
        assert all(np.array_equal(a, before[n]) for n, a in loaded.numbers.items())
    own = lambda p, t: F.reduce_mean(F.square(p - F.one_hot(t, 2)))  # noqa: E731
    train.save_program(tmp_path / "c.mnn", model, sgd, X, Y, own)  # a loss of one's own may take other labels
    assert train.TrainingProgram.load(tmp_path / "c.mnn").step(X, Y + 1) >= 0


WRONG = ("a", None, [1, 2], {}, 1.5, float("nan"), float("inf"), -3, np.ones(3), object())
"""Of these every call below takes none where another thing is asked for."""
MODEL = Net()
OPTIMIZER = optim.SGD(MODEL)
STATE = {"steps": np.asarray(1), "losses": np.asarray(1)}
CALLS = {
    "linear": (lambda v: nn.linear(v, 3), ()),
    "linear's results": (lambda v: nn.linear(3, v), ()),
    "conv": (lambda v: nn.conv(v, 3, 1), ()),
    "stride": (lambda v: nn.conv(3, 3, 1, stride=v), ([1, 2],)),
    "dilation": (lambda v: nn.conv(3, 3, 1, dilation=v), ([1, 2],)),
    "batch_norm": (nn.batch_norm, ()),
    "dropout": (nn.dropout, ()),
    "seed": (nn.seed, ()),
    "linear's bias": (lambda v: nn.linear(3, 4, v), (None, -3)),
    "conv's bias": (lambda v: nn.conv(3, 4, [1, 1], bias=v), (None, -3)),
    "depthwise": (lambda v: nn.conv(1, 4, [1, 1], depthwise=v), (None, -3)),
    "padding_mode": (lambda v: nn.conv(3, 4, [1, 1], padding_mode=v), ()),
    "shuffle": (lambda v: MNN.data.DataLoader(MNN.data.ArrayDataset(X, Y), 1, v), (None, -3)),
    "drop_last": (lambda v: MNN.data.DataLoader(MNN.data.ArrayDataset(X, Y), 1, drop_last=v), (None, -3)),
    "keep_best": (lambda v: fitted(keep_best=v, epochs=0), (None, -3)),
    "freeze": (lambda v: Net().freeze(v), (None, -3)),
    "training": (lambda v: Net().train(v), (None, -3)),
    "groups": (lambda v: optim.SGD(Net(), 0.1, groups=v), ()),
    "precision": (lambda v: optim.ADAM(Net(), 0.1, precision=v), ()),
    "threads": (lambda v: optim.ADAM(Net(), 0.1, threads=v), (None,)),
    "load_state": (lambda v: optim.SGD(Net(), 0.1).load_state(v), ()),
    "module": (lambda v: optim.SGD(v, 0.1), ()),
    "Lion's module": (lambda v: optim.Lion(v, 0.1), ()),
    "grad": (lambda v: optim.Grad().grad(v, v, v), ()),
    "cosine": (lambda v: train.schedules.cosine(0.1, v), (1.5,)),
    "linear schedule": (lambda v: train.schedules.linear(v, 10), (1.5,)),
    "exponential": (lambda v: train.schedules.exponential(0.1, v), (1.5,)),
    "every": (lambda v: train.schedules.exponential(0.1, 0.5, v), ()),
    "milestones": (lambda v: train.schedules.milestones(0.1, v), ([1, 2],)),
    "warmup": (lambda v: train.schedules.warmup(v, 3), ()),
    "warmup's steps": (lambda v: train.schedules.warmup(train.schedules.constant(0.1), v), (1.5,)),
    "fit": (lambda v: train.fit(v, (X, Y), progress=False), ()),
    "checkpoint": (lambda v: fitted(checkpoint=v, epochs=0), (None, "a")),
    "export": (lambda v: train.export(v, "unwritten.mnn", [1, 3]), ()),
    "plot": (lambda v: train.plot(v, "unwritten.svg"), ()),
    "layer_norm": (nn.layer_norm, ()),
    "layer_norm's epsilon": (lambda v: nn.layer_norm(3, v), (1.5,)),
    "embedding": (lambda v: nn.embedding(v, 3), ()),
    "embedding's width": (lambda v: nn.embedding(3, v), ()),
    "batch_norm's momentum": (lambda v: nn.batch_norm(3, 4, v), ()),
    "batch_norm's epsilon": (lambda v: nn.batch_norm(3, 4, 0.9, v), (1.5,)),
    "smoothing": (lambda v: nn.loss.softmax_cross_entropy(X, Y, smoothing=v), ()),
    "ignore": (lambda v: nn.loss.softmax_cross_entropy(X, Y, ignore=v), (None, -3)),
    "also": (lambda v: OPTIMIZER.step(nn.loss.softmax_cross_entropy(MODEL(X), Y), v), ()),
    "a group": (lambda v: optim.SGD(MODEL, groups=[optim.Group(v)]), ()),
    "regularization": (lambda v: optim.SGD(MODEL, regularization_method=v), ()),
    "counts of a state": (lambda v: OPTIMIZER.load_state({"steps": v, "losses": v}), ()),
    "arrays of a state": (lambda v: OPTIMIZER.load_state({**STATE, "parameter0.momentum": v}), ()),
    "get_update_graph": (lambda v: OPTIMIZER.get_update_graph(v, v, v), ()),
    "save_graph": (lambda v: OPTIMIZER.save_graph(v, [MODEL(F.placeholder([1, 3]))], [], []), ("a",)),
    "save_graph's outputs": (lambda v: OPTIMIZER.save_graph("unwritten.mnn", v, [], []), ()),
    "load_parameters": (MODEL.load_parameters, ()),
    "a parameter": (MODEL._add_parameter, ()),
    "submodules": (MODEL._register_submodules, ()),
    "a statistic": (lambda v: Net().register_statistic(v), (WRONG[-2],)),
    "load_module": (lambda v: nn.load_module(v, v, True), ()),
    "save": (lambda v: nn.save(MODEL, v), ("a",)),
    "load": (lambda v: nn.load(MODEL, v), ()),
    "exported": (lambda v: train.export(MODEL, v, [1, 3]), ("a",)),
    "names": (lambda v: train.export(MODEL, "unwritten.mnn", [1, 3], names=v), ()),
    "drawn": (lambda v: train.plot(train.History(), v), ()),
    "written": (train.TrainingProgram.load, ()),
    "metrics": (lambda v: fitted(MODEL, metrics=v, epochs=1), (None, {})),
    "evaluate": (lambda v: train.evaluate(v, (X, Y)), ()),
    "settings": (lambda v: fitted(MODEL, settings=v), (None, {})),
    "a setting": (lambda v: fitted(MODEL, settings={"a": v}), WRONG[:-2]),
    "optimizer": (lambda v: fitted(MODEL, optimizer=v), (None,)),
    "the program's loss": (lambda v: train.save_program("unwritten.mnn", MODEL, OPTIMIZER, X, Y, v), (None,)),
    "save_program": (lambda v: train.save_program("unwritten.mnn", Net(), v, X, Y), ()),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_things_are_told_in_one_sentence(name):
    call, right = CALLS[name]
    for value in WRONG:
        if any(value is v or (type(value) is type(v) and value == v) for v in right):
            continue
        with pytest.raises(MNNError) as told:
            call(value)
        assert "\n" not in str(told.value)
        assert 15 < len(str(told.value)) < 300, value


@pytest.mark.parametrize("size", [2**70, 10**10, -1, 0])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: nn.linear(n, 3), lambda n: nn.linear(3, n), lambda n: nn.conv(n, 4, [3, 3]),
        lambda n: nn.conv(4, n, [3, 3]),
        nn.batch_norm, nn.layer_norm, lambda n: nn.embedding(n, 3), lambda n: nn.embedding(3, n),
    ],
)  # fmt: skip
def test_sizes_that_no_layer_has(make, size):
    with pytest.raises(MNNError, match="is a whole number of at least 1 and of at most 31 bits, found"):
        make(size)


def test_layers_larger_than_memory(monkeypatch):
    """What numpy says when it is refused memory, which may be any amount here."""

    def refused(*_):
        raise MemoryError("Unable to allocate 224. GiB")

    monkeypatch.setattr(initial, "_generator", type("", (), {"uniform": refused, "standard_normal": refused})())
    for make in (lambda: nn.linear(3, 4), lambda: nn.conv(3, 4, [1, 1]), lambda: nn.embedding(4, 3)):
        with pytest.raises(MNNError, match=r"there is no memory for a parameter of shape \[4, 3"):
            make()


def test_labels_to_ignore_have_32_bits():
    for label in (2**70, 10**10, -(10**10)):
        with pytest.raises(MNNError, match="ignore is a label"):
            nn.loss.softmax_cross_entropy(X, Y, ignore=label)


SETTINGS = {
    optim.SGD: {"momentum": -3, "nesterov": "a"},
    optim.ADAM: {"momentum2": 1.5, "eps": -3, "amsgrad": None},
    optim.RMSprop: {"decay": float("nan"), "momentum": 1.0, "eps": None},
    optim.Lion: {"momentum": None, "momentum2": -0.1},
}
EVERY = {
    "weight_decay": float("nan"), "regularization_method": "L3", "accumulate": 1.5, "clip_norm": -3, "clip_value": None,
    "precision": "double", "threads": 0, "debug": "a", "activation_memory": 0.5, "average": 1.5, "scale": -1.0,
}  # fmt: skip


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_are_checked_whenever_they_are_set(kind):
    """Between steps as when the optimizer is made: a momentum of -3 would train, to other numbers."""
    made = kind(MODEL, 0.1)
    for name, value in {**EVERY, **SETTINGS[kind]}.items():
        for wrong in (value, [1, 2], np.ones(3), object()):
            before = getattr(made, name)
            with pytest.raises(MNNError) as told:
                setattr(made, name, wrong)
            assert "\n" not in str(told.value)
            assert getattr(made, name) is before
    made.weight_decay, made.precision, made.scale = 0.5, "low", 4.0
    assert (made.weight_decay, made.precision, made.scale.now) == (0.5, "low", 4.0)
