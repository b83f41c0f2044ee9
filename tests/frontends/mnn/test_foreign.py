"""Files as the official converter writes them: packed formats, fused activations, aliases, 32-bit truth values."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.errors import FormatError, UnsupportedError
from MNN.frontends.mnn import graph_of
from MNN.ir.dtype import DType
from MNN.schema import Record
from tests.harness import run_reference


def op(kind: str, name: str, inputs: list[int], outputs: list[int], main: Record | None = None) -> Record:
    return Record("Op", type=kind, name=name, inputIndexes=inputs, outputIndexes=outputs, main=main)


def source(name: str, index: int, dims: list[int], dtype: str = "DT_FLOAT", form: str = "NCHW") -> Record:
    return op("Input", name, [], [index], Record("Input", dims=dims, dtype=dtype, dformat=form))


def convert(index: int, made: int, start: str, end: str) -> Record:
    return op("ConvertTensor", f"t{made}", [index], [made], Record("TensorConvertInfo", source=start, dest=end))


def net(ops: list[Record], names: list[str], outputs: list[str], **fields: object) -> Record:
    return Record("Net", oplists=ops, tensorName=names, outputName=outputs, sourceType="ONNX",
                  extraInfo=Record("ExtraInfo", version="3.6.1"), **fields)  # fmt: skip


def convolution(**fields: object) -> Record:
    common = Record(
        "Convolution2DCommon", kernelX=1, kernelY=1, outputCount=2, inputCount=3, pads=[0, 0, 0, 0], **fields
    )
    return Record("Convolution2D", common=common, weight=np.arange(6, dtype=np.float32), bias=np.float32([1, -100]))


def test_packed_convolutions_lose_their_conversions() -> None:
    ops = [
        source("x", 0, [1, 3, -1, 2]),
        convert(0, 1, "NCHW", "NC4HW4"),
        op("Convolution", "c", [1], [2], convolution(relu=True)),
        convert(2, 3, "NC4HW4", "NCHW"),
    ]
    graph = graph_of(net(ops, ["x", "x4", "y__before_tr", "y"], ["y"]))
    assert [n.op for n in graph.nodes] == ["Convolution"]
    assert [v.name for v in graph.outputs] == ["y"]
    assert graph.inputs[0].shape == (1, 3, "x_2", 2)
    x = np.ones((1, 3, 2, 2), np.float32)
    expected = np.maximum(np.array([0 + 1 + 2 + 1, 3 + 4 + 5 - 100]), 0)
    np.testing.assert_array_equal(np.asarray(run_reference(graph, {"x": x})[0])[0, :, 0, 0], expected)


def test_channels_last_files_are_permuted() -> None:
    ops = [
        source("x", 0, [1, 2, 2, 3], form="NHWC"),
        convert(0, 1, "NHWC", "NC4HW4"),
        op("Convolution", "c", [1], [2], convolution()),
        convert(2, 3, "NC4HW4", "NHWC"),
    ]
    graph = graph_of(net(ops, ["x", "x4", "c", "y"], ["y"]))
    x = np.random.default_rng(0).standard_normal((1, 2, 2, 3)).astype(np.float32)
    expected = x @ np.arange(6, dtype=np.float32).reshape(2, 3).T + np.float32([1, -100])
    np.testing.assert_allclose(np.asarray(run_reference(graph, {"x": x})[0]), expected, rtol=1e-5)


def test_a_packed_reshape_of_a_channels_last_file_keeps_its_order() -> None:
    shape = Record("Reshape", dims=[0, -1], dimType="NHWC")
    ops = [
        source("x", 0, [1, 2, 2, 3], form="NHWC"),
        convert(0, 1, "NHWC", "NC4HW4"),
        op("Reshape", "r", [1], [2], shape),
    ]
    graph = graph_of(net(ops, ["x", "x4", "y"], ["y"]))
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    np.testing.assert_array_equal(np.asarray(run_reference(graph, {"x": x})[0]), x.reshape(1, 12))


def test_comparisons_are_numbers() -> None:
    ops = [
        source("a", 0, [4]),
        op("BinaryOp", "g", [0, 0], [1], Record("BinaryOp", opType="GREATER_EQUAL")),
        op("BinaryOp", "s", [1, 1], [2], Record("BinaryOp", opType="ADD")),
    ]
    graph = graph_of(net(ops, ["a", "g", "s"], ["s"]))
    found = np.asarray(run_reference(graph, {"a": np.zeros(4, np.float32)})[0])
    assert found.dtype == np.int32
    assert found.tolist() == [2, 2, 2, 2]


def _branch(name: str, kind: str) -> Record:
    unary = Record("UnaryOp", opType=kind)
    nodes = [source("inner", 0, [2]), op("UnaryOp", "u", [0], [1], unary)]
    return Record("SubGraphProto", name=name, inputs=[0], outputs=[1], tensors=["inner", f"{kind}_out"], nodes=nodes)


def _if(then: str = "then", other: str = "else", given: str = "inner") -> Record:
    param = Record(
        "IfParam", then_graph=then, else_graph=other,
        aliases_inputs=[Record("StringVec"), Record("StringVec", data=[given])],
        aliases_outputs=[Record("StringVec", data=["ABS_out", "NEG_out"])],
    )  # fmt: skip
    ops = [source("c", 0, [], "DT_INT32"), source("x", 1, [2]), op("If", "if", [0, 1], [2], param)]
    return net(ops, ["c", "x", "y"], ["y"], subgraphs=[_branch("then", "ABS"), _branch("else", "NEG")])


def test_if_passes_values_by_alias() -> None:
    graph = graph_of(_if())
    assert graph.inputs[0].dtype is DType.I32
    x = np.float32([-1, 2])
    for flag, expected in ((1, np.abs(x)), (0, -x)):
        found = run_reference(graph, {"c": np.array(flag, np.int32), "x": x})[0]
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize(("changes", "message"), [({"then": "nowhere"}, "nowhere"), ({"given": "other"}, "inner")])
def test_a_broken_if_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        graph_of(_if(**changes))


def test_while_carries_values_and_sees_constant_ones() -> None:
    body = Record(
        "SubGraphProto", name="body", tensors=["i", "c", "v", "k", "sum", "go"], inputs=[0, 1, 2, 3],
        outputs=[5, 4, 3, 4],
        nodes=[
            source("i", 0, [], "DT_INT32"), source("c", 1, [], "DT_INT32"), source("v", 2, [1]), source("k", 3, [1]),
            op("BinaryOp", "sum", [2, 3], [4], Record("BinaryOp", opType="ADD")),
            op("Const", "go", [], [5], Record("Blob", dataType="DT_INT32", int32s=[1])),
        ],
    )  # fmt: skip
    three = op("Const", "n", [], [0], Record("Blob", dataType="DT_INT32", int32s=[3]))
    one = op("Const", "t", [], [1], Record("Blob", dataType="DT_INT32", int32s=[1]))
    ops = [three, one, source("v0", 2, [1]), source("k0", 3, [1]),
           op("While", "w", [0, 1, 2, 3], [4, 5, 6], Record("WhileParam", body_graph="body"))]  # fmt: skip
    graph = graph_of(net(ops, ["n", "t", "v0", "k0", "last", "same", "all"], ["last", "all"], subgraphs=[body]))
    assert len(graph.nodes[-1].inputs) == 3  # k is seen from outside
    last, all_ = run_reference(graph, {"v0": np.float32([1]), "k0": np.float32([10])})
    assert np.asarray(last).tolist() == [31]
    assert np.asarray(all_).reshape(-1).tolist() == [11, 21, 31]


def test_operators_out_of_order_are_sorted() -> None:
    relu = Record("Relu")
    ops = [op("ReLU", "b", [1], [2], relu), op("ReLU", "a", [0], [1], relu), source("x", 0, [2])]
    assert [n.name for n in graph_of(net(ops, ["x", "m", "y"], ["y"])).nodes] == ["a", "b"]


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([op("ReLU", "a", [0], [1])], "nothing makes"),
        ([op("ReLU", "a", [1], [1])], "its own result"),
        ([op("ReLU", "a", [1], [2]), op("ReLU", "b", [2], [1])], "its own result"),
        ([source("x", 0, [1]), op("ReLU", "a", [0], [1]), op("ReLU", "b", [0], [1])], "made twice"),
    ],
)
def test_impossible_orders_are_refused(ops: list[Record], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        graph_of(net(ops, ["x", "y", "z"], ["y"]))


def test_a_subgraph_inside_of_itself_is_refused() -> None:
    param = Record("IfParam", then_graph="a", else_graph="a", aliases_inputs=[Record("StringVec")],
                   aliases_outputs=[Record("StringVec", data=["y", "y"])])  # fmt: skip
    inner = [op("Const", "c", [], [0], Record("Blob", dataType="DT_INT32", int32s=[1])), op("If", "i", [0], [1], param)]
    sub = Record("SubGraphProto", name="a", tensors=["c", "y"], outputs=[1], nodes=inner)
    with pytest.raises(FormatError, match=r"nest deeper|too often"):
        graph_of(net(inner, ["c", "y"], ["y"], subgraphs=[sub]))


def test_subgraphs_that_double_at_every_level_are_refused() -> None:
    subs = []
    for i in range(30):
        param = Record("IfParam", then_graph=f"s{i + 1}", else_graph=f"s{i + 1}", aliases_inputs=[Record("StringVec")],
                       aliases_outputs=[Record("StringVec", data=["y", "y"])])  # fmt: skip
        nodes = [
            op("Const", "c", [], [0], Record("Blob", dataType="DT_INT32", int32s=[1])),
            op("If", "i", [0], [1], param),
        ]
        subs.append(Record("SubGraphProto", name=f"s{i}", tensors=["c", "y"], outputs=[1], nodes=nodes))
    last = [op("Const", "c", [], [0], Record("Blob", dataType="DT_INT32", int32s=[1])), op("Identity", "y", [0], [1])]
    subs.append(Record("SubGraphProto", name="s30", tensors=["c", "y"], outputs=[1], nodes=last))
    with pytest.raises(FormatError, match=r"nest deeper|too often"):
        graph_of(net(subs[0].nodes, ["c", "y"], ["y"], subgraphs=subs[1:]))


def test_all_unknown_operators_are_listed() -> None:
    ops = [source("x", 0, [1]), op("RasterDiff", "first", [0], [1]), op("Proposal", "second", [1], [2])]
    with pytest.raises(UnsupportedError) as caught:
        graph_of(net(ops, ["x", "y", "z"], ["z"]))
    assert "first" in str(caught.value)
    assert "second" in str(caught.value)


def test_weights_that_do_not_fit_are_refused() -> None:
    main = convolution()
    main.weight = np.zeros(7, np.float32)
    with pytest.raises(FormatError, match="7"):
        graph_of(net([source("x", 0, [1, 3, 2, 2]), op("Convolution", "c", [0], [1], main)], ["x", "y"], ["y"]))
