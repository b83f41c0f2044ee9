"""Operators of ours that a file holds as several official ones: noted beside them, put together again by the reader.

A note names the tensors that the operator takes and gives, and every operator that stands for it by its first result.
Where a file no longer says what its note says (somebody rewrote it), the operators are read as they stand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from MNN.errors import FormatError
from MNN.frontends.mnn.attributes import pack
from MNN.frontends.mnn.sorting import indexes
from MNN.ir.graph import Node, Value
from MNN.schema.record import Record

ENGINE = "MNN-py"
"""``Extra.engine`` of operators that only this engine has."""
ABSENT_INPUTS = "mnn-py/absent"
"""Attribute of such operators: positions of operands left out (the official engine stumbles over gaps)."""
_KEPT = 4096
"""Constants of an operator that its official form does not take as they are, are kept beside it up to this size."""
_MOST = 1 << 16


def plain(attrs: dict[str, object]) -> bool:
    """Whether a note can hold these attributes."""
    try:
        json.dumps(attrs)
    except (TypeError, ValueError):
        return False
    return True


def can_be_kept(node: Node, parts: list[Node]) -> bool:
    """Whether a note can bring ``node`` back: its attributes are plain, its large constants in the file anyway."""
    if not plain(node.attrs):
        return False
    taken = {v for part in parts for v in part.inputs if v is not None}
    return all(v is None or v.data is None or v in taken or v.array().size <= _KEPT for v in node.inputs)


def note_of(node: Node, ops: list[Record], use: Callable[[Value | None], int]) -> dict[str, Any]:
    """The note on ``node``, which ``ops`` stand for; with tensors by index, see :func:`named`."""
    return {
        "op": node.op,
        "name": node.name,
        "attrs": {k: v for k, v in node.attrs.items() if v is not None},
        "inputs": [None if v is None else use(v) for v in node.inputs],
        "outputs": [use(v) for v in node.outputs],
        "parts": [[indexes(op, "outputIndexes")[0], str(op.type)] for op in ops if op.type not in ("Const", "Input")],
    }


def named(note: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A note with its tensors by name."""
    return {
        **note,
        "inputs": [None if i is None else names[i] for i in note["inputs"]],
        "outputs": [names[i] for i in note["outputs"]],
        "parts": [[names[i], kind] for i, kind in note["parts"]],
    }


def checked(value: Any) -> list[dict[str, Any]]:
    """Notes as they come from a file. Raises :class:`~MNN.errors.FormatError` when they are malformed."""
    if not isinstance(value, list) or len(value) > _MOST:
        raise FormatError("extraInfo: the notes on operators put together are no list")
    for note in value:
        if not isinstance(note, dict):
            raise FormatError("extraInfo: a note on an operator put together is no object")
        texts = [note.get("op"), note.get("name"), *_list(note, "outputs")]
        texts += [n for n in _list(note, "inputs") if n is not None]
        for part in _list(note, "parts"):
            texts += part if isinstance(part, list) and len(part) == 2 else [None]
        if not all(isinstance(t, str) for t in texts) or not isinstance(note.get("attrs"), dict):
            raise FormatError("extraInfo: a note on an operator put together lacks names")
    return value


def _list(note: dict[str, Any], key: str) -> list[Any]:
    found = note.get(key)
    if not isinstance(found, list):
        raise FormatError(f"extraInfo: the {key} of an operator put together are no list")
    return found


def put_together(ops: list[Record], names: list[str], notes: list[dict[str, Any]]) -> list[Record]:
    """``ops`` with the noted operators in place of those that stand for them."""
    if not notes:
        return ops
    where = {name: i for i, name in enumerate(names)}
    maker = {i: k for k, op in enumerate(ops) for i in indexes(op, "outputIndexes")}
    users: dict[int, list[int]] = {}
    for k, op in enumerate(ops):
        for i in indexes(op, "inputIndexes"):
            users.setdefault(i, []).append(k)
    instead: dict[int, Record | None] = {}
    for note in notes:
        found = _parts(ops, where, maker, users, note)
        if found is not None and not any(k in instead for k in found):
            instead.update(dict.fromkeys(found))
            instead[max(found)] = _record(note, where)
    left = [instead.get(k, op) for k, op in enumerate(ops)]
    return [op for op in left if op is not None]


def _parts(
    ops: list[Record], where: dict[str, int], maker: dict[int, int], users: dict[int, list[int]], note: dict[str, Any]
) -> set[int] | None:
    """Positions of the operators that stand for the noted one; None when the file says something else."""
    tensors = [n for n in (*note["inputs"], *note["outputs"]) if n is not None]
    if not note["outputs"] or any(n not in where for n in tensors):
        return None
    found: set[int] = set()
    for name, kind in note["parts"]:
        at = maker.get(where.get(name, -1))
        if at is None or ops[at].type != kind or indexes(ops[at], "outputIndexes")[0] != where[name]:
            return None
        found.add(at)
    outputs = {where[n] for n in note["outputs"]}
    todo = list(found)
    while todo:  # conversions of format in between belong to it
        for i in indexes(ops[todo.pop()], "outputIndexes"):
            for user in users.get(i, ()):
                if i in outputs or user in found:
                    continue
                if ops[user].type != "ConvertTensor":
                    return None
                found.add(user)
                todo.append(user)
    made = {i for k in found for i in indexes(ops[k], "outputIndexes")}
    inputs = {where[n] for n in note["inputs"] if n is not None}
    return found if outputs <= made and not inputs & made else None


def _record(note: dict[str, Any], where: dict[str, int]) -> Record:
    gaps = [i for i, n in enumerate(note["inputs"]) if n is None]
    attrs = {**note["attrs"], **({ABSENT_INPUTS: gaps} if gaps else {})}
    main = Record("Extra", type=note["op"], engine=ENGINE, attr=pack(attrs, lambda key, graph: ""))
    return Record(
        "Op", type="Extra", name=note["name"], main=main,
        inputIndexes=[where[n] for n in note["inputs"] if n is not None],
        outputIndexes=[where[n] for n in note["outputs"]],
    )  # fmt: skip
