"""Drawn networks with drawn losses and optimizers are trained as torch trains them: 50 steps from the same weights.

``MNN_CURVE_SEED=100 MNN_CURVE_COUNT=60 python -m pytest tests/train/test_random_curves.py`` tries others.
"""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import MNN
from MNN.frontends import load_graph
from tests.frontends.torch.peer import written

F, nn, optim = MNN.expr, MNN.nn, MNN.optim
FIRST, COUNT = (int(os.environ.get(f"MNN_CURVE_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "6")))
MODULE = "tests.train.torch_random_curves"


def optimizer(s, model, own):
    more = {"accumulate": s["accumulate"], "clip_norm": s["clip"], "clip_value": s["clip_value"]}
    if own:
        more["groups"] = [optim.Group(own, s["factor"], s["own_decay"])]
    if s["kind"] in ("SGD", "ADAM"):
        more["regularization_method"] = s["pull"]
    if s["kind"] == "Lion":
        return optim.Lion(model, s["rate"], 0.9, 0.99, s["decay"], **more)
    if s["kind"] == "SGD":
        return optim.SGD(model, s["rate"], s["momentum"], s["decay"], nesterov=s["nesterov"], **more)
    if s["kind"] == "RMSprop":
        return optim.RMSprop(model, s["rate"], 0.99, s["momentum"], s["decay"], eps=1e-5, **more)
    eps = 1e-14 if s["kind"] == "ADAM" else 1e-5
    return getattr(optim, s["kind"])(model, s["rate"], 0.9, 0.99, s["decay"], eps, **more)


def operand(array):
    whole = array.dtype.kind == "i"
    return F.const(array.astype(np.int32) if whole else array, list(array.shape), dtype=F.int if whole else F.float)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_losses_and_weights_are_those_of_torch(seed):
    path = written(MODULE, str(FIRST), str(COUNT)) / f"cases-{seed}.pt2"
    if not path.exists():
        return  # no network of use, see the module
    tensors, graph = F.load_as_dict(str(path)), load_graph(path)
    model = nn.load_module([tensors[v.name] for v in graph.inputs], [tensors[v.name] for v in graph.outputs], True)
    s = json.loads(path.with_suffix(".json").read_text())
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    begin = [v.read().copy() for v in model.parameters]
    own = [found for i in s["group"] for found in alike(model.parameters, arrays[f"b{i}"])]
    assert len(own) >= len(s["group"])
    made = optimizer(s, model, own)
    given = [arrays[f"x{i}"] for i in range(len(graph.inputs))]
    losses = []
    for step in range(len(arrays["rough"])):
        if s["schedule"]:
            made.learning_rate = s["rate"] * 0.7 ** (step // s["accumulate"] // 10)
        (loss,) = model([operand(a[step % len(a)]) for a in given])
        made.step(loss)
        losses.append(float(loss.read()))
    rough, exact, near = (arrays[name] for name in ("rough", "exact", "nearby"))
    scale = np.maximum(np.abs(exact), 0.02 * np.abs(exact).max())
    error, spread = np.abs(losses - exact) / scale, np.maximum(np.abs(rough - exact), near) / scale
    assert error[0] < 1e-4, s
    assert error.max() < max(0.01, 5 * spread.max()), (s, error.argmax(), float(error.max()), float(spread.max()))
    if s["kind"] != "ADAM":  # whose epsilon here leaves the steps of gradients that are zero but for rounding to chance
        compare_weights(begin, [v.read() for v in model.parameters], arrays, s)


def alike(found, wanted):
    """Those that are the numbers of an array, in some order."""
    first = np.sort(wanted, None)
    return [v for v in found if np.array_equal(np.sort(np.asarray(v.read()), None), first)]


def compare_weights(begin, end, arrays, s):
    """Each parameter of torch with that of ours that was the same at the beginning, as numbers in their order."""
    for i, apart in enumerate(arrays["apart"]):
        first, rough, exact = (np.sort(arrays[f"{k}{i}"], None) for k in "bpe")
        same = [np.sort(b, None) for a, b in zip(begin, end, strict=True) if np.array_equal(np.sort(a, None), first)]
        if not same:
            continue  # joined with others on the way
        far = max(float(np.abs(exact).max()), 0.1)
        error = min(float(np.abs(a - exact).max()) for a in same) / far
        spread = max(float(np.abs(rough - exact).max()), apart) / far
        assert error < max(1e-3, 5 * spread), (s, i, first.shape, error, spread)
