"""What is written is read back: the same answers, names, types and symbols."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn import graph_of, load, net_of, write_mnn
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.schema import read_net
from tests.frontends.mnn.graphs import assert_same_answers, const, small_net, through_file, value
from tests.harness import run_reference


def test_a_net_comes_back_with_answers_symbols_and_metadata() -> None:
    graph, feeds = small_net()
    again = through_file(graph)
    assert_same_answers(graph, again, feeds)
    assert again.inputs[0].shape == ("batch", 3, 8, 8)
    assert again.meta["metadata"] == {"author": "a test"}
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    assert [n.name for n in again.nodes] == [n.name for n in graph.nodes]
    assert {v.name for v in again.values()} == {v.name for v in graph.values()}


@pytest.mark.parametrize("dtype", [d for d in DType if d not in (DType.STR, DType.BF16X2)])
def test_constants_of_every_type_keep_their_bits(dtype: DType) -> None:
    kind = dtype.numpy
    if dtype is DType.BOOL:
        data = np.array([True, False, True])
    elif dtype.is_narrow:
        data = np.array([0, 1, 2, 3], np.uint8).view(kind)
    elif dtype.is_float:
        data = np.array([0.1, -3.0e4, 1.0 / 3.0, np.inf], np.float64).astype(kind)
    else:
        limits = np.iinfo(kind)
        data = np.array([limits.min, limits.max, 7], kind)
    c, out = Value("c", dtype, data.shape, data), value("out", data.shape, dtype)
    graph = Graph("g", [], [out], [Node("Identity", "i", [c], [out])])
    again = through_file(graph)
    found = again.nodes[0].inputs[0]
    assert found is not None
    assert found.array().dtype == kind
    assert found.array().tobytes() == data.tobytes()


def test_strings_come_back() -> None:
    data = np.array([["a", "bé"]], dtype=object)
    c, out = Value("c", DType.STR, (1, 2), data), value("out", (1, 2), DType.STR)
    again = through_file(Graph("g", [], [out], [Node("Identity", "i", [c], [out])]))
    assert again.nodes[0].inputs[0].array().tolist() == data.tolist()  # type: ignore[union-attr]


def test_large_integers_are_limited_for_the_official_engine_only() -> None:
    x, out = value("x", (5,)), value("out")
    ends = const("ends", [np.iinfo(np.int64).max], np.int64)
    node = Node("StridedSlice", "s", [x, const("starts", [1], np.int64), ends], [out], {"fromType": 1})
    net = net_of(Graph("g", [x], [out], [node]))
    blob = next(op.main for op in net.oplists if op.name == "ends")
    assert blob.dataType == "DT_INT32"
    assert blob.int32s.tolist() == [1 << 30]
    assert graph_of(net).nodes[0].inputs[2].array().tolist() == [np.iinfo(np.int64).max]  # type: ignore[union-attr]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_compressed_weights_stay_compressed(bits: int, blocks: int, asymmetric: bool) -> None:
    rng = np.random.default_rng(bits)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    values = rng.integers(low, high + 1, (6, 36)).astype(np.int8)
    scale = rng.uniform(0.01, 0.1, (6, blocks)).astype(np.float32)
    offset = rng.uniform(-1, 1, (6, blocks)).astype(np.float32) if asymmetric else None
    weight = QuantizedArray.of(values, scale, offset, bits, (6, 4, 3, 3))
    x, out = value("x", (1, 4, 5, 5)), value("out")
    w = Value("w", DType.F32, (6, 4, 3, 3), weight)
    graph = Graph("g", [x], [out], [Node("Convolution", "c", [x, w], [out], {"kernelX": 3, "kernelY": 3})])
    again = through_file(graph)
    found = again.nodes[0].inputs[1].data  # type: ignore[union-attr]
    assert isinstance(found, QuantizedArray)
    assert found.bits == bits
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_allclose(found.dequantize(), weight.dequantize(), atol=2e-6)
    assert len(again.nodes[0].inputs) == 2


def test_fp16_halves_the_weights_and_external_files_hold_them(tmp_path: Path) -> None:
    graph, feeds = small_net()
    exact = run_reference(graph, feeds)[0]
    for fp16 in (False, True):
        for external in (False, True):
            path = tmp_path / f"m{fp16}{external}.mnn"
            write_mnn(graph, path, fp16=fp16, external=external)
            assert (tmp_path / f"{path.name}.weight").exists() == external
            again = load(path)
            limit = 2e-2 if fp16 else 0
            assert np.abs(np.asarray(run_reference(again, feeds)[0]) - np.asarray(exact)).max() <= limit


def test_external_weights_need_a_path(tmp_path: Path) -> None:
    graph, _ = small_net()
    write_mnn(graph, tmp_path / "m.mnn", external=True)
    with pytest.raises(MNNError, match="external"):
        load((tmp_path / "m.mnn").read_bytes())


def _branches() -> Graph:
    x, flag = value("x", (3,)), value("flag", (), DType.BOOL)
    doubled, kept, out = value("doubled"), value("kept"), value("out")
    then = Graph("then", [], [doubled], [Node("BinaryOp", "d", [x, const("two", 2, np.float32)], [doubled],
                                              {"opType": "MUL"})])  # fmt: skip
    other = Graph("else", [], [kept], [Node("Identity", "k", [x], [kept])])
    return Graph("g", [x, flag], [out], [Node("If", "if", [flag], [out], {"then_graph": then, "else_graph": other})])


def test_branches_see_outer_values_again() -> None:
    graph = _branches()
    again = through_file(graph)
    for flag in (True, False):
        assert_same_answers(graph, again, {"x": np.arange(3, dtype=np.float32), "flag": np.array(flag)})
    assert not again.nodes[0].attrs["then_graph"].inputs  # type: ignore[union-attr]


@pytest.mark.parametrize("op", ["Loop", "UnrolledLoop"])
@pytest.mark.parametrize("absent", [(), (0,), (1,)])
def test_loops_come_back_with_carried_captured_and_stacked_values(op: str, absent: tuple[int, ...]) -> None:
    x, start = value("x", (2,)), value("start", (2,))
    turn, going, state = value("turn", (), DType.I64), value("going", (), DType.BOOL), value("state", (2,))
    added, copy, more = value("added", (2,)), value("copy", (2,)), value("more", (), DType.BOOL)
    body = Graph(
        "body", [turn, going, state], [more, added, copy],
        [
            Node("BinaryOp", "add", [state, x], [added], {"opType": "ADD"}),
            Node("BinaryOp", "less", [turn, const("four", 4, np.int64)], [more], {"opType": "LESS"}),
            Node("Identity", "copy", [added], [copy]),
        ],
    )  # fmt: skip
    first: list[Value | None] = [const("count", 7, np.int64), const("yes", True)]
    for i in absent:
        first[i] = None
    last, all_ = value("last"), value("all")
    graph = Graph("g", [x, start], [last, all_], [Node(op, "loop", [*first, start], [last, all_], {"body": body})])
    again = through_file(graph)
    assert again.nodes[-1].op == op
    assert [v is None for v in again.nodes[-1].inputs[:2]] == [v is None for v in first]
    assert_same_answers(graph, again, {"x": np.ones(2, np.float32), "start": np.zeros(2, np.float32)})


def test_operators_of_this_engine_keep_attributes_and_gaps() -> None:
    x, y, out = value("x", (3, 3)), value("y", (3, 3)), value("out")
    attrs: dict[str, object] = {
        "upper": False, "table": np.arange(4.0).reshape(2, 2), "numbers": [1, 1 << 40], "text": "é", "third": 1.0 / 3.0,
        "raw": b"\0\1", "flags": [True, False], "big": 1 << 50, "none": None,
    }  # fmt: skip
    graph = Graph("g", [x, y], [out], [Node("Trilu", "t", [x, None, y], [out], attrs)])
    net = net_of(graph)
    extra = next(op for op in net.oplists if op.type == "Extra")
    assert extra.main.engine == "MNN-py"
    assert -1 not in extra.inputIndexes.tolist()
    node = graph_of(net).nodes[0]
    assert node.op == "Trilu"
    assert [v.name if v else None for v in node.inputs] == ["x", None, "y"]
    for key, wanted in attrs.items():
        if wanted is None:
            assert key not in node.attrs
        elif isinstance(wanted, np.ndarray):
            np.testing.assert_array_equal(node.attrs[key], wanted)  # type: ignore[arg-type]
        else:
            assert node.attrs[key] == wanted


def test_an_unwritable_attribute_is_named() -> None:
    x, out = value("x", (3, 3)), value("out")
    graph = Graph("g", [x], [out], [Node("Trilu", "t", [x], [out], {"upper": object()})])
    with pytest.raises(MNNError, match="upper"):
        net_of(graph)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    graph, _ = small_net()
    path = tmp_path / "missing" / "m.mnn"
    with pytest.raises(MNNError):
        write_mnn(graph, path)
    assert list(tmp_path.iterdir()) == []


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    graph, _ = small_net()
    write_mnn(graph, tmp_path / "a.mnn")
    write_mnn(graph, tmp_path / "b.mnn")
    write_mnn(load_graph(tmp_path / "a.mnn"), tmp_path / "c.mnn")
    assert (tmp_path / "a.mnn").read_bytes() == (tmp_path / "b.mnn").read_bytes()
    assert read_net(tmp_path / "a.mnn").oplists == read_net(tmp_path / "c.mnn").oplists
