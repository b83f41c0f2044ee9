"""Reading records (:mod:`MNN.backends.base.record`) in generated code."""

from __future__ import annotations

from MNN.backends.base.record import WORD, Record
from MNN.backends.cpu.lang.module import I32, I64, PTR, Builder, Value


def load_record(b: Builder, record: Record, pointer: Value) -> dict[str, Value]:
    """All words of the record at ``pointer``, by name: addresses as pointers, the others as i64."""
    return {name: load_word(b, record, pointer, name) for name in record}


def entry(b: Builder, record: Record, table: Value, number: Value) -> Value:
    """The address of one of the records that stand one after the other from ``table`` on."""
    return b.gep(table, I64 if record.unit == WORD else I32, number * record.count)


def load_word(b: Builder, record: Record, pointer: Value, name: str) -> Value:
    """One word of the record at ``pointer``, as :func:`load_record` gives it."""
    if record.unit != WORD:
        return b.entry(pointer, record.index(name))
    return b.load(PTR if record.words[name].pointer else I64, b.gep(pointer, I64, record.index(name)))


__all__ = ["entry", "load_record", "load_word"]
