"""Random records and the official files, shared by the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from MNN.schema.record import Record
from MNN.schema.tables import Field, Kind, enum, table, union_members

DATA = Path(__file__).with_name("data")
FILES = sorted(DATA.glob("*.mnn"))


def random_record(rng: np.random.Generator, name: str, depth: int = 3, share: float = 0.7) -> Record:
    """A table with random fields set to random values, nested at most ``depth`` deep."""
    record = Record(name)
    for field in table(name).fields.values():
        if rng.random() < share:
            value = _random_value(rng, field, depth)
            if value is not None:
                setattr(record, field.name, value)
    return record


def _random_value(rng: np.random.Generator, field: Field, depth: int) -> Any:
    kind = field.kind
    count = int(rng.integers(0, 4))
    if kind is Kind.STRING:
        return _text(rng)
    if kind is Kind.STRINGS:
        return [_text(rng) for _ in range(count)]
    if kind in (Kind.ENUM, Kind.ENUMS):
        names = [str(rng.choice(list(enum(field.target).values))) for _ in range(count + 1)]
        return names if kind is Kind.ENUMS else (names[0] if rng.random() < 0.9 else 99)
    if kind in (Kind.TABLE, Kind.TABLES, Kind.UNION):
        if depth == 0:
            return None
        target = field.target if kind is not Kind.UNION else str(rng.choice(union_members(field.target)[1:]))
        if kind is Kind.TABLES:
            return [random_record(rng, target, depth - 1) for _ in range(count)]
        return random_record(rng, target, depth - 1)
    assert field.dtype is not None
    if kind is Kind.VECTOR and rng.random() < 0.05:
        count = 1500  # past the size from which vectors are placed at the end of the file
    numbers = _numbers(rng, field.dtype, count if kind is Kind.VECTOR else 1)
    return numbers if kind is Kind.VECTOR else numbers[0]


def _numbers(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.kind == "f":
        values = rng.standard_normal(count).astype(np.float32) * np.float32(10) ** rng.integers(-38, 38, count)
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38], np.float32)
        pick = rng.random(count) < 0.2
        with np.errstate(over="ignore"):
            return np.where(pick, rng.choice(special, count), values).astype(np.float32)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, count, dtype=dtype.newbyteorder("="), endpoint=True)


def _text(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list('ab/:é漢😀"\\\n\0 '), int(rng.integers(0, 12))))
