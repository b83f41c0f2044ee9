"""Which operator a number in an old file meant: OpType values that were given to another operator later.

Keyed on ``Net.extraInfo.version``, which the official converter writes since 2.0. Files without it are older. The
versions are those in which the official schema changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from MNN.schema.record import Record
from MNN.schema.recycled import RECYCLED, Version
from MNN.schema.tables import enum

_NEWEST: Version = max(since for _, since in RECYCLED.values())


def parse_version(text: str | None) -> Version:
    """``"3.6.1"`` -> (3, 6, 1); what is missing or unreadable counts as (0, 0, 0), that is, before 2.0."""
    match = re.match(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", text or "")
    if match is None:
        return (0, 0, 0)
    return int(match[1]), int(match[2]), int(match[3] or 0)


def net_version(net: Record) -> Version:
    """The version of the converter that wrote ``net``."""
    info = net.extraInfo
    return parse_version(None if info is None else info.version)


def op_type_name(value: int, version: Version) -> str | int:
    """Name of the operator that ``value`` meant in a file of ``version``; unknown values stay numbers."""
    recycled = RECYCLED.get(value)
    if recycled is not None and version < recycled[1]:
        return recycled[0]
    return enum("OpType").name_of(value)


def op_type_value(name: str, version: Version) -> int | None:
    """The number of an operator in a file of ``version``, or None when such a file cannot name it."""
    for number, (old, since) in RECYCLED.items():
        if old == name and version < since:
            return number
    value = enum("OpType").values.get(name)
    if value is not None and op_type_name(value, version) == name:
        return value
    return None


def all_ops(net: Record) -> Iterator[Record]:
    """Every Op of a Net: its own, its subgraphs', and those inside of loops, in file order."""
    stack = [*(net.oplists or []), *(op for graph in net.subgraphs or [] for op in graph.nodes or [])][::-1]
    while stack:
        op = stack.pop()
        yield op
        if isinstance(op.main, Record) and op.main.table_name == "LoopParam":
            commands = [*(op.main.initCommand or []), *(op.main.commands or [])]
            stack.extend(command.op for command in reversed(commands) if command.op is not None)


def apply_old_names(net: Record) -> None:
    """Give the ops of an old file the names that their numbers had in its time (in place)."""
    version = net_version(net)
    if version >= _NEWEST:
        return
    values = enum("OpType").values
    for op in all_ops(net):
        kind = op.type
        number = values[kind] if isinstance(kind, str) else kind
        if number in RECYCLED:
            op.type = op_type_name(number, version)
