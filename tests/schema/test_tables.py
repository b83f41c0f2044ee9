"""The schema as data."""

from __future__ import annotations

import pytest

from MNN.schema.tables import SCALARS, Kind, enum, enum_names, root, table, table_names, union_members


def test_the_schema_is_complete() -> None:
    assert len(table_names()) == 124
    assert len(enum_names()) == 30
    assert sum(len(table(name).fields) for name in table_names()) == 570
    assert len(enum("OpType").values) == 186
    assert len(union_members("OpParameter")) == 104
    assert root() == "Net"


def test_a_union_takes_two_slots() -> None:
    fields = table("Op").fields
    assert [fields[name].slot for name in ("inputIndexes", "main", "name", "type", "externalPath")] == [0, 2, 3, 5, 7]


@pytest.mark.parametrize("name", table_names())
def test_every_field_has_a_known_type(name: str) -> None:
    spec = table(name)
    slots = [field.slot for field in spec.fields.values()]
    assert slots == sorted(set(slots))
    for field in spec.fields.values():
        element = field.type.strip("[]")
        assert element in SCALARS or element == "string" or field.target == element
        assert (field.default is None) == (field.kind not in (Kind.SCALAR, Kind.ENUM))
        if field.kind is Kind.UNION:
            assert all(member in table_names() for member in union_members(field.target)[1:])
        if field.kind is Kind.ENUM:
            assert field.default in enum(field.target).values
