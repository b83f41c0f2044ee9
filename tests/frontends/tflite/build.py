"""Small .tflite models for tests, written with the schema that the reader reads with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.frontends.tflite.schema import TFLITE
from MNN.schema.record import Record
from MNN.schema.writer import write_table

TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "float64": "FLOAT64", "int8": "INT8", "uint8": "UINT8",
    "int16": "INT16", "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32", "int64": "INT64", "uint64": "UINT64",
    "bool": "BOOL", "complex64": "COMPLEX64", "bfloat16": "BFLOAT16",
}  # fmt: skip


def record(table: str, **fields: Any) -> Record:
    return Record(TFLITE.table(table), **fields)


class Graph:
    """One subgraph being built; tensors are numbers."""

    def __init__(self, model: Model, name: str = "main") -> None:
        self.model = model
        self.name = name
        self.tensors: list[Record] = []
        self.operators: list[Record] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def tensor(
        self,
        shape: Sequence[int],
        kind: str = "FLOAT32",
        data: bytes | None = None,
        scale: float | Sequence[float] | None = None,
        zero: int | Sequence[int] = 0,
        axis: int = 0,
        name: str = "",
        **more: Any,
    ) -> int:
        """A tensor; with ``data`` a constant. ``-1`` among the sizes leaves one open."""
        signature = list(shape) if -1 in shape else None
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.asarray(zero, np.int64), scales.shape)
            more["quantization"] = record(
                "QuantizationParameters", scale=scales, zero_point=zeros.copy(), quantized_dimension=axis
            )
        self.tensors.append(
            record(
                "Tensor", shape=[abs(d) for d in shape], type=kind, name=name or f"{self.name}_{len(self.tensors)}",
                buffer=self.model.buffer(data), shape_signature=signature, has_rank=True, **more,
            )
        )  # fmt: skip
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], kind: str = "FLOAT32", **more: Any) -> int:
        self.inputs.append(self.tensor(shape, kind, **more))
        return self.inputs[-1]

    def const(self, array: Any, dtype: type | str | None = None, **more: Any) -> int:
        data = np.asarray(array, dtype)
        return self.tensor(data.shape, TYPES[data.dtype.name], data.tobytes(), **more)

    def packed(self, values: np.ndarray, bits: int, **more: Any) -> int:
        """A constant of signed numbers of less than a byte."""
        per, flat = 8 // bits, (values.reshape(-1).astype(np.int16) & ((1 << bits) - 1)).astype(np.uint8)
        flat = np.concatenate([flat, np.zeros(-len(flat) % per, np.uint8)]).reshape(-1, per)
        raw = np.zeros(len(flat), np.uint8)
        for i in range(per):
            raw |= flat[:, i] << np.uint8(bits * i)
        return self.tensor(values.shape, f"INT{bits}", raw.tobytes(), **more)

    def op(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        custom: bytes | None = None,
        version: int = 1,
        **values: Any,
    ) -> None:
        """An operation; ``options`` is the table of its options."""
        fields: dict[str, Any] = {}
        if options:
            union = "BuiltinOptions" if options in TFLITE.union_members("BuiltinOptions") else "BuiltinOptions2"
            fields["builtin_options" if union == "BuiltinOptions" else "builtin_options2"] = record(options, **values)
        if custom is not None:
            fields["custom_options"] = np.frombuffer(custom, np.uint8)
        self.operators.append(
            record(
                "Operator", opcode_index=self.model.code(op, version, custom is not None),
                inputs=np.asarray(inputs, np.int32), outputs=np.asarray(outputs, np.int32), **fields,
            )
        )  # fmt: skip

    def made(
        self, op: str, inputs: Sequence[int], shape: Sequence[int], kind: str = "FLOAT32", options: str = "",
        quantization: Mapping[str, Any] | None = None, version: int = 1, **values: Any,
    ) -> int:  # fmt: skip
        """An operation with one result, which is given back."""
        out = self.tensor(shape, kind, **(quantization or {}))
        self.op(op, inputs, [out], options, version=version, **values)
        return out

    def record(self) -> Record:
        return record(
            "SubGraph", name=self.name, tensors=self.tensors, operators=self.operators,
            inputs=np.asarray(self.inputs, np.int32), outputs=np.asarray(self.outputs, np.int32),
        )  # fmt: skip


class Model:
    """A model being built; ``graph`` is its first subgraph."""

    def __init__(self) -> None:
        self.buffers: list[Record] = [record("Buffer")]
        self.codes: list[tuple[str, int, bool]] = []
        self.graphs: list[Graph] = [Graph(self)]
        self.more: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        return self.graphs[0]

    def subgraph(self, name: str) -> tuple[int, Graph]:
        self.graphs.append(Graph(self, name))
        return len(self.graphs) - 1, self.graphs[-1]

    def buffer(self, data: bytes | None) -> int:
        if data is None:
            return 0
        self.buffers.append(record("Buffer", data=np.frombuffer(data, np.uint8)))
        return len(self.buffers) - 1

    def code(self, op: str, version: int, custom: bool) -> int:
        key = (op, version, custom)
        if key not in self.codes:
            self.codes.append(key)
        return self.codes.index(key)

    def finish(self) -> bytes:
        """The file."""
        codes = []
        for op, version, custom in self.codes:
            number = TFLITE.enum("BuiltinOperator").values["CUSTOM" if custom else op]
            codes.append(
                record(
                    "OperatorCode", deprecated_builtin_code=min(number, 127), builtin_code=number, version=version,
                    custom_code=op if custom else None,
                )
            )  # fmt: skip
        graphs = [g.record() for g in self.graphs]
        made = write_table(
            record("Model", version=3, operator_codes=codes, subgraphs=graphs, buffers=self.buffers, description="test",
                   **self.more)
        )  # fmt: skip
        assert made is not None
        return made


def strings(texts: Sequence[str]) -> bytes:
    """The bytes of a tensor of strings."""
    raw = [t.encode() for t in texts]
    places = 4 * (len(raw) + 2) + np.cumsum([0, *map(len, raw)])
    return np.asarray([len(raw), *places], np.int32).tobytes() + b"".join(raw)


__all__ = ["Graph", "Model", "record", "strings"]
