"""The numbers of variables: checkpoints (TensorFlow's "tensor bundle": an index and data files beside it), and which of
their entries a variable of a graph is restored from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from MNN.errors import FormatError, MNNError
from MNN.frontends.tensorflow.bodies import Body, Ref
from MNN.frontends.tensorflow.messages import Proto, parse
from MNN.frontends.tensorflow.sstable import read_table
from MNN.frontends.tensorflow.types import array_of, dtype_of, shape_of
from MNN.ir.dtype import DType
from MNN.schema.external import ExternalData, open_external
from MNN.schema.files import open_regular

_PASSING = ("Identity", "Reshape", "Cast")
_RESTORES = ("RestoreV2", "RestoreSlice")
_ASSIGNS = ("Assign", "AssignVariableOp")
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_SHARDS = 10_000
_LENGTH, _CHECKSUM = 10, 4
"""Bytes of a length at most, and of its checksum."""
_MOST_OBJECTS = 1_000_000
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Checkpoint:
    """Tensors by key; the data files are mapped, so that numbers are read when they are used."""

    def __init__(self, index: Path, stem: str) -> None:
        self._index, self._stem = index, stem
        try:
            with open_regular(index) as file:
                table = read_table(file.read(), f"'{index}'")
        except OSError as error:
            raise MNNError(f"cannot read '{index}': {error.strerror or error}") from error
        header = parse("BundleHeaderProto", table.pop(b"", b""), f"'{index}'")
        if not 0 < header.num_shards <= _SHARDS or header.endianness != 0:
            raise FormatError(f"'{index}': {header.num_shards} data files of byte order {header.endianness}")
        self._shards = int(header.num_shards)
        self._entries = {key.decode("utf-8", "surrogateescape"): value for key, value in table.items()}
        self._files: dict[int, ExternalData] = {}

    @classmethod
    def beside(cls, file: Path, stem: str) -> Checkpoint:
        """The checkpoint ``<stem>.index`` beside a file."""
        return cls(file.parent / f"{stem}.index", stem)

    def __contains__(self, key: str) -> bool:
        return bool(key) and key in self._entries

    def array(self, key: str) -> np.ndarray:
        """The numbers of an entry, a view of the file where alignment allows."""
        where = f"'{self._index}', entry '{key[:200]}'"
        entry = parse("BundleEntryProto", self._entries[key], where)
        if entry.slices:
            raise FormatError(f"{where}: it is stored in parts (a partitioned variable); save it in one")
        dtype = dtype_of(entry.dtype, where)
        shape = shape_of(entry.shape, where)
        if dtype is DType.STR or shape is None or any(not isinstance(d, int) for d in shape):
            raise FormatError(f"{where}: an entry of type {dtype.value} and shape {shape}, expected numbers")
        sizes = [int(d) for d in shape]
        if entry.size != math.prod(sizes) * dtype.size:
            raise FormatError(f"{where}: {entry.size} bytes for the shape {sizes} of type {dtype.value}")
        return self._file(entry.shard_id, where).array(entry.offset, entry.size, dtype.numpy).reshape(sizes)

    def text(self, key: str) -> bytes:
        """The only text of an entry: its length, a checksum of that, and the text."""
        where = f"'{self._index}', entry '{key[:200]}'"
        entry = parse("BundleEntryProto", self._entries[key], where)
        data = self._file(entry.shard_id, where).array(entry.offset, entry.size, np.dtype(np.uint8)).tobytes()
        length, at = 0, 0
        while at < min(len(data), _LENGTH):
            length |= (data[at] & 127) << 7 * at
            at += 1
            if data[at - 1] < 128:
                break
        if at + _CHECKSUM + length != len(data):
            raise FormatError(f"{where}: {len(data)} bytes for a text of {length}")
        return data[at + _CHECKSUM :]

    def _file(self, shard: int, where: str) -> ExternalData:
        if not 0 <= shard < self._shards:
            raise FormatError(f"{where}: it lies in data file {shard} of {self._shards}")
        if shard not in self._files:
            name = f"{self._stem}.data-{shard:05}-of-{self._shards:05}"
            self._files[shard] = open_external(self._index, name)
        return self._files[shard]


def restored_names(body: Body, functions: Mapping[str, Body], restore: str) -> dict[str, str]:
    """The entry that each variable (by its node's name) is restored from, as the operator ``restore`` does it."""
    found: dict[str, str] = {}
    stack, seen = [restore.partition(":")[0]], set[str]()
    while stack:
        name = stack.pop()
        node = body.nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        called = _called(node, functions)
        if called is not None:
            given = [ref.node for ref in body.refs(node)]
            found |= _assignments(called, dict(zip(called.args, given, strict=False)), called.nodes)
        elif node.op in _ASSIGNS:
            found |= _assignments(body, {}, {name: node})
        stack += [*body.controls(node), *(ref.node for ref in body.refs(node))]
    return found


def _called(node: Proto, functions: Mapping[str, Body]) -> Body | None:
    name = node.attr["f"].func.name if "f" in node.attr else node.op
    return functions.get(name)


def _assignments(body: Body, given: Mapping[str, str], nodes: Mapping[str, Proto]) -> dict[str, str]:
    """Variables and entries of the assignments among ``nodes``; ``given`` are a function's arguments."""
    found = {}
    for node in nodes.values():
        if node.op not in _ASSIGNS:
            continue
        refs = body.refs(node)
        if len(refs) < 2:
            continue
        target, source = _origin(body, refs[0]), _origin(body, refs[1])
        restore = body.nodes.get(source.node)
        if restore is not None and restore.op in _RESTORES:
            names = _tensor_names(body, restore)
            if source.index < len(names):
                found[given.get(target.node, target.node)] = names[source.index]
    return found


def _origin(body: Body, ref: Ref) -> Ref:
    for _ in range(64):
        node = body.nodes.get(ref.node)
        if node is None or node.op not in _PASSING:
            break
        ref = body.refs(node)[0]
    return ref


def _tensor_names(body: Body, restore: Proto) -> list[str]:
    refs = body.refs(restore)
    node = body.nodes.get(_origin(body, refs[1]).node) if len(refs) > 1 else None
    if node is None or node.op != "Const" or "value" not in node.attr:
        return []
    return [str(name) for name in array_of(node.attr["value"].tensor, f"node '{node.name}'").reshape(-1)]


def captured_names(body: Body, objects: Proto, stored: Checkpoint | None) -> dict[str, str]:
    """The entry of each variable that is given to a function as one of those it was traced with: objects that the
    function is bound to, which the checkpoint's own graph of objects has at the same paths. Variables of Keras 3 in a
    SavedModel are found in this way alone: what restores them is another node."""
    if stored is None or _OBJECTS not in stored or not objects.concrete_functions:
        return {}
    kept = parse("TrackableObjectGraph", stored.text(_OBJECTS), "the checkpoint's objects")
    entries = _entries(objects.nodes, kept.nodes)
    found = {}
    for node in body.nodes.values():
        name = node.attr["f"].func.name if "f" in node.attr else ""
        if name in objects.concrete_functions:
            bound, given = objects.concrete_functions[name].bound_inputs, body.refs(node)
            for number, ref in zip(reversed(bound), reversed(given), strict=False):
                if number in entries:
                    found[ref.node] = entries[number]
    return found


def _entries(saved: Sequence[Proto], kept: Sequence[Proto]) -> dict[int, str]:
    """Entries by the numbers of objects in a SavedModel: both graphs are walked by the names of children."""
    found, seen, waiting = {}, {(0, 0)}, [(0, 0)]
    while waiting:
        here, there = waiting.pop()
        if not (0 <= here < len(saved) and 0 <= there < len(kept)):
            continue
        key = next((a.checkpoint_key for a in kept[there].attributes if a.name == "VARIABLE_VALUE"), "")
        if key:
            found[here] = key
        numbers = {c.local_name: c.node_id for c in kept[there].children}
        for child in saved[here].children:
            pair = (child.node_id, numbers.get(child.local_name, -1))
            if pair not in seen and len(seen) <= _MOST_OBJECTS:
                seen.add(pair)
                waiting.append(pair)
    return found
