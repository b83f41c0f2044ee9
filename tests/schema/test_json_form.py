"""The JSON form."""

from __future__ import annotations

import json

import numpy as np
import pytest

from MNN.errors import FormatError
from MNN.schema import Record, from_json, to_json
from MNN.schema.json_form import to_dict


def test_unions_and_enums_are_laid_out_as_the_official_dump_does() -> None:
    op = Record("Op", type="ReLU", main=Record("Relu", slope=0.1), inputIndexes=[0])
    assert to_dict(op) == {
        "inputIndexes": [0],
        "main_type": "Relu",
        "main": {"slope": 0.1},
        "type": "ReLU",
    }


def test_every_float_comes_back_with_its_bits() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 60000, dtype=np.uint64).astype(np.uint32)
    bits[:6] = [0x7FC00000, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0x80000000]
    record = Record("PRelu", slope=bits.view(np.float32))
    text = to_json(record)
    assert np.array_equal(from_json(text, "PRelu").slope.view(np.uint32), bits)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_integers_of_64_bits_are_exact() -> None:
    values = np.array([2**63 - 1, -(2**63), 2**53 + 1], np.int64)
    assert np.array_equal(from_json(to_json(Record("Blob", int64s=values)), "Blob").int64s, values)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[" * 100000, "not JSON"),
        ("9" * 5000, "not JSON|expected an object"),
        ("[]", "expected an object"),
        ('{"nonsense": 1}', "no field"),
        ('{"oplists": 3}', r"Net\.oplists: expected a list"),
        ('{"oplists": [3]}', r"oplists\[0\]: expected an object"),
        ('{"oplists": [{"main": {}}]}', "main_type"),
        ('{"oplists": [{"main_type": "Nope", "main": {}}]}', "main_type"),
        ('{"oplists": [{"main_type": "NONE", "main": {}}]}', "main_type"),
        ('{"oplists": [{"main_type": "PRelu", "main": {"slope": ["x"]}}]}', r"main\.slope\[0\]"),
        ('{"oplists": [{"main_type": "PRelu", "main": {"slope": [1e39]}}]}', "32-bit float"),
        ('{"oplists": [{"main_type": "PRelu", "main": {"slope": [null]}}]}', "expected numbers"),
        ('{"oplists": [{"main_type": "Relu", "main": {"slope": "nan:00000000"}}]}', "not a number"),
        ('{"oplists": [{"main_type": "Relu", "main": {"slope": 1e999}}]}', ""),
        ('{"oplists": [{"inputIndexes": [99999999999]}]}', "do not fit"),
        ('{"oplists": [{"inputIndexes": [1e30]}]}', "expected numbers"),
        ('{"oplists": [{"type": null}]}', "null"),
        ('{"tensorName": ["\\ud800"]}', "UTF-8"),
        ('{"bizCode": {}}', "expected a string"),
    ],
)
def test_wrong_json_is_refused_with_its_place(text: str, complaint: str) -> None:
    if complaint == "":
        assert np.isinf(from_json(text).oplists[0].main.slope)
        return
    with pytest.raises(FormatError, match=complaint):
        from_json(text)


def test_deep_json_is_refused() -> None:
    text = '{"attr":[{"func":' * 300 + "{}" + "}]}" * 300
    with pytest.raises(FormatError, match=r"deep|not JSON"):
        from_json(text, "NamedAttrList")
