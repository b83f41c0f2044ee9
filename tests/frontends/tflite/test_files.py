"""What files hold besides operators: signatures, external buffers, states, custom operators, several subgraphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers as writer

import MNN
from MNN.converter import convert
from MNN.errors import FormatError, MNNError
from MNN.frontends import load_graph
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.tflite import flexbuffers, load
from MNN.ir.dtype import DType
from MNN.ops import custom
from tests.frontends.tflite.build import Model, record
from tests.frontends.tflite.compare import ours
from tests.frontends.tflite.litert import Request, answers


def two_entries() -> bytes:
    model = Model()
    number, second = model.subgraph("second")
    for graph, op in ((model.graph, "EXP"), (second, "NEG")):
        graph.outputs = [graph.made(op, [graph.input([3], name=f"{op}_x")], [3])]
    model.more["signature_defs"] = [
        record(
            "SignatureDef", signature_key=key, subgraph_index=i,
            inputs=[record("TensorMap", name="x", tensor_index=0)],
            outputs=[record("TensorMap", name="y", tensor_index=1)],
        )
        for key, i in (("encode", 0), ("decode", number))
    ]  # fmt: skip
    return model.finish()


def test_signatures_name_entries() -> None:
    data = two_entries()
    first, second = load(data), load(data, signature="decode")
    assert first.meta["signatures"] == {"encode": {"inputs": {"x": "EXP_x"}, "outputs": {"y": "main_1"}}}
    assert [n.attrs.get("opType") for n in (*first.nodes, *second.nodes)] == ["EXP", "NEG"]
    with pytest.raises(MNNError, match="encode, decode"):
        load(data, signature="train")


def test_constants_in_other_files(tmp_path: Path) -> None:
    model, numbers = Model(), np.arange(6, dtype=np.float32)
    g = model.graph
    weights = g.tensor([6], external_buffer=5)
    g.outputs = [g.made("ADD", [g.input([6]), weights], [6], "FLOAT32", "AddOptions")]
    model.more["external_buffer_groups"] = [record("ExternalBufferGroup", name="weights.bin")]
    model.more["external_buffers"] = [record("ExternalBuffer", id=5, group=0, offset=8, length=24)]
    (tmp_path / "weights.bin").write_bytes(bytes(8) + numbers.tobytes())
    path = tmp_path / "model.tflite"
    path.write_bytes(model.finish())
    loaded = MNN.load(path)
    found = loaded.run({next(iter(loaded.inputs)): np.ones(6, np.float32)})
    np.testing.assert_array_equal(next(iter(found.values())), numbers + 1)
    with pytest.raises(FormatError, match=r"weights\.bin"):
        load_graph(path.read_bytes())
    model.more["external_buffer_groups"][0].name = "../weights.bin"
    path.write_bytes(model.finish())
    with pytest.raises(MNNError):
        load_graph(path)


def _counter() -> bytes:
    """Adds its input to what it has kept, which begins as 10."""
    model = Model()
    number, start = model.subgraph("start")
    options = {"container": "", "shared_name": "total"}
    there = start.made("VAR_HANDLE", [], [1], "RESOURCE", "VarHandleOptions", **options)
    start.op("ASSIGN_VARIABLE", [there, start.const(np.full(2, 10.0, np.float32))], [])
    g = model.graph
    g.op("CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=number)
    here = g.made("VAR_HANDLE", [], [1], "RESOURCE", "VarHandleOptions", **options)
    total = g.made("ADD", [g.made("READ_VARIABLE", [here], [2]), g.input([2], name="x")], [2], "FLOAT32", "AddOptions")
    g.op("ASSIGN_VARIABLE", [here, total], [])
    g.outputs = [total]
    return model.finish()


@pytest.mark.parametrize("converted", [False, True])
def test_variables_are_states(tmp_path: Path, converted: bool) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(_counter())
    if converted:
        convert(path, tmp_path / "model.mnn")
        path = tmp_path / "model.mnn"
    model = MNN.load(path)
    assert list(model.inputs) == ["x"]
    totals = [next(iter(model.run({"x": np.full(2, v, np.float32)}).values()))[0] for v in (1.0, 2.0, 3.0)]
    assert totals == [11.0, 13.0, 16.0]
    model.state.reset()
    assert next(iter(model.run({"x": np.zeros(2, np.float32)}).values())).tolist() == [10.0, 10.0]


def test_detections_of_ssd_networks() -> None:
    """TFLite_Detection_PostProcess, both ways of suppressing."""
    requests, wanted = {}, {}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        count, classes = 30, 4
        regular = bool(seed % 2)
        options = {
            "max_detections": 6, "max_classes_per_detection": 1 if regular else 1 + seed % 3, "num_classes": classes,
            "nms_score_threshold": 0.2, "nms_iou_threshold": 0.5, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0,
            "w_scale": 5.0, "use_regular_nms": regular, "detections_per_class": 5,
        }  # fmt: skip
        model = Model()
        g = model.graph
        anchors = (0.2 + 0.6 * rng.random((count, 4))).astype(np.float32)
        anchors[:, 2:] *= 0.5
        boxes, scores = g.input([1, count, 4]), g.input([1, count, classes + 1])
        slots = 6 * (1 if regular else options["max_classes_per_detection"])
        outs = [g.tensor(s) for s in ([1, slots, 4], [1, slots], [1, slots], [1])]
        given = bytes(writer.Dumps(options))
        g.op("TFLite_Detection_PostProcess", [boxes, scores, g.const(anchors)], outs, custom=given)
        g.outputs = outs
        numbers = rng.permutation(np.linspace(0.01, 0.99, count * (classes + 1))).reshape(1, count, classes + 1)
        runs = [[rng.standard_normal((1, count, 4)).astype(np.float32), numbers.astype(np.float32)]]
        requests[f"detect{seed}"] = Request(model.finish(), runs)
        wanted[f"detect{seed}"] = runs
    for key, answer in answers(requests).items():
        assert not answer.error
        (found,) = ours(requests[key].model, wanted[key])
        kept = int(answer.outputs[0][3][0])
        assert int(found[3][0]) == kept, key
        kept *= len(found[1][0]) // 6
        for mine, theirs in zip(found[:3], answer.outputs[0][:3], strict=True):
            np.testing.assert_allclose(mine[:, :kept], theirs[:, :kept], rtol=1e-5, atol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "bc": -2.5, "d": True},
        {"list": [1, 2, 300]},
        {"text": "word", "inner": {"x": [0.5, 1.5]}},
        {},
        {"n": None},
    ],
)
def test_options_of_custom_operators_are_read(value: dict[str, object]) -> None:
    assert flexbuffers.read(bytes(writer.Dumps(value)), "options") == value


def _doubling() -> bytes:
    model = Model()
    g = model.graph
    y = g.tensor([3])
    g.op("Doubling", [g.input([3])], [y], custom=bytes(writer.Dumps({"times": 3})))
    g.outputs = [y]
    return model.finish()


def test_custom_operators_of_users() -> None:
    with pytest.raises(UnsupportedModelError, match=r"Doubling.*custom"):
        load_graph(_doubling())

    @custom.register_operator
    class Doubling(custom.CustomOperator):
        """``x * times``."""

        domain = "tflite"
        attributes = {"times": 1}

        def infer(self, attributes, x):  # type: ignore[no-untyped-def]
            return custom.TensorType(DType.F32, x.shape)

        def compute(self, attributes, x):  # type: ignore[no-untyped-def]
            return x * np.float32(attributes["times"])

    try:
        ((found,),) = ours(_doubling(), [[np.ones(3, np.float32)]])
        assert found.tolist() == [3.0, 3.0, 3.0]
    finally:
        custom.unregister_operator("Doubling", "tflite")


def test_open_batches_are_named_after_the_input() -> None:
    model = Model()
    g = model.graph
    g.outputs = [g.made("EXP", [g.input([-1, 3], name="x")], [-1, 3])]
    graph = load_graph(model.finish())
    assert graph.inputs[0].shape == ("x.0", 3)
    for batch in (1, 4):
        ((found,),) = ours(model.finish(), [[np.zeros((batch, 3), np.float32)]])
        assert found.shape == (batch, 3)
