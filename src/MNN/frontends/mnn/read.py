"""From a .mnn file to a graph: operators become nodes, constants in tables become operands, formats disappear.

A tensor's dimensions in the file are those of its format. NCHW and NC4HW4 list them in the same order, so conversions
between these two vanish; those from and to NHWC stay as ``ConvertTensor`` nodes, which permute.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from MNN.errors import MISFITS, FormatError, MNNError, UnsupportedError
from MNN.formatting import plural
from MNN.frontends.mnn import control, extras, layouts
from MNN.frontends.mnn.attributes import unpack
from MNN.frontends.mnn.constants import restored
from MNN.frontends.mnn.official.composites import ABSENT_INPUTS, ENGINE, put_together
from MNN.frontends.mnn.official.differences import after_node
from MNN.frontends.mnn.official.record import Layout
from MNN.frontends.mnn.official.registry import official
from MNN.frontends.mnn.official.stored import stored, table_attributes
from MNN.frontends.mnn.scope import GraphScope
from MNN.frontends.mnn.sorting import indexes, ordered, without_remains
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Dim
from MNN.ops.core.base import operators
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.elementwise.identity import copying
from MNN.ops.inference.infer import ShapeInference
from MNN.schema.blobs import MAX_RANK, blob_to_array
from MNN.schema.external import ExternalSource
from MNN.schema.reader import read_net
from MNN.schema.record import Record

_MAX_OPERANDS = 1 << 16
_NESTING = 32
_SHARED = 64
"""Operators may share subgraphs; all graphs together may have this many times the operators of the file."""


def load(source: str | os.PathLike[str] | bytes) -> Graph:
    """The graph of a .mnn file given as a path or as the file's bytes (weights outside of it need a path).

    Files written by this engine give back the graph that was written. ``Graph.meta`` holds ``source`` (the framework),
    ``version`` of the format, ``bizCode``, ``uuid``, ``metadata``, and ``formats`` of tensors by name.

    Raises :class:`~MNN.errors.FormatError` for malformed files and :class:`~MNN.errors.UnsupportedError` naming all
    operators that this engine lacks.
    """
    return graph_of(*_opened(source))


def load_tensors(source: str | os.PathLike[str] | bytes) -> tuple[Graph, dict[str, Value]]:
    """The same with all of the file's tensors by name, in its order: conversions of formats stay as operators."""
    scope = _read(*_opened(source), as_written=True)
    made = [i for op in scope.ops for i in indexes(op, "outputIndexes")]
    return scope.graph, {scope.names[i]: scope.values[i] for i in made}


def _opened(source: str | os.PathLike[str] | bytes) -> tuple[Record, ExternalSource | None]:
    return read_net(source), None if isinstance(source, bytes) else ExternalSource(source)


def graph_of(net: Record, external: ExternalSource | None = None) -> Graph:
    """The graph of a Net record; ``external`` gives its external weights."""
    return _read(net, external).graph


def _read(net: Record, external: ExternalSource | None, as_written: bool = False) -> Scope:
    reader = NetReader(net, external, as_written)
    scope = reader.model()
    if reader.unknown:
        listed = "\n".join(f"  {op} '{name}'" for op, name in reader.unknown[:50])
        raise UnsupportedError(f"{plural(len(reader.unknown), 'operator')} of the model cannot be run:\n{listed}")
    return scope


class NetReader:
    """Reads the graphs of one file."""

    def __init__(self, net: Record, external: ExternalSource | None, as_written: bool = False) -> None:
        self.net = net
        self.as_written = as_written
        """Keeps conversions of formats that change nothing, so that every tensor of the file is there."""
        self.external = external
        self.unknown: list[tuple[str, str]] = []
        self.notes, self.metadata = extras.load(net)
        self.subgraphs: dict[str, Record] = {}
        for sub in net.subgraphs or []:
            self.subgraphs.setdefault(sub.name or "", sub)
        count = len(net.oplists or []) + sum(len(s.nodes or []) for s in net.subgraphs or [])
        self.left = _SHARED * count + 1024
        self.depth = 0

    @property
    def foreign(self) -> bool:
        """Whether another engine's converter wrote the file."""
        return self.notes is None

    def model(self) -> Scope:
        """The whole model, read."""
        net = self.net
        names = net.tensorName or [f"tensor{i}" for i in range(_tensors(net))]
        ops = net.oplists or []
        if self.foreign and net.outputName:
            ops = without_remains(ops, {i for i, name in enumerate(names) if name in net.outputName})
        scope = Scope(self, "", names, ops)
        scope.run({})
        wanted = [scope.named(name) for name in net.outputName or []] or scope.unused()
        scope.finish([(names[i], i) for i in wanted])
        graph = scope.graph
        graph.meta = {
            **(self.notes.meta if self.notes else {}),
            "source": graph.meta.get("source", str(net.sourceType)) if self.foreign else self._source(),
            "version": (net.extraInfo.version if net.extraInfo else None) or "",
            "bizCode": net.bizCode or "",
            "uuid": net.mnn_uuid or "",
            "metadata": self.metadata,
            "formats": {v.name: scope.formats[i] for i, v in scope.values.items() if i in scope.formats},
        }
        return scope

    def _source(self) -> object:
        assert self.notes is not None
        return self.notes.meta.get("source", str(self.net.sourceType))

    def subgraph(self, name: str, bound: Mapping[int, Value], inputs: bool) -> tuple[Graph, Record]:
        """The graph called ``name``. ``bound`` gives values from outside for some of its tensors; with ``inputs`` the
        others that the subgraph names as its inputs become inputs of the graph."""
        record = self.find(name)
        if self.depth >= _NESTING:
            raise FormatError(f"subgraph '{name}': subgraphs nest deeper than {_NESTING}; does one contain itself?")
        self.depth += 1
        scope = Scope(self, name, record.tensors or [], record.nodes or [])
        scope.run(bound, indexes(record, "inputs") if inputs else [])
        scope.finish([(scope.names[i], i) for i in indexes(record, "outputs")])
        self.depth -= 1
        return scope.graph, record

    def find(self, name: str) -> Record:
        record = self.subgraphs.get(name)
        if record is None:
            raise FormatError(f"the model has no subgraph '{name}'")
        return record


def _tensors(net: Record) -> int:
    used = [i for op in net.oplists or [] for f in ("inputIndexes", "outputIndexes") for i in indexes(op, f)]
    return max(used, default=-1) + 1


class Scope(GraphScope):
    """Takes the operators of one (sub)graph."""

    def __init__(self, reader: NetReader, name: str, names: list[str], ops: list[Record]) -> None:
        super().__init__(name, names, reader.notes.graph(name) if reader.notes else extras.GraphNotes())
        self.reader: NetReader = reader
        self.shape_inference = ShapeInference()
        self.ops = put_together(ops, names, self.notes.composite_ops)
        reader.left -= len(ops)
        if reader.left < 0:
            raise FormatError(f"{self.where}: subgraphs are used too often")

    # -- operators ------------------------------------------------------------------------------------------------

    def run(self, bound: Mapping[int, Value], inputs: list[int] | None = None) -> None:
        """Takes all operators. ``inputs`` orders a subgraph's inputs; a model's come in the file's order."""
        self.values.update(bound)
        made = {i for op in self.ops for i in indexes(op, "outputIndexes")}
        for index in inputs or []:
            if index not in self.values:
                self.graph.inputs.append(self.make(index))
        given = set(self.values)
        stand_ins = [Record("Op", type="Input", outputIndexes=[i]) for i in given - made]
        for op in ordered(self.ops + stand_ins, self.names, self.where):
            outputs = indexes(op, "outputIndexes")
            if op.type == "Input":
                self.input(op, [i for i in outputs if i not in given], inputs is None)
            elif outputs and all(i in given for i in outputs):
                continue
            else:
                self.take(op)
            self.formats.update(dict.fromkeys(outputs, layouts.format_of(self, op)))

    def input(self, op: Record, fresh: list[int], model: bool) -> None:
        for index in fresh:
            if not model:
                raise FormatError(f"{self.where}: nothing gives its input '{self.names[index]}'")
            value = self.make(index)
            if op.main is not None and op.main.table_name == "Input":
                dims = [int(d) for d in op.main.get("dims", ())]
                if len(dims) > MAX_RANK:
                    raise FormatError(f"input '{value.name}': {len(dims)} dimensions, expected at most {MAX_RANK}")
                if value.dtype is None and self.reader.foreign:
                    value.dtype = from_data_type(str(op.main.dtype), f"input '{value.name}'")
                if value.shape is None and self.reader.foreign and op.main.has("dims"):
                    value.shape = tuple(_size(d, value.name, i) for i, d in enumerate(dims))
            self.graph.inputs.append(value)

    def take(self, op: Record) -> None:
        try:
            self._take(op)
        except MNNError as error:
            if str(op.name) in str(error) or str(error).startswith(("subgraph", "the model")):
                raise
            raise type(error)(f"{op.type} '{op.name}': {error}") from error
        except MISFITS as error:  # such as a table that another operator has
            problem = f"it does not hold together ({type(error).__name__}: {error}); is the model damaged?"
            raise FormatError(f"{op.type} '{op.name}': {problem}") from error

    def _take(self, op: Record) -> None:
        kind, outputs = str(op.type), indexes(op, "outputIndexes")
        if kind in ("Const", "TrainableParam"):
            self.const(op, outputs)
            return
        if not outputs:
            raise FormatError(f"{kind} '{op.name}' has no outputs")
        inputs = [self.use(i) for i in indexes(op, "inputIndexes")]
        if kind == "ConvertTensor":
            self.convert(op, inputs, outputs[0])
            return
        if official(kind).subgraphs is not None:
            control.read(self, op, inputs)
            return
        if kind == "Extra":
            self.extra(op, inputs, outputs)
            return
        attrs = table_attributes(op)
        note = self.notes.nodes.get(self.names[outputs[0]], {})
        operands = self.operands(op, note)
        if operands:
            inputs = [*(inputs[:1] or [None]), *operands, *inputs[1:]]
        attrs.update(extras.noted_attributes(note))
        turned = layouts.reads_channels_last(self, op, inputs)
        if turned:
            layouts.unpack_input(self, op, inputs, attrs)
        around = layouts.around(self, op)
        if around:
            layouts.pack_input(self, op, inputs)
        node = self.add(extras.written_for(kind, note), op.name or "", inputs, outputs, attrs)
        if around or (turned and official(kind).layout is not Layout.SHAPE_ONLY):
            layouts.convert_output(self, node, outputs[0], *(("NC4HW4", "NHWC") if around else ("NHWC", "NC4HW4")))

    def operands(self, op: Record, note: Mapping[str, Any]) -> list[Value | None]:
        """The constants in an operator's table as values; notes tell names, types and shapes of those given."""
        weights = stored(op, self.reader.external)
        if "operands" not in note:
            return [None if w is None else self.constant(w, f"{op.name}_operand{i}") for i, w in enumerate(weights, 1)]
        found: list[Value | None] = []
        for name, dtype, shape in extras.operand_notes(note["operands"], len(weights)):
            data = weights[len(found)]
            if data is None or math.prod(shape) != math.prod(data.shape):
                raise FormatError(f"the notes say {list(shape)} of '{name}', which the operator does not have")
            if isinstance(data, np.ndarray):
                data = data.reshape(shape).astype(dtype.numpy, copy=False)
            self.taken.add(name)
            found.append(Value(name, dtype, shape, data))
        return found

    def convert(self, op: Record, inputs: list[Value | None], output: int) -> None:
        """A conversion of formats: nothing, or the channels move."""
        if len(inputs) != 1 or inputs[0] is None or op.main is None or op.main.table_name != "TensorConvertInfo":
            raise FormatError(f"ConvertTensor '{op.name}': expected one input and the formats to convert between")
        source, dest = str(op.main.source), str(op.main.dest)
        if self.formats.get(indexes(op, "inputIndexes")[0]) == "NHWC":
            source = "NHWC"  # the official engine looks at the tensor, and its expressions write any source
        if (source == "NHWC") == (dest == "NHWC") and not self.reader.as_written:
            self.values[output] = inputs[0]
            return
        made = self.make(output)
        build = layouts.written_conversion if self.reader.as_written else layouts.conversion
        self.graph.nodes.append(build(inputs[0], made, op.name or "", source, dest))

    def const(self, op: Record, outputs: list[int]) -> None:
        if op.main is None or op.main.table_name != "Blob" or len(outputs) != 1:
            raise FormatError(f"Const '{op.name}': expected a Blob and one output")
        name = self.names[outputs[0]]
        array = blob_to_array(op.main, self.reader.external, op.externalPath)
        wanted = self.notes.dtypes.get(name)
        if wanted is not None:
            array = restored(op.main, array, wanted)
        elif op.main.dataType in ("DT_HALF", "DT_BFLOAT16"):
            array = array.astype(np.float32)  # stored small, computed as floats
        value = self.constant(array, name)
        self.values[outputs[0]] = value

    def extra(self, op: Record, inputs: list[Value | None], outputs: list[int]) -> None:
        main = op.main
        if main is None or main.table_name != "Extra" or main.engine != ENGINE or not main.type:
            engine = "" if main is None or main.table_name != "Extra" else f" of the engine {main.engine!r}"
            self.reader.unknown.append(
                (f"Extra{engine} {'' if main is None else getattr(main, 'type', '')}", op.name or "")
            )
            for index in outputs:
                self.make(index)
            return
        attrs = unpack(main.attr or [], lambda name: self.reader.subgraph(name, self.captured(name), True)[0])
        for position in sorted(absent_positions(attrs.pop(ABSENT_INPUTS, []))):
            inputs.insert(position, None)
        self.add(main.type, op.name or "", inputs, outputs, attrs)

    def captured(self, name: str) -> dict[int, Value]:
        """Tensors that a subgraph of an operator of ours takes from outside: those it has under the names of tensors
        here, without being told so by an input."""
        record = self.reader.find(name)
        made = {i for node in record.nodes or [] for i in indexes(node, "outputIndexes")}
        inputs = set(indexes(record, "inputs"))
        outside = {self.names[i]: v for i, v in self.values.items()}
        names = record.tensors or []
        return {i: outside[n] for i, n in enumerate(names) if i not in made and i not in inputs and n in outside}

    def add(
        self, kind: str, name: str, inputs: list[Value | None], outputs: list[int], attrs: dict[str, object]
    ) -> Node:
        if kind not in operators():
            self.reader.unknown.append((kind, name))
        node = Node(kind, name, inputs, [self.make(i) for i in outputs], attrs)
        self.graph.nodes.append(node)
        if self.reader.foreign:
            self.shape_inference.annotate(node)
            after_node(self, node, outputs)
        return node

    # -- the end --------------------------------------------------------------------------------------------------

    def unused(self) -> list[int]:
        """Tensors that nothing uses, the outputs of a model that names none."""
        used = {i for op in self.ops for i in indexes(op, "inputIndexes")}
        made = [i for op in self.ops if op.type not in ("Input", "Const") for i in indexes(op, "outputIndexes")]
        return [i for i in made if i not in used]

    def finish(self, outputs: list[tuple[str, int]]) -> None:
        """Sets the graph's outputs, which must have the names of their tensors."""
        own = {v for node in self.graph.nodes for v in node.outputs}
        renamed: set[Value] = set()
        for name, index in outputs:
            if index not in self.values:
                raise FormatError(f"{self.where}: nothing makes its output '{name}'")
            value = self.values[index]
            if value.name != name and name not in self.taken and value in own and value not in renamed:
                self.taken.add(name)  # a conversion that vanished had given it the name
                value.name = name
            elif value.name != name and name not in self.taken:
                self.graph.nodes.append(copying(value, self.unique(name)))
                value = self.graph.nodes[-1].outputs[0]
            renamed.add(value)
            self.graph.outputs.append(value)


def absent_positions(value: object) -> list[int]:
    """Positions of the operands that an operator of ours was written without."""
    if not isinstance(value, list) or not all(type(i) is int and 0 <= i < _MAX_OPERANDS for i in value):
        raise FormatError(f"Extra: {ABSENT_INPUTS} is no list of positions")
    return value


def _size(size: int, name: str, axis: int) -> Dim:
    return size if size >= 0 else f"{name}_{axis}"
