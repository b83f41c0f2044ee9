"""From a graph to a .mnn file that both engines read.

Constant operands move into the operators' tables where the format keeps them, other constants become Const operators;
conversions of format are put in (see ``formats``); operators that the official engine lacks become ``Extra`` operators
of the engine "MNN-py", which it refuses. What the format cannot say is in the side notes (see ``side``).
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import MISFITS, FormatError, UnsupportedError
from MNN.frontends.mnn import extras as side
from MNN.frontends.mnn.attributes import pack
from MNN.frontends.mnn.constants import blob_of
from MNN.frontends.mnn.official.composites import ABSENT_INPUTS, ENGINE, can_be_kept, named, note_of
from MNN.frontends.mnn.official.formats import Formats
from MNN.frontends.mnn.official.legal import CompositeOp, legalized, misfit
from MNN.frontends.mnn.official.native import native
from MNN.frontends.mnn.official.record import Subgraphs
from MNN.frontends.mnn.official.registry import official, packs_first
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value, captured
from MNN.schema.offload import write_model
from MNN.schema.record import Record

VERSION = "3.6.1"
"""The official version whose operators are meant."""
_I32_MAX = 2**31 - 1
_SOURCES = {"CAFFE", "TENSORFLOW", "TFLITE", "ONNX", "TORCH"}


def write_mnn(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    external: bool | None = False,
    fp16: bool = False,
    biz_code: str = "",
    keep_input_format: bool = True,
) -> list[Path]:
    """Writes ``graph`` to ``path``, whole or not at all, and gives the files written.

    external: weights go to ``<path>.weight`` (None: only when one file cannot hold them). fp16: float weights are
    stored as halves. biz_code: a mark of the application, for the loader to check. keep_input_format: inputs of images
    are NCHW for the official engine; else NC4HW4 where a convolution takes them, which saves it a conversion.

    Raises :class:`~MNN.errors.UnsupportedError` for attributes that have no form in a file.
    """
    net = net_of(graph, fp16=fp16, biz_code=biz_code, keep_input_format=keep_input_format)
    return write_model(net, path, external)


def net_of(graph: Graph, *, fp16: bool = False, biz_code: str = "", keep_input_format: bool = True) -> Record:
    """The Net record of a graph. Raises :class:`~MNN.errors.UnsupportedError` for an empty one."""
    found = legalized(graph)
    writer, legal = _NetWriter(fp16, keep_input_format, found.composite_ops), found.graph
    ops, names, _, outputs = writer.graph(legal, "", legal.inputs, legal.outputs, {})
    if not ops:
        raise UnsupportedError(f"graph '{graph.name}' has neither inputs nor operators: nothing can be written")
    apart = ("metadata", "version", "bizCode", "uuid", "formats")
    meta = {k: v for k, v in graph.meta.items() if k not in apart and _plain(v)}
    metadata = graph.meta.get("metadata")
    texts = {str(k): str(v) for k, v in metadata.items()} if isinstance(metadata, dict) else {}
    writer.notes.meta = meta
    buffer = side.store(writer.notes, texts)
    source = str(graph.meta.get("source", "ONNX"))
    identity = uuid.uuid5(uuid.NAMESPACE_OID, "\n".join([*names, *(str(op.type) for op in ops)]))
    return Record(
        "Net",
        bizCode=biz_code,
        oplists=ops,
        tensorName=names,
        outputName=[names[i] for i in outputs],
        sourceType=source if source in _SOURCES else "ONNX",
        preferForwardType="CPU",
        extraInfo=Record("ExtraInfo", version=VERSION, name=ENGINE, buffer=buffer),
        subgraphs=writer.subgraphs or None,
        mnn_uuid=str(identity),
    )


def _plain(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


class _NetWriter:
    def __init__(self, fp16: bool, keep_input_format: bool, composite_ops: list[CompositeOp]) -> None:
        self.first = {id(w.parts[0]): w for w in composite_ops if can_be_kept(w.node, w.parts)}
        self.fp16 = fp16
        self.keep_input_format = keep_input_format
        self.notes = side.Notes()
        self.subgraphs: list[Record] = []
        self.names: set[str] = set()

    def graph(
        self, graph: Graph, name: str, inputs: list[Value], outputs: list[Value], outer: dict[Value, str]
    ) -> tuple[list[Record], list[str], list[int], list[int]]:
        """Operators, tensor names, and the indexes of inputs and outputs."""
        writer = _GraphWriter(self, self.notes.graph(name), name, outer)
        return writer.run(graph, inputs, outputs)

    def subgraph_name(self, stem: str) -> str:
        name, count = stem, 1
        while name in self.names:
            count += 1
            name = f"{stem}_{count}"
        self.names.add(name)
        return name

    def subgraph(self, graph: Graph, stem: str, outer: dict[Value, str], inputs: list[Value]) -> str:
        """Stores a subgraph whose inputs are ``inputs`` (they get Input operators) and gives its name."""
        name = self.subgraph_name(stem)
        ops, names, ins, outs = self.graph(graph, name, inputs, graph.outputs, outer)
        record = Record("SubGraphProto", name=name, tensors=names, nodes=ops, inputs=ins, outputs=outs)
        self.subgraphs.append(record)
        return name


class _GraphWriter:
    def __init__(self, net: _NetWriter, notes: side.GraphNotes, name: str, outer: dict[Value, str]) -> None:
        self.net = net
        self.notes = notes
        self.name = name
        self.outer = outer
        self.names: list[str] = []
        self.taken: set[str] = set()
        self.index: dict[Value, int] = {}
        self.ops: list[Record] = []
        self.constants: set[int] = set()
        self.shared: dict[tuple[str, bytes], int] = {}

    # -- tensors ----------------------------------------------------------------------------------------------------

    def tensor(self, name: str) -> int:
        unique, count = name or "tensor", 1
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        self.names.append(unique)
        return len(self.names) - 1

    def make(self, value: Value) -> int:
        index = self.index[value] = self.tensor(value.name)
        self.remember(self.names[index], value)
        return index

    def remember(self, name: str, value: Value) -> None:
        if value.dtype is not None:
            self.notes.dtypes[name] = value.dtype
        if value.shape is not None and not value.is_const:
            self.notes.shapes[name] = tuple(value.shape)

    def use(self, value: Value | None) -> int:
        if value is None:
            return -1
        if value not in self.index:
            if value.is_const:
                self.const(value)
            elif value in self.outer:  # only an operator of ours takes it: by name, without a maker
                self.index[value] = self.tensor(self.outer[value])
            else:
                raise UnsupportedError(f"tensor '{value.name}' is used before it is made")
        return self.index[value]

    def const(self, value: Value) -> None:
        index = self.index[value] = self.tensor(value.name)
        array = value.array()
        self.notes.dtypes[self.names[index]] = DType.of(array)
        self.emit_const(index, blob_of(array, self.net.fp16))

    def emit_const(self, index: int, blob: Record) -> int:
        self.constants.add(index)
        self.ops.append(Record("Op", type="Const", name=self.names[index], main=blob, outputIndexes=[index]))
        return index

    def number(self, number: int, stem: str) -> int:
        """A 32-bit scalar constant."""
        return self.emit_const(self.tensor(stem), blob_of(np.asarray(number, np.int32)))

    # -- graphs -----------------------------------------------------------------------------------------------------

    def run(
        self, graph: Graph, inputs: list[Value], outputs: list[Value]
    ) -> tuple[list[Record], list[str], list[int], list[int]]:
        for value in inputs:
            self.input(value)
        composite_ops = []
        left = iter(graph.nodes)
        for node in left:
            whole = self.net.first.get(id(node))
            if whole is None:
                self.guarded(node)
                continue
            for taken in whole.node.inputs:
                self.use(taken)
            start = len(self.ops)
            self.guarded(node)
            for _ in whole.parts[1:]:
                self.guarded(next(left))
            composite_ops.append(note_of(whole.node, self.ops[start:], self.use))
        wanted = [self.output(v) for v in outputs]
        formats = Formats(self.names, self.constants)
        first = {self.index[v] for v in inputs}
        if not self.net.keep_input_format and not self.name:
            self.pack_inputs(first, formats)
        ops, made = formats.insert(self.ops, wanted)
        for new, old in formats.renamed.items():
            self.notes.copy(old, new)
        self.notes.composite_ops = [named(note, self.names) for note in composite_ops]
        return ops, self.names, [self.index[v] for v in inputs], made

    def pack_inputs(self, inputs: set[int], formats: Formats) -> None:
        """Inputs that only packed operators take come packed themselves."""
        for op in self.ops:
            if op.type == "Input" and op.main.dims is not None and len(op.main.dims) == 4:
                index = int(op.outputIndexes[0])
                users = [o for o in self.ops if o.inputIndexes is not None and index in o.inputIndexes]
                if (
                    index in inputs
                    and users
                    and all(packs_first(str(o.type)) and o.inputIndexes[0] == index for o in users)
                ):
                    op.main.dformat = "NC4HW4"
                    formats.packed.add(index)

    def input(self, value: Value) -> None:
        index = self.make(value)
        shape = value.shape
        dtype = value.dtype or DType.F32
        main = Record("Input", dtype=_input_type(dtype), dformat="NCHW")
        if shape is not None:
            if any(isinstance(d, int) and d > _I32_MAX for d in shape):
                raise FormatError(f"input '{value.name}': sizes {list(shape)} do not fit the format's 32 bits")
            main.dims = np.array([d if isinstance(d, int) else -1 for d in shape], np.int32)
        self.ops.append(Record("Op", type="Input", name=self.names[index], main=main, outputIndexes=[index]))

    def output(self, value: Value) -> int:
        """The index of an output; what is no result of an operator here gets one."""
        index = self.use(value)
        makers = {int(i) for op in self.ops if op.type not in ("Input", "Const") for i in op.get("outputIndexes", ())}
        if index in makers or not self.name:
            return index
        copy = self.tensor(f"{self.names[index]}/copy")
        self.ops.append(
            Record("Op", type="Identity", name=self.names[copy], inputIndexes=[index], outputIndexes=[copy])
        )
        return copy

    # -- nodes ------------------------------------------------------------------------------------------------------

    def guarded(self, node: Node) -> None:
        try:
            self.node(node)
        except MISFITS as error:
            raise misfit(node, error) from error

    def node(self, node: Node) -> None:
        subgraphs = official(node.op).subgraphs
        if subgraphs is Subgraphs.BRANCHES and self.branch(node):
            return
        if subgraphs is Subgraphs.TURNS and self.loop(node):
            return
        written = None if any(True for _ in node.subgraphs()) else native(node, self.net.fp16)
        if written is None:
            self.extra(node)
            return
        self.append(written.record, node, [self.use(v) for v in written.inputs], node.outputs, written.note)

    def append(self, op: Record, node: Node, inputs: list[int], outputs: list[Value], note: dict[str, Any]) -> None:
        made = [self.make(v) for v in outputs]
        self.finish(op, node, inputs, made, note)

    def finish(self, op: Record, node: Node, inputs: list[int], outputs: list[int], note: dict[str, Any]) -> None:
        while inputs and inputs[-1] == -1:
            inputs.pop()
        op.name = node.name or self.names[outputs[0]]
        if inputs:
            op.inputIndexes = inputs
        op.outputIndexes = outputs
        op.defaultDimentionFormat = "NCHW" if official(str(op.type)).framework_order else "NHWC"
        if note:
            self.notes.nodes[self.names[outputs[0]]] = note
        self.ops.append(op)

    def extra(self, node: Node) -> None:
        def store(key: str, graph: Graph) -> str:
            outer = {**self.outer, **{v: self.names[i] for v, i in self.index.items()}}
            return self.net.subgraph(graph, f"{node.name or node.op}/{key}", outer, graph.inputs)

        for value in captured(node):
            self.use(value)
        gaps = [i for i, v in enumerate(node.inputs) if v is None]
        attrs = pack({**node.attrs, ABSENT_INPUTS: gaps} if gaps else node.attrs, store)
        main = Record("Extra", type=node.op, engine=ENGINE, attr=attrs)
        op = Record("Op", type="Extra", main=main)
        self.append(op, node, [self.use(v) for v in node.inputs if v is not None], node.outputs, {})

    def branch(self, node: Node) -> bool:
        """An If in the official form: the branches' outer values are inputs."""
        graphs = [node.attrs.get("then_graph"), node.attrs.get("else_graph")]
        if not all(isinstance(g, Graph) and len(g.outputs) == len(node.outputs) and not g.inputs for g in graphs):
            return False
        outside = captured(node)
        names: list[str] = []
        outputs: list[list[str]] = []
        for key, graph in zip(("then", "else"), graphs, strict=True):
            assert isinstance(graph, Graph)
            used = _uses(graph)
            name = self.net.subgraph(graph, f"{node.name or 'If'}/{key}", {}, [v for v in outside if v in used])
            names.append(name)
            record = self.net.subgraphs[-1]
            outputs.append([record.tensors[i] for i in record.outputs])
        vectors = [Record("StringVec"), *(Record("StringVec", data=[v.name]) for v in outside)]
        main = Record(
            "IfParam",
            then_graph=names[0],
            else_graph=names[1],
            aliases_inputs=vectors,
            aliases_outputs=[Record("StringVec", data=[a, b]) for a, b in zip(*outputs, strict=True)],
        )
        inputs = [self.use(node.inputs[0]), *(self.use(v) for v in outside)]
        self.append(Record("Op", type=node.op, main=main), node, inputs, node.outputs, {})
        return True

    def loop(self, node: Node) -> bool:
        """A Loop as a While without a condition graph; outer values are carried unchanged."""
        body = node.attrs.get("body")
        if not isinstance(body, Graph) or any(v is None for v in node.inputs[2:]):
            return False
        carried = len(node.inputs) - 2
        if len(body.inputs) != 2 + carried or len(body.outputs) != 1 + len(node.outputs):
            return False
        outside = captured(node)
        inner = Graph(body.name, body.inputs, body.outputs, body.nodes)
        inner.outputs = [*body.outputs[: 1 + carried], *outside, *body.outputs[1 + carried :]]
        name = self.net.subgraph(inner, f"{node.name or 'Loop'}/body", {}, [*body.inputs, *outside])
        record = self.net.subgraphs[-1]
        # carried unchanged: the output is the input itself
        fixed = [int(i) for i in record.outputs]
        fixed[1 + carried : 1 + carried + len(outside)] = [int(i) for i in record.inputs[2 + carried :]]
        record.outputs = fixed
        where = node.name or node.outputs[0].name
        first = [
            self.number(n, f"{where}/{what}") if value is None else self.use(value)
            for value, n, what in zip(node.inputs[:2], (_I32_MAX, 1), ("turns", "condition"), strict=True)
        ]
        note = {"op": node.op, "absent": [i for i in (0, 1) if node.inputs[i] is None]}
        inputs = [*first, *(self.use(v) for v in (*node.inputs[2:], *outside))]
        made = [self.make(v) for v in node.outputs]
        unused = [self.tensor(f"{where}/{v.name}") for v in outside]
        outputs = [*made[:carried], *unused, *made[carried:]]
        self.finish(Record("Op", type="While", main=Record("WhileParam", body_graph=name)), node, inputs, outputs, note)
        return True


def _uses(graph: Graph) -> set[Value]:
    used: set[Value] = set(graph.outputs)
    for node in graph.nodes:
        used.update(v for v in (*node.inputs, *captured(node)) if v is not None)
    return used


def _input_type(dtype: DType) -> str:
    if dtype.is_float:
        return "DT_FLOAT"
    if dtype in (DType.U8, DType.I8):
        return "DT_UINT8" if dtype is DType.U8 else "DT_INT8"
    return "DT_STRING" if dtype is DType.STR else "DT_INT32"
