"""Damaged copies of a file: cut, overwritten, swapped, and edited into a well-formed lie. All by number, repeatable."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from MNN.errors import FormatError
from MNN.schema import Record, read_net, write_net

Range = tuple[int, int]
#: Numbers that sizes, offsets, axes and counts are not prepared for.
EVIL = (
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    64,
    255,
    256,
    65535,
    1 << 20,
    10**9,
    2**31 - 1,
    2**31,
    -(2**31),
    2**62,
    2**63 - 1,
    -(2**63),
)
EVIL_FLOATS = (0.0, -1.0, 1e-45, 3e38, -3e38, float("inf"), float("nan"), 1e9, 0.5)


def quiet_ranges(data: bytes, constants: list[bytes]) -> list[Range]:
    """Where large constants lie in a file: damage there changes numbers only, so it gets a smaller share."""
    found = []
    for raw in constants:
        at = data.find(raw) if len(raw) >= 64 else -1
        if at >= 0:
            found.append((at, at + len(raw)))
    return sorted(set(found))


class Mutations:
    """Numbered damages of one file."""

    def __init__(self, data: bytes, form: str, quiet: list[Range], seed: int) -> None:
        self.data, self.form, self.seed = data, form, seed
        loud = np.ones(len(data), bool)
        for start, stop in quiet:
            loud[start:stop] = False
        self._loud = np.flatnonzero(loud)

    def cut(self, index: int, count: int) -> bytes:
        """The file cut off at one of ``count`` places: evenly spread, the first and last 25 bytes byte by byte."""
        size = len(self.data)
        if index < 25:
            return self.data[:index]
        if index < 50:
            return self.data[: size - 1 - (index - 25)]
        return self.data[: int((index - 49) * size / (count - 49))]

    def mutate(self, index: int) -> bytes:
        """One seeded damage of bytes."""
        rng = np.random.default_rng([self.seed, index])
        data = bytearray(self.data)
        kind = index % 8
        at, size = self._place(rng), int(rng.integers(1, 48))
        if kind < 2:
            data[at] = int(rng.integers(256))
        elif kind == 2:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            data[at : at + size] = rng.bytes(len(data[at : at + size]))
        elif kind == 4:
            data[at : at + size] = bytes([int(rng.choice([0, 255, 127]))]) * len(data[at : at + size])
        elif kind == 5:
            other = self._place(rng)
            first, second = min(at, other), max(at, other)
            size = min(size, second - first, len(data) - second)
            data[first : first + size], data[second : second + size] = (
                data[second : second + size],
                data[first : first + size],
            )
        elif kind == 6:
            self._length(data, at, rng)
        else:  # one piece lost or doubled, as transfers do
            piece = data[at : at + size]
            data[at : at + size] = b"" if rng.integers(2) else piece + piece
        return bytes(data)

    def _place(self, rng: np.random.Generator) -> int:
        if self._loud.size and rng.random() < 0.85:
            return int(rng.choice(self._loud))
        return int(rng.integers(len(self.data)))

    def _length(self, data: bytearray, at: int, rng: np.random.Generator) -> None:
        """A count or offset as the format writes it: 32 bits of a flatbuffer, a varint of a protobuf."""
        if self.form in ("mnn", "tflite"):
            at -= at % 4
            number = int(
                rng.choice([0, 1, 2, 16, 1 << 16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), len(data) - at])
            )
            data[at : at + 4] = struct.pack("<I", number & 0xFFFFFFFF)
        else:
            number = int(
                rng.choice([0, 1, 127, 128, 300, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 64) - 1], 1)[0]
            )
            coded = _varint(number)
            data[at : at + (len(coded) if rng.integers(2) else 1)] = coded

    def edit(self, index: int) -> bytes:
        """A well-formed file with one to three things in it that make no sense."""
        rng = np.random.default_rng([self.seed, 1 << 32, index])
        times = 1 + int(rng.integers(3))
        if self.form == "onnx":
            model = ModelProto.FromString(self.data)
            for _ in range(times):
                _edit_onnx(model, rng)
            return model.SerializeToString()
        while True:
            net = read_net(self.data)
            for _ in range(times):
                _edit_record(net, rng)
            try:
                data = write_net(net)
            except FormatError:  # such as a version that cannot name the operators; another edit then
                continue
            assert data is not None
            return data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _evil(rng: np.random.Generator, bits: int = 64) -> int:
    number = EVIL[int(rng.integers(len(EVIL)))]
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else int(rng.integers(-100, 100))


# -- ONNX -------------------------------------------------------------------------------------------------------------


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _edit_onnx(model: ModelProto, rng: np.random.Generator) -> None:
    graphs = list(_graphs(model.graph))
    graph = graphs[int(rng.integers(len(graphs)))]
    nodes = list(graph.node)
    if not nodes:
        return
    node = nodes[int(rng.integers(len(nodes)))]
    choice = int(rng.integers(8))
    if choice < 3 and node.attribute:
        _edit_attribute(node.attribute[int(rng.integers(len(node.attribute)))], rng)
    elif choice == 3 and graph.initializer:
        _edit_tensor(graph.initializer[int(rng.integers(len(graph.initializer)))], rng)
    elif choice == 4 and node.input:  # another tensor than was meant
        names = (
            [n for other in nodes for n in (*other.input, *other.output)] + [i.name for i in graph.initializer] + [""]
        )
        node.input[int(rng.integers(len(node.input)))] = names[int(rng.integers(len(names)))]
    elif choice == 5:
        kinds = [*sorted({n.op_type for n in nodes}), "Relu", "Concat", "Reshape", "NonZero", "If", "Cast"]
        node.op_type = kinds[int(rng.integers(len(kinds)))]
    elif choice == 6 and model.graph.input:
        info = model.graph.input[int(rng.integers(len(model.graph.input)))].type.tensor_type
        if info.shape.dim and rng.integers(2):
            info.shape.dim[int(rng.integers(len(info.shape.dim)))].dim_value = _evil(rng)
        else:
            info.elem_type = int(rng.integers(0, 25))
    elif node.input:
        del node.input[int(rng.integers(len(node.input)))]


def _edit_attribute(attribute: AttributeProto, rng: np.random.Generator) -> None:
    if attribute.type == AttributeProto.INT:
        attribute.i = _evil(rng)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = EVIL_FLOATS[int(rng.integers(len(EVIL_FLOATS)))]
    elif attribute.type == AttributeProto.INTS:
        kind = int(rng.integers(3))
        if kind == 0 and attribute.ints:
            attribute.ints[int(rng.integers(len(attribute.ints)))] = _evil(rng)
        elif kind == 1:
            attribute.ints.append(_evil(rng))
        else:
            del attribute.ints[: int(rng.integers(3))]
    elif attribute.type == AttributeProto.STRING:
        attribute.s = [b"", b"SAME_UPPER", b"linear", b"edge", b"\xff\xfe", b"forward"][int(rng.integers(6))]
    elif attribute.type == AttributeProto.TENSOR:
        _edit_tensor(attribute.t, rng)


def _edit_tensor(tensor: TensorProto, rng: np.random.Generator) -> None:
    array = numpy_helper.to_array(tensor).copy()
    kind = int(rng.integers(4))
    if kind == 0 and array.size:
        flat = array.reshape(-1)
        at = int(rng.integers(flat.size))
        if array.dtype.kind in "iu":
            flat[at] = _evil(rng, 8 * array.dtype.itemsize) if array.dtype.kind == "i" else 255
        else:
            flat[at] = EVIL_FLOATS[int(rng.integers(len(EVIL_FLOATS)))]
    elif kind == 1:
        array = array.reshape([1, *array.shape, 1][int(rng.integers(2)) :])
    elif kind == 2:
        array = array.reshape(-1)[: int(rng.integers(array.size + 1))]
    else:
        with np.errstate(all="ignore"):
            array = array.astype([np.float32, np.int64, np.int32, np.float16, np.bool_][int(rng.integers(5))])
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


# -- .mnn -------------------------------------------------------------------------------------------------------------


def _records(record: Record, depth: int = 0) -> Iterator[Record]:
    yield record
    for _, value in record.present():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Record) and depth < 12:
                yield from _records(item, depth + 1)


def _edit_record(net: Record, rng: np.random.Generator) -> None:
    """Changes one field of one record: a number, an enum, a vector, a list; or takes it away."""
    for _ in range(50):
        records = list(_records(net))
        record = records[int(rng.integers(len(records)))]
        fields = list(record.present())
        if not fields:
            continue
        field, value = fields[int(rng.integers(len(fields)))]
        kind = field.kind.name
        if rng.random() < 0.1:
            delattr(record, field.name)
        elif kind == "SCALAR" and field.dtype.kind == "b":
            setattr(record, field.name, not value)
        elif kind == "SCALAR" and field.dtype.kind == "f":
            setattr(record, field.name, float(np.float32(EVIL_FLOATS[int(rng.integers(len(EVIL_FLOATS)))])))
        elif kind == "SCALAR":
            setattr(record, field.name, _evil(rng, 8 * field.dtype.itemsize) & (127 if field.dtype.kind == "u" else -1))
        elif kind == "ENUM":
            setattr(record, field.name, int(rng.integers(0, 40)))
        elif kind == "VECTOR" and field.dtype.kind in "iu" and len(value):
            array = np.array(value)
            limits = np.iinfo(array.dtype)
            array[int(rng.integers(array.size))] = min(max(_evil(rng), limits.min), limits.max)
            setattr(record, field.name, array[: int(rng.integers(array.size + 1))] if rng.integers(3) == 0 else array)
        elif kind in ("VECTOR", "TABLES", "STRINGS") and len(value):
            cut = int(rng.integers(len(value)))
            setattr(
                record, field.name, np.delete(value, cut) if kind == "VECTOR" else [*value[:cut], *value[cut + 1 :]]
            )
        elif kind == "STRING":
            setattr(record, field.name, ["", "x", "then"][int(rng.integers(3))])
        else:
            continue
        return
