"""Optimisers against their formulas in numpy, float64; what a step does with states, sums, limits and mistakes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError, RunError, ShapeError
from MNN.optim import program as step_programs
from MNN.train.step import Steps

F, nn, optim = MNN.expr, MNN.nn, MNN.optim
STEPS = 6


class Line(nn.Module):
    """``sum((x * w + b) ** 2)`` of vectors."""

    def __init__(self, size=7):
        super().__init__()
        rng = np.random.default_rng(0)
        self.w = F.const(rng.normal(size=size).astype(np.float32), [size])
        self.b = F.const(rng.normal(size=size).astype(np.float32), [size])

    def forward(self, x):
        y = x * self.w + self.b
        return F.reduce_sum(y * y)


def data(k, size=7):
    return np.random.default_rng(100 + k).normal(size=size).astype(np.float32)


def slopes(w, b, x):
    y = x * w + b
    return 2 * y * x, 2 * y


def expected(rule, every=1, limit=None, cap=None):
    """Parameters after steps of ``rule(t, p, g, state)`` (which gives the new p), in float64."""
    model = Line()
    p = [model.w.read().astype(np.float64), model.b.read().astype(np.float64)]
    states = [{}, {}]
    total = [0.0, 0.0]
    for k in range(STEPS * every):
        g = slopes(*p, data(k).astype(np.float64))
        total = [a + z / every for a, z in zip(total, g, strict=True)]
        if (k + 1) % every:
            continue
        if cap:
            total = [np.clip(a, -cap, cap) for a in total]
        if limit:
            norm = np.sqrt(sum((a * a).sum() for a in total))
            total = [a * min(1, limit / (norm + 1e-6)) for a in total]
        p = [rule(k // every + 1, a, g, s) for a, g, s in zip(p, total, states, strict=True)]
        total = [0.0, 0.0]
    return p


def found(make, every=1, **options):
    model = Line()
    opt = make(model, **options)
    for k in range(STEPS * every):
        opt.step(model(data(k)))
    assert opt.steps == STEPS
    return [model.w.read(), model.b.read()], opt


def sgd(rate, momentum, decay=lambda p: 0.0, nesterov=False):
    def rule(t, p, g, s):
        g = rate * (g + decay(p))
        s["h"] = momentum * s.get("h", 0) + g
        return p - (g + momentum * s["h"] if nesterov else s["h"])

    return rule


def adam(rate, b1, b2, eps, decay=0.0, coupled=True, corrected=False):
    def rule(t, p, g, s):
        g = g + decay * p * coupled
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        root = np.sqrt(1 - b2**t)
        eps_t = eps * root if corrected else eps
        return p - rate * root / (1 - b1**t) * s["m"] / (np.sqrt(s["v"]) + eps_t) - rate * decay * p * (not coupled)

    return rule


def rmsprop(rate, a, momentum, eps):
    def rule(t, p, g, s):
        s["v"] = a * s.get("v", 0) + (1 - a) * g * g
        s["h"] = momentum * s.get("h", 0) + g / (np.sqrt(s["v"]) + eps)
        return p - rate * s["h"]

    return rule


def lion(rate, b1, b2, decay):
    def rule(t, p, g, s):
        way = np.sign(b1 * s.get("m", 0) + (1 - b1) * g)
        s["m"] = b2 * s.get("m", 0) + (1 - b2) * g
        return p - rate * way - rate * decay * p

    return rule


CASES = {
    "sgd": (optim.SGD, {"learning_rate": 0.01}, sgd(0.01, 0.9)),
    "sgd plain": (optim.SGD, {"learning_rate": 0.01, "momentum": 0.0}, sgd(0.01, 0.0)),
    "sgd nesterov": (optim.SGD, {"learning_rate": 0.01, "nesterov": True}, sgd(0.01, 0.9, nesterov=True)),
    "sgd l2": (optim.SGD, {"learning_rate": 0.01, "weight_decay": 0.1}, sgd(0.01, 0.9, lambda p: 0.1 * p)),
    "sgd l1": (
        optim.SGD,
        {"learning_rate": 0.01, "weight_decay": 0.1, "regularization_method": optim.L1},
        sgd(0.01, 0.9, lambda p: 0.1 * np.sign(p)),
    ),
    "sgd l1l2": (
        optim.SGD,
        {"learning_rate": 0.01, "weight_decay": 0.1, "regularization_method": "L1L2"},
        sgd(0.01, 0.9, lambda p: 0.1 * (np.sign(p) + p)),
    ),
    "adam": (optim.ADAM, {"learning_rate": 0.1}, adam(0.1, 0.9, 0.999, 1e-8)),
    "adam l2": (optim.ADAM, {"learning_rate": 0.1, "weight_decay": 0.1, "eps": 1e-2}, adam(0.1, 0.9, 0.999, 1e-2, 0.1)),
    "adamw": (
        optim.AdamW,
        {"learning_rate": 0.1, "weight_decay": 0.2, "eps": 1e-2, "momentum2": 0.9},
        adam(0.1, 0.9, 0.9, 1e-2, 0.2, coupled=False, corrected=True),
    ),
    "rmsprop": (optim.RMSprop, {"learning_rate": 0.01, "momentum": 0.5}, rmsprop(0.01, 0.99, 0.5, 1e-8)),
    "lion": (optim.Lion, {"learning_rate": 0.01, "weight_decay": 0.1}, lion(0.01, 0.9, 0.99, 0.1)),
}


@pytest.mark.parametrize("name", CASES)
def test_methods(name):
    make, options, rule = CASES[name]
    got, opt = found(make, **options)
    for a, z in zip(got, expected(rule), strict=True):
        assert np.abs(a - z).max() < 2e-5
    program = next(iter(opt._programs.values()))
    assert program.in_place == len(program.states)


def test_accumulation_and_limits():
    got, _ = found(optim.SGD, 3, learning_rate=0.01, accumulate=3, clip_norm=2.0, clip_value=3.0)
    for a, z in zip(got, expected(sgd(0.01, 0.9), 3, 2.0, 3.0), strict=True):
        assert np.abs(a - z).max() < 2e-5


def test_the_rate_changes_between_steps_without_a_new_program():
    model = Line()
    opt = optim.SGD(model, 0.01, 0.0)
    before = model.w.read()
    opt.step(model(data(0)))
    first = model.w.read() - before
    opt.learning_rate, before = 0.02, model.w.read()
    model.load_parameters([F.const(v, [7]) for v in (before - first, model.b.read())])
    opt.step(model(data(0)))
    assert len(opt._programs) == 1
    assert np.isfinite(model.w.read()).all()


def test_numbers_written_between_steps_count():
    model = Line()
    opt = optim.SGD(model, 0.1, 0.0)
    opt.step(model(data(0)))
    model.w.write(np.zeros(7, np.float32))
    model.b.write(np.zeros(7, np.float32))
    opt.step(model(data(0)))
    assert not model.w.read().any()  # the gradient is zero at zero


def test_frozen_parameters_stay():
    model = Line()
    model.freeze()
    with pytest.raises(MNNError, match="depends on no parameter"):
        optim.SGD(model).step(model(data(0)))
    model.freeze(False)
    model.b.fix_as_const()
    before = model.b.read()
    assert optim.SGD(model, 0.1).step(model(data(0)))
    assert (model.b.read() == before).all()


def test_a_parameter_in_two_modules_moves_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.linear(3, 3, False)
            self.two = nn.linear(3, 3, False)
            self.two.weight = self.one.weight

        def forward(self, x):
            return F.reduce_sum(self.two(self.one(x)))

    model = Twice()
    assert len(model.parameters) == 1
    w, x = model.one.weight.read().astype(np.float64), np.ones((1, 3))
    optim.SGD(model, 0.1, 0.0).step(model(x.astype(np.float32)))
    rows = x @ w.T
    slope = np.ones((3, 1)) @ rows + (np.ones((1, 3)) @ w).T @ x
    assert np.abs(model.one.weight.read() - (w - 0.1 * slope)).max() < 1e-5


def test_nan_leaves_parameters_and_names_its_operator():
    class Logarithm(Line):
        def forward(self, x):
            return F.reduce_sum(F.log(x) * self.w)

    model = Logarithm()
    before = model.w.read()
    opt = optim.SGD(model, 0.1)
    with pytest.raises(RunError, match="step 1: the loss is nan; the parameters are left as they were"):
        opt.step(model(-np.ones(7, np.float32)))
    assert (model.w.read() == before).all()
    opt.debug = True
    with pytest.raises(RunError, match=r"began with UnaryOp LOG of f32\[7\], whose operands lie between -1 and -1"):
        opt.step(model(F.const(-np.ones(7, np.float32), [7]) * model.w / model.w))
    with pytest.raises(RunError, match=r"began with an input without a name \(f32\[7\]\), which holds NaN"):
        opt.step(model(np.full(7, np.nan, np.float32)))
    batch = F.placeholder([7])
    batch.name = "batch"
    batch.write(np.full(7, np.inf, np.float32))
    with pytest.raises(RunError, match="began with the input 'batch', which holds infinite numbers"):
        opt.step(model(batch))
    assert opt.step(model(np.ones(7, np.float32)))
    assert opt.steps == 1


def test_gradients_that_are_none_are_said_of_the_users_names():
    whole, plain = F.const([1, 2], [2], F.NCHW, F.int), F.const([3.0, 4.0], [2])
    named = F.placeholder([2], F.NCHW, F.int)
    named.name = "tokens"
    ones = [F.const([1.0, 1.0], [2])]
    for wrt, message in (
        (whole, r"parameter number 1 \(i32\[2\]\) has no gradient: it holds i32"),
        (named, "parameter 'tokens' has no gradient"),
        (plain, r"do not depend on the parameter number 1 \(f32\[2\]\).*fix_as_trainable"),
    ):
        other = F.const([5.0, 6.0], [2])
        other.fix_as_trainable()
        with pytest.raises(MNNError, match=message):
            optim.Grad().grad([F.cast(whole, F.float) * plain * other], ones, [other, wrt])
    plain.fix_as_trainable()
    _, (found,) = optim.Grad().grad([F.cast(whole, F.float) * plain], ones, [plain])
    np.testing.assert_array_equal(found.read(), [1, 2])


def test_losses_that_are_none():
    model = Line()
    opt = optim.SGD(model)
    with pytest.raises(ShapeError, match="must be one number, its shape is"):
        opt.step(F.const(data(0), [7]) * model.w)
    with pytest.raises(ShapeError, match="must be a float"):
        opt.step(F.cast(model(data(0)), F.int))
    with pytest.raises(MNNError, match="takes the loss as a Var"):
        opt.step(3.0)
    loss = model(data(0))
    opt.step(loss)
    with pytest.raises(MNNError, match="was the step of this loss made already"):
        opt.step(loss)
    with pytest.raises(MNNError, match="trains a Module"):
        optim.SGD(3)
    with pytest.raises(MNNError, match="not known"):
        optim.SGD(model, regularization_method="L3")


def test_gradients_alone():
    model = Line()
    x = data(0)
    given, found = optim.Grad().grad([model(x)], [F.const([1.0], [])], [model.w, model.b])
    assert given[0] is model.w
    for a, z in zip(found, slopes(model.w.read(), model.b.read(), x), strict=True):
        assert np.abs(a.read() - z).max() < 1e-5


def test_regularisation_is_an_enumeration():
    assert optim.Regularization_Method.L1 is optim.L1
    assert optim.SGD(Line()).regularization_method is optim.L2


@pytest.mark.parametrize("frozen", [False, True])
def test_losses_through_another_module(frozen):
    """An adversarial pair: the critic's step goes through the generator, of which only statistics move."""

    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.norm = nn.linear(3, 4), nn.batch_norm(4, 2, momentum=0.5)

        def forward(self, x):
            return self.norm(self.dense(x))

    generator, critic = Generator(), nn.linear(4, 1)
    if frozen:
        generator.freeze()
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    weight, bias = generator.dense.weight.read(), generator.dense.bias.read()
    wanted = np.zeros(4)

    def judged(rows):
        return F.reduce_mean(F.softplus(critic(generator(F.const(rows, [6, 3])))))

    first, second = optim.ADAM(critic, 0.1), optim.SGD(generator, 0.1)
    for turn in range(3):
        mean = (x @ weight.T + bias).mean(0)
        before = critic.weight.read()
        first.step(judged(x))
        wanted = 0.5 * wanted + 0.5 * mean
        np.testing.assert_allclose(generator.norm.running_mean.read(), wanted, rtol=1e-4, atol=1e-6)
        assert np.array_equal(generator.dense.weight.read(), weight)
        assert not np.array_equal(critic.weight.read(), before)
        with pytest.raises(RunError, match="the loss is nan"):
            first.step(judged(np.full_like(x, np.nan)))
        np.testing.assert_allclose(generator.norm.running_mean.read(), wanted, rtol=1e-4, atol=1e-6)
        if not frozen and turn < 2:
            second.step(0.0 - judged(x))
            wanted = 0.5 * wanted + 0.5 * mean
            np.testing.assert_allclose(generator.norm.running_mean.read(), wanted, rtol=1e-4, atol=1e-6)
            assert not np.array_equal(generator.dense.weight.read(), weight)
            weight, bias = generator.dense.weight.read(), generator.dense.bias.read()


@pytest.mark.parametrize("make", [optim.ADAM, optim.RMSprop, optim.SGD])
def test_layers_are_frozen_and_set_free_between_steps(make):
    """Each parameter goes on with its own moments: as if the steps in which it was frozen had not been."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.linear(4, 4), nn.batch_norm(4, 2), nn.linear(4, 4)

        def forward(self, x):
            return self.last(F.tanh(self.norm(self.first(x))))

    rng = np.random.default_rng(2)
    rows = rng.normal(size=(5, 6, 4)).astype(np.float32)
    model = Net()
    optimizer = make(model, 0.05)
    for turn, x in enumerate(rows):
        model.first.freeze(turn in (1, 2))
        model.last.freeze(turn == 2)
        before = {n: np.array(v.read()) for n, v in model.named_parameters().items()}
        state = optimizer.state()
        optimizer.step(F.reduce_mean(F.square(model(F.const(x, [6, 4])) - 1.0)))
        after = optimizer.state()
        names = [n for n in before if "running" not in n]
        for number, name in enumerate(names):
            frozen = (name.startswith("first") and turn in (1, 2)) or (name.startswith("last") and turn == 2)
            moved = not np.array_equal(before[name], model.named_parameters()[name].read())
            assert moved != frozen or name == "first.bias", (turn, name)  # behind a normalisation: no gradient
            for key in state:
                if key.startswith(f"parameter{number}.") and frozen:
                    assert np.array_equal(state[key], after[key])
    later = make(Net(), 0.05)
    later.module.first.freeze()
    later.load_state(optimizer.state())
    assert later.steps == 5


def test_an_optimizer_can_be_sent_to_another_process():
    nn.seed(5)
    made = optim.ADAM(nn.linear(4, 2), 0.05)
    losses = []
    for own in (made, pickle.loads(pickle.dumps(made))):
        loss = F.reduce_mean(F.square(own.module(F.const(np.ones((3, 4)), [3, 4]))))
        own.step(loss)
        losses.append(loss.read())
    assert losses[0] == losses[1]


def test_programs_of_many_shapes_are_dropped(monkeypatch):
    """Numbers are those of an optimizer that keeps all; moments go on from program to program."""
    sizes = [3, 5, 3, 7, 5, 9, 3, 3]

    def trained(kept):
        monkeypatch.setattr(step_programs, "KEPT", kept)
        nn.seed(5)
        model = nn.linear(4, 2)
        made = optim.ADAM(model, 0.05)
        steps = Steps(model, made, None)
        losses = []
        for k, n in enumerate(sizes):
            x = np.random.default_rng(k).standard_normal((n, 4)).astype(np.float32)
            losses.append(steps.step([F.const(x, [n, 4])], [F.const(x[:, :2], [n, 2])])[0])
            steps.look([F.const(x, [n, 4])], [F.const(x[:, :2], [n, 2])])
        return losses, [len(found) for found in (made._programs, steps._known, steps._looks)]

    all_kept, dropped = trained(64), trained(2)
    assert all_kept[0] == dropped[0]
    assert (all_kept[1], dropped[1]) == ([4, 4, 4], [2, 2, 2])
    monkeypatch.setattr(step_programs, "KEPT_SHARE", 1 << 60)  # no memory at all
    assert trained(64) == (all_kept[0], [1, 4, 4])
