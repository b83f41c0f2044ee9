"""Optimisers with drawn settings, schedules, sums, limits, frozen layers, budgets and scales, against torch in float64.

``MNN_OPTIMIZER_SEED=100 MNN_OPTIMIZER_COUNT=50 python -m pytest tests/train/test_optimizers.py`` tries others.
"""

from __future__ import annotations

import json
import os
import random

import numpy as np
import pytest

import MNN
from tests import kept

F, nn, optim, schedules = MNN.expr, MNN.nn, MNN.optim, MNN.train.schedules
FIRST, COUNT = (int(os.environ.get(f"MNN_OPTIMIZER_{n}", given)) for n, given in (("SEED", "1"), ("COUNT", "5")))
KINDS = ("SGD", "ADAM", "AdamW", "RMSprop", "Lion")
STEPS, MOST, CLASSES, SIDE = 6, 3, 5, 7
TOLERANCE = 1e-4
"""Of the largest distance that a parameter has gone."""


class Net(nn.Module):
    """Smooth, and without parameters whose gradients are zero but for rounding: what is a matter of signs would be left
    to chance."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.conv(3, 4, 3, 1, 1, bias=False), nn.batch_norm(4, momentum=0.9)
        self.second = nn.conv(4, 4, 3, 2, 1, depthwise=True)
        self.last = nn.linear(4 * 16, CLASSES)

    def forward(self, x):
        x = F.tanh(self.second(F.tanh(self.norm(self.first(x)))))
        return self.last(F.reshape(F.convert(x, F.NCHW), [0, -1]))

    def ordered(self):
        """In torch's order."""
        norm = self.norm
        parameters = [self.first.weight, norm.scale, norm.bias, self.second.weight, self.second.bias]
        return [*parameters, self.last.weight, self.last.bias, norm.running_mean, norm.running_variance]


def drawn(seed: int) -> dict:
    """Settings of a training."""
    r = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    free = r.choice([0.0, 0.5, 0.9])
    return {
        "kind": kind, "steps": STEPS, "rate": {"SGD": 0.1, "Lion": 1e-3}.get(kind, 0.01) * r.uniform(0.5, 2),
        "momentum": free if kind in ("SGD", "RMSprop") else r.choice([0.8, 0.9]), "momentum2": r.choice([0.95, 0.99]),
        "share": r.choice([0.9, 0.99]), "nesterov": kind == "SGD" and free > 0 and r.random() < 0.5,
        "eps": 1e-8 if kind != "ADAM" else 1e-14,  # beside another root, see the class
        "decay": r.choice([0.0, 1e-2, 0.1]),
        "pull": r.choice(["L2", "L1", "L1L2"]) if kind in ("SGD", "ADAM") else "L2",
        # where the rate changes, MNN's momentum holds steps, and torch's gradients
        "schedule": "" if kind == "SGD" and free else r.choice(["", "cosine", "linear", "exponential", "milestones"]),
        "accumulate": r.randint(1, MOST), "clip_norm": r.choice([0.0, 0.05, 0.5]), "clip_value": r.choice([0.0, 0.02]),
        "frozen": r.choice([[], [], [0], [3, 4], [5, 6]]), "memory": r.choice([None, 100_000]),
        "scale": r.choice([None, None, 256.0, "dynamic"]), "threads": r.randint(1, 2),
        "amsgrad": kind in ("ADAM", "AdamW") and r.random() < 0.5, "average": r.choice([0.0, 0.5, 0.9]),
        "groups": r.choice([[], [[[1, 2], 0.3, 0.0]], [[[0], 2.0, None], [[3, 5, 6], 0.0, 0.05]]]),
    }  # fmt: skip


def schedule(s: dict) -> schedules.Schedule:
    """What torch's of this name does."""
    rate, name = s["rate"], s["schedule"]
    if name == "cosine":
        return schedules.cosine(rate, STEPS, 0.1 * rate)
    if name == "linear":
        return schedules.linear(rate, STEPS, 0.25 * rate)
    if name == "exponential":
        return schedules.exponential(rate, 0.7, 2)
    return schedules.milestones(rate, [2, 4], 0.3) if name else schedules.constant(rate)


def optimizer(s: dict, model: nn.Module) -> optim.Optimizer:
    options = {"accumulate": s["accumulate"], "clip_norm": s["clip_norm"], "clip_value": s["clip_value"]}
    options |= {"activation_memory": s["memory"], "loss_scale": s["scale"], "threads": s["threads"]}
    places = model.ordered()
    options["groups"] = [optim.Group([places[i] for i in g], factor, decay) for g, factor, decay in s["groups"]]
    options["average"] = s["average"]
    rate, decay, momentum, momentum2 = s["rate"], s["decay"], s["momentum"], s["momentum2"]
    if s["kind"] == "SGD":
        return optim.SGD(model, rate, momentum, decay, s["pull"], s["nesterov"], **options)
    if s["kind"] == "Lion":
        return optim.Lion(model, rate, momentum, momentum2, decay, **options)
    if s["kind"] == "RMSprop":
        return optim.RMSprop(model, rate, s["share"], momentum, decay, s["eps"], **options)
    if s["kind"] == "AdamW":
        return optim.AdamW(model, rate, momentum, momentum2, decay, s["eps"], amsgrad=s["amsgrad"], **options)
    return optim.ADAM(model, rate, momentum, momentum2, decay, s["eps"], s["pull"], amsgrad=s["amsgrad"], **options)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Settings, the batches, the parameters in the beginning, and what torch made of them."""
    folder = tmp_path_factory.mktemp("optimizers")
    settings = [drawn(seed) for seed in range(FIRST, FIRST + COUNT)]
    rng = np.random.default_rng(FIRST)
    nn.seed(FIRST)
    given = {
        "x": rng.normal(size=(STEPS * MOST, 6, 3, SIDE, SIDE)).astype(np.float32),
        "y": rng.integers(0, CLASSES, (STEPS * MOST, 6)).astype(np.int32),
    }
    given |= {f"w{i}": v.read() for i, v in enumerate(Net().ordered())}
    given["w1"] = rng.uniform(0.5, 1.5, 4).astype(np.float32)
    (folder / "settings.json").write_text(json.dumps(settings))
    np.savez(folder / "given.npz", **given)
    files = [str(folder / name) for name in ("settings.json", "given.npz", "found.npz")]
    kept.torch("tests.train.torch_optimizers", folder, *files)
    with np.load(files[2]) as found:
        return settings, given, dict(found)


@pytest.mark.parametrize("number", range(COUNT))
def test_parameters_are_those_of_torch(cases, number):
    settings, given, wanted = cases
    s = settings[number]
    model = Net()
    for i, v in enumerate(model.ordered()):
        v.write(given[f"w{i}"])
    model.train(True)
    for layer, places in ((model.first, [0]), (model.second, [3, 4]), (model.last, [5, 6])):
        layer.freeze(places == s["frozen"])
    made, rates = optimizer(s, model), []
    means = [v.read().astype(np.float64) for v in model.ordered()]
    for k in range(STEPS * s["accumulate"]):
        made.learning_rate = schedule(s)(made.steps)
        if k % s["accumulate"] == 0:
            rates.append(made.learning_rate)
        predicted = model(F.const(given["x"][k], list(given["x"][k].shape)))
        made.step(nn.loss.softmax_cross_entropy(predicted, given["y"][k]))
        if (k + 1) % s["accumulate"] == 0:
            share = s["average"]
            means = [share * m + (1 - share) * v.read() for m, v in zip(means, model.ordered(), strict=True)]
    assert made.steps == STEPS
    assert np.allclose(rates, wanted[f"{number}.rates"], rtol=1e-6)
    for i, v in enumerate(model.ordered()):
        before, want = given[f"w{i}"], wanted[f"{number}.{i}"]
        distance = np.abs(want - before).max()
        still = i in s["frozen"] or any(i in g and factor == 0 for g, factor, _ in s["groups"])
        assert (distance == 0) == still
        assert np.abs(v.read() - want).max() <= TOLERANCE * distance + 2e-7 * np.abs(want).max(), (i, s)
    if s["average"]:
        trained = [v.read() for v in model.ordered()]
        with made.averaged():
            for i, (v, mean) in enumerate(zip(model.ordered()[:7], means, strict=False)):
                assert np.abs(v.read() - mean).max() <= 1e-6 * np.abs(mean).max(), (i, s)
        assert all((v.read() == t).all() for v, t in zip(model.ordered(), trained, strict=True))
