"""Operators that ONNX models do not lead to (or not in every form): those of .mnn files, against plain numpy."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from MNN.errors import MNNError, ShapeError
from MNN.frontends.onnx_export import onnx_model
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from tests.harness import RUNNERS, default_runner
from tests.onnx.classical import run as run_onnx


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def run(op: str, *operands: np.ndarray | None, **attrs: object) -> np.ndarray:
    """The first operand is fed, the others are constants."""
    values = [None if a is None else Value(f"i{k}", DType.of(a), a.shape, a) for k, a in enumerate(operands)]
    values[0].data = None
    out = Value("out")
    graph = Graph("g", [values[0]], [out], [Node(op, "node", values, [out], attrs)])
    return np.asarray(RUNNERS[default_runner()](graph, {"i0": operands[0]})[0])


def test_scale_is_per_channel():
    x, scale, bias = floats(2, 3, 4, 5), floats(3), floats(3) + 1
    expected = x * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(run("Scale", x, scale, bias, channels=3), expected, rtol=1e-6)


def test_relu6_has_limits_of_its_own():
    x = floats(50) * 10
    np.testing.assert_array_equal(run("ReLU6", x), np.clip(x, 0, 6))
    np.testing.assert_array_equal(run("ReLU6", x, minValue=-2.0, maxValue=3.0), np.clip(x, -2, 3))


def test_convolution_applies_its_activation():
    x, w, bias = floats(1, 3, 6, 6), floats(4, 3, 1, 1) * 9, floats(4)
    plain = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + bias[:, None, None]
    np.testing.assert_allclose(run("Convolution", x, w, bias, relu=True), np.maximum(plain, 0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(run("Convolution", x, w, bias, relu6=True), np.clip(plain, 0, 6), rtol=1e-4, atol=1e-4)


def test_depthwise_convolution_takes_its_groups_from_the_weights():
    x, w = floats(1, 5, 6, 6), floats(5, 1, 1, 1)
    found = run("ConvolutionDepthwise", x, w, kernelX=1, kernelY=1)
    np.testing.assert_allclose(found, x * w[:, 0], rtol=1e-6)


def test_old_padding_attributes_are_symmetric():
    x, w = floats(1, 2, 5, 6), floats(3, 2, 3, 3)
    old = run("Convolution", x, w, padX=1, padY=2)
    np.testing.assert_array_equal(old, run("Convolution", x, w, pads=[2, 1, 2, 1]))
    assert old.shape == (1, 3, 7, 6)


def test_average_pooling_counts_explicit_padding_unless_told_otherwise():
    x = np.ones((1, 1, 4, 4), np.float32)
    common = {"type": "AVEPOOL", "kernelX": 2, "kernelY": 2, "strideX": 2, "strideY": 2, "padX": 1, "padY": 1}
    assert run("Pooling", x, **common)[0, 0, 0, 0] == 0.25
    assert run("Pooling", x, countType="EXCLUDE_PADDING", **common)[0, 0, 0, 0] == 1
    same = {**common, "padX": 0, "padY": 0, "kernelX": 3, "kernelY": 3, "padType": "SAME"}
    assert (run("Pooling", x, **same) == 1).all()


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_global_pooling_at_any_rank(rank):
    x = floats(2, 3, *range(4, 2 + rank))
    axes = tuple(range(2, rank))
    found = run("Pooling3D", x, isGlobal=True, type="AVEPOOL")
    np.testing.assert_allclose(found, x.mean(axes, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(run("Pooling3D", x, isGlobal=True, type="MAXPOOL"), x.max(axes, keepdims=True))


def test_layer_norm_in_groups():
    x = floats(2, 6, 5)
    rows = x.reshape(2, 3, 10).astype(np.float64)
    expected = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-3)
    np.testing.assert_allclose(run("LayerNorm", x, group=3, epsilon=1e-3), expected.reshape(x.shape), atol=1e-5)


def test_rms_norm():
    x, gamma = floats(4, 7), floats(7)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * gamma
    np.testing.assert_allclose(
        run("LayerNorm", x, gamma, axis=[-1], epsilon=1e-6, useRMSNorm=True), expected, atol=1e-5
    )


def test_group_norm_with_swish():
    x, gamma, beta = floats(2, 4, 3, 3), floats(4), floats(4)
    rows = x.reshape(2, 2, -1).astype(np.float64)
    y = ((rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
    y = y * gamma[:, None, None] + beta[:, None, None]
    found = run("GroupNorm", x, gamma, beta, group=2, epsilon=1e-5, bSwish=1)
    np.testing.assert_allclose(found, y / (1 + np.exp(-y)), atol=1e-5)


def test_norms_in_half_precision_do_not_overflow():
    x = (floats(2, 3, 64) * 3000).astype(np.float16)
    found = run("LayerNorm", x, axis=[-1], epsilon=1e-5)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, atol=3e-3)


def test_lrn_within_channels():
    x = floats(1, 2, 5, 5)
    square = np.pad(x.astype(np.float64) ** 2, ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = sum(square[:, :, i : i + 5, j : j + 5] for i in range(3) for j in range(3))
    expected = x * (1.5 + 0.2 / 9 * total) ** -0.75
    found = run("LRN", x, regionType=1, localSize=3, alpha=0.2, beta=0.75, bias=1.5)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_normalize_over_channels_and_space():
    x, scale = floats(1, 3, 4, 4), np.array([20, 10, 5], np.float32)
    over = {0: (1,), 1: (1, 2, 3)}
    for across, axes in over.items():
        norm = np.sqrt((x.astype(np.float64) ** 2).sum(axes, keepdims=True) + 1e-10)
        found = run("Normalize", x, scale, acrossSpatial=across, eps=1e-10)
        np.testing.assert_allclose(found, x / norm * scale[:, None, None], rtol=1e-5)


def test_inner_product_flattens():
    x, w, bias = floats(2, 3, 4), floats(5, 12), floats(5)
    expected = x.reshape(2, 12) @ w.T + bias
    np.testing.assert_allclose(run("InnerProduct", x, w, bias, axis=1, outputCount=5), expected, rtol=1e-4, atol=1e-5)
    found = run("InnerProduct", x, np.ascontiguousarray(w.T), bias, axis=1, transpose=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_batch_matmul_with_adjoints():
    x, y = floats(2, 4, 3), floats(2, 5, 4)
    found = run("BatchMatMul", x, y, adjX=True, adjY=True)
    np.testing.assert_allclose(found, x.transpose(0, 2, 1) @ y.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)


def test_attention_without_a_cache():
    q, k, v = floats(2, 3, 4, 8), floats(2, 5, 2, 8), floats(2, 5, 2, 8) + 1
    mask = np.where(np.arange(5) < 4, 0, -1e9).astype(np.float32).reshape(1, 1, 1, 5)
    kk, vv = (np.repeat(t, 2, axis=2).astype(np.float64) for t in (k, v))
    scores = np.einsum("bshd,bthd->bhst", q, kk) / np.sqrt(8) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bhst,bthd->bshd", weights, vv).reshape(2, 3, 32)
    np.testing.assert_allclose(run("Attention", q, k, v, mask, kv_cache=False), expected, atol=1e-5)
    with pytest.raises(MNNError, match="cache"):
        run("Attention", q, k, v)


def test_resizing_of_old_files():
    x = floats(1, 2, 4, 6)
    found = run("Interp", x, resizeType=1, heightScale=2.0, widthScale=0.5)
    np.testing.assert_array_equal(found, x[:, :, np.arange(8) // 2][:, :, :, [0, 2, 4]])
    corners = run("Interp", x, resizeType=2, alignCorners=True, outputHeight=7, outputWidth=11)
    np.testing.assert_allclose(corners[:, :, ::2, ::2], x, atol=1e-6)
    np.testing.assert_allclose(corners[:, :, 1, 0], (x[:, :, 0, 0] + x[:, :, 1, 0]) / 2, atol=1e-6)
    sized = run("Interp", x, np.array([7, 11], np.int32), resizeType=2, alignCorners=True)
    np.testing.assert_array_equal(sized, corners)


def test_space_to_depth_is_the_inverse_in_both_orders():
    x = floats(1, 8, 3, 5)
    for mode in ("DCR", "CRD"):
        wide = run("DepthToSpace", x, blockSize=2, mode=mode)
        assert wide.shape == (1, 2, 6, 10)
        np.testing.assert_array_equal(run("SpaceToDepth", wide, blockSize=2, mode=mode), x)


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("Convolution", (floats(1, 3, 8, 8), floats(4, 5, 3, 3)), {}),
        ("Convolution", (floats(1, 3, 8), floats(4, 3, 3, 3)), {}),
        ("Convolution", (floats(1, 3, 2, 2), floats(4, 3, 3, 3)), {}),
        ("Convolution", (floats(1, 3, 8, 8), floats(4, 3, 3, 3)), {"strideX": 0}),
        ("Convolution", (floats(1, 4, 8, 8), floats(4, 2, 3, 3)), {"group": 0}),
        ("Deconvolution", (floats(1, 3, 8, 8), floats(4, 3, 3, 3)), {}),
        ("Deconvolution", (floats(1, 3, 8, 8), floats(3, 3, 3, 3)), {"strideX": 0}),
        ("Pooling", (floats(1, 3, 8, 8),), {"kernelX": 0, "kernelY": 2}),
        ("Pooling", (floats(1, 3, 8, 8),), {"kernelX": 20, "kernelY": 20, "ceilModel": False}),
        ("BatchNorm", (floats(1, 3, 8, 8), floats(4), floats(4), floats(4), floats(4)), {}),
        ("LayerNorm", (floats(3, 5), floats(4)), {"axis": [-1]}),
        ("LayerNorm", (floats(3, 5),), {"group": 2}),
        ("LRN", (floats(1, 3, 8, 8),), {"localSize": 0}),
        ("DepthToSpace", (floats(1, 6, 3, 3),), {"blockSize": 2}),
        ("Interp", (floats(1, 2, 4, 4),), {"resizeType": 9}),
        ("Interp", (floats(1, 2, 4, 4), np.array([1, 2, 3])), {"resizeType": 2}),
        ("LSTM", (floats(5, 2, 3), floats(1, 8, 3), floats(1, 8, 4), floats(1, 8)), {}),
        ("GridSample", (floats(1, 2, 4, 4), floats(2, 3, 3, 2)), {}),
        ("ROIAlign", (floats(1, 2, 4, 4), floats(3, 4)), {"pooledHeight": 2, "pooledWidth": 2}),
    ],
)
def test_what_does_not_fit_is_an_error(op, operands, attrs):
    with pytest.raises(ShapeError, match="node"):
        run(op, *operands, **attrs)


@pytest.mark.parametrize("axis", [0, -1])
def test_one_hot_has_no_place_for_negative_indices(axis):
    """As the official engine, TensorFlow and TensorFlow Lite have it; ONNX counts from the end, which its front end
    says, and what goes to ONNX does not."""
    at = np.random.default_rng(7).integers(-9, 9, (3, 4)).astype(np.int64)
    want = np.moveaxis((at[..., None] == np.arange(5)).astype(np.float32) * 2 - 1, -1, axis)
    parts = [np.array(5, np.int32), np.float32(1), np.float32(-1)]
    np.testing.assert_array_equal(run("OneHot", at, *parts, axis=axis), want)
    values = [Value(f"i{k}", DType.of(np.asarray(a)), np.shape(a), np.asarray(a)) for k, a in enumerate([at, *parts])]
    values[0].data, out = None, Value("out", DType.F32, want.shape)
    model = onnx_model(Graph("g", [values[0]], [out], [Node("OneHot", "node", values, [out], {"axis": axis})]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"i0": at})[0], want)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.uint8, np.int32, np.int64, np.float32])
def test_indices_of_onnx_count_from_the_end_of_any_depth(kind):
    """Also where their type does not hold the depth."""
    at = np.random.default_rng(8).integers(0 if kind is np.uint8 else -128, 128, (3, 4)).astype(kind)
    given = helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(at.dtype), at.shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    parts = [helper.make_tensor("n", TensorProto.INT64, [], [200]), helper.make_tensor("v", 1, [2], [-1, 3])]
    graph = helper.make_graph([helper.make_node("OneHot", ["x0", "n", "v"], ["y"])], "g", [given], [made], parts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (found,) = run_onnx(model.SerializeToString(), at)
    places = at.astype(np.int64) % 200
    np.testing.assert_array_equal(found, np.where(places[..., None] == np.arange(200), 3, -1))
