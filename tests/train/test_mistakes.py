"""What is wrong in a training is one sentence, in the user's own names, and leaves everything as it was."""

from __future__ import annotations

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError, RunError, ShapeError

F, nn, optim = MNN.expr, MNN.nn, MNN.optim


class Part(nn.Module):
    """A root of something whose size ``shift`` decides."""

    def __init__(self, shift):
        super().__init__()
        self.dense, self.shift = nn.linear(3, 4), shift

    def forward(self, x):
        return F.sqrt(F.square(self.dense(x)) + self.shift)


class Net(nn.Module):
    def __init__(self, shift=1.0):
        super().__init__()
        self.part, self.head = Part(shift), nn.linear(4, 2)

    def forward(self, x):
        return self.head(self.part(x))


def rows(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def fitted(model, targets, **options):
    return MNN.train.fit(model, (rows(len(targets), 3), targets), progress=False, **options)


def test_operators_are_named_by_their_layers():
    model = Net(-1e3)
    with pytest.raises(RunError, match=r"It began with UnaryOp SQRT in the layer 'part' of f32\[5, 4\], "):
        fitted(model, np.zeros(5, np.int32), optimizer=optim.SGD(model, 0.1, debug=True))
    with pytest.raises(ShapeError, match=r"^layer 'part.dense': .*cannot multiply \[2, 5\] by \[3, 4\]"):
        Net()(F.const(rows(2, 5), [2, 5]))


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_gradients_that_are_not_finite_while_the_loss_is(accumulate, clip):
    """The root of zero has no derivative; it lies behind the loss's other operators, and before the layer's."""
    model = Net(0.0)
    model.part.dense.weight.write(np.zeros((4, 3), np.float32))
    before = {n: v.read() for n, v in model.named_parameters().items()}
    made = optim.ADAM(model, 0.1, debug=True, accumulate=accumulate, clip_norm=clip)
    x = F.const(rows(2, 3), [2, 3])
    said = r"gradients of the loss 0.* are not finite; .*as they were. It began on the way back, with the gradient of "
    with pytest.raises(RunError, match=said + r"UnaryOp SQRT in the layer 'part' of .* between 0 and 0"):
        made.step(nn.loss.softmax_cross_entropy(model(x), np.array([0, 1])))
    assert made.steps == 0
    assert all(np.array_equal(v.read(), before[n]) for n, v in model.named_parameters().items())
    assert made.step(F.reduce_sum(F.square(model.part.dense(x))))  # it goes on


def test_parameters_that_an_earlier_step_spoilt():
    model = Net(0.0)
    model.part.dense.weight.write(np.zeros((4, 3), np.float32))
    made, x = optim.SGD(model, 0.1), F.const(rows(2, 3), [2, 3])
    made.step(F.reduce_sum(model(x)))  # nobody looks at gradients
    with pytest.raises(RunError, match=r"the loss is nan; .*, but 'part.dense.weight' was not finite before the step"):
        made.step(F.reduce_sum(model(x)))


def test_statistics_are_left_as_they_were():
    """Running means, after a batch that holds NaN."""

    class Normal(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.conv(1, 2, 3), nn.batch_norm(2)

        def forward(self, x):
            return self.norm(self.conv(x))

    model = Normal()
    model.train(True)
    made, x = optim.SGD(model, 0.1), rows(2, 1, 5, 5)
    made.step(F.reduce_mean(F.square(model(F.const(x, list(x.shape))))))
    before = {n: v.read() for n, v in model.named_parameters().items()}
    bad = np.where(x > 1, np.nan, x)
    with pytest.raises(RunError, match="the loss is nan"):
        made.step(F.reduce_mean(F.square(model(F.const(bad, list(x.shape))))))
    assert all(np.array_equal(v.read(), before[n]) for n, v in model.named_parameters().items())
    made.step(F.reduce_mean(F.square(model(F.const(x, list(x.shape))))))
    assert all(np.isfinite(v.read()).all() for v in model.parameters)


def test_labels_and_targets_that_do_not_fit():
    for wrong in (2, -1):
        with pytest.raises(MNNError, match=f"the label {wrong} is none of the 2 classes"):
            fitted(Net(), np.array([0, 1, wrong, 1], np.int32))
        with pytest.raises(MNNError, match=f"the label {wrong} is none of the 2 classes"):
            nn.loss.softmax_cross_entropy(rows(2, 2), np.array([0, wrong]))
    with pytest.raises(MNNError, match="the label 7 is none"):
        MNN.train.evaluate(Net(), (rows(3, 3), np.array([0, 7, 1], np.int32)))
    for shape in ((4,), (4, 1), (4, 3), (1, 2)):  # some would broadcast
        if shape[0] == 4:
            with pytest.raises(ShapeError, match=r"the model gives \[4, 2\], and the targets are "):
                fitted(Net(), rows(*shape))
    assert fitted(Net(), rows(4, 2)).epochs[0].loss > 0


def test_settings_that_are_none():
    model = Net()
    wrong = {
        "learning_rate": (-0.1, float("nan"), "fast"), "momentum": (1.0, -0.1), "weight_decay": (-1.0,),
        "clip_norm": (-1.0,), "clip_value": (float("inf"),), "accumulate": (0, 1.5, "2"), "activation_memory": (0,),
        "loss_scale": (0.0, "auto"),
    }  # fmt: skip
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(MNNError, match=f"{name} .*{value!r}|{name} must be above 0"):
                optim.SGD(model, **{name: value})
    for make in (optim.ADAM, optim.Lion, optim.AdamW):
        with pytest.raises(MNNError, match="momentum2 lies between 0 and 1"):
            make(model, momentum2=1.0)
    made = optim.SGD(model)
    made.learning_rate = float("nan")
    with pytest.raises(MNNError, match="learning_rate is a finite number, found nan"):
        made.step(F.reduce_sum(model(F.const(rows(2, 3), [2, 3]))))
    with pytest.raises(MNNError, match="optimizer is made beforehand"):
        fitted(model, np.zeros(2, np.int32), optimizer=optim.SGD)


def test_what_cannot_become_another():
    layer = nn.linear(2, 2)
    given = F.placeholder([2])
    with pytest.raises(MNNError, match=r"number 0 \(f32\[2\]\) of the shape \[2\] is no constant or parameter"):
        optim.SGD(layer).save_graph("never.mnn", [given], [given], [given])


def test_losses_by_whole_numbers():
    model, x = Net(), F.const(rows(2, 3), [2, 3])
    made = optim.SGD(model, 0.1)
    for loss in (F.argmax(model(x), 1), F.cast(model(x), F.int), F.greater(model(x), F.const([0.0], []))):
        with pytest.raises(MNNError, match="the loss depends on parameters by whole numbers alone"):
            made.step(F.reduce_sum(F.cast(loss, F.float)))
    with pytest.raises(MNNError, match=r"the output number 0 \(i32\[2\]\) has no gradient: it holds i32"):
        made.grad([F.argmax(model(x), 1)], [F.argmax(model(x), 1)], model.parameters)
    taken = F.gather(model(x), F.cast(F.argmax(F.reduce_sum(model(x), [0])), F.int))
    assert made.step(F.reduce_sum(taken))  # places by whole numbers, numbers by floats
