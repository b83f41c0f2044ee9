"""Records: defaults, checking of what is set, equality."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError
from MNN.schema import Record


def test_unset_fields_give_the_defaults() -> None:
    common = Record("Convolution2DCommon")
    assert (common.kernelX, common.padMode, common.relu, common.pads) == (1, "CAFFE", False, None)
    assert not common.has("kernelX")
    assert common.get("pads", ()) == ()
    common.kernelX = 3
    common.kernelX = None
    assert common.kernelX == 1


def test_a_wrong_name_says_which_was_meant() -> None:
    with pytest.raises(AttributeError, match=r"inputIndexes"):
        _ = Record("Op").inputIndex
    with pytest.raises(AttributeError, match=r"no field"):
        Record("Op", nonsense=1)


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("Op", "type", "Convolutoin"),
        ("Op", "type", 1 << 40),
        ("Op", "name", 3),
        ("Op", "name", "\ud800"),
        ("Op", "main", Record("Op")),
        ("Op", "main", "Relu"),
        ("Op", "inputIndexes", [1 << 31]),
        ("Op", "inputIndexes", [0.5]),
        ("Op", "inputIndexes", "12"),
        ("Op", "inputIndexes", [[1], [2, 3]]),
        ("Net", "oplists", [Record("Net")]),
        ("Net", "oplists", Record("Op")),
        ("Net", "tensorName", "abc"),
        ("Net", "tensorName", [b"a"]),
        ("Relu", "slope", 1e39),
        ("Relu", "slope", 10**400),
        ("Relu", "slope", "1"),
        ("Convolution2D", "weight", [1e39]),
        ("Convolution2D", "weight", ["1"]),
        ("Convolution2D", "weight", b"1234"),
        ("Pool", "isGlobal", 2),
        ("Pool", "kernelX", 1.0),
        ("Pool", "kernelX", 1 << 31),
        ("IDSTQuan", "weightSize", -1),
        ("IDSTQuan", "buffer", [200]),
        ("QuantizedFloatParam", "clampMax", 128),
    ],
)
def test_values_that_do_not_fit_are_refused(table: str, field: str, value: Any) -> None:
    with pytest.raises(FormatError, match=rf"{table}\.{field}"):
        Record(table, **{field: value})


def test_values_take_one_form() -> None:
    conv = Record("Convolution2D", weight=np.ones((2, 3), np.float64), external=range(3))
    assert conv.weight.dtype == np.float32
    assert conv.weight.shape == (6,)
    assert conv.external.dtype == np.int64
    assert Record("Relu", slope=0.1).slope == float(np.float32(0.1))
    assert Record("Op", type=12).type == "Convolution"
    assert Record("Op", type=599).type == 599
    array = np.ones(4, np.float32)
    assert Record("Convolution2D", weight=array).weight is array or np.shares_memory(
        Record("Convolution2D", weight=array).weight, array
    )


def test_equality_is_by_meaning() -> None:
    assert Record("Relu") == Record("Relu", slope=0.0)
    assert Record("Relu") != Record("Relu6")
    assert Record("Relu", slope=math.nan) == Record("Relu", slope=math.nan)
    assert Record("PRelu", slope=[]) == Record("PRelu")
    assert Record("PRelu", slope=[1.0]) != Record("PRelu")
    assert Record("PRelu", slope=[math.nan]) == Record("PRelu", slope=[math.nan])
    assert Record("Op", main=Record("Relu")) != Record("Op")
    assert Record("Op") != "Op"


def test_copies_are_independent() -> None:
    net = Record("Net", oplists=[Record("Op", name="a", outputIndexes=[0])], tensorName=["t"])
    shallow, deep, pickled = net.copy(), copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    assert shallow == deep == pickled == net
    shallow.oplists.append(Record("Op"))
    assert len(net.oplists) == 1
    deep.oplists[0].name = "b"
    assert net.oplists[0].name == "a"


def test_repr_is_short() -> None:
    net = Record("Net", oplists=[Record("Op", main=Record("Convolution2D", weight=np.zeros(1000)))] * 9)
    assert "float32[1000]" in repr(net)
    assert "9 in all" in repr(net)
    assert len(repr(net)) < 1000
