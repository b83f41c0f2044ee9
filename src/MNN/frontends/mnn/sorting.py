"""The order in which operators of a file can be taken: every tensor is made before it is used."""

from __future__ import annotations

from collections import deque

from MNN.errors import FormatError
from MNN.schema.invariants import ABSENT
from MNN.schema.record import Record


def indexes(op: Record, field: str) -> list[int]:
    """The tensor indexes of an operator's inputs or outputs."""
    found = op.get(field)
    return [] if found is None else [int(i) for i in found]


def ordered(ops: list[Record], names: list[str], where: str) -> list[Record]:
    """``ops`` as they are when they are in order already, else in an order that works.

    Raises :class:`~MNN.errors.FormatError` when a tensor is made twice, never, or from itself.
    """
    maker: dict[int, int] = {}
    for i, op in enumerate(ops):
        for tensor in indexes(op, "outputIndexes"):
            if tensor in maker:
                raise FormatError(
                    f"{where}: tensor '{_name(names, tensor)}' is made twice, the second time by '{op.name}'"
                )
            maker[tensor] = i
    waiting = [0] * len(ops)
    users: dict[int, list[int]] = {}
    in_order = True
    for i, op in enumerate(ops):
        for tensor in indexes(op, "inputIndexes"):
            if tensor == ABSENT:
                continue
            if tensor not in maker:
                raise FormatError(
                    f"{where}: nothing makes tensor '{_name(names, tensor)}' that {op.type} '{op.name}' uses"
                )
            in_order = in_order and maker[tensor] < i
            waiting[i] += 1
            users.setdefault(maker[tensor], []).append(i)
    if in_order:
        return ops
    ready = deque(i for i, count in enumerate(waiting) if not count)
    result: list[Record] = []
    while ready:
        i = ready.popleft()
        result.append(ops[i])
        for user in users.get(i, ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if len(result) < len(ops):
        stuck = next(op for i, op in enumerate(ops) if waiting[i])
        raise FormatError(f"{where}: {stuck.type} '{stuck.name}' needs its own result")
    return result


def without_remains(ops: list[Record], wanted: set[int]) -> list[Record]:
    """``ops`` but those that cannot run, because nothing makes a tensor that they use, and that no ``wanted`` tensor
    needs: the official converter leaves such behind where it has fused operators."""
    makers = {tensor: op for op in ops for tensor in indexes(op, "outputIndexes")}
    users: dict[int, list[Record]] = {}
    for op in ops:
        for tensor in indexes(op, "inputIndexes"):
            users.setdefault(tensor, []).append(op)
    broken: set[int] = set()
    found = [op for tensor, ones in users.items() if tensor not in makers and tensor != ABSENT for op in ones]
    while found:
        op = found.pop()
        if id(op) not in broken:
            broken.add(id(op))
            found += [user for tensor in indexes(op, "outputIndexes") for user in users.get(tensor, ())]
    needed: set[int] = set()
    found = [makers[tensor] for tensor in wanted if tensor in makers]
    while found:
        op = found.pop()
        if id(op) not in needed:
            needed.add(id(op))
            found += [makers[tensor] for tensor in indexes(op, "inputIndexes") if tensor in makers]
    return [op for op in ops if id(op) not in broken or id(op) in needed]


def _name(names: list[str], tensor: int) -> str:
    return names[tensor] if tensor < len(names) else str(tensor)
