"""Constants to arrays and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.schema import Record
from MNN.schema.blobs import array_to_blob, blob_to_array
from MNN.schema.external import ExternalSource

TYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16, "i1", "u1", "i2", "u2", "i4", "i8", "?"]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0, 3)], ids=str)
def test_every_type_comes_back(dtype: Any, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(0).standard_normal(shape) * 50 % 100).astype(dtype)
    again = blob_to_array(array_to_blob(array, "NHWC"))
    assert again.dtype == array.dtype
    assert again.shape == shape
    assert np.array_equal(again, array)


def test_forms_of_the_official_engine() -> None:
    assert array_to_blob(np.float16([1.5])).uint8s.tolist() == [0, 0x3E]
    assert array_to_blob(np.array([True])).int32s.tolist() == [1]
    assert array_to_blob(np.float32(2)).dataType == "DT_FLOAT"
    assert blob_to_array(Record("Blob", dataType="DT_DOUBLE", float32s=[1.5], dims=[1])).dtype == np.float64
    assert blob_to_array(Record("Blob", dataType="DT_INT64", int32s=[-1], dims=[1])).tolist() == [-1]
    assert blob_to_array(Record("Blob", dataType="DT_QUINT8", uint8s=[7], dims=[1])).tolist() == [7]


def test_strings() -> None:
    array = np.array([["a", "é"], ["", "x\0y"]], dtype=object)
    assert np.array_equal(blob_to_array(array_to_blob(array)), array)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"dims": [3], "float32s": [1.0]}, "needs 3"),
        ({"dims": [-1], "float32s": [1.0]}, "not a shape"),
        ({"dims": [1] * 40, "float32s": [1.0]}, "not a shape"),
        ({"dims": [1 << 30] * 8, "float32s": [1.0]}, "needs"),
        ({"dims": [2]}, "no data"),
        ({"dims": [2], "dataType": "DT_HALF", "uint8s": [1, 2, 3]}, "raw bytes"),
        ({"dims": [1], "dataType": "DT_INT16", "int32s": [40000]}, "do not fit"),
        ({"dims": [1], "external": [0]}, "offset"),
    ],
)
def test_malformed_constants_are_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        blob_to_array(Record("Blob", **fields), ExternalSource("m.mnn"))


def test_types_without_a_form_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="uint64"):
        array_to_blob(np.zeros(1, np.uint64))
    with pytest.raises(UnsupportedError, match="DT_COMPLEX64"):
        blob_to_array(Record("Blob", dataType="DT_COMPLEX64", dims=[1]))
    with pytest.raises(UnsupportedError, match="77"):
        blob_to_array(Record("Blob", dataType=77, dims=[1]))


def test_external_constants(tmp_path: Path) -> None:
    (tmp_path / "m.mnn.weight").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    blob = Record("Blob", dims=[2, 2], external=[8, 16])
    source = ExternalSource(tmp_path / "m.mnn")
    assert blob_to_array(blob, source).tolist() == [[2, 3], [4, 5]]
    with pytest.raises(MNNError, match="memory"):
        blob_to_array(blob)
    blob.external = [8, 12]
    with pytest.raises(FormatError, match="needs 4"):
        blob_to_array(blob, source)
    blob.external = [16, 16]
    with pytest.raises(FormatError, match="incomplete"):
        blob_to_array(blob, source)
