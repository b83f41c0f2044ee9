"""Complex tensors inside of programs, against torch.

``MNN_TORCH_SEED=5000 MNN_TORCH_COUNT=300 python -m pytest tests/frontends/torch/test_complex.py`` tries others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.complex.tensor import Complex
from MNN.frontends.torch.element_types import ComplexType
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{name}", given)) for name, given in (("SEED", "1"), ("COUNT", "9")))


def cases() -> Path:
    return written("complex_cases", str(FIRST), str(COUNT))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_drawn_program(seed: int) -> None:
    path = cases() / f"cases-{seed}.npz"
    if not path.exists():
        return  # torch refuses it itself; most are of use
    with np.load(path) as file:
        x, y, wanted = (file[k] for k in ("x", "y", "answer"))
    model = MNN.load(path.with_suffix(".pt" if seed % 3 == 2 else ".pt2"), threads=1)
    (found,) = model.run(dict(zip(model.inputs, (x, y), strict=True))).values()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max(initial=0) <= 5e-5 * max(np.abs(wanted).max(initial=0), 1e-3)


def test_most_are_of_use() -> None:
    assert len(list(cases().glob("*.npz"))) > COUNT // 2


@pytest.mark.parametrize(
    ("name", "rest", "says"),
    [
        ("svd", [], "the operator on complex tensors"),
        ("atanh", [], "atanh of complex numbers"),
        ("roll", [1], "name the"),
    ],
)
def test_what_is_not_done_is_said(name: str, rest: list[object], says: str) -> None:
    ctx = TorchBuilder(ModelState(), Graph("g"))
    ctx.where = f"{name} 'here'"
    z = Complex(Variable(Value("z", DType.F32, (3, 2))))
    with pytest.raises(MNNError, match=f"here.*{says}"):
        call(ctx, name, [z, *[z if r == "self" else r for r in rest]], {})
    with pytest.raises(MNNError, match="a complex tensor here"):
        z.read(ctx)


@pytest.mark.parametrize(
    ("name", "rest", "named", "meaning"),
    [
        ("log", [], {}, np.log),
        ("log2", [], {}, np.log2),
        ("log10", [], {}, np.log10),
        ("tanh", [], {}, np.tanh),
        ("tan", [], {}, np.tan),
        ("sigmoid", [], {}, lambda z: 1 / (1 + np.exp(-z))),
        ("cumsum", [0], {"dtype": ComplexType(DType.F32)}, lambda z: z.real.cumsum(0)),
        ("cumsum", [0], {}, lambda z: z.cumsum(0)),
    ],
)
def test_one_function(name: str, rest: list[Any], named: dict[str, Any], meaning: Callable[[Any], Any]) -> None:
    """Of complex numbers, or of real ones that become complex."""
    pairs = np.random.default_rng(len(name)).standard_normal((5, 4, 2)).astype(np.float32)
    pairs[0, 0] = 60 if name == "tanh" else 0.5  # far out
    ctx = TorchBuilder(ModelState(), Graph("g"))
    ctx.graph.inputs.append(Value("pairs", DType.F32, pairs.shape))
    z = call(ctx, "view_as_complex", [Variable(ctx.graph.inputs[0])], {})
    result = call(ctx, name, [call(ctx, "real", [z], {}) if named else z, *rest], named)
    ctx.graph.outputs.append(result.numbers(ctx))
    (found,) = Session(ctx.graph, Config(reference=True, precision="high")).run({"pairs": pairs}).values()
    want = np.asarray(meaning(pairs.view(np.complex64)[..., 0]), np.complex64)
    assert np.allclose(found.view(np.complex64)[..., 0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 8])
def test_frequencies(n: int) -> None:
    ctx = TorchBuilder(ModelState(), Graph("g"))
    for name, meaning in (("fft_fftfreq", np.fft.fftfreq), ("fft_rfftfreq", np.fft.rfftfreq)):
        found = call(ctx, name, [n], {"d": 0.25}).read(ctx).array()
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, meaning(n, 0.25), 1e-6)


def test_frames_of_any_size_are_refused() -> None:
    """Before memory is taken for them."""
    ctx = TorchBuilder(ModelState(), Graph("g"))
    x = Variable(Value("x", DType.F32, (1 << 22,)))
    for n in (1 << 40, 1 << 21):
        with pytest.raises(MNNError, match="numbers of"):
            call(ctx, "stft", [x, n, 1], {"return_complex": True})
