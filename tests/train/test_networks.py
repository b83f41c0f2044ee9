"""Networks of many kinds that torch has exported are trained here as torch trains them, from the same weights.

``MNN_TRAINED=RegNet,ViT python -m pytest tests/train/test_networks.py`` tries others, ``MNN_TRAINED=all`` every one.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import MNN
from MNN.frontends import load_graph
from tests import kept

F, nn = MNN.expr, MNN.nn
ALL = ("RegNet", "DenseNet", "ShuffleNet", "ConvNeXt", "ViT", "UNet", "GPT", "LSTM", "GRU")
ASKED = os.environ.get("MNN_TRAINED", "UNet,GPT,GRU")
NAMES = ALL if ASKED == "all" else tuple(ASKED.split(","))
TOLERANCE = {"high": 0.005, "low": 0.02}
"""Of the losses of 30 steps; ``low`` is ``high`` but for what is rounded to bf16 on the way."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What torch wrote: networks, batches, losses."""
    found = tmp_path_factory.mktemp("networks")
    kept.torch("tests.train.torch_networks", found, str(found), *NAMES)
    return found


@pytest.mark.parametrize("precision", ["high", "low"])
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_torch(folder, name, precision):
    path = str(folder / f"{name}.pt2")
    tensors, graph = F.load_as_dict(path), load_graph(path)
    (given,), (answer,) = ([tensors[v.name] for v in of] for of in (graph.inputs, graph.outputs))
    model = nn.load_module([given], [answer], True)
    optimizer = MNN.optim.AdamW(model, 2e-3, weight_decay=0.01, precision=precision)
    with np.load(folder / f"{name}.npz") as file:
        x, y, wanted = (file[n] for n in ("x", "y", "losses"))
    losses = []
    for batch, classes in zip(x, y, strict=True):
        kind = F.int if batch.dtype.kind == "i" else F.float
        var = F.const(batch.astype(np.int32) if kind == F.int else batch, list(batch.shape), dtype=kind)
        loss = nn.loss.softmax_cross_entropy(model(var), classes)
        optimizer.step(loss)
        losses.append(float(loss.read()))
    assert abs(losses[0] / wanted[0] - 1) < (2e-5 if precision == "high" else 0.005)
    assert np.abs(np.array(losses) / wanted - 1).max() < TOLERANCE[precision]
