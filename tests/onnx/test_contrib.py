"""ONNX Runtime's own operators, each against ONNX Runtime, from the ONNX file and again from the .mnn file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from MNN.frontends.mnn.read import load as load_mnn
from MNN.frontends.mnn.write import write_mnn
from MNN.frontends.onnx import load
from MNN.ir.quant import QuantizedArray
from MNN.passes.manager import optimize
from MNN.runtime.session import Session

RNG = np.random.default_rng(7)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.normal(size=shape) * scale).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


F = np.float32
Case = tuple[str, dict[str, Any], list[tuple[str, np.ndarray | None, bool]], int]


def case(op: str, inputs: list[Any], outputs: int = 1, weights: str = "", **attrs: Any) -> Case:
    """``inputs`` in order, None where left out; ``weights``: numbers of those that are constants."""
    constant = {int(n) for n in weights.split()}
    return op, attrs, [(f"i{n}", a, n in constant) for n, a in enumerate(inputs)], outputs


def gather(bits: int, shape: tuple[int, ...], rows: Any, block: int, zeros: bool = False, dtype: Any = F) -> Case:
    """Rows of a table of so many numbers of ``bits`` bits."""
    *outer, depth = shape
    held, blocks = (lambda n: -(-n * bits // 8)), -(-depth // block)
    scales = RNG.uniform(0.01, 0.1, (*outer, blocks)).astype(dtype)
    inputs = [u8(*outer, held(depth)), np.asarray(rows, np.int64), scales, u8(*outer, held(blocks)) if zeros else None]
    return case("GatherBlockQuantized", inputs, weights="0 2 3", bits=bits, block_size=block, quantize_axis=-1)


def model_of(c: Case, domain: str = "com.microsoft") -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    op, attrs, inputs, outputs = c
    names = [n if a is not None else "" for n, a, _ in inputs]
    node = helper.make_node(op, names, [f"o{i}" if keep else "" for i, keep in enumerate(kept(outputs))],
                            domain=domain, name="it", **attrs)  # fmt: skip
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a, constant in inputs if a is not None and not constant
    ]  # fmt: skip
    outs = [helper.make_empty_tensor_value_info(f"o{i}") for i, keep in enumerate(kept(outputs)) if keep]
    held = [numpy_helper.from_array(a, n) for n, a, constant in inputs if a is not None and constant]
    graph = helper.make_graph([node], "g", infos, outs, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    feeds = {n: a for n, a, constant in inputs if a is not None and not constant}
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), feeds


def kept(outputs: int) -> list[bool]:
    """Bits of ``outputs`` say which outputs the model uses."""
    return [bool(outputs >> i & 1) for i in range(outputs.bit_length())]


def lstm() -> list[Any]:
    x, w, r, bias = normal(5, 2, 6), u8(1, 6, 16), u8(1, 4, 16), normal(1, 32)
    scale, zero = np.array([0.01], F), np.array([128], np.uint8)
    return [x, w, r, bias, None, None, None, None, scale, zero, scale, zero]


def nbits(bits: int, block: int, zeros: bool, k: int = 64) -> Case:
    n, blocks = 12, -(-k // block)
    packed = u8(n, blocks, block * bits // 8)
    zero = u8(n * -(-blocks * bits // 8)) if zeros else None
    inputs = [normal(3, k), packed, np.abs(normal(n * blocks, scale=0.1)), zero]
    return case("MatMulNBits", inputs, weights="1 2 3", K=k, N=n, bits=bits, block_size=block)


ONE = np.array(0.05, F)
ZERO = np.array(120, np.uint8)
Q = [u8(2, 3, 8), ONE, ZERO]
P = [u8(2, 3, 8), np.array(0.03, F), np.array(99, np.uint8)]
Y = [np.array(0.1, F), np.array(100, np.uint8)]
HID = 32
ATT = [normal(2, 5, HID), normal(HID, 3 * HID, scale=0.2), normal(3 * HID)]
COS, SIN = (np.ascontiguousarray(f(np.arange(20)[:, None] / 10 ** np.arange(4)).astype(F)) for f in (np.cos, np.sin))
KV = [normal(2, 2, 6, 16), normal(2, 2, 6, 16)]
COS8, SIN8 = (np.concatenate([t, t], 1) for t in (COS, SIN))


def gqa(rows: int, past: bool, packed: bool = False, lengths: list[int] | None = None, **attrs: Any) -> Case:
    before = 6 if past else 0
    batch = 1 if past and rows > 1 else 2
    q, k, v = normal(batch, rows, 64), normal(batch, rows, 32), normal(batch, rows, 32)
    three = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    caches = [t[:batch] for t in KV] if past else [np.zeros((batch, 2, 0, 16), F)] * 2
    ends = np.array(lengths or [before + rows - 1] * batch, np.int32)
    rotary = [COS8, SIN8] if attrs.get("do_rotary") else []
    inputs = [*three, *caches, ends, np.array(before + rows, np.int32), *rotary]
    return case("GroupQueryAttention", inputs, 7, weights="6", num_heads=4, kv_num_heads=2, **attrs)


CASES: dict[str, Case] = {
    "gelu": case("Gelu", [normal(3, 8)]),
    "bias_gelu": case("BiasGelu", [normal(3, 8), normal(8)]),
    "fast_gelu": case("FastGelu", [normal(3, 8), normal(8)]),
    "quick_gelu": case("QuickGelu", [normal(3, 8)], alpha=1.5),
    "cdist": case("CDist", [normal(5, 7), normal(9, 7)], metric="sqeuclidean"),
    "cdist_euclidean": case("CDist", [normal(130, 33), normal(1, 33)], metric="euclidean"),
    "matmul_nt": case("FusedMatMul", [normal(2, 3, 4), normal(2, 5, 4)], transB=1, alpha=0.5),
    "matmul_tn": case("FusedMatMul", [normal(4, 3), normal(4, 5)], transA=1),
    "conv_relu": case(
        "FusedConv", [normal(1, 3, 8, 8), normal(4, 3, 3, 3), normal(4)], weights="1 2", activation="Relu"
    ),
    "conv_sum": case(
        "FusedConv", [normal(1, 3, 8, 8), normal(4, 3, 3, 3), normal(4), normal(1, 4, 6, 6)], weights="1 2",
        activation="LeakyRelu", activation_params=[0.2],
    ),
    "gemm": case("FusedGemm", [normal(3, 4), normal(4, 5), normal(5)], activation="Relu", alpha=0.5),
    "skip_norm": case("SkipLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)], 9),
    "skip_rms": case("SkipSimplifiedLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8)], 9),
    "embed": case(
        "EmbedLayerNormalization",
        [np.array([[1, 2, 3], [4, 0, 0]], np.int32), np.array([[0, 0, 1], [1, 0, 0]], np.int32), normal(9, 8),
         normal(5, 8), normal(2, 8), normal(8), normal(8), np.array([[1, 1, 1], [1, 0, 0]], np.int32)], 3,
    ),
    "qadd": case("QLinearAdd", [*Q, *P, *Y]),
    "qmul": case("QLinearMul", [*Q, *P, *Y]),
    "qsigmoid": case("QLinearSigmoid", [*Q, np.array(1 / 256, F), np.array(0, np.uint8)], weights="1 2 3 4"),
    "qleaky": case("QLinearLeakyRelu", [*Q, *Y], weights="1 2 3 4", alpha=0.1),
    "qsoftmax": case("QLinearSoftmax", [*Q, np.array(1 / 256, F), np.array(0, np.uint8)], weights="1 2 3 4", opset=13,
                     axis=-1),
    "qpool": case("QLinearGlobalAveragePool", [u8(2, 3, 4, 4), ONE, ZERO, *Y], weights="1 2 3 4"),
    "qpool_windows": case(
        "QLinearAveragePool", [u8(2, 3, 9, 8), ONE, ZERO, *Y], weights="1 2 3 4", kernel_shape=[3, 2], strides=[2, 1],
        pads=[1, 0, 1, 1],
    ),
    "qpool_with_padding": case(
        "QLinearAveragePool", [u8(1, 5, 4, 6, 7), ONE, ZERO, *Y], weights="1 2 3 4", kernel_shape=[2, 3, 3],
        pads=[1, 1, 1, 0, 1, 1], count_include_pad=1,
    ),
    "qpool_line": case(
        "QLinearAveragePool", [u8(1, 5, 14), ONE, ZERO, *Y], weights="1 2 3 4", kernel_shape=[3], strides=[2],
        ceil_mode=1,
    ),
    "qwhere": case("QLinearWhere", [RNG.random((3, 4)) < 0.5, u8(2, 3, 4), ONE, ZERO, u8(3, 1), np.array(0.03, F),
                                    np.array(99, np.uint8), *Y], weights="2 3 5 6 7 8"),
    "qconcat": case("QLinearConcat", [*Y, *Q, *P], axis=1),
    "qgemm": case(
        "QGemm", [u8(3, 8), ONE, ZERO, u8(5, 8), np.array(0.03, F), np.array(99, np.uint8),
                  RNG.integers(-99, 99, 5).astype(np.int32), *Y], transB=1,
    ),
    "qgemm_float": case("QGemm", [u8(3, 8), ONE, ZERO, u8(8, 5), np.array(0.03, F), np.array(99, np.uint8)]),
    "integer_to_float": case(
        "MatMulIntegerToFloat", [u8(3, 8), u8(8, 4), np.array(0.1, F), normal(4), ZERO, u8(4), normal(4)]
    ),
    "dynamic_matmul": case(
        "DynamicQuantizeMatMul", [normal(3, 8), u8(8, 4), np.array(0.02, F), np.array(128, np.uint8), normal(4)]
    ),
    "dynamic_lstm": case("DynamicQuantizeLSTM", lstm(), 7, weights="1 2 3 8 9 10 11", hidden_size=4),
    "nbits4": nbits(4, 32, zeros=False),
    "nbits4_zero": nbits(4, 16, zeros=True),
    "nbits8": nbits(8, 32, zeros=True),
    "nbits4_rest": nbits(4, 32, zeros=True, k=80),
    "attention": case("Attention", ATT, num_heads=4),
    "attention_causal": case("Attention", ATT, num_heads=4, unidirectional=1, scale=0.3),
    "attention_mask": case("Attention", [*ATT, np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)], num_heads=4),
    "attention_lengths": case("Attention", [*ATT, np.array([5, 2], np.int32)], num_heads=4),
    "attention_past": case(
        "Attention", [*ATT, None, normal(2, 2, 4, 6, 8)], 3, num_heads=4, unidirectional=1
    ),
    "attention_bias": case("Attention", [*ATT, None, None, normal(2, 4, 5, 5)], num_heads=4),
    "qattention": case(
        "QAttention", [u8(2, 5, HID), u8(HID, 3 * HID), normal(3 * HID), np.array(0.01, F), np.array(0.01, F), None,
                       np.array(128, np.uint8), np.array(128, np.uint8)], weights="1 2 4 7", num_heads=4,
    ),
    "mha": case("MultiHeadAttention", [normal(2, 5, 32), normal(2, 7, 32), normal(2, 7, 32)], num_heads=4),
    "mha_bias": case(
        "MultiHeadAttention", [normal(2, 5, 32), normal(2, 7, 32), normal(2, 7, 32), normal(96)], weights="3",
        num_heads=4,
    ),
    "mha_mask": case(
        "MultiHeadAttention",
        [normal(2, 3, 32), normal(2, 4, 32), normal(2, 4, 32), None, np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)],
        num_heads=4,
    ),
    "mha_past": case(
        "MultiHeadAttention",
        [*(normal(2, 1, 32) for _ in range(3)), None, None, None, normal(2, 4, 6, 8), normal(2, 4, 6, 8)],
        7, num_heads=4,
    ),
    "gqa_prompt": gqa(5, past=False),
    "gqa_prompt_padded": gqa(5, past=False, lengths=[4, 2]),
    "gqa_step": gqa(1, past=True),
    "gqa_step_rows": gqa(3, past=True),
    "gqa_packed_rotary": gqa(5, past=False, packed=True, do_rotary=1),
    "gqa_step_rotary": gqa(1, past=True, do_rotary=1, rotary_interleaved=1),
    "gqa_window": gqa(5, past=False, local_window_size=2),
    "gqa_softcap": gqa(5, past=False, softcap=2.0, scale=0.5),
    "rotary": case(
        "RotaryEmbedding", [normal(2, 5, 32), np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]], np.int64), COS, SIN]
    ),
    "gather_2_bits": gather(2, (7, 48), [1, -1, 6], block=16, zeros=True),
    "gather_4_bits": gather(4, (9, 5, 96), [[0, 8], [-9, 3]], block=32),
    "gather_4_bits_cut": gather(4, (6, 40), 4, block=16, zeros=True, dtype=np.float16),
    "gather_8_bits": gather(8, (5, 32), [[2]], block=32, zeros=True),
    "rotary_interleaved": case(
        "RotaryEmbedding", [normal(2, 4, 5, 8), np.array([3], np.int64), COS, SIN], interleaved=1
    ),
}  # fmt: skip


@pytest.mark.onnxruntime("1.32")
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, tmp_path: Any) -> None:
    model, feeds = model_of(CASES[name])
    data = model.SerializeToString()
    peer = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    want = dict(zip([o.name for o in peer.get_outputs()], peer.run(None, feeds), strict=True))
    graph = load(data)
    path = tmp_path / "m.mnn"
    write_mnn(graph, path)
    for session in (Session(graph), Session(load_mnn(path))):
        found = session.run(feeds)
        for output, expected in want.items():
            assert found[output].dtype == expected.dtype
            assert found[output].shape == expected.shape
            if name == "gqa_prompt_padded" and output == "o0":  # rows past a prompt's end mean nothing
                found[output], expected = found[output][1:, :3], expected[1:, :3]
            if expected.dtype == np.uint8:
                assert np.abs(found[output].astype(int) - expected.astype(int)).max() <= 1
            else:
                # ONNX Runtime also rounds this one's activations to 8 bits
                atol = 3e-2 if name == "dynamic_lstm" else 2e-4
                np.testing.assert_allclose(found[output], expected, rtol=1e-3, atol=atol)


def test_weights_of_4_bits_stay_so_in_the_file(tmp_path: Any) -> None:
    model, feeds = model_of(nbits(4, 32, zeros=True, k=256))
    graph = load(model.SerializeToString())
    optimize(graph, level=2)
    path = tmp_path / "m.mnn"
    write_mnn(graph, path)
    again = load_mnn(path)
    weights = [v for n in again.nodes if n.op == "Convolution" for v in n.inputs[1:2] if v is not None]
    assert [w.data.bits for w in weights if isinstance(w.data, QuantizedArray)] == [4]
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    np.testing.assert_allclose(Session(again).run(feeds)["o0"], want, rtol=1e-3, atol=2e-4)
