"""Neural-network operators on odd sizes and rare attributes, against onnxruntime."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.frontends.onnx import load
from tests.harness import RUNNERS, default_runner

CASES: dict[str, tuple[str, list, dict, int, int]] = {}
"""name: operator, operands (arrays; feeds are ("feed", array), None is left out), attributes, outputs, opset."""


def rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def floats(*shape: int) -> np.ndarray:
    return rng(shape).standard_normal(shape).astype(np.float32)


def feed(array: np.ndarray) -> tuple[str, np.ndarray]:
    return ("feed", array)


def case(name: str, op: str, operands: list, outputs: int = 1, opset: int = 21, **attrs: object) -> None:
    assert name not in CASES, name
    CASES[name] = (op, operands, attrs, outputs, opset)


# -- convolution ---------------------------------------------------------------------------------------------

for i, (c, o, g, k, s, d, p) in enumerate([
    (5, 7, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)), (6, 4, 2, (3, 2), (2, 3), (1, 1), (0, 1, 2, 0)),
    (8, 8, 8, (5, 3), (2, 1), (1, 1), (2, 1, 2, 1)), (4, 8, 4, (3, 3), (1, 1), (2, 2), (2, 2, 2, 2)),
    (3, 5, 1, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)), (2, 3, 1, (4, 5), (3, 2), (1, 2), (3, 0, 1, 4)),
]):  # fmt: skip
    case(f"conv2d_{i}", "Conv", [feed(floats(2, c, 13, 11)), floats(o, c // g, *k), floats(o)],
         group=g, strides=s, dilations=d, pads=p, kernel_shape=k)  # fmt: skip
for mode, stride in itertools.product(("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2, 3)):
    case(f"conv_{mode}_{stride}", "Conv", [feed(floats(1, 3, 10, 9)), floats(4, 3, 4, 3)],
         auto_pad=mode, strides=(stride, stride))  # fmt: skip
case("conv1d", "Conv", [feed(floats(2, 6, 17)), floats(8, 3, 5), floats(8)], group=2, pads=(3, 1), strides=(2,))
case(
    "conv3d", "Conv", [feed(floats(1, 4, 6, 7, 5)), floats(6, 2, 3, 2, 3), floats(6)], group=2, pads=(1, 0, 2, 1, 1, 0)
)
case("conv_weight_fed", "Conv", [feed(floats(1, 3, 8, 8)), feed(floats(4, 3, 3, 3)), feed(floats(4))])

for i, (c, per, g, k, s, d, p, e) in enumerate([
    (5, 7, 1, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), (1, 1)), (4, 4, 1, (4, 4), (2, 2), (1, 1), (1, 1, 1, 1), (0, 0)),
    (6, 2, 2, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (0, 0)), (8, 1, 8, (4, 4), (2, 2), (1, 1), (1, 1, 1, 1), (0, 0)),
    (3, 4, 1, (3, 5), (3, 2), (1, 1), (2, 0, 1, 3), (2, 1)), (3, 4, 1, (3, 3), (1, 1), (2, 2), (1, 2, 0, 1), (0, 0)),
    (4, 3, 2, (3, 3), (2, 2), (2, 3), (1, 0, 1, 0), (1, 0)), (3, 2, 1, (1, 1), (2, 3), (1, 1), (0, 0, 0, 0), (1, 2)),
    (2, 3, 1, (5, 5), (3, 3), (1, 1), (4, 4, 4, 4), (0, 0)), (3, 4, 1, (2, 3), (4, 4), (1, 1), (0, 1, 0, 0), (3, 0)),
]):  # fmt: skip
    case(f"deconv2d_{i}", "ConvTranspose", [feed(floats(2, c, 6, 5)), floats(c, per, *k), floats(per * g)],
         group=g, strides=s, dilations=d, pads=p, output_padding=e)  # fmt: skip
case("deconv1d", "ConvTranspose", [feed(floats(2, 4, 9)), floats(4, 3, 8), floats(3)], strides=(4,), pads=(2, 2))
case("deconv3d", "ConvTranspose", [feed(floats(1, 3, 3, 4, 3)), floats(3, 2, 3, 2, 3), floats(2)],
     strides=(2, 1, 2), pads=(1, 0, 0, 1, 0, 1))  # fmt: skip
for mode in ("SAME_UPPER", "SAME_LOWER"):
    case(
        f"deconv_{mode}", "ConvTranspose", [feed(floats(1, 3, 5, 4)), floats(3, 2, 3, 3)], auto_pad=mode, strides=(2, 2)
    )
case("deconv_output_shape", "ConvTranspose", [feed(floats(1, 3, 5, 4)), floats(3, 2, 3, 3)],
     output_shape=(10, 9), strides=(2, 2))  # fmt: skip

# -- pooling -------------------------------------------------------------------------------------------------

for ceil, (k, s, p) in itertools.product((0, 1), [((3, 3), (2, 2), (1, 1, 1, 1)), ((2, 4), (3, 1), (0, 2, 1, 1))]):
    tag = f"{ceil}_{k[1]}"
    case(f"maxpool_{tag}", "MaxPool", [feed(floats(2, 3, 11, 10))], kernel_shape=k, strides=s, pads=p, ceil_mode=ceil)
    case(f"maxpool_indices_{tag}", "MaxPool", [feed(floats(2, 3, 11, 10))], 2, kernel_shape=k, strides=s, pads=p,
         ceil_mode=ceil)  # fmt: skip
    for include in (0, 1):
        case(f"avgpool_{tag}_{include}", "AveragePool", [feed(floats(2, 3, 11, 10))], kernel_shape=k, strides=s, pads=p,
             ceil_mode=ceil, count_include_pad=include)  # fmt: skip
case("maxpool_dilated", "MaxPool", [feed(floats(1, 3, 12, 12))], kernel_shape=(3, 3), dilations=(2, 3), strides=(2, 2))
case("maxpool_1d", "MaxPool", [feed(floats(1, 3, 12))], kernel_shape=(4,), strides=(3,), pads=(1, 2))
case("maxpool_3d", "MaxPool", [feed(floats(1, 2, 6, 7, 8))], kernel_shape=(2, 3, 2), strides=(2, 1, 2))
case("avgpool_3d", "AveragePool", [feed(floats(1, 2, 6, 7, 8))], kernel_shape=(2, 3, 2), pads=(1, 1, 0, 0, 1, 1))
case("maxpool_u8", "MaxPool", [feed(rng(1).integers(0, 255, (1, 3, 9, 9)).astype(np.uint8))], kernel_shape=(3, 3),
     pads=(1, 1, 1, 1))  # fmt: skip
for p in (1, 2, 3):
    case(
        f"lppool_{p}", "LpPool", [feed(floats(1, 3, 9, 9))], kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1), p=p
    )
    case(f"global_lppool_{p}", "GlobalLpPool", [feed(floats(2, 3, 5, 6))], p=p)
case("max_roi_pool", "MaxRoiPool", [feed(floats(2, 3, 14, 12)),
     np.array([[0, 1, 2, 8, 9], [1, 0, 0, 5, 3], [1, 4, 4, 4, 4], [0, 3, 1, 30, 11]], np.float32)],
     pooled_shape=(3, 4), spatial_scale=0.75)  # fmt: skip
_BOXES = np.array([[0.5, 1, 9, 8.5], [2, 2, 3, 3], [-3, 1, 20, 12], [5, 5, 4, 4]], np.float32)
for ratio, mode, half in itertools.product((0, 2), ("avg", "max"), ("half_pixel", "output_half_pixel")):
    case(f"roialign_{ratio}_{mode}_{half}", "RoiAlign",
         [feed(floats(2, 3, 13, 11)), feed(_BOXES), np.array([0, 1, 0, 1])], output_height=3, output_width=4,
         sampling_ratio=ratio, spatial_scale=0.6, mode=mode, coordinate_transformation_mode=half)  # fmt: skip

# -- normalisation and activations ---------------------------------------------------------------------------

case("batchnorm_1d", "BatchNormalization", [feed(floats(4, 5)), *(floats(5) for _ in range(3)), np.abs(floats(5))])
case("batchnorm_3d", "BatchNormalization",
     [feed(floats(2, 5, 3, 2, 4)), *(floats(5) for _ in range(3)), np.abs(floats(5))],
     epsilon=1e-3)  # fmt: skip
case("instancenorm_1d", "InstanceNormalization", [feed(floats(2, 5, 9)), floats(5), floats(5)])
case("instancenorm_3d", "InstanceNormalization", [feed(floats(2, 5, 3, 4, 2)), floats(5), floats(5)])
case("layernorm_rows", "LayerNormalization", [feed(floats(3, 4, 33)), floats(33), floats(33)], axis=-1)
case("layernorm_axis1", "LayerNormalization", [feed(floats(3, 4, 5)), floats(4, 5)], 3, axis=1)
case("lrn", "LRN", [feed(floats(1, 7, 3, 4))], size=5, alpha=0.01, beta=0.6, bias=2.0)
case("softmax_opset11", "Softmax", [feed(floats(3, 4, 5))], opset=11, axis=1)
case("logsoftmax_opset11", "LogSoftmax", [feed(floats(3, 4, 5) * 80)], opset=11, axis=0)
case("softmax_middle", "Softmax", [feed(floats(3, 4, 5) * 50)], axis=1)
case("prelu_channels", "PRelu", [feed(floats(2, 3, 4, 5)), floats(3, 1, 1)])
case("prelu_odd", "PRelu", [feed(floats(2, 3, 4, 5)), floats(4, 1)])
for op in (
    "Celu",
    "Elu",
    "Selu",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "Softplus",
    "Softsign",
    "ThresholdedRelu",
    "Shrink",
):
    case(op.lower(), op, [feed(floats(3, 50) * 30)])
case("gemm", "Gemm", [feed(floats(5, 3)), floats(7, 5), feed(floats(3, 1))], transA=1, transB=1, alpha=0.5, beta=2.0)
case("gemm_row", "Gemm", [feed(floats(3, 5)), floats(5, 7), floats(7)], alpha=1.5, beta=0.25)
case("matmul_broadcast", "MatMul", [feed(floats(2, 1, 3, 4)), feed(floats(5, 4, 6))])

# -- recurrent layers ----------------------------------------------------------------------------------------

T, B, N, H = 5, 3, 4, 6
LENGTHS = np.array([5, 2, 3], np.int32)
for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    for direction, full in itertools.product(("forward", "reverse", "bidirectional"), (False, True)):
        D = 2 if direction == "bidirectional" else 1
        operands = [feed(floats(T, B, N)), floats(D, gates * H, N), floats(D, gates * H, H)]
        more: dict = {"hidden_size": H, "direction": direction}
        if full:
            operands += [floats(D, 2 * gates * H), LENGTHS, feed(floats(D, B, H))]
            more["clip"] = 0.7
            if kind == "LSTM":
                operands += [feed(floats(D, B, H)), floats(D, 3 * H)]
            if kind == "GRU":
                more["linear_before_reset"] = 1
        case(f"{kind.lower()}_{direction}_{'full' if full else 'plain'}", kind, operands, 3 if kind == "LSTM" else 2,
             **more)  # fmt: skip
case("lstm_activations", "LSTM", [feed(floats(T, B, N)), floats(1, 4 * H, N), floats(1, 4 * H, H), floats(1, 8 * H)], 3,
     hidden_size=H, activations=["HardSigmoid", "Softsign", "LeakyRelu"], activation_alpha=[0.3, 0.1],
     activation_beta=[0.4])  # fmt: skip
case("rnn_two_activations", "RNN", [feed(floats(T, B, N)), floats(2, H, N), floats(2, H, H)], 2,
     hidden_size=H, direction="bidirectional", activations=["Tanh", "Sigmoid"])  # fmt: skip
case("gru_before_reset", "GRU", [feed(floats(T, B, N)), floats(1, 3 * H, N), floats(1, 3 * H, H), floats(1, 6 * H)], 2,
     hidden_size=H)  # fmt: skip

# -- resizing and sampling -----------------------------------------------------------------------------------

for transform, mode in itertools.product(
    ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"), ("nearest", "linear", "cubic")
):
    for size in ((1, 2, 11, 5), (1, 2, 3, 14)):
        case(f"resize_{transform}_{mode}_{size[2]}", "Resize",
             [feed(floats(1, 2, 7, 6)), None, None, np.array(size)],
             coordinate_transformation_mode=transform, mode=mode,
             **({"nearest_mode": "floor"} if mode == "nearest" and transform == "asymmetric" else {}))  # fmt: skip
case("resize_scales", "Resize", [feed(floats(1, 2, 7, 6)), None, np.array([1, 1, 2, 3], np.float32)], mode="nearest",
     coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
case("resize_scales_rounded", "Resize", [feed(floats(1, 2, 20, 15)), None, np.array([1, 1, 0.6, 1.2], np.float32)],
     mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")  # fmt: skip
case(
    "resize_3d", "Resize", [feed(floats(1, 2, 4, 5, 6)), None, np.array([1, 1, 2, 1.5, 0.5], np.float32)], mode="linear"
)
case("resize_1d", "Resize", [feed(floats(1, 2, 9)), None, np.array([1, 1, 1.7], np.float32)], mode="linear")
case("resize_exclude_outside", "Resize", [feed(floats(1, 1, 5, 5)), None, None, np.array([1, 1, 8, 9])], mode="cubic",
     exclude_outside=1, cubic_coeff_a=-0.5)  # fmt: skip
for mode, padding, align in itertools.product(
    ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
):
    case(f"gridsample_{mode}_{padding}_{align}", "GridSample",
         [feed(floats(2, 3, 5, 6)), feed(floats(2, 4, 7, 2) * 1.3)], mode=mode, padding_mode=padding,
         align_corners=align)  # fmt: skip
case("gridsample_3d", "GridSample", [feed(floats(1, 2, 4, 5, 3)), feed(floats(1, 3, 2, 4, 3))], mode="linear")

# -- quantisation --------------------------------------------------------------------------------------------

_G = rng("quant")


def u8(*shape: int) -> np.ndarray:
    return _G.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return _G.integers(-128, 128, shape).astype(np.int8)


_S = np.float32
for name, w, wz in (("i8", i8(4, 3, 3, 3), i8(4) * 0), ("u8", u8(4, 3, 3, 3), np.uint8(131))):
    scale = np.array([0.02, 0.01, 0.03, 0.05], _S) if name == "i8" else _S(0.02)
    case(f"qlinearconv_{name}", "QLinearConv",
         [feed(u8(2, 3, 9, 8)), _S(0.03), np.uint8(117), w, scale, wz, _S(0.4), np.uint8(60),
          _G.integers(-500, 500, 4).astype(np.int32)], pads=(1, 2, 0, 1), strides=(2, 1))  # fmt: skip
case("convinteger", "ConvInteger", [feed(u8(1, 4, 7, 7)), u8(6, 2, 3, 3), np.uint8(9), np.uint8(200)], group=2)
case("matmulinteger_rows", "MatMulInteger", [feed(u8(5, 8)), i8(8, 6), np.uint8(128)])
case("qlinearmatmul", "QLinearMatMul",
     [feed(u8(2, 5, 8)), _S(0.02), np.uint8(100), i8(8, 6), _S(0.03), np.int8(3), _S(0.2), np.uint8(90)],
     opset=13)  # fmt: skip  # of newer ones ONNX Runtime's sums of signed weights saturate where there is no VNNI
case("quantize_axis", "QuantizeLinear", [feed(floats(3, 4, 5) * 40), np.abs(floats(4)) + 0.1, u8(4)], axis=1)
case("dequantize_axis", "DequantizeLinear", [feed(i8(3, 4, 5)), np.abs(floats(5)), i8(5)], axis=-1)
case("dynamic_quantize", "DynamicQuantizeLinear", [feed(floats(6, 7) + 2)], 3)
case("dynamic_quantize_zeros", "DynamicQuantizeLinear", [feed(np.zeros((3, 5), np.float32))], 3)
case("dynamic_quantize_below_zero", "DynamicQuantizeLinear", [feed(-np.abs(floats(2, 9)))], 3)

# -- spectral ------------------------------------------------------------------------------------------------

case("stft", "STFT", [feed(floats(2, 128, 1)), np.int64(12), np.hanning(32).astype(np.float32)], opset=17)
case("stft_two_sided", "STFT", [feed(floats(2, 64, 1)), np.int64(8), None, np.int64(16)], opset=17, onesided=0)
case("dft_padded", "DFT", [feed(floats(2, 30, 2)), np.int64(37)], opset=17, axis=1)


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_as_onnxruntime(name):
    op, operands, attrs, outputs, opset = CASES[name]
    names, inputs, constants, feeds = [], [], [], {}
    for i, item in enumerate(operands):
        if item is None:
            names.append("")
            continue
        names.append(f"i{i}")
        array = np.asarray(item[1] if isinstance(item, tuple) else item)
        if isinstance(item, tuple):
            feeds[names[-1]] = array
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, array.shape))
        else:
            constants.append(numpy_helper.from_array(array, names[-1]))
    made = [f"o{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, name="node", **attrs)
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info(m, TensorProto.UNDEFINED, None) for m in made], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(inferred.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    found = RUNNERS[default_runner()](load(inferred.SerializeToString()), feeds)
    for got, expected in zip(found, wanted, strict=True):
        got = np.asarray(got)
        assert got.shape == expected.shape
        assert got.dtype == expected.dtype
        if expected.dtype.kind in "iu":
            assert np.abs(got.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= (1 if "q" in name else 0)
        else:
            scale = max(np.abs(expected).max(initial=0), 1e-3)
            np.testing.assert_allclose(got / scale, expected / scale, atol=2.0**-15, rtol=1e-4)  # as normal promises


def test_a_long_dft_is_numpys():
    signal = floats(2, 3000, 1)
    node = helper.make_node("DFT", ["x"], ["y"], axis=1, onesided=1)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, signal.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    (found,) = RUNNERS[default_runner()](load(model.SerializeToString()), {"x": signal})
    expected = np.fft.rfft(signal[..., 0], axis=1)
    np.testing.assert_allclose(found, np.stack([expected.real, expected.imag], -1), atol=1e-4)
