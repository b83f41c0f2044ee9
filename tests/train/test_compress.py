"""Quantisation-aware training: what is trained is what integers give, here and in the official engine."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from tests.interop import official

F, nn = MNN.expr, MNN.nn
C = nn.compress


class Net(nn.Module):
    """A plain, a normalised, a strided, a depthwise and a dense convolution."""

    def __init__(self):
        super().__init__()
        self.first = nn.conv(2, 8, [3, 3], padding=[1, 1])
        self.norm = nn.batch_norm(8)
        self.deep = nn.conv(8, 8, [3, 3], depthwise=True, padding_mode=F.Padding_Mode.SAME)
        self.second = nn.conv(8, 12, [3, 2], stride=[2, 1], dilation=[1, 2])
        self.last = nn.conv(12, 3, [1, 1], bias=False)

    def forward(self, x):
        x = F.relu6(self.deep(F.relu(self.norm(self.first(x)))))
        x = self.last(F.relu(self.second(x)))
        return F.softmax(F.reduce_mean(F.convert(x, F.NCHW), [2, 3]), 1)


def batch(seed, count=16):
    x = np.random.default_rng(seed).normal(0.3, 1, (count, 2, 9, 9)).astype(np.float32)
    classes = (x[:, 0].mean((1, 2)) > 0.3).astype(int) + (x[:, 1].mean((1, 2)) > 0.3)
    return F.const(x, list(x.shape)), F.const(np.eye(3, dtype=np.float32)[classes], [count, 3])


def trained(bits=8, method=C.MOVING_AVERAGE, steps=12):
    nn.seed(4)
    net = Net()
    assert C.train_quant(net, quant_bits=bits, scale_update_method=method)
    optimizer = MNN.optim.ADAM(net, 0.01)
    losses = []
    for seed in range(steps):
        x, y = batch(seed)
        loss = nn.loss.cross_entropy(net(x), y)
        optimizer.step(loss)
        losses.append(float(loss.read()))
    return net, losses


def test_signature():
    assert repr(C.train_quant.__defaults__) == repr((8, C.PER_TENSOR, C.MOVING_AVERAGE))
    assert (C.PER_TENSOR, C.PER_CHANNEL) == (C.Feature_Scale_Method.PER_TENSOR, C.Feature_Scale_Method.PER_CHANNEL)
    assert (C.MAXIMUM, C.MOVING_AVERAGE) == (C.Scale_Update_Method.MAXIMUM, C.Scale_Update_Method.MOVING_AVERAGE)


@pytest.mark.parametrize("method", [C.MAXIMUM, C.MOVING_AVERAGE])
def test_ranges_of_features(method):
    net, _ = trained(method=method, steps=3)
    low = high = None
    for seed in range(3):
        x = batch(seed)[0].read()
        step = (np.float32(x.max()) - np.float32(x.min())) / np.float32(254)
        zero = np.round(-x.min() / step - 127)
        ends = (-127 - zero) * step, (127 - zero) * step
        if low is None:
            low, high = ends
        elif method is C.MAXIMUM:
            low, high = min(low, ends[0]), max(high, ends[1])
        else:
            low, high = 0.99 * low + 0.01 * ends[0], 0.99 * high + 0.01 * ends[1]
    found = net.first.quantizer
    np.testing.assert_allclose([float(found.low.read()), float(found.high.read())], [low, high], 1e-5)


@pytest.mark.parametrize("bits", [8, 4])
def test_what_is_trained_is_what_integers_give(bits, tmp_path):
    """The training form on a batch whose range is the one that is kept, against the integers, here and elsewhere."""
    net, losses = trained(bits, C.MAXIMUM)
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    x, _ = batch(99, 4)
    net.train(False)
    whole = net(x).read()
    assert any(v.op_type == "ConvInteger" for v in _behind(net(x)))
    plain = Net()
    plain.load_parameters([v for v in net.parameters if v.shape])
    plain.train(False)
    error = np.abs(plain(x).read() - whole).max()
    assert 1e-6 < error < (0.02 if bits == 8 else 0.2)  # the steps of the weights tell
    data = F.placeholder([4, 2, 9, 9], F.NCHW)
    data.name = "data"
    answer = net(data)
    answer.name = "answer"
    for path in (tmp_path / "saved.mnn", tmp_path / "exported.mnn"):
        if path.stem == "saved":
            F.save([answer], path)
        else:
            MNN.train.export(net, path, [4, 2, 9, 9], names=["data", "answer"])
        model = MNN.load(path)
        assert sum(n.op == "ConvInteger" for n in model.graph.nodes) == 4
        np.testing.assert_allclose(model.run({"data": x.read()})["answer"], whole, 0, 2e-6)
        np.testing.assert_allclose(official.run(path, {"data": x.read()}, ["answer"])[0], whole, 0, 2e-6)


def _behind(var):
    seen, stack = {}, [var._expr]
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen[id(expr)] = expr
            stack += [r[0] for r in expr.inputs if r is not None]
    return [F.Var(e, 0, F.NCHW) for e in seen.values()]


def test_a_loaded_network(tmp_path):
    """As PyMNN's own programs do it: a file as expressions, those as a module, that quantised and trained."""
    nn.seed(6)
    MNN.train.export(Net(), tmp_path / "float.mnn", [1, 2, 9, 9])
    tensors = F.load_as_dict(tmp_path / "float.mnn")
    net = nn.load_module([tensors["input"]], [tensors["output"]], True)
    before = net(batch(1)[0]).read()
    assert C.train_quant(net)
    optimizer = MNN.optim.SGD(net, 0.05)
    for seed in range(6):
        x, y = batch(seed)
        optimizer.step(nn.loss.cross_entropy(net(x), y))
    net.train(False)
    after = net(batch(1)[0]).read()
    assert 1e-4 < np.abs(before - after).max() < 0.5
    F.save([net(F.placeholder([16, 2, 9, 9], F.NCHW))], tmp_path / "whole.mnn")
    model = MNN.load(tmp_path / "whole.mnn")
    (found,) = model.run({next(iter(model.inputs)): batch(1)[0].read()}).values()
    np.testing.assert_allclose(found, after, 0, 2e-6)
    assert sum(n.op == "ConvInteger" for n in model.graph.nodes) == 4


def test_without_training():
    """A module that is only run: the first examples decide the range, and there have to be some."""
    net = Net()
    C.train_quant(net)
    net.train(False)
    with pytest.raises(MNNError, match="has seen no numbers yet"):
        net(F.placeholder([1, 2, 9, 9], F.NCHW))
    plain = Net()
    plain.load_parameters([v for v in net.parameters if v.shape])
    plain.train(False)
    x, _ = batch(3)
    assert np.abs(net(x).read() - plain(x).read()).max() < 0.02
    net(F.placeholder([1, 2, 9, 9], F.NCHW))  # known from then on


def test_what_cannot_be_quantised():
    assert C.train_quant(nn.linear(3, 4)) is False
    for wrong, match in (
        ({"module": "net"}, "takes a Module, found str"),
        ({"quant_bits": 9}, "2 to 8 bits"),
        ({"scale_update_method": "MAXIMUM"}, "scale_update_method is MAXIMUM or"),
        ({"feature_scale_method": 1}, "feature_scale_method is PER_TENSOR or"),
    ):
        with pytest.raises(MNNError, match=match):
            C.train_quant(**{"module": Net(), **wrong})


def test_clones_and_saved_parameters(tmp_path):
    net, _ = trained(steps=2)
    net.train(False)
    x, _ = batch(5)
    again = net.clone()
    np.testing.assert_array_equal(again(x).read(), net(x).read())
    nn.save(net, tmp_path / "net.npz")
    other = Net()
    C.train_quant(other)
    other.train(False)
    nn.load(other, tmp_path / "net.npz")
    np.testing.assert_array_equal(other(x).read(), net(x).read())
