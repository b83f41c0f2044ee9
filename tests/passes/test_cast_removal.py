from __future__ import annotations

import pytest

from MNN.ir.dtype import DType
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
    [(DType.F32, "DT_INT32"), (DType.F32, "DT_HALF"), (DType.I64, "DT_FLOAT"), (DType.I32, "DT_UINT8")],
)
def test_what_loses_something_stays(source: DType, through: str) -> None:
    back = {DType.F32: "DT_FLOAT", DType.I64: "DT_INT64", DType.I32: "DT_INT32"}[source]
    m = Maker()
    x = m.input(2, 3, dtype=source)
    stays("cast-removal", m.done(m.op("Cast", m.op("Cast", x, dstT=through), dstT=back)))


def test_an_input_given_out_under_another_name_stays() -> None:
    m = Maker()
    stays("cast-removal", m.done(m.op("Cast", m.input(2), dstT="DT_FLOAT")))
