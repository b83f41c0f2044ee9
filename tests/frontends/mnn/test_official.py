"""The records of the official engine's forms: each operator once, none that does not exist, none that misleads."""

from __future__ import annotations

import pytest

from MNN.frontends.mnn import graph_of, net_of
from MNN.frontends.mnn.official.record import Layout, Official
from MNN.frontends.mnn.official.registry import joined, official, officials
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import operators
from MNN.schema.tables import enum, table


def test_told_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"second\.py: told twice: MatMul, Softmax"):
        joined(
            [
                ("first.py", {"Softmax": Official(table="Axis"), "MatMul": Official(table="MatMul")}),
                ("second.py", {"MatMul": Official(), "Softmax": Official(), "ReLU": Official()}),
            ]
        )


@pytest.mark.parametrize(
    "told", [{"Sofmax": Official(table="Axis")}, {"While": Official(table="WhileParam", stands_for=("Sofmax",))}]
)
def test_unknown_operators_are_refused(told: dict[str, Official]) -> None:
    with pytest.raises(ValueError, match=r"new\.py: no operators: Sofmax"):
        joined([("new.py", told)])


def test_records_are_of_operators() -> None:
    """Of this engine's own, or of official ones that stand for them."""
    for name, form in officials().items():
        assert name in operators() or (form.stands_for and name in enum("OpType").values), name
        assert set(form.stands_for) <= operators().keys(), name


def test_tables_have_what_records_say() -> None:
    for name, form in officials().items():
        if form.table is None:
            assert not form.operands, name
            assert not form.count, name
            continue
        fields = table(form.table).fields
        assert set(form.operands) <= fields.keys(), name
        assert not form.count or form.count in fields, name
        assert not form.fillers or len(form.fillers) == len(form.operands), name


def test_what_has_a_form_there_is_an_official_operator() -> None:
    """A table or an order of dimensions means nothing for an operator that is written as Extra."""
    for name, form in officials().items():
        if form.table is not None or form.layout is not Layout.PLAIN:
            assert name in enum("OpType").values, name
        kernel = form.kernel
        assert kernel is None or not kernel.each_channel or official(kernel.each_channel).stands_for == (name,)


def test_nothing_is_said_of_others() -> None:
    assert official("NoSuchOperator") == Official()


def test_unpack_has_the_table_that_the_official_engine_looks_into() -> None:
    """It does not check that it is there: with another one (Pack's) it crashes."""
    x = Value("x", DType.F32, (2, 3, 4))
    outs = [Value(f"y{i}", DType.F32, (2, 4)) for i in range(3)]
    net = net_of(Graph("g", [x], outs, [Node("Unpack", "u", [x], outs, {"axis": 1})]))
    (op,) = (op for op in net.oplists if op.type == "Unpack")
    assert (op.main.table_name, op.main.axis) == ("Axis", 1)
    assert graph_of(net).nodes[0].attrs["axis"] == 1


def test_what_matters_to_gradients_alone_is_noted_beside_the_official_form() -> None:
    table_, places, x, y, z = Value("t", DType.F32, (9, 5)), Value("i", DType.I32, (4,)), *map(Value, "xyz")
    nodes = [
        Node("GatherV2", "rows", [table_, places], [x], {"paddingIndex": 3}),
        Node("ReLU6", "limits", [x], [y], {"minValue": 0.0, "maxValue": float("inf"), "slopeAtBounds": 1.0}),
        Node("ReLU6", "others", [y], [z], {"minValue": -1.0, "maxValue": 1.0}),
    ]
    net = net_of(Graph("g", [table_, places], [z], nodes))
    assert "Extra" not in {str(op.type) for op in net.oplists}
    found = {n.op + n.name: n.attrs for n in graph_of(net).nodes}
    assert found["GatherV2rows"]["paddingIndex"] == 3
    assert found["ReLU6limits"]["slopeAtBounds"] == 1
    assert "slopeAtBounds" not in found["ReLU6others"]
