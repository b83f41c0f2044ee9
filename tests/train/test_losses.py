"""Losses with drawn sizes, weights, labels that do not count and lengths: numbers and gradients beside torch's."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError, ShapeError
from tests import kept

F, nn = MNN.expr, MNN.nn
FIRST, COUNT = (int(os.environ.get(f"MNN_LOSS_{n}", given)) for n, given in (("SEED", "1"), ("COUNT", "10")))


def cross_entropies(rng):
    classes, shape = int(rng.integers(2, 9)), tuple(rng.integers(1, 5, rng.integers(1, 4)))
    case = {"kind": "cross entropy", "ignore": rng.choice([None, -100, 1]), "smoothing": rng.choice([0.0, 0.1, 1.0])}
    arrays = {"x": 3 * rng.normal(size=(*shape, classes)), "y": rng.integers(0, classes, shape)}
    if case["ignore"] is not None:
        arrays["y"][rng.random(shape) < 0.4] = case["ignore"]
        arrays["y"].reshape(-1)[0] = 0
    if rng.random() < 0.6:
        arrays["w"] = rng.uniform(0.1, 3, classes)
    return case, arrays


def sequences(rng):
    """Rows that their steps are too few for among them."""
    steps, batch, classes, most = (int(rng.integers(*r)) for r in ((1, 12), (1, 4), (2, 7), (1, 6)))
    case = {"kind": "ctc", "blank": int(rng.integers(0, classes)), "zero_infinity": bool(rng.random() < 0.7)}
    others = [k for k in range(classes) if k != case["blank"]]
    arrays = {"x": 2 * rng.normal(size=(steps, batch, classes)), "y": rng.choice(others, (batch, most))}
    arrays |= {"steps": rng.integers(1, steps + 1, batch), "counts": rng.integers(0, most + 1, batch)}
    return case, arrays


def drawn(seed):
    rng = np.random.default_rng(seed)
    case, arrays = (cross_entropies, sequences)[seed % 2](rng)
    return case, {n: a.astype(np.int32 if a.dtype.kind == "i" else np.float32) for n, a in arrays.items()}


def loss_of(case, x, a):
    if case["kind"] == "ctc":
        options = {"blank": case["blank"], "zero_infinity": case["zero_infinity"]}
        return nn.loss.ctc(F.log(F.softmax(x, -1)), a["y"], a["steps"], a["counts"], **options)
    options = {"weights": a.get("w"), "ignore": case["ignore"], "smoothing": case["smoothing"]}
    return nn.loss.softmax_cross_entropy(x, a["y"], **options)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses")
    cases = [drawn(seed) for seed in range(FIRST, FIRST + COUNT)]
    (folder / "cases.json").write_text(json.dumps([case for case, _ in cases]))
    np.savez(folder / "given.npz", **{f"{i}/{n}": v for i, (_, a) in enumerate(cases) for n, v in a.items()})
    files = [str(folder / name) for name in ("cases.json", "given.npz", "found.npz")]
    kept.torch("tests.train.torch_losses", folder, *files)
    with np.load(files[2]) as found:
        return dict(found)


@pytest.mark.parametrize("number", range(COUNT))
def test_losses_and_gradients_are_those_of_torch(wanted, number):
    case, arrays = drawn(FIRST + number)
    x = F.const(arrays["x"], list(arrays["x"].shape))
    x.fix_as_trainable()
    loss = loss_of(case, x, arrays)
    want = wanted[f"{number}/loss"]
    np.testing.assert_allclose(loss.read(), want, rtol=1e-5, atol=1e-6)
    if np.isfinite(want):
        (slope,) = MNN.optim.Grad().grad([loss], [F.const(np.float32(1), [])], [x])[1]
        np.testing.assert_allclose(slope.read(), wanted[f"{number}/slope"], atol=1e-5)


def test_labels_that_do_not_count_in_a_step():
    """Targets of a batch are fed to one program; with none that counts nothing is changed."""
    nn.seed(3)
    model = nn.linear(4, 3)
    optimizer = MNN.optim.SGD(model, 0.1)
    x = F.const(np.ones((5, 4), np.float32), [5, 4])
    before = model.weight.read().copy()
    with pytest.raises(MNNError, match="the loss is nan"):
        optimizer.step(nn.loss.softmax_cross_entropy(model(x), np.full(5, -1, np.int32), ignore=-1))
    assert (model.weight.read() == before).all()
    optimizer.step(nn.loss.softmax_cross_entropy(model(x), np.array([-1, 2, -1, -1, 0], np.int32), ignore=-1))
    assert (model.weight.read() != before).any()


def test_probabilities_of_zero_where_nothing_is_wanted():
    """Softmax gives zeros for logits that are far apart: ``0 log 0`` is 0 there, and so is its gradient."""
    nn.seed(3)
    model = nn.linear(2, 3)
    model.weight.write(np.array([[400, 0], [-400, 0], [0, 1]], np.float32))
    x, wanted = np.array([[1, 0], [0, 2]], np.float32), np.array([[1, 0, 0], [0, 0.25, 0.75]], np.float32)
    given = F.softmax(model(F.const(x, [2, 2])), -1)
    numbers = np.asarray(given.read(), np.float64)
    assert (numbers == 0).any()
    logs = np.log(np.where(wanted > 0, numbers, 1))
    for loss, exact in (
        (nn.loss.cross_entropy, -(wanted * logs).sum(1).mean()),
        (nn.loss.kl, (wanted * (np.log(np.where(wanted > 0, wanted, 1)) - logs)).sum(1).mean()),
    ):
        first, second = (wanted, given) if loss is nn.loss.kl else (given, wanted)
        value = loss(first, second)
        assert abs(value.read() - exact) < 1e-6
        MNN.optim.SGD(model, 0.0).step(value)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda x: nn.loss.softmax_cross_entropy(x, [0, 5]), "the label 5 is none of the 3 classes"),
        (lambda x: nn.loss.softmax_cross_entropy(x, [0, -1], ignore=-100), "the label -1 is none of the 3 classes"),
        (lambda x: nn.loss.softmax_cross_entropy(x, [0, 1], weights=[1.0, 2.0]), r"the shape \[3\], found \[2\]"),
        (lambda x: nn.loss.softmax_cross_entropy(x, [0, 1], smoothing=1.5), "smoothing lies between 0 and 1"),
        (lambda x: nn.loss.ctc(x, [[1]], [2], [1]), r"ctc takes log_probs \[T, N, C\]"),
        (
            lambda x: nn.loss.ctc(F.reshape(x, [2, 1, 3]), [[3]], [2], [1]),
            "targets of ctc lie between 0 and 2, found 3",
        ),
        (lambda x: nn.loss.ctc(F.reshape(x, [2, 1, 3]), [[1]], [3], [1]), "input_lengths of ctc lie between 0 and 2"),
        (lambda x: nn.loss.ctc(F.reshape(x, [2, 1, 3]), [[1]], [2], [2]), "target_lengths of ctc lie between 0 and 1"),
        (lambda x: nn.loss.ctc(F.reshape(x, [2, 1, 3]), [[1]], [2], [1], blank=3), "the blank of ctc is one of the 3"),
    ],
)
def test_mistakes_are_one_sentence(made, said):
    with pytest.raises(MNNError, match=said):
        made(F.const(np.zeros((2, 3), np.float32), [2, 3]))


@pytest.mark.parametrize(("shape", "dims"), [([1, 4], 2), ([1, 4, 1, 1], 4)])
def test_batch_normalisation_of_a_single_value(shape, dims):
    """It has no spread: torch refuses it as well. Two values have one, and so has what is not trained."""
    norm = nn.batch_norm(4, dims)
    norm.train(True)
    with pytest.raises(ShapeError, match="takes more than one value for each channel"):
        norm(F.const(np.ones(shape, np.float32), shape))
    two = [2, *shape[1:]]
    assert np.isfinite(norm(F.const(np.arange(8, dtype=np.float32).reshape(two), two)).read()).all()
    norm.train(False)
    assert np.isfinite(norm(F.const(np.ones(shape, np.float32), shape)).read()).all()


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (lambda m: [{"lr": 1}], "MNN.optim.Group objects, found dict"),
        (lambda m: [MNN.optim.Group([])], "group 0 of the optimizer has no parameters"),
        (lambda m: [MNN.optim.Group([3])], "holds modules and parameters, found int"),
        (lambda m: [MNN.optim.Group([nn.linear(2, 2)])], "that the module does not have"),
        (lambda m: [MNN.optim.Group([m.bias]), MNN.optim.Group([m])], "'bias' is in groups 0 and 1 at once"),
        (lambda m: [MNN.optim.Group([m.bias], -1.0)], "rate_factor of group 0 must not be negative"),
        (lambda m: [MNN.optim.Group([m.bias], 1.0, float("nan"))], "weight_decay of group 0 is a finite number"),
    ],
)
def test_mistakes_with_groups(groups, said):
    model = nn.linear(3, 3)
    with pytest.raises(MNNError, match=said):
        MNN.optim.SGD(model, 0.1, groups=groups(model))
    with pytest.raises(MNNError, match="no running mean of parameters"), MNN.optim.SGD(model, 0.1).averaged():
        pass
