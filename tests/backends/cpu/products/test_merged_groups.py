"""Integer convolutions in small groups, of which several are computed together, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN import model
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.backends.cpu.products.merged_groups import block_diagonal


@pytest.mark.parametrize("kernel", [(), (3,), (2, 3)], ids=str)
def test_zeros_where_channels_of_two_groups_would_meet(kernel: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    groups, count, per_out, per_in = 6, 3, 2, 4
    weights = rng.integers(-9, 10, (groups * per_out, per_in, *kernel)).astype(np.int8)
    found = block_diagonal(weights, groups, count)
    assert found.shape == (groups * per_out, count * per_in, *kernel)
    for o in range(groups * per_out):
        place = o // per_out % count * per_in
        assert (found[o, place : place + per_in] == weights[o]).all()
    assert np.abs(found.astype(int)).sum() == np.abs(weights.astype(int)).sum()


@pytest.mark.parametrize("target", ["", "avx2", "avx2 -avxvnni -avxvnniint8"])
@pytest.mark.parametrize(("groups", "per_in", "per_out"), [(8, 4, 4), (6, 8, 8), (5, 1, 2), (4, 3, 1), (3, 5, 20)])
def test_convolutions(groups: int, per_in: int, per_out: int, target: str, weaker: Callable[[str], None]) -> None:
    weaker(target)
    rng = np.random.default_rng(groups)
    w = rng.integers(-128, 128, (groups * per_out, per_in, 3, 3)).astype(np.int8)
    x = rng.integers(0, 256, (2, groups * per_in, 9, 7)).astype(np.uint8)
    zero = np.uint8(113)
    node = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], group=groups, pads=[1, 1, 1, 1], strides=[2, 1])
    graph = helper.make_graph(
        [node], "grouped", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(zero), "z")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded = model.load(made.SerializeToString(), cache=False)
    (found,) = loaded.run({"x": x}).values()
    wide = np.pad(x.astype(np.int64) - int(zero), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2]
    parts = windows.reshape(2, groups, per_in, *windows.shape[2:])
    expected = np.einsum("ngchwij,gocij->ngohw", parts, w.reshape(groups, per_out, per_in, 3, 3).astype(np.int64))
    assert (found == expected.reshape(found.shape)).all()
    commands = [c for p in loaded.plans_used() for c in p.bound.program.commands if isinstance(c.kernel, ContractSpec)]
    assert len(commands) <= 1
