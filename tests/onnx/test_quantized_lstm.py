"""DynamicQuantizeLSTM against ONNX Runtime, from the ONNX file and again from the .mnn file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.recurrence.spec import RecurrenceSpec
from MNN.frontends.mnn.read import load as load_mnn
from MNN.frontends.mnn.write import write_mnn
from MNN.frontends.onnx import load
from MNN.runtime.session import Session

NAMES = ["x", "w", "r", "bias", "lengths", "h", "c", "p", "ws", "wz", "rs", "rz"]


def lstm(
    steps: int, batch: int, width: int, hidden: int, directions: int = 1, weights: type = np.int8, zero: int = 0,
    per: str = "direction", full: bool = False, **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:  # fmt: skip
    """A model of one node, and its inputs; with ``full`` also lengths, states and peepholes."""
    rng, columns = np.random.default_rng(steps + batch + hidden), 4 * hidden

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (rng.normal(size=shape) * scale).astype(np.float32)

    arrays: dict[str, np.ndarray] = {"x": normal(steps, batch, width)}
    for name, rows in (("w", width), ("r", hidden)):
        info = np.iinfo(weights)
        arrays[name] = rng.integers(info.min, info.max, (directions, rows, columns), endpoint=True).astype(weights)
        each = (directions, columns) if per == "column" else (directions,)
        arrays[f"{name}s"] = rng.uniform(0.5, 1.5, each).astype(np.float32) * np.float32(1 / (100 * np.sqrt(rows)))
        arrays[f"{name}z"] = np.full(each, zero, weights)
    arrays["bias"] = normal(directions, 2 * columns, scale=0.2)
    if full:
        arrays["lengths"] = np.append(rng.integers(1, steps + 1, batch - 1), steps).astype(np.int32)
        arrays |= {"h": normal(directions, batch, hidden, scale=0.5), "c": normal(directions, batch, hidden)}
        arrays["p"] = normal(directions, 3 * hidden, scale=0.3)
    attrs = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward", **attrs}
    node = helper.make_node("DynamicQuantizeLSTM", [n if n in arrays else "" for n in NAMES], ["y", "yh", "yc"],
                            domain="com.microsoft", name="it", **attrs)  # fmt: skip
    given = [n for n in ("x", "lengths", "h", "c") if n in arrays]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(arrays[n].dtype), arrays[n].shape)
        for n in given
    ]
    held = [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in given]
    outs = [helper.make_empty_tensor_value_info(n) for n in ("y", "yh", "yc")]
    graph = helper.make_graph([node], "g", infos, outs, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), {n: arrays[n] for n in given}


def compared(model: onnx.ModelProto, feeds: dict[str, np.ndarray], atol: float, folder: Path) -> Session:
    """Runs a model in both engines; from the .mnn file too, within one quantum of the states."""
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    want = peer.run(None, feeds)
    graph = load(data)
    path = folder / "m.mnn"
    write_mnn(graph, path)
    first = Session(graph)
    for session, bound in ((first, atol), (Session(load_mnn(path)), max(atol, 0.02))):
        found = session.run(feeds)
        for name, expected in zip(("y", "yh", "yc"), want, strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=bound, err_msg=name)
    return first


def kernel(session: Session) -> RecurrenceSpec:
    """The kernel of the layer in the last run's plan."""
    stages = [p.bound for p in session.plans_used() if isinstance(p.bound, BoundProgram)]
    (found,) = [c.kernel for s in stages for c in s.program.commands if isinstance(c.kernel, RecurrenceSpec)]
    return found


@pytest.mark.parametrize("per", ["direction", "column"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize(("weights", "zero"), [(np.int8, 0), (np.uint8, 128)])
@pytest.mark.parametrize(("width", "hidden"), [(7, 5), (16, 33), (24, 64)])
def test_one_sequence(
    per: str, directions: int, weights: type, zero: int, width: int, hidden: int, tmp_path: Path
) -> None:
    model, feeds = lstm(6, 1, width, hidden, directions, weights, zero, per)
    assert kernel(compared(model, feeds, 2e-5, tmp_path)).quantized


def test_everything_at_once(tmp_path: Path) -> None:
    model, feeds = lstm(5, 1, 9, 20, 2, full=True, input_forget=0, clip=3.0)
    compared(model, feeds, 2e-5, tmp_path)
    model, feeds = lstm(5, 1, 9, 20, direction="reverse", activations=["Sigmoid", "Tanh", "Softsign"])
    compared(model, feeds, 2e-5, tmp_path)


def test_batches_within_a_quantum(tmp_path: Path) -> None:
    """ONNX Runtime quantises the states of a batch together."""
    for batch in (2, 5):
        model, feeds = lstm(7, batch, 12, 40, 2, full=True)
        assert kernel(compared(model, feeds, 0.02, tmp_path)).quantized


def test_sequences_do_not_depend_on_their_batch() -> None:
    model, feeds = lstm(7, 4, 12, 40, 2)
    feeds["x"][:, :, 0] = np.sign(feeds["x"][:, :, 0]) * 5  # the same range for all
    feeds["x"][:, :, 1] = -feeds["x"][:, :, 0]
    session = Session(load(model.SerializeToString()))
    together = session.run(feeds)["y"]
    alone = lstm(7, 1, 12, 40, 2)[0]
    del alone.graph.initializer[:]
    alone.graph.initializer.extend(model.graph.initializer)
    one = Session(load(alone.SerializeToString()))
    for i in range(4):
        np.testing.assert_allclose(one.run({"x": feeds["x"][:, i : i + 1]})["y"], together[:, :, i : i + 1], atol=1e-6)


def test_weights_that_are_not_of_i8_without_their_zero_points(tmp_path: Path) -> None:
    model, feeds = lstm(6, 1, 8, 16, weights=np.uint8, zero=3)
    assert not kernel(compared(model, feeds, 0.03, tmp_path)).quantized


def test_states_of_zeros(tmp_path: Path) -> None:
    model, feeds = lstm(3, 1, 8, 16)
    feeds["x"][:] = 0
    compared(model, feeds, 2e-5, tmp_path)
