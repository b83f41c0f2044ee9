from __future__ import annotations

import pytest

from MNN.ir.dtype import DType
from MNN.passes.manager import passes
from tests.passes.build import Maker, fires, ops, stays


def test_same_type_and_there_and_back() -> None:
    m = Maker()
    x = m.input(2, 3)
    wide = m.op("Cast", m.op("Cast", x, dstT="DT_FLOAT"), dstT="DT_DOUBLE")
    graph = m.done(m.binary("ADD", m.op("Cast", wide, dstT="DT_FLOAT"), x))
    after = fires("cast-removal", graph)
    assert ops(fires_dead(after)) == ["ADD"]


def fires_dead(graph):  # type: ignore[no-untyped-def]
    return fires("dead-code", graph)


@pytest.mark.parametrize(
    ("source", "through"),
    [
        (DType.F32, "DT_INT32"),
        (DType.F32, "DT_HALF"),
        (DType.I64, "DT_FLOAT"),
        (DType.I32, "DT_UINT8"),
        (DType.BF16, "DT_HALF"),
        (DType.U8, "DT_INT4"),
        (DType.U8, "DT_FLOAT8E4M3FN"),
        (DType.I4, "DT_UINT8"),
        (DType.F8E4M3FN, "DT_UINT8"),
    ],
)
def test_what_loses_something_stays(source: DType, through: str) -> None:
    back = {DType.I64: "DT_INT64", DType.I32: "DT_INT32"}.get(source, "DT_FLOAT")
    m = Maker()
    x = m.input(2, 3, dtype=source)
    stays("cast-removal", m.done(m.op("Cast", m.op("Cast", x, dstT=through), dstT=back)))


@pytest.mark.parametrize(
    ("source", "through"),
    [(DType.BF16, "DT_FLOAT"), (DType.U4, "DT_UINT8"), (DType.I4, "DT_INT32"), (DType.BOOL, "DT_INT8")],
)
def test_what_loses_nothing_goes(source: DType, through: str) -> None:
    m = Maker()
    x = m.input(2, 3, dtype=source)
    once = fires_dead(fires("cast-removal", m.done(m.op("Cast", m.op("Cast", x, dstT=through), dstT="DT_DOUBLE"))))
    assert ops(once) == ["Cast"]


@pytest.mark.parametrize(
    ("source", "through"), [(DType.BOOL, "DT_INT64"), (DType.I32, "DT_DOUBLE"), (DType.F16, "DT_FLOAT")]
)
def test_text_tells_types_apart(source: DType, through: str) -> None:
    """True is written as 1 when it is an integer, 1 as 1.0 when it is a float."""
    m = Maker()
    x = m.input(2, 3, dtype=source)
    graph = m.done(m.op("Cast", m.op("Cast", x, dstT=through), dstT="DT_STRING"))
    assert passes()["cast-removal"].run(graph) == 0


def test_an_input_given_out_under_another_name_stays() -> None:
    m = Maker()
    stays("cast-removal", m.done(m.op("Cast", m.input(2), dstT="DT_FLOAT")))
