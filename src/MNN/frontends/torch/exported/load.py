"""From an archive of torch.export to a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.complex.tensor import ADVICE, Complex
from MNN.frontends.torch.element_types import exported_type
from MNN.frontends.torch.exported.guards import conditions
from MNN.frontends.torch.exported.json_access import Record, parse
from MNN.frontends.torch.exported.nodes import Converter
from MNN.frontends.torch.exported.output_names import paths
from MNN.frontends.torch.exported.sizes import dim_of, layout_of
from MNN.frontends.torch.exported.tensors import Tensors
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.results import as_output
from MNN.frontends.torch.states import States
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

NEWEST = 8
"""The schema of torch.export whose major number is known here."""
_PROGRAMS = ("models/model.json", "serialized_exported_program.json")


def load(source: str | os.PathLike[str] | bytes, names: Mapping[str, str] | None = None) -> Graph:
    """The graph of a program that ``torch.export.save`` wrote, given as a path or as the file's bytes.

    Inputs have the names of the module's parameters, outputs those of its result's keys, where it has some. Symbolic
    sizes are named axes; ``names`` gives them other names. What the program writes of its buffers, parameters and
    constants becomes states (``Graph.meta["states"]``). ``Graph.meta["fixed"]`` has the names of constants that are no
    parameters.

    Raises :class:`~MNN.errors.FormatError` for malformed files, and
    :class:`~MNN.frontends.common.problems.UnsupportedModelError`, which lists everything the engine cannot do.
    """
    archive = Archive(source)
    archive.check_byte_order()
    part = next((n for n in _PROGRAMS if archive.has(n)), None) or next(
        (n for n in archive.names if n.startswith("models/") and n.endswith(".json")), None
    )
    if part is None:
        raise FormatError(
            f"{archive.name} holds no program of torch.export; compiled packages (AOTInductor) have none: save the "
            "program itself with torch.export.save"
        )
    program = parse(archive.read(part), f"{archive.name}, '{part}'")
    _check_version(program)
    first = _Program(archive, program, dict(names or {}), frozenset())
    graph = first.graph()
    written = first.written()
    return graph if not written else _Program(archive, program, dict(names or {}), written).graph()


def _check_version(program: Record) -> None:
    major = program.record("schema_version").integer("major")
    if not 5 <= major <= NEWEST:
        raise UnsupportedError(
            f"{program.where}: schema {major} of torch.export is not known here (5 to {NEWEST} are); export the model "
            "with another release of torch"
        )


class _Program:
    """``states``: buffers, parameters and constants that are known to be written, which are inputs then."""

    def __init__(self, archive: Archive, program: Record, names: dict[str, str], states: frozenset[str]) -> None:
        self._program = program
        self._module = program.record("graph_module")
        self._tensors = Tensors(archive)
        self._axes = names
        self._graph = Graph(name="main")
        self._ctx = TorchBuilder(ModelState(), self._graph)
        self._buffers: dict[str, tuple[Value, Variable]] = {}
        self._fixed: list[str] = []
        """Names of constants that are no parameters."""
        self._states = States(self._ctx)
        self._known = states
        self._given: list[tuple[str, Value]] = []
        """Tensors that the user gives, and what the file calls them."""
        self._kept: dict[str, tuple[str, Variable]] = {}
        """By the memory that they lie in: states, by the name of a tensor."""

    def written(self) -> frozenset[str]:
        """The buffers, parameters and constants that the program, converted, turned out to write, and those that lie
        in the same memory."""
        written = {n for n, (before, held) in self._buffers.items() if held.read(self._ctx) is not before}
        parts = {place.part for place in map(self._tensors.place, written) if place is not None}
        beside = {n for n in self._buffers if (place := self._tensors.place(n)) is not None and place.part in parts}
        return frozenset(written | beside)

    def graph(self) -> Graph:
        body, signature = self._module.record("graph"), self._module.record("signature")
        converter = Converter(self._ctx, self._axes)
        self._inputs(converter, body, signature)
        self._conditions(converter)
        converter.nodes(body)
        self._outputs(converter, body, signature)
        self._ctx.model.report.raise_if_any()
        version = self._program.data.get("torch_version")
        self._graph.meta |= {"source": "TORCH", "producer": f"torch {version}" if isinstance(version, str) else "torch"}
        self._graph.meta["fixed"] = self._fixed
        return self._graph

    # -- inputs -----------------------------------------------------------------------------------------------------

    def _inputs(self, converter: Converter, body: Record, signature: Record) -> None:
        """Parameters and buffers are constants; what the user gives are inputs."""
        meta = body.entries("tensor_values")
        for spec in signature.records("input_specs"):
            kind, held = spec.union()
            held = Record(held, spec.where)
            if kind in ("parameter", "buffer", "tensor_constant"):
                name = held.record("arg").text("name")
                full = held.text(
                    {"parameter": "parameter_name", "buffer": "buffer_name"}.get(kind, "tensor_constant_name")
                )
                self._constant(converter, name, full, kind)
            elif kind == "user_input":
                self._user_input(converter, held.record("arg"), meta)
            elif kind == "custom_obj":
                converter.missing(held.record("arg").text("name"), "an object of a class of its own")
            elif kind not in ("constant_input", "token"):
                raise UnsupportedError(f"{spec.where}: an input of the kind {kind} is not supported")

    def _conditions(self, converter: Converter) -> None:
        """What torch took for granted of sizes is looked at where the first input is read."""
        given = [(n, v) for n, v in self._given if v.shape]
        inputs = [value for _, value in given]
        found = conditions(self._program.data.get("guards_code"), inputs, [name for name, _ in given])
        if found:
            variable = converter.lookup(given[0][0])
            self._ctx.where = "sizes of inputs"
            names = "\n".join(v.name for v in inputs)
            made = self._ctx.op("SizeConditions", *inputs, conditions="\n".join(found), names=names)
            variable.write(self._ctx, made)

    def _constant(self, converter: Converter, name: str, full: str, kind: str) -> None:
        try:
            array = self._tensors.find(full)
        except UnsupportedError as error:
            self._ctx.model.report.form(full, "parameter", error)
            converter.missing(name, "a parameter of an unsupported type")
            return
        if full in self._known:
            if self._tensors.is_complex(full):
                raise UnsupportedError(f"'{full}': a complex buffer that the program writes is not supported; {ADVICE}")
            variable = self._state(full, array)
        else:
            variable = Variable(Value(self._ctx.unique(full), DType.of(array), tuple(array.shape), array))
        value = variable.read(self._ctx)
        converter.define(name, Complex(variable) if self._tensors.is_complex(full) else variable)
        self._buffers[full] = (value, variable)  # whatever its kind: a cache of transformers is no buffer by name
        if kind != "parameter" and value.is_const:
            self._fixed.append(value.name)

    def _state(self, full: str, array: np.ndarray) -> Variable:
        """Tensors in the same memory are one state: the same tensor, or views of all that is there."""
        place = self._tensors.place(full)
        beside = {
            p for n in self._known if place and (p := self._tensors.place(n)) is not None and p.part == place.part
        }
        if len({p.dtype for p in beside}) > 1:
            raise UnsupportedError(
                f"'{full}': the program writes it, and a tensor of another type shares its memory; make that of a "
                "clone() before exporting"
            )
        key = full if place is None else place.part
        if key not in self._kept:
            start = array if place is None or len(beside) == 1 else self._tensors.memory(place, f"tensor '{full}'")
            self._kept[key] = full, Variable(self._states.begin(full, start))
        kept = self._kept[key][1]
        if place is None or len(beside) == 1:
            return kept
        parts = [list(place.sizes), list(place.strides), place.offset]
        return call(self._ctx, "as_strided", [kept, *parts], {})  # type: ignore[no-any-return]

    def _user_input(self, converter: Converter, argument: Record, meta: dict[str, Record]) -> None:
        kind, held = argument.union()
        if kind == "as_tensor":
            name = Record(held, argument.where).text("name")
            if name not in meta:
                raise FormatError(f"{argument.where}: nothing is said of the input '{name}'")
            dtype = exported_type(meta[name].integer("dtype"), f"input '{name}'")
            sizes = [dim_of(r, f"{name}.{i}") for i, r in enumerate(meta[name].records("sizes"))]
            value = Value(self._ctx.unique(name), dtype, tuple(converter.renamed(d) for d in sizes))
            converter.define(name, Variable(value).lies(layout_of(meta[name])))
            self._given.append((name, value))
        elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            _, inner = Record(held, argument.where).union()
            if not isinstance(inner, str):
                return
            dtype = {"as_sym_int": DType.I64, "as_sym_float": DType.F64}.get(kind, DType.BOOL)
            value = Value(self._ctx.unique(inner), dtype, ())
            converter.define(inner, Number(value))
        elif kind == "as_custom_obj":
            raise UnsupportedError(f"{argument.where}: an input that is an object is not supported")
        else:
            return  # a constant that the program was exported with
        self._graph.inputs.append(value)
        self._ctx.scope[value.name] = value

    # -- outputs ----------------------------------------------------------------------------------------------------

    def _outputs(self, converter: Converter, body: Record, signature: Record) -> None:
        given = body.records("outputs")
        specs = signature.records("output_specs")
        if len(given) != len(specs):
            raise FormatError(f"{body.where}: {len(given)} outputs, but {len(specs)} are described")
        plain: list[Record] = []
        for argument, spec in zip(given, specs, strict=True):
            kind, held = spec.union()
            if kind in ("user_output", "loss_output"):
                plain.append(argument)
            elif kind in ("buffer_mutation", "parameter_mutation"):
                full = Record(held, spec.where).text(kind.replace("mutation", "name"))
                if full not in self._buffers:
                    raise FormatError(f"{spec.where}: the program writes '{full}', which it does not have")
                made = converter.read(argument)
                if isinstance(made, (Variable, Complex)):
                    self._buffers[full][1].write(self._ctx, made.read(self._ctx))
            elif kind not in ("token", "user_input_mutation"):
                raise UnsupportedError(f"{spec.where}: an output of the kind {kind} (training) is not supported")
        try:
            self._user_outputs(converter, plain)
        except MNNError:
            self._ctx.model.report.raise_if_any()  # says more than what follows from it
            raise
        for full, kept in sorted(self._kept.values(), key=lambda k: k[0]):
            self._states.end(full, kept.read(self._ctx))

    def _user_outputs(self, converter: Converter, arguments: list[Record]) -> None:
        entries = self._module.records("module_call_graph") if self._module.data.get("module_call_graph") else []
        spec = entries[0].data.get("signature") if entries else None
        text = spec.get("out_spec") if isinstance(spec, dict) else None
        names = paths(text, len(arguments)) if isinstance(text, str) else None
        for i, argument in enumerate(arguments):
            name = names[i] if names else converter.name_of(argument)
            self._ctx.where = f"output '{name}'"
            found = converter.read(argument)
            for item in found if isinstance(found, list) else [found]:
                value = as_output(self._ctx, item)
                if value is not None:
                    self._graph.outputs.append(self._named(value, name))

    def _named(self, value: Value, name: str) -> Value:
        """An output of its own, under its name."""
        if value.is_const or value in self._graph.inputs or value in self._graph.outputs:
            value = self._ctx.op("Identity", value)
        if value.name != name:
            self._ctx.model.taken.discard(value.name)
            value.name = self._ctx.unique(name)
        return value
