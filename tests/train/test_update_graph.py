"""Gradients as expressions, steps as expressions, and files that go on by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError

F, nn, optim = MNN.expr, MNN.nn, MNN.optim
WEIGHT = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
BIAS = np.float32([0.3, -0.2])


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = F.const(WEIGHT, [3, 2]), F.const(BIAS, [2])

    def forward(self, x):
        return F.tanh(F.matmul(x, self.weight) + self.bias)


def slopes(x, d, weight=WEIGHT, bias=BIAS):
    """Of ``sum(d * tanh(x @ weight + bias))``, by hand."""
    inner = d * (1 - np.tanh(x.astype(np.float64) @ weight + bias) ** 2)
    return x.T @ inner, inner.sum(0)


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 2)).astype(np.float32)


def expressions():
    """A layer's result, with gradients that wait for numbers."""
    layer = Layer()
    x, d = F.placeholder([5, 3]), F.placeholder([5, 2])
    x.name, d.name = "x", "d"
    y = layer(x)
    return layer, x, d, y, *optim.Grad().grad([y], [d], [layer.weight, layer.bias])


def test_gradients_are_computed_when_they_are_read():
    layer, x, d, _, given, found = expressions()
    assert given[0] is layer.weight
    assert [v.shape for v in found] == [[3, 2], [2]]
    for seed in (1, 2):
        numbers = batch(seed)
        x.write(numbers[0])
        d.write(numbers[1])
        for v, wanted in zip(found, slopes(*numbers), strict=True):
            np.testing.assert_allclose(v.read(), wanted, 1e-5, 1e-6)
    layer.bias.write(BIAS + 1)
    np.testing.assert_allclose((found[1] * 2).read(), 2 * slopes(*numbers, bias=BIAS + 1)[1], 1e-5, 1e-6)


@pytest.mark.parametrize("lazy", [False, True])
def test_gradients_of_constants_and_of_what_is_computed(lazy, tmp_path):
    """Of weights of a file, which are constants, and of a result on the way; saved and loaded they are the same."""
    _, _, d, y, _, _ = expressions()
    F.save([y], tmp_path / "layer.mnn")
    F.lazy_eval(lazy)
    try:
        tensors = F.load_as_dict(tmp_path / "layer.mnn")
        result, weight = tensors[y.name or next(n for n in tensors if n.startswith("UnaryOp"))], tensors["weight"]
        assert weight.op_type == "Const"
        inner = F.square(result)
        _, found = optim.Grad().grad([inner], [d], [weight, result])
        numbers = batch(3)
        tensors["x"].write(numbers[0])
        d.write(numbers[1])
        last = np.tanh(numbers[0] @ WEIGHT + BIAS)
        wanted = slopes(numbers[0], 2 * last * numbers[1])[0], 2 * last * numbers[1]
        for v, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(v.read(), w, 1e-5, 1e-6)
        found[0].name = "slope"
        F.save(found[:1], tmp_path / "slopes.mnn")
        again = MNN.load(tmp_path / "slopes.mnn").run({"x": numbers[0], "d": numbers[1]})
        np.testing.assert_allclose(again["slope"], wanted[0], 1e-5, 1e-6)
        loaded = F.load_as_dict(tmp_path / "slopes.mnn")
        loaded["x"].write(numbers[0])
        loaded["d"].write(numbers[1])
        np.testing.assert_allclose(loaded["slope"].read(), wanted[0], 1e-5, 1e-6)
    finally:
        F.lazy_eval(False)


def test_a_loss_of_gradients():
    """A penalty on the size of a gradient has gradients itself."""
    layer = Layer()
    x = F.const(batch(4)[0], [5, 3])
    y = layer(x)
    _, (slope,) = optim.Grad().grad([y], [F.const(np.ones((5, 2)), [5, 2])], [layer.weight])
    before = float(F.reduce_sum(F.square(slope)).read())
    optim.SGD(layer, 0.001, 0.0).step(F.reduce_sum(F.square(slope)))
    step = 1e-3
    found = (WEIGHT - layer.weight.read()) / step

    def penalty(weight):
        return (slopes(x.read(), np.ones((5, 2)), weight.astype(np.float64))[0] ** 2).sum()

    assert penalty(WEIGHT) == pytest.approx(before, rel=1e-5)
    for place in np.ndindex(3, 2):
        moved = np.zeros((3, 2))
        moved[place] = 1e-5
        wanted = (penalty(WEIGHT + moved) - penalty(WEIGHT - moved)) / 2e-5
        assert found[place] == pytest.approx(wanted, rel=2e-3, abs=2e-3)


def descent(numbers, rate, steps):
    """As PyMNN has it: a step goes along what the steps before have left."""
    w, h = WEIGHT.astype(np.float64), np.zeros((3, 2))
    for x, d in numbers[:steps]:
        slope = slopes(x, d, w)[0]
        w, h = w - rate * h, slope + 0.01 * w + 0.9 * h
    return w


def adam(numbers, rate, steps):
    w, m, s = WEIGHT.astype(np.float64), np.zeros((3, 2)), np.zeros((3, 2))
    for t, (x, d) in enumerate(numbers[:steps], 1):
        slope = slopes(x, d, w)[0]
        root = np.sqrt(1 - 0.99**t) / (1 - 0.8**t)
        w = w - rate * root * m / (np.sqrt(s + 1e-8) + 1e-3)
        m, s = 0.8 * m + 0.2 * slope, 0.99 * s + 0.01 * slope**2
    return w


@pytest.mark.parametrize("kind", ["descent", "adam"])
def test_a_file_that_goes_on(kind, tmp_path):
    layer, _, _, y, _, found = expressions()
    if kind == "descent":
        optimizer, by_hand, names = optim.SGD(layer, 1.0, 0.9, 0.01), descent, ["weight", "weight_momentum"]
    else:
        optimizer, by_hand = optim.ADAM(layer, 1.0, 0.8, 0.99, 0.0, 1e-3), adam
        names = ["optimize_step", "weight", "weight_momentum1", "weight_momentum2"]
    rate = F.placeholder([])
    rate.name, y.name = "rate", "answer"
    before, after = optimizer.get_update_graph([layer.weight], found[:1], [rate])
    assert [v.name for v in before] == names
    assert [v.name for v in after] == [f"update_{n}" for n in names]
    assert [v.shape for v in before] == [v.shape for v in after]
    optimizer.save_graph(str(tmp_path / "step.mnn"), [y], before, after)

    model = MNN.load(tmp_path / "step.mnn")
    numbers = [batch(seed) for seed in range(6)]
    assert list(model.outputs) == ["answer"]
    for count, (x, d) in enumerate(numbers, 1):
        answer = model.run({"x": x, "d": d, "rate": np.float32(0.05)})["answer"]
        now = by_hand(numbers, 0.05, count - 1)
        np.testing.assert_allclose(answer, np.tanh(x @ now + BIAS), 1e-4, 1e-5)
        np.testing.assert_allclose(model.state["weight"], by_hand(numbers, 0.05, count), 1e-4, 1e-5)
    assert np.abs(now - WEIGHT).max() > 0.1
    model.state.reset()
    x, d = numbers[0]
    first = model.run({"x": x, "d": d, "rate": np.float32(0.05)})["answer"]
    np.testing.assert_allclose(first, np.tanh(x @ WEIGHT + BIAS), 1e-5, 1e-6)

    interpreter = MNN.Interpreter(str(tmp_path / "step.mnn"))
    session = interpreter.createSession()
    for x, d in numbers[:4]:
        for name, array in (("x", x), ("d", d), ("rate", np.float32(0.05))):
            interpreter.getSessionInput(session, name).fromNumpy(np.asarray(array))
        interpreter.runSession(session)
    answer = interpreter.getSessionOutput(session, "answer").getNumpyData()
    np.testing.assert_allclose(answer, np.tanh(x @ by_hand(numbers, 0.05, 3) + BIAS), 1e-4, 1e-5)


def test_what_has_no_update_graph(tmp_path):
    layer, _, _, y, _, found = expressions()
    rate = F.placeholder([])
    for optimizer in (optim.RMSprop(layer), optim.AdamW(layer), optim.SGD(layer, nesterov=True)):
        with pytest.raises(MNNError, match="has no update graph; SGD, ADAM and Grad have"):
            optimizer.get_update_graph([layer.weight], found[:1], [rate])
    sgd = optim.SGD(layer)
    with pytest.raises(MNNError, match="found 1 parameter, 1 gradient, 0 rates"):
        sgd.get_update_graph([layer.weight], found[:1], [])
    with pytest.raises(MNNError, match=r"'weight' of shape \[3, 2\] with a gradient of shape \[2\]"):
        sgd.get_update_graph([layer.weight], found[1:], [rate])
    with pytest.raises(MNNError, match="is no constant or parameter that can become"):
        sgd.save_graph(str(tmp_path / "no.mnn"), [], [y], [y])
    assert not list(tmp_path.iterdir())
    count = F.const([1, 2], [2], dtype=F.int)
    count.name = "count"
    with pytest.raises(MNNError, match="the parameter 'count' has no gradient: it holds i32"):
        optim.Grad().grad([y], [F.placeholder([5, 2])], [count])
    with pytest.raises(MNNError, match="do not depend on the parameter number 1"):
        optim.Grad().grad([y], [F.placeholder([5, 2])], [layer.weight, F.const([1.0], [1])])
