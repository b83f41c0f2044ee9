"""The way back: graphs as ONNX models, judged by onnx's checker and ONNX Runtime."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from MNN.converter import Options, convert
from MNN.errors import MNNError
from MNN.frontends.common.problems import UnsupportedModelError
from MNN.frontends.onnx import load
from MNN.frontends.onnx_export import onnx_model
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import optimize
from tests.onnx.cases import node_cases
from tests.onnx.export_cases import LACKING, judge

SHARE = int(os.environ.get("MNN_EXPORT_SHARE", "8"))
"""Every so many-th case is judged; 1 judges all."""
NAMES = sorted(node_cases())[::SHARE]
REFUSED = 0.08
"""The share of cases for which ONNX has no form here."""
DIGITS = Path(__file__).parents[2] / "src" / "MNN" / "assets" / "digits.onnx"


def test_operator_cases_come_back() -> None:
    found = {name: judge(name) for name in NAMES}
    expected = ("right", "refused", "not read", "not run by ONNX Runtime")
    wrong = {n: f for n, f in found.items() if f not in expected and n not in LACKING}
    assert not wrong
    assert sum(f == "refused" for f in found.values()) <= REFUSED * len(found)
    assert sum(f == "right" for f in found.values()) >= 0.8 * len(found)


def test_a_model_goes_to_mnn_and_back(tmp_path: Path) -> None:
    convert(DIGITS, tmp_path / "a.mnn")
    report = convert(tmp_path / "a.mnn", tmp_path / "b.onnx")
    assert list(report.files) == [tmp_path / "b.onnx"]
    model = onnx.load(str(tmp_path / "b.onnx"))
    onnx.checker.check_model(model, full_check=True)
    image = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
    names = [v.name for v in model.graph.input]
    runs = [
        onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (DIGITS, tmp_path / "b.onnx")
    ]
    first, second = (r.run(["probability"], {names[0]: image})[0] for r in runs)
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_names_and_open_sizes_stay(tmp_path: Path) -> None:
    convert(DIGITS, tmp_path / "b.onnx")
    model = onnx.load(str(tmp_path / "b.onnx"))
    assert [v.name for v in model.graph.input] == ["image"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_everything_unsupported_is_listed_at_once() -> None:
    x = Value("x", DType.F32, (4,))
    outs = [Value(n, DType.F32, (4,)) for n in "yz"]
    nodes = [Node("Adagrad", "first", [x], [outs[0]]), Node("PriorBox", "second", [x], [outs[1]])]
    with pytest.raises(UnsupportedModelError) as caught:
        onnx_model(Graph("g", [x], outs, nodes))
    assert [p.op for p in caught.value.problems] == ["Adagrad", "PriorBox"]


def test_options_of_mnn_files_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(MNNError, match="--fp16"):
        convert(DIGITS, tmp_path / "b.onnx", Options(fp16=True))
    assert not list(tmp_path.iterdir())


def test_an_input_of_unknown_rank_is_told(tmp_path: Path) -> None:
    """onnx's checker would refuse the file."""
    x, y = Value("x", DType.F32, None), Value("y", DType.F32, None)
    graph = Graph("g", inputs=[x], outputs=[y], nodes=[Node("ReLU", "relu", [x], [y])])
    with pytest.raises(MNNError, match=r"input 'x'.*--input-shape x=batch"):
        onnx_model(graph)
    x.shape = ("batch", 3)
    onnx.checker.check_model(onnx_model(graph))


@pytest.mark.parametrize("seed", range(12))
def test_slices_by_masks_at_computed_places(seed: int) -> None:
    """Begins, ends or both are inputs; numpy says what a slice is."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 7, rng.integers(1, 5)))
    count = int(rng.integers(1, len(shape) + 1))
    begins, ends = (np.asarray([rng.integers(-n, n) for n in shape[:count]], np.int32) for _ in range(2))
    steps = rng.choice([1, 1, 2, -1, -2], count).astype(np.int32)
    masks = {name: int(rng.integers(0, 1 << count)) for name in ("beginMask", "endMask")}
    shrink = int(rng.integers(0, 1 << count)) & int(rng.integers(0, 1 << count))
    steps[[i for i in range(count) if shrink >> i & 1]] = 1
    wanted = []
    for i, (begin, end, step) in enumerate(zip(begins.tolist(), ends.tolist(), steps.tolist(), strict=True)):
        first = None if masks["beginMask"] >> i & 1 else begin
        last = None if masks["endMask"] >> i & 1 else end
        wanted.append(begin if shrink >> i & 1 else slice(first, last, step))
    data = rng.random(shape, np.float32)
    expected = data[tuple(wanted)]
    x = Value("x", DType.F32, shape)
    places = [Value(name, DType.I32, (count,)) for name in ("begin", "end")]
    computed = [bool(rng.integers(2)), bool(rng.integers(2))]
    if not any(computed):
        computed[seed % 2] = True
    for value, known, numbers in zip(places, computed, (begins, ends), strict=True):
        value.data = None if known else numbers
    stride = Value("stride", DType.I32, (count,), data=steps)
    y = Value("y", DType.F32, None)
    node = Node("StridedSlice", "cut", [x, *places, stride], [y], {**masks, "shrinkAxisMask": shrink})
    inputs = [x, *(v for v, known in zip(places, computed, strict=True) if known)]
    model = onnx_model(Graph("g", inputs, [y], [node]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"x": data, "begin": begins, "end": ends}
    (found,) = session.run(None, {v.name: given[v.name] for v in inputs})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 4, 4, 4), (2, 3)])
def test_a_computed_slope_is_one_per_channel(shape: tuple[int, ...]) -> None:
    """ONNX would set it at the last axis."""
    rng = np.random.default_rng(0)
    data, slopes = rng.standard_normal(shape).astype(np.float32), rng.random(shape[1], np.float32)
    x, slope = Value("x", DType.F32, shape), Value("slope", DType.F32, (shape[1],))
    y = Value("y", DType.F32, shape)
    node = Node("PReLU", "prelu", [x, slope], [y], {"slopeCount": shape[1]})
    model = onnx_model(Graph("g", [x, slope], [y], [node]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": data, "slope": slopes})
    along = slopes.reshape(-1, *(1,) * (len(shape) - 2))
    np.testing.assert_allclose(found, np.where(data < 0, along * data, data), rtol=1e-6)


@pytest.mark.parametrize("dtype", [DType.U8, DType.I16])
@pytest.mark.parametrize("op", ["Padding", "Interp", "Pooling"])
def test_what_is_moved_as_integers_is_found_by_onnx_runtime(op: str, dtype: DType) -> None:
    """It has no such kernels of 16-bit integers, and ONNX no maxima of whole images of any."""
    x, value = Value("x", dtype, (1, 2, 3, 4)), Value("v", dtype, (), np.asarray(7, dtype.numpy))
    pads = Value("pads", DType.I64, (8,), np.array([0, 0, 0, 0, 1, 0, 0, 2]))
    operands, shape, attrs = {
        "Padding": ([x, pads, value], (1, 2, 4, 6), {"mode": "CONSTANT"}),
        "Interp": ([x], (1, 2, 6, 8), {"resizeType": 1, "ctm": "Asymmetric", "heightScale": 2.0, "widthScale": 2.0}),
        "Pooling": ([x], (1, 2, 1, 1), {"type": "MAXPOOL", "isGlobal": True}),
    }[op]
    y = Value("y", dtype, shape)
    graph = Graph("g", [x], [y], [Node(op, "n", operands, [y], attrs)])
    data = np.arange(24).reshape(1, 2, 3, 4).astype(dtype.numpy)
    wanted = {
        "Padding": np.pad(data, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=7),
        "Interp": data.repeat(2, 2).repeat(2, 3),
        "Pooling": data.max((2, 3), keepdims=True),
    }[op]
    (found,) = onnxruntime.InferenceSession(onnx_model(graph).SerializeToString()).run(None, {"x": data})
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("op", ["ConvInteger", "QLinearConv", "MatMulInteger", "QLinearMatMul"])
def test_integers_of_every_sign_come_back(op: str) -> None:
    """ONNX Runtime lacks products of signed by unsigned bytes, and zero points of each channel in some operators.
    Activations are small: without VNNI it saturates sums of two products of bytes."""
    rng, sign = np.random.default_rng(len(op)), {"u": np.uint8, "s": np.int8}
    for case, (kinds, channels) in enumerate(itertools.product(("uu", "us", "su", "ss"), (0, 1))):
        group, constant = (1, 2, 4)[case % 3], case != 5
        a, b = (sign[k] for k in kinds)
        if "Conv" in op:
            x, w = (rng.integers(0, n, s) for n, s in ((120, (2, 4, 5, 4)), (200, (4, 4 // group, 3, 2))))
        else:
            x, w = (rng.integers(0, n, s) for n, s in ((120, (3, 8)), (200, (8, 4))))
        x, w = ((v - (100 if t is np.int8 else 0)).astype(t) for v, t in ((x, a), (w, b)))
        zeros = rng.integers(3, 90, 4 if channels else ()).astype(b)
        column = zeros.reshape(-1, 1, 1, 1) if "Conv" in op else zeros
        inner = onnx.helper.make_node("Conv", ["x", "w"], ["y"], group=group, pads=[1, 0, 1, 1])
        if "Conv" not in op:
            inner = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
        floats = {"x": (x - np.float32(7)).astype(np.float32), "w": (w - column.astype(np.float32)).astype(np.float32)}
        wanted = ReferenceEvaluator(inner).run(None, floats)[0]
        scaled = op.startswith("QLinear")
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"] if scaled else ["x", "w", "xz", "wz"]
        held = {"xz": a(7), "wz": zeros, "w": w}
        if scaled:
            held |= {"xs": np.float32(0.5), "ws": np.full(zeros.shape, 0.25, np.float32), "ys": np.float32(32)}
            wanted = np.clip(np.rint(wanted / 256) + 20, np.iinfo(a).min, np.iinfo(a).max)
            held["yz"] = a(20)
        feeds = {"x": x} | ({} if constant else {"w": held.pop("w")})
        node = onnx.helper.make_node(
            op, names, ["y"], **({"group": group, "pads": [1, 0, 1, 1]} if "Conv" in op else {})
        )
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(a if scaled else np.int32))
        graph = onnx.helper.make_graph(
            [node], "g",
            [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in feeds.items()],
            [onnx.helper.make_tensor_value_info("y", kind, wanted.shape)],
            [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()],
        )  # fmt: skip
        made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
        ours = load(made)
        optimize(ours)
        back = onnx_model(ours)
        session = onnxruntime.InferenceSession(back.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, feeds)[0], wanted, err_msg=f"{case}: {kinds}, {group} groups")


@pytest.mark.parametrize("seed", range(4))
def test_what_a_scan_computes(seed: int) -> None:
    """Running products, and products with the matrix that each row chooses (experts), which ONNX has no operators of;
    and the spectrum of a real signal as a signal."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    dtype = (np.float32, np.int64, np.float64, np.int32)[seed]
    data = rng.integers(-3, 4, shape).astype(dtype)
    axis, exclusive, reverse = int(rng.integers(-len(shape), len(shape))), bool(seed & 1), bool(seed & 2)
    x, out = Value("x", DType.of(data), shape), Value("y", DType.of(data), shape)
    where = Value("axis", DType.I32, (), np.asarray(axis, np.int32))
    attrs = {"exclusive": exclusive, "reverse": reverse}
    (found,) = _run(Graph("g", [x], [out], [Node("CumProd", "n", [x, where], [out], attrs)]), {"x": data})
    turned = np.flip(data, axis) if reverse else data
    if exclusive:
        turned = np.roll(turned, 1, axis)
        np.moveaxis(turned, axis, 0)[:1] = 1
    wanted = np.cumprod(turned, axis, dtype=dtype)
    np.testing.assert_array_equal(found, np.flip(wanted, axis) if reverse else wanted)

    count, high, wide = (int(n) for n in rng.integers(1, 6, 3))
    rows = rng.standard_normal((2, 1, wide) if seed & 1 else (2, 3, wide), np.float32)
    held, index = rng.standard_normal((count * high, wide), np.float32), rng.integers(0, count, (2, 3))
    x, w = Value("x", DType.F32, rows.shape), Value("w", DType.F32, held.shape, held)
    i, out = Value("i", DType.I64, (2, 3)), Value("y", DType.F32, (2, 3, high))
    node = Node("RoutedMatMul", "n", [x, w, i], [out], {"count": count})
    (found,) = _run(Graph("g", [x, i], [out], [node]), {"x": rows, "i": index})
    each = held.reshape(count, high, wide)[index]
    np.testing.assert_allclose(found, np.einsum("abnk,abk->abn", each, np.broadcast_to(rows, (2, 3, wide))), 1e-5, 1e-6)

    bins = rng.standard_normal((2, 5, 1), np.float32)
    x, out = Value("x", DType.F32, bins.shape), Value("y", DType.F32, (2, 8, 1))
    length = Value("n", DType.I64, (), np.asarray(8, np.int64))
    node = Node("DFT", "n", [x, length], [out], {"axis": 1, "inverse": True, "onesided": True})
    (found,) = _run(Graph("g", [x], [out], [node]), {"x": bins})
    np.testing.assert_allclose(found[..., 0], np.fft.irfft(bins[..., 0], 8), 1e-5, 1e-6)


def _run(graph: Graph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    made = onnx_model(graph)
    onnx.checker.check_model(made, full_check=True)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


ODD_TYPES: list[tuple[str, dict[str, object], Callable[[np.ndarray], np.ndarray], str]] = [
    ("UnaryOp", {"opType": "ROUND"}, np.rint, "float16 bfloat16"),
    ("UnaryOp", {"opType": "NEG"}, lambda x: (0 - x).astype(x.dtype), "uint8 uint16 uint32 int8 int16"),
    ("UnaryOp", {"opType": "SIN"}, lambda x: np.sin(x.astype(np.float32)).astype(x.dtype), "bfloat16"),
    ("Reduction", {"operation": "MAXIMUM", "dim": [1], "keepDims": True}, lambda x: x.max(1, keepdims=True),
     "int16 uint16 uint32 int8 uint8 bfloat16"),
    ("Reduction", {"operation": "SUM", "dim": [0], "keepDims": False},
     lambda x: x.astype(np.int64).sum(0).astype(x.dtype), "int16 uint8 int8 uint16"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attrs", "function", "kinds"), ODD_TYPES, ids=lambda v: v if isinstance(v, str) else "")
def test_types_that_an_operator_lacks_are_cast(
    op: str, attrs: dict[str, object], function: Callable[[np.ndarray], np.ndarray], kinds: str
) -> None:
    """The file passes onnx's checker and gives numpy's numbers, wrapped where they do not fit."""
    for kind in kinds.split():
        dtype = np.dtype(getattr(ml_dtypes, kind, kind))
        rng = np.random.default_rng(len(kind))
        data = rng.normal(size=(3, 5)).astype(dtype) if "float" in kind else rng.integers(0, 100, (3, 5)).astype(dtype)
        x, y = Value("x", DType.of(data), data.shape), Value("y", DType.of(data), function(data).shape)
        model = onnx_model(Graph("g", [x], [y], [Node(op, "n", [x], [y], attrs)]))
        onnx.checker.check_model(model, full_check=True)
        assert model.graph.output[0].type.tensor_type.elem_type == model.graph.input[0].type.tensor_type.elem_type
        (found,) = ReferenceEvaluator(model).run(None, {"x": data})
        np.testing.assert_array_equal(found, function(data), err_msg=kind)


@pytest.mark.parametrize("kind", ["bool", "int16", "uint16", "uint8", "int8", "float16"])
def test_types_without_kernels_are_cast(kind: str) -> None:
    """ONNX Runtime chooses, pads and compares numbers of any type."""
    rng, dtype = np.random.default_rng(1), np.dtype(kind)
    a, b = (rng.integers(0, 100, (3, 4)).astype(dtype) for _ in range(2))
    told = rng.random((3, 4)) < 0.5
    c, x, y = Value("c", DType.BOOL, (3, 4)), Value("x", DType.of(a), (3, 4)), Value("y", DType.of(a), (3, 4))
    pads, zero = (
        Value("pads", DType.I64, (4,), np.array([1, 0, 0, 2])),
        Value("zero", DType.of(a), (), np.zeros((), dtype)),
    )
    outs = [Value(n, DType.of(a), (3, 4)) for n in ("chosen", "most")] + [Value("padded", DType.of(a), (4, 6))]
    nodes = [
        Node("Select", "select", [c, x, y], [outs[0]]),
        Node("BinaryOp", "most", [x, y], [outs[1]], {"opType": "MAXIMUM"}),
        Node("Padding", "pad", [x, pads, zero], [outs[2]], {"mode": "CONSTANT"}),
    ]
    model = onnx_model(Graph("g", [c, x, y], outs, nodes))
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = np.where(told, a, b), np.maximum(a, b), np.pad(a, ((1, 0), (0, 2)))
    for found, expected in zip(session.run(None, {"c": told, "x": a, "y": b}), wanted, strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_types_are_cast_in_branches_and_loops() -> None:
    """What a body takes from outside has a type there, too."""
    one = Value("one", DType.U8, (2,))
    chosen, cond = Value("chosen", DType.U8, (2,)), Value("cond", DType.BOOL, ())
    inner = Value("inner", DType.U8, (2,))
    negative = Graph("then", [], [inner], [Node("UnaryOp", "neg", [one], [inner], {"opType": "NEG"})])
    same = Value("same", DType.U8, (2,))
    plain = Graph("else", [], [same], [Node("Identity", "same", [one], [same])])
    last = Value("last", DType.U8, (2,))
    graph = Graph("g", [cond, one], [last], [
        Node("If", "if", [cond], [chosen], {"then_graph": negative, "else_graph": plain}),
        Node("UnaryOp", "again", [chosen], [last], {"opType": "NEG"}),
    ])  # fmt: skip
    model = onnx_model(graph)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = np.array([3, 255], np.uint8)
    for told in (True, False):
        (found,) = session.run(None, {"cond": np.array(told), "one": given})
        np.testing.assert_array_equal(found, given if told else (0 - given).astype(np.uint8))


def test_a_quantised_transposed_convolution_has_strides_wider_than_its_filter() -> None:
    """Less than nothing is cut off at the ends, which ONNX has no pads for."""
    rng = np.random.default_rng(3)
    data, weights = rng.integers(0, 9, (1, 3, 4, 5)).astype(np.uint8), rng.integers(-4, 5, (3, 2, 1, 1)).astype(np.int8)
    scale, zero = Value("one", DType.F32, (), np.ones((), np.float32)), np.zeros((), np.uint8)
    x, w = Value("x", DType.U8, data.shape), Value("w", DType.I8, weights.shape, weights)
    xz, yz = Value("xz", DType.U8, (), zero), Value("yz", DType.U8, (), zero + np.uint8(100))
    wz, y = Value("wz", DType.I8, (), np.zeros((), np.int8)), Value("y", DType.U8, (1, 2, 8, 10))
    attrs = {"strides": [2, 2], "dilations": [1, 1], "pads": [0, 0, -1, -1], "padMode": "CAFFE", "group": 1}
    node = Node("QLinearConvTranspose", "n", [x, scale, xz, w, scale, wz, scale, yz], [y], attrs)
    model = onnx_model(Graph("g", [x], [y], [node]))
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = np.full((1, 2, 8, 10), 100)
    wanted[:, :, ::2, ::2] += np.einsum("bihw,io->bohw", data.astype(int), weights[:, :, 0, 0].astype(int))
    np.testing.assert_array_equal(session.run(None, {"x": data})[0], np.clip(wanted, 0, 255))
