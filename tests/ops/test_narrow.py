"""Types of 8 bits and less: conversions, quantisation, files and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from MNN.errors import MNNError
from MNN.frontends.mnn.read import load as load_mnn
from MNN.frontends.mnn.write import write_mnn
from MNN.frontends.onnx import load
from MNN.ir.dtype import DType
from MNN.ops.elementwise import narrow
from MNN.runtime.session import Session

NARROW = [d for d in DType if d.is_narrow]


@pytest.mark.parametrize("dtype", NARROW)
def test_every_code_survives_the_way_through_f32(dtype: DType) -> None:
    limits = narrow.limits(dtype)
    if limits is not None:
        codes = np.arange(limits[0], limits[1] + 1).astype(np.int8).astype(dtype.numpy)
    else:
        codes = np.arange(16 if dtype is DType.F4E2M1 else 256, dtype=np.uint8).view(dtype.numpy)
    numbers = narrow.cast(codes, DType.F32)
    np.testing.assert_array_equal(numbers, codes.astype(np.float32))
    finite = np.isfinite(numbers)
    np.testing.assert_array_equal(narrow.cast(numbers[finite], dtype).view(np.uint8), codes[finite].view(np.uint8))


def test_overflow_saturates_or_becomes_what_the_type_has() -> None:
    x = np.array([1e6, -np.inf, np.nan], np.float32)
    for dtype, largest in ((DType.F8E4M3FN, 448.0), (DType.F8E5M2, 57344.0), (DType.F8E4M3FNUZ, 240.0)):
        kept = narrow.cast(x, dtype).astype(np.float32)
        np.testing.assert_array_equal(kept[:2], [largest, -largest])
        assert np.isnan(kept[2])
    assert np.isnan(narrow.cast(x, DType.F8E4M3FN, saturate=False).astype(np.float32)).all()
    assert np.isposinf(narrow.cast(x, DType.F8E5M2, saturate=False).astype(np.float32)[0])


@pytest.mark.parametrize(("mode", "want"), [("up", [2, 4, 4]), ("down", [1, 2, 4]), ("nearest", [1, 4, 4])])
def test_powers_of_two_round_as_asked(mode: str, want: list[float]) -> None:
    x = np.array([1.25, 3.0, 4.0], np.float32)
    np.testing.assert_array_equal(narrow.cast(x, DType.F8E8M0, round_mode=mode).astype(np.float32), want)


def test_integers_keep_their_low_bits() -> None:
    x = np.array([-9.7, 7.9, 8.0, 15.0], np.float32)
    np.testing.assert_array_equal(narrow.cast(x, DType.I4).astype(np.int32), [7, 7, -8, -1])
    np.testing.assert_array_equal(narrow.cast(x, DType.U2).astype(np.int32), [3, 3, 0, 3])


def _quantised(code: int) -> onnx.ModelProto:
    """x to a narrow type and back, times a weight stored in it."""
    weight = helper.make_tensor("w", code, [2, 3], [1, 2, 3, 0, 1, 2])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=code),
        helper.make_node("Transpose", ["q"], ["t"], perm=[1, 0]),
        helper.make_node("DequantizeLinear", ["t", "s"], ["y"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"]),
        helper.make_node("MatMul", ["v", "y"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, "n"]),
         helper.make_tensor_value_info("q", code, ["n", 3])],
        [weight, helper.make_tensor("s", TensorProto.FLOAT, [], [0.5])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1", "INT4", "UINT4", "INT2", "UINT2"])
def test_quantised_models_run_the_same_from_both_files(name: str, tmp_path) -> None:
    graph = load(_quantised(getattr(TensorProto, name)).SerializeToString())
    x = np.array([[0.3, 0.6, 0.5], [1.1, 0.0, 0.9]], np.float32)
    first = Session(graph).run({"x": x})
    path = tmp_path / "m.mnn"
    write_mnn(graph, path)
    again = Session(load_mnn(path)).run({"x": x})
    kind = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    assert first["q"].dtype == again["q"].dtype == kind
    np.testing.assert_array_equal(again["q"].astype(np.float32), first["q"].astype(np.float32))
    np.testing.assert_array_equal(again["z"], first["z"])
    weight = np.array([[1, 2, 3], [0, 1, 2]], np.float32) if name != "INT2" else np.array([[1, -2, -1], [0, 1, -2]])
    np.testing.assert_allclose(first["z"], (weight * 0.5) @ (first["q"].astype(np.float32).T * 0.5), rtol=1e-6)


def test_arithmetic_is_refused_in_words() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["y"])]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT8E5M2, [2]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    session = Session(load(model.SerializeToString()))
    with pytest.raises(MNNError, match="ABS needs floats, found f8e5m2"):
        session.run({"x": np.zeros(2, ml_dtypes.float8_e5m2)})
