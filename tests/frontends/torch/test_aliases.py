"""Views, and writing in place to what shares memory, against torch; how elements lie in memory, against numpy.

``MNN_TORCH_SEED=5000 MNN_TORCH_PROGRAMS=500 python -m pytest tests/frontends/torch/test_aliases.py`` tries other ones.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch import exported, script
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.layout import Layout
from MNN.frontends.torch.script.load import Given
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.peer import written

FIRST, COUNT = (int(os.environ.get(f"MNN_TORCH_{k}", given)) for k, given in (("SEED", "1"), ("PROGRAMS", "90")))


def outcome(path: Path) -> str:
    """``right``, ``refused``, or what is wrong."""
    with np.load(path.with_suffix(".npz")) as file:
        x, *wanted = [file[k] for k in ("x", *(k for k in file.files if k != "x"))]
    try:
        graph = exported.load(path) if path.suffix == ".pt2" else script.load(path, {"a": Given(x.shape)})
        found = list(Session(graph, Config(reference=True)).run({"a": x}).values())
    except MNNError as error:
        return "refused" if "x.clone()" in str(error) else str(error)
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5):
            return f"{path.name}, result {i}: {a.shape} for {b.shape}"
    return "right"


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_random_programs_of_views(suffix: str) -> None:
    files = [
        p.with_suffix(suffix) for p in sorted(written("random_aliases", str(FIRST), str(COUNT)).glob("*.npz"))
        if p.with_suffix(suffix).exists()
    ]  # fmt: skip
    found = Counter(outcome(path) for path in files)
    assert len(files) > COUNT // (2 if suffix == ".pt" else 6)
    assert not [said for said in found if said not in ("right", "refused")], found
    assert found["refused"] <= 0.06 * len(files)


@pytest.mark.parametrize("seed", range(30))
def test_how_elements_lie(seed: int) -> None:
    """Sizes and steps of views, and whether other sizes need a copy."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        x = np.zeros(rng.choice([1, 2, 3, 4, 6], rng.integers(1, 5)), np.int8)
        layout = Layout.plain(x.shape)
        for kind in rng.integers(0, 4, rng.integers(0, 4)):
            axis = int(rng.integers(x.ndim)) if x.ndim else 0
            if kind == 0:
                order = rng.permutation(x.ndim).tolist()
                x, layout = x.transpose(order), layout.permuted(order)
            elif kind == 1 and x.ndim:
                x = x[(slice(None),) * axis + (slice(0, None, 2),)]
                layout = layout.stepping(axis, 2).resized(x.shape)
            elif kind == 2 and x.ndim > 1:
                x, layout = x[(slice(None),) * axis + (0,)], layout.without(axis)
            elif kind == 3:
                sizes = [3 if n == 1 and rng.random() < 0.5 else n for n in x.shape]
                x, layout = np.broadcast_to(x, sizes), layout.expanded(sizes)
        assert layout.in_order == x.flags.c_contiguous
        assert all(a == b for a, b, n in zip(layout.strides, x.strides, x.shape, strict=True) if n > 1)
        sizes = [f for n in x.shape for f in ((2, n // 2) if n % 2 == 0 and rng.random() < 0.4 else (n,))]
        while len(sizes) > 1 and rng.random() < 0.6:
            at = int(rng.integers(len(sizes) - 1))
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        found = layout.viewed(sizes)
        try:
            strides = x.reshape(sizes, copy=False).strides
        except ValueError:
            assert found is False
            continue
        assert isinstance(found, Layout)
        assert all(a == b for a, b, n in zip(found.strides, strides, sizes, strict=True) if n > 1)


def test_what_is_not_known() -> None:
    """Open sizes have names: equal texts are equal sizes, an unknown step decides nothing."""
    plain = Layout.plain(("batch", "length", 8))
    assert plain.in_order
    assert plain.permuted([1, 0, 2]).in_order is False
    assert plain.permuted([1, 0, 2]).permuted([1, 0, 2]).in_order
    assert plain.permuted([0, 2, 1]).viewed(("batch", 8, "length")) == plain.permuted([0, 2, 1])
    assert Layout(("batch", 4), (None, 1)).in_order is None
    assert Layout((2, 4), (None, 1)).viewed((8,)) is None


@pytest.mark.parametrize(("kind", "other"), [(DType.F32, DType.F64), (DType.F64, DType.F32), (DType.F32, DType.F32)])
def test_results_that_go_into_tensors_that_are_there(kind: DType, other: DType) -> None:
    """``out=`` is given back, keeps its type, and its views show the result."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((2, 3)).astype(kind.numpy) for _ in range(2))
    ctx = TorchBuilder(ModelState(), Graph("g"))
    ctx.where = "atan2 'here'"
    ctx.graph.inputs.extend(Value(n, kind, (2, 3)) for n in "xy")
    given = [Variable(v) for v in ctx.graph.inputs]
    out = Variable(ctx.const(np.zeros((2, 3), other.numpy)))
    row = call(ctx, "select", [out, 0, 1], {})
    assert call(ctx, "atan2", given, {"out": out}) is out
    for name, variable in (("all", out), ("row", row)):
        made = ctx.op("Identity", variable.read(ctx))
        made.name = name
        ctx.graph.outputs.append(made)
    found = Session(ctx.graph, Config(reference=True, precision="high")).run({"x": x, "y": y})
    want = np.arctan2(x, y).astype(other.numpy)
    assert found["all"].dtype == want.dtype
    assert np.allclose(found["all"], want, 1e-6) and np.allclose(found["row"], want[1], 1e-6)  # noqa: PT018
    small = Variable(ctx.const(np.zeros(3, other.numpy)))
    with pytest.raises(MNNError, match="other sizes than the tensor it goes into"):
        call(ctx, "atan2", given, {"out": small})
    with pytest.raises(MNNError, match="results of this kind in a tensor"):
        call(ctx, "max", [given[0], 1], {"out": small})


def test_other_sizes_in_place_are_the_first_elements() -> None:
    """``resize_``: what was a view before shows what is written through the new sizes."""
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    ctx = TorchBuilder(ModelState(), Graph("g"))
    ctx.where = "resize_ 'here'"
    ctx.graph.inputs.append(Value("x", DType.F32, x.shape))
    held = Variable(ctx.op("Identity", ctx.graph.inputs[0]))
    column = call(ctx, "select", [held, 1, 1], {})
    assert call(ctx, "resize_", [held, [2, 5]], {}) is held
    call(ctx, "mul_", [held, 2.0], {})
    for variable in (held, column):
        ctx.graph.outputs.append(ctx.op("Identity", variable.read(ctx)))
    whole, shown = Session(ctx.graph, Config(reference=True)).run({"x": x}).values()
    assert np.array_equal(whole, 2 * x.ravel()[:10].reshape(2, 5))
    assert np.array_equal(shown, [2, 10, 18])
    with pytest.raises(MNNError, match="10 elements to 11"):
        call(ctx, "resize_", [held, [11]], {})
    with pytest.raises(MNNError, match="another order in memory"):
        call(ctx, "resize_", [call(ctx, "t", [held], {}), [2, 3]], {})
