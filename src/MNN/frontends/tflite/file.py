"""A .tflite file as plain data: subgraphs, tensors with their constants, operations; every index checked.

What lies in a record is only known to be well-formed. Here it is made sense of: indices lead to something, constants
have as many bytes as their shapes say, subgraphs do not call themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.tflite.buffers import Buffers
from MNN.frontends.tflite.constants import DTYPES, MAX_ELEMENTS, constant
from MNN.frontends.tflite.schema import TFLITE
from MNN.ir.dtype import DType
from MNN.schema.reader import Source, read_flatbuffer
from MNN.schema.record import Record

MAX_RANK = 32
MAX_OPERATIONS = 1 << 18
"""Operations of all subgraphs, each counted as often as it is run from another place."""
TOO_MANY = f"its subgraphs run more than {MAX_OPERATIONS} operations; is the model damaged?"
_NEWER_CODES = 127
"""The old, one-byte code of an operator that only the new field names."""
_SUBGRAPHS = ("subgraph", "then_subgraph_index", "else_subgraph_index", "cond_subgraph_index", "body_subgraph_index",
              "init_subgraph_index", "decomposition_subgraph_index", "update_computation_subgraph_index",
              "comparator_subgraph_index")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Quantization:
    """Integers stand for ``(q - zero) * scale``: one scale, one per index of ``axis``, or (``block`` not 0, matrices
    alone) one per ``block`` neighbours of a row, ``[rows, blocks]``."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int
    block: int = 0

    def same(self, other: Quantization) -> bool:
        """Whether there is one scale and zero point, which ``other`` has too."""
        pairs = ((self.scale, other.scale), (self.zero, other.zero))
        return all(a.size == b.size == 1 and a.reshape(-1)[0] == b.reshape(-1)[0] for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Tensor:
    """``type`` is the schema's name; ``dtype`` None for types that no tensor has here (resources). ``sizes``: as the
    file's signature has them, -1 where open. ``data``: the numbers of a constant."""

    index: int
    name: str
    type: str
    dtype: DType | None
    sizes: tuple[int, ...]
    quantization: Quantization | None
    data: np.ndarray | None
    variable: bool


@dataclass(frozen=True, eq=False)
class Operation:
    """``op``: a builtin operator's name, or a custom one's (``custom``); tensors by index, -1 where left out."""

    op: str
    custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: Record | None
    custom_options: bytes

    def subgraphs(self) -> list[int]:
        """The subgraphs that it runs."""
        if self.options is None:
            return []
        fields = self.options.table.fields
        named = [int(getattr(self.options, name)) for name in _SUBGRAPHS if name in fields]
        listed = self.options.branch_subgraph_indices if "branch_subgraph_indices" in fields else None
        return named + ([] if listed is None else [int(i) for i in listed])


@dataclass(frozen=True, eq=False)
class Subgraph:
    name: str
    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operations: list[Operation]


@dataclass(frozen=True)
class Signature:
    """An entry of the model: names of tensors as its author gave them."""

    key: str
    subgraph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


@dataclass(frozen=True, eq=False)
class TfliteFile:
    description: str
    subgraphs: list[Subgraph]
    signatures: list[Signature]


def read(source: Source) -> TfliteFile:
    """Reads and checks a file given as a path or as bytes. Raises :class:`~MNN.errors.FormatError`."""
    model, data, name = read_flatbuffer(source, TFLITE)
    if model.version != 3:
        raise FormatError(f"{name}: version {model.version} of the format is not known, expected 3")
    buffers = Buffers(model, data, name, None if isinstance(source, (bytes, bytearray, memoryview)) else source)
    reader = _Reader(model, buffers, name)
    subgraphs = [reader.subgraph(i, record) for i, record in enumerate(model.subgraphs or [])]
    if not subgraphs:
        raise FormatError(f"{name}: the model holds no subgraph")
    for where, operation in _operations(subgraphs):
        if any(not 0 <= i < len(subgraphs) for i in operation.subgraphs()):
            raise FormatError(f"{name}: {where}: it runs subgraphs {operation.subgraphs()} of {len(subgraphs)}")
    _check_calls(subgraphs, name)
    signatures = [reader.signature(record, subgraphs) for record in model.signature_defs or []]
    return TfliteFile(model.description or "", subgraphs, signatures)


def _operations(subgraphs: Sequence[Subgraph]) -> Iterator[tuple[str, Operation]]:
    for i, graph in enumerate(subgraphs):
        for k, operation in enumerate(graph.operations):
            yield f"subgraph {i}, operation {k} ({operation.op})", operation


def _check_calls(subgraphs: Sequence[Subgraph], name: str) -> None:
    """Raises where a subgraph runs itself, however far round, or too many operations of others: a chain of thirty, each
    of which runs the next one twice, is small in a file."""
    calls = [[c for o in g.operations for c in o.subgraphs()] for g in subgraphs]
    left = set(range(len(subgraphs)))
    counts = [len(g.operations) for g in subgraphs]
    while left:
        done = {i for i in left if left.isdisjoint(calls[i])}
        if not done:
            raise FormatError(f"{name}: subgraph {min(left)} runs itself")
        for i in done:
            counts[i] += sum(counts[c] for c in calls[i])
            if counts[i] > MAX_OPERATIONS:
                raise FormatError(f"{name}: {TOO_MANY}")
        left -= done


class _Reader:
    def __init__(self, model: Record, buffers: Buffers, name: str) -> None:
        self.buffers = buffers
        self.name = name
        self.codes = [_code(code) for code in model.operator_codes or []]

    def fail(self, where: str, problem: str) -> FormatError:
        return FormatError(f"{self.name}: {where}: {problem}; is the model damaged?")

    def subgraph(self, number: int, record: Record) -> Subgraph:
        where = f"subgraph {number}"
        given = record.tensors or []
        named = {i for t in given for i in _scale_tensors(t) if 0 <= i < len(given)}
        scales = {i: self.buffers.numbers(given[i], f"{where}, tensor {i}") for i in named}
        tensors = [self.tensor(i, t, scales, f"{where}, tensor {i}") for i, t in enumerate(given)]
        count = len(tensors)
        inputs, outputs = (self.indices(v, count, where, False) for v in (record.inputs, record.outputs))
        operations = [self.operation(o, count, f"{where}, operation {k}") for k, o in enumerate(record.operators or [])]
        return Subgraph(record.name or f"subgraph_{number}", tensors, inputs, outputs, operations)

    def indices(self, listed: np.ndarray | None, count: int, where: str, absent: bool = True) -> tuple[int, ...]:
        found = tuple(int(i) for i in (() if listed is None else listed))
        if any(not (-1 if absent else 0) <= i < count for i in found):
            raise self.fail(where, f"tensors {list(found)[:20]} are not all among its {count}")
        return found

    def operation(self, record: Record, count: int, where: str) -> Operation:
        if record.opcode_index >= len(self.codes):
            raise self.fail(where, f"operator {record.opcode_index} is not among the {len(self.codes)} of the model")
        op, custom, version = self.codes[record.opcode_index]
        lists = [self.indices(v, count, where) for v in (record.inputs, record.outputs, record.intermediates)]
        options = record.builtin_options2 if record.builtin_options is None else record.builtin_options
        given = self.buffers.custom_options(record, where)
        return Operation(op, custom, version, lists[0], lists[1], lists[2], options, given)

    def tensor(self, index: int, record: Record, scales: dict[int, np.ndarray | None], where: str) -> Tensor:
        name = record.name or f"tensor_{index}"
        where = f"{where} ('{name}')"
        shape = () if record.shape is None else tuple(int(d) for d in record.shape)
        signature = record.shape_signature
        sizes = shape
        if signature is not None and len(signature) == len(shape):
            sizes = tuple(-1 if s == -1 else d for s, d in zip(signature, shape, strict=True))
        elements = 1
        for size in shape:
            elements *= max(size, 1)
        if len(shape) > MAX_RANK or min(shape, default=0) < -1 or elements > MAX_ELEMENTS:
            raise self.fail(where, f"{list(shape)[:40]} is no shape of a tensor")
        raw = self.buffers.of(record, where)
        data = None if raw is None else constant(record, shape, raw, where)
        quantization = self.quantization(record.quantization, shape, scales, where)
        kind = str(record.type)
        return Tensor(index, name, kind, DTYPES.get(kind), sizes, quantization, data, bool(record.is_variable))

    def quantization(
        self, record: Record | None, shape: Sequence[int], scales: dict[int, np.ndarray | None], where: str
    ) -> Quantization | None:
        if record is None:
            return None
        details = record.details
        if details is not None and details.table_name == "BlockwiseQuantization":
            return self.blockwise(details, shape, scales, where)
        if record.scale is None or not len(record.scale):
            return None
        scale = np.asarray(record.scale, np.float32)
        zero = np.zeros(1, np.int64) if record.zero_point is None else np.asarray(record.zero_point, np.int64)
        axis = int(record.quantized_dimension)
        per_axis = 0 <= axis < len(shape) and len(scale) == shape[axis]
        if (len(scale) > 1 and not per_axis) or len(zero) not in (1, len(scale)):
            raise self.fail(where, f"{len(scale)} scales and {len(zero)} zero points do not fit axis {axis}")
        if not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise self.fail(where, "its scales must be finite and not negative")
        return Quantization(scale, np.broadcast_to(zero, scale.shape), axis)

    def blockwise(
        self, details: Record, shape: Sequence[int], scales: dict[int, np.ndarray | None], where: str
    ) -> Quantization:
        block, found = int(details.block_size), scales.get(int(details.scales))
        if found is None or len(shape) != 2 or block < 1 or found.size * block != shape[0] * shape[1]:
            raise self.fail(where, f"blocks of {block} with scales in tensor {details.scales} do not fit {list(shape)}")
        zeros = scales.get(int(details.zero_points)) if details.zero_points > 0 else None
        blocks = (shape[0], shape[1] // block)
        zero = np.zeros(blocks) if zeros is None or zeros.size != found.size else zeros.reshape(blocks)
        return Quantization(found.astype(np.float32).reshape(blocks), zero.astype(np.int64), 0, block)

    def signature(self, record: Record, subgraphs: Sequence[Subgraph]) -> Signature:
        key, number = record.signature_key or "", int(record.subgraph_index)
        where = f"signature '{key}'"
        if number >= len(subgraphs):
            raise self.fail(where, f"it names subgraph {number} of {len(subgraphs)}")
        count = len(subgraphs[number].tensors)
        sides = []
        for maps in (record.inputs or [], record.outputs or []):
            if any(m.tensor_index >= count for m in maps):
                raise self.fail(where, f"it names tensors beyond the {count} of subgraph {number}")
            sides.append({m.name or "": int(m.tensor_index) for m in maps})
        return Signature(key, number, *sides)


def _code(record: Record) -> tuple[str, bool, int]:
    """An operator's name, whether it is a custom one, and its version."""
    names = TFLITE.enum("BuiltinOperator")
    old = int(record.deprecated_builtin_code)
    new = record.builtin_code
    number = names.values.get(new, 0) if isinstance(new, str) else int(new)
    number = number if old in (0, _NEWER_CODES) or number > old else old
    name = names.name_of(number)
    if name == "CUSTOM":
        return record.custom_code or "", True, int(record.version)
    return name if isinstance(name, str) else f"number {name}", False, int(record.version)


def _scale_tensors(record: Record) -> list[int]:
    """The tensors that hold scales and zero points of this one, in blocks."""
    details = None if record.quantization is None else record.quantization.details
    if details is None or details.table_name != "BlockwiseQuantization":
        return []
    return [int(details.scales), int(details.zero_points)]
