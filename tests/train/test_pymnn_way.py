"""Training as PyMNN's examples do it: a dataset of Vars, a loop over batches, one-hot targets, a saved model;
fine-tuning."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from onnx import helper, numpy_helper

import MNN
from MNN.errors import MNNError
from tests import zoo

F, nn = MNN.expr, MNN.nn


class Digits(MNN.data.Dataset):
    def __init__(self, begin, end):
        super().__init__()
        rows = np.loadtxt(zoo.path("digits"), delimiter=",")[begin:end]
        self.images, self.labels = rows[:, :64] / 16, rows[:, 64]

    def __getitem__(self, index):
        image = F.const(self.images[index].tolist(), [1, 8, 8], F.data_format.NCHW)
        label = F.const([int(self.labels[index])], [], F.data_format.NCHW, F.dtype.uint8)
        return [image], [label]

    def __len__(self):
        return len(self.labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.conv(1, 12, [3, 3])
        self.conv2 = nn.conv(12, 24, [3, 3], bias=True)
        self.fc1 = nn.linear(96, 48)
        self.fc2 = nn.linear(48, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool(x, [2, 2], [2, 2])
        x = F.convert(x, F.NCHW)
        x = F.reshape(x, [0, -1])
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc2(x), 1)


@pytest.fixture(params=[False, True])
def lazy(request):
    F.lazy_eval(request.param)
    yield request.param
    F.lazy_eval(False)


def accuracy(net, loader):
    net.train(False)
    loader.reset()
    right = 0
    for _ in range(loader.iter_number):
        inputs, targets = loader.next()
        right += int((F.argmax(net.forward(inputs[0]), 1).read() == targets[0].read()).sum())
    return right / loader.size


def test_a_loop_over_batches(lazy, tmp_path):
    nn.seed(3)
    model = Net()
    training = MNN.data.DataLoader(Digits(0, 640), batch_size=64, shuffle=True, seed=1)
    testing = MNN.data.DataLoader(Digits(640, 800), batch_size=80, shuffle=False, num_workers=2)
    opt = MNN.optim.SGD(model, 0.05, 0.9, 0.0005)
    for _ in range(9):
        model.train(True)
        training.reset()
        for _ in range(training.iter_number):
            inputs, targets = training.next()
            predict = model.forward(inputs[0])
            target = F.one_hot(F.cast(targets[0], F.int), 10, 1, 0)
            loss = nn.loss.cross_entropy(predict, target)
            assert opt.step(loss)
            assert np.isfinite(loss.read())
        opt.learning_rate *= 0.8
    assert len(opt._programs) == 1
    assert accuracy(model, testing) > 0.85
    F.save(model.parameters, str(tmp_path / "snapshot.mnn"))
    again = Net()
    assert again.load_parameters(F.load_as_list(str(tmp_path / "snapshot.mnn")))
    assert accuracy(again, testing) == accuracy(model, testing)
    model.train(False)
    F.save([model.forward(F.placeholder([1, 1, 8, 8], F.NC4HW4))], str(tmp_path / "net.mnn"))
    found = MNN.load(str(tmp_path / "net.mnn"))
    assert len(found.inputs) == len(found.outputs) == 1


def test_an_equation_is_solved():
    class Rate(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = F.const([0.001], [1])

        def forward(self, times, total):
            month = self.rate / 12.0
            whole = F.pow(month + 1.0, times)
            return whole * month * total / (whole - 1.0)

    model = Rate()
    opt = MNN.optim.ADAM(model, 2e-3)
    for _ in range(400):
        difference = model.forward(F.const([60.0], [1]), F.const([630000.0], [1])) - 12439.12
        opt.step(F.reduce_sum(difference * difference) * 1e-6)
    assert abs(model.forward(F.const([60.0], [1]), F.const([630000.0], [1])).read()[0] - 12439.12) < 20


def test_a_loaded_network_is_tuned(tmp_path):
    nn.seed(5)
    base = Net()
    base.train(False)
    x = F.placeholder([8, 1, 8, 8], F.NCHW)
    x.name = "input"
    y = base.forward(x)
    y.name = "output"
    F.save([y], str(tmp_path / "base.mnn"))
    rows = np.loadtxt(zoo.path("digits"), delimiter=",")[:8]
    data = F.const((rows[:, :64] / 16).astype(np.float32), [8, 1, 8, 8])
    target = np.eye(10, dtype=np.float32)[rows[:, 64].astype(int)]
    for trained in (True, False):
        tensors = F.load_as_dict(str(tmp_path / "base.mnn"))
        module = nn.load_module([tensors["input"]], [tensors["output"]], trained)
        assert np.abs(module(data).read() - base(data).read()).max() < 1e-6
        if not trained:
            with pytest.raises(MNNError, match="depends on no parameter"):
                MNN.optim.SGD(module).step(nn.loss.cross_entropy(module(data), target))
            continue
        opt = MNN.optim.ADAM(module, 1e-2)
        losses = []
        for _ in range(20):
            loss = nn.loss.cross_entropy(module(data), target)
            opt.step(loss)
            losses.append(float(loss.read()))
        assert losses[-1] < 0.3 * losses[0]


def test_a_network_that_computes_sizes_is_tuned():
    """As exported ones do: sizes are read off tensors that parameters have a part in, for batches of any size."""
    rng = np.random.default_rng(6)
    parts = {
        "weight": rng.normal(size=(6, 8)).astype(np.float32),
        "first": np.array([0]),
        "second": np.array([1]),
        "heads": np.array([2, 4]),
    }
    steps = [
        ("MatMul", "x weight", "h"),
        ("Shape", "h", "s"),
        ("Gather", "s first", "a"),
        ("Gather", "s second", "b"),
        ("Concat", "a b heads", "d"),
        ("Reshape", "h d", "r"),
        ("Mul", "r r", "q"),
        ("ReduceMean", "q", "y"),
    ]
    attributes = {"Concat": {"axis": 0}, "ReduceMean": {"keepdims": 0}}
    nodes = [helper.make_node(op, given.split(), [made], **attributes.get(op, {})) for op, given, made in steps]
    x, y = (helper.make_tensor_value_info(n, 1, d) for n, d in (("x", ["batch", "length", 6]), ("y", [])))
    graph = helper.make_graph(nodes, "sizes", [x], [y], [numpy_helper.from_array(a, n) for n, a in parts.items()])
    tensors = F.load_as_dict(helper.make_model(graph).SerializeToString())
    for batch, length in ((2, 3), (5, 1)):
        module = nn.load_module([tensors["x"]], [tensors["y"]], True)
        data = rng.normal(size=(batch, length, 6)).astype(np.float32)
        (own,) = module.parameters
        before, rows = own.read().copy(), data.reshape(-1, 6)
        MNN.optim.SGD(module, 1.0, 0.0).step(module(F.const(data, [batch, length, 6])))
        slope = 2 * rows.T @ (rows @ before) / (len(rows) * 8)
        assert np.abs(before - own.read() - slope).max() < 1e-5


def test_losses():
    rng = np.random.default_rng(0)
    p, t = (rng.uniform(0.1, 1, (5, 3)).astype(np.float32) for _ in range(2))
    wanted = {
        "cross_entropy": -(np.log(p) * t).sum(1).mean(),
        "kl": (p * (np.log(p) - np.log(t))).sum(1).mean(),
        "mse": ((p - t) ** 2).sum(1).mean(),
        "mae": np.abs(p - t).sum(1).mean(),
        "hinge": np.maximum(0, 1 - p * t).sum(1).mean(),
    }
    for name, want in wanted.items():
        assert abs(float(getattr(nn.loss, name)(p, t).read()) - want) < 1e-5, name
    with pytest.raises(MNNError, match="of one shape"):
        nn.loss.mse(p, t[:4])


def test_data_that_cannot_be_had():
    class Broken(MNN.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            if index == 2:
                raise OSError("the disk is gone")
            return [np.zeros(3, np.float32)], [np.zeros((), np.int32)]

    for workers in (0, 2):
        loader = MNN.data.DataLoader(Broken(), 2, shuffle=False, num_workers=workers)
        loader.next()
        with pytest.raises(MNNError, match=r"sample 2 of the dataset cannot be had \(OSError: the disk is gone\)"):
            loader.next()
    with pytest.raises(MNNError, match="batch_size must be a positive whole number"):
        MNN.data.DataLoader(Broken(), 0)


class Pictures(MNN.data.Dataset):
    """Samples as PyMNN's example of fine-tuning has them: channels last, and said so."""

    def __getitem__(self, index):
        picture = np.arange(24, dtype=np.float32).reshape(2, 4, 3) + 100 * index
        return [F.const(picture.flatten().tolist(), [2, 4, 3], F.NHWC)], [F.const([index], [], F.NHWC, F.int)]

    def __len__(self):
        return 5


def test_batches_list_their_sizes_as_samples_do():
    (x,), (label,) = MNN.data.DataLoader(Pictures(), 5, shuffle=False).next()
    assert (x.data_format, x.shape, label.shape) == (F.NHWC, [5, 2, 4, 3], [5])
    found = F.convert(x, F.NC4HW4)
    wanted = np.stack([np.arange(24).reshape(2, 4, 3) + 100 * i for i in range(5)]).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found.read(), wanted)


class Slow(MNN.data.Dataset):
    """Samples that tell the process and the pass they come from; one of them ends its process."""

    def __init__(self, last=-1):
        super().__init__()
        self.last, self.number = last, None

    def begin_pass(self, number):
        self.number = number

    def __getitem__(self, index):
        if index == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        if index == 7:
            raise ValueError("no such picture")
        return [F.const([float(index), float(self.number)], [2])], [F.const([os.getpid()], [], dtype=F.int)]

    def __len__(self):
        return 7 if self.last >= 0 else 8


def test_worker_processes():
    loader = MNN.data.DataLoader(Slow(2), 3, shuffle=False, num_workers=1, processes=True)
    with pytest.raises(MNNError, match=r"a data worker process died .* first one of samples 0, 1, 2: was it"):
        list(loader)
    loader.dataset = Slow()  # of which the last one cannot be had; other processes begin
    batches = []
    with pytest.raises(MNNError, match=r"sample 7 of the dataset cannot be had \(ValueError: no such picture\)"):
        batches += loader
    loader.reset()
    batches = [loader.next(), loader.next()]
    found = np.concatenate([inputs[0].read() for inputs, _ in batches])
    assert found.tolist() == [[i, loader.epoch] for i in range(6)]
    others = {int(n) for _, targets in batches for n in targets[0].read()}
    assert len(others) == 1
    assert os.getpid() not in others
    local = type("Local", (Slow,), {})()
    with pytest.raises(MNNError, match="the dataset cannot be sent to worker processes"):
        MNN.data.DataLoader(local, 3, num_workers=1, processes=True).next()


def test_orders_of_data():
    loader = MNN.data.DataLoader(MNN.data.ArrayDataset(np.arange(10.0), np.arange(10)), 3, seed=4)
    epochs = [np.concatenate([t[0].read() for _, t in loader]) for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    assert list(epochs[0]) != list(epochs[1])
    again = MNN.data.DataLoader(loader.dataset, 3, seed=4, num_workers=2)
    assert [list(np.concatenate([t[0].read() for _, t in again])) for _ in range(2)] == [list(e) for e in epochs]
