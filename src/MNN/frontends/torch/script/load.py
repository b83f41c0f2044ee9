"""From a TorchScript archive to a graph."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import MISFITS, FormatError, MNNError, UnsupportedError
from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.results import as_output
from MNN.frontends.torch.script.builtins import RaisedError
from MNN.frontends.torch.script.code import Code
from MNN.frontends.torch.script.interpreter import Interpreter, Method
from MNN.frontends.torch.script.journal import Journal, check_merged
from MNN.frontends.torch.script.missing import report_missing
from MNN.frontends.torch.script.objects import Objects
from MNN.frontends.torch.script.open_lists import gathered, is_open
from MNN.frontends.torch.script.operators import UnknownOperatorError
from MNN.frontends.torch.script.optional import Maybe
from MNN.frontends.torch.script.quantized import QuantizedTensor
from MNN.frontends.torch.states import States
from MNN.frontends.torch.unpickle import ScriptObject, StoredTensor
from MNN.frontends.torch.unpickle import load as unpickle
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value
from MNN.ir.shape import Dim


@dataclass(frozen=True)
class Given:
    """What is known of a tensor input: its sizes (names for open ones) and element type; without one, that of the
    tensor that the module was traced with, else f32."""

    shape: tuple[Dim, ...] | None
    dtype: DType | None = None


Inputs = Mapping[str, "Given | bool | int | float | str | None"]
"""What inputs are, by name: tensors, or plain data that the program is converted for."""


def load(source: str | os.PathLike[str] | bytes, inputs: Inputs | None = None, method: str = "forward") -> Graph:
    """The graph of a method of a TorchScript archive, given as a path or as the file's bytes.

    ``inputs``: what is known of the arguments. Traced modules bring the tensors that they were traced with; of others
    the ranks of inputs must follow from how they are used, or be given.

    Raises :class:`~MNN.errors.FormatError` for malformed files, :class:`~MNN.errors.UnsupportedError` for what the
    engine cannot do.
    """
    archive = Archive(source)
    archive.check_byte_order()
    known, traced = dict(_by_place(inputs)), _traced(archive, method)
    left: dict[str, Any] = {}
    for _ in range(MAX_PASSES):  # what is written is known after the first; it is read as a state in the next
        program = _Program(archive, left)
        _run(archive, program, method, known, traced)
        new = {k: v for k, v in program.left().items() if k not in left}
        if not new:
            break
        left |= new
    else:
        raise UnsupportedError(f"{archive.name}: the tensors that the program keeps change from run to run")
    graph = program.graph
    for node in graph.nodes:
        node.name = node.name or next(v.name for v in node.outputs)
    graph.meta |= {"source": "TORCH", "producer": "TorchScript"}
    return graph


MAX_PASSES = 4


def _run(
    archive: Archive, program: _Program, method: str, known: Mapping[str | int, Any], traced: Mapping[int, Any]
) -> None:
    ctx = program.ctx
    try:
        program.run(method, known, traced)
    except UnknownOperatorError:
        report_missing(program.code, ctx.model.report)
        ctx.model.report.raise_if_any()
        raise
    except RaisedError as error:
        raise UnsupportedError(
            f"{archive.name}: with inputs of this kind the program raises an exception: {error}; "
            "give other shapes, or values"
        ) from error
    except MNNError:
        raise
    except (*MISFITS, RecursionError) as error:
        raise FormatError(
            f"{archive.name}: its code makes no sense at {ctx.where or 'its begin'} ({type(error).__name__}: {error}); "
            "is the file damaged?"
        ) from error


def _by_place(inputs: Inputs | None) -> list[tuple[str | int, Any]]:
    """Inputs by name; names that are numbers are places."""
    return [(int(k) if k.isdecimal() else k, v) for k, v in (inputs or {}).items()]


def _traced(archive: Archive, method: str) -> dict[int, Any]:
    """What the inputs of a traced module were: by place."""
    if not archive.has("traced_inputs.pkl"):
        return {}
    found = unpickle(archive, "traced_inputs.pkl", "traced_inputs")
    listed = found.get(method) if isinstance(found, dict) else None
    known: dict[int, Any] = {}
    for i, one in enumerate(listed if isinstance(listed, (list, tuple)) else ()):
        made = _given(one)
        if made is not None:
            known[i] = made
    return known


def _given(one: Any) -> Any:
    if isinstance(one, StoredTensor):
        return Given(tuple(one.sizes), one.dtype)
    if isinstance(one, (list, tuple)):
        return tuple(_given(v) for v in one)
    return None


class _Program:
    """One conversion. ``left``: what earlier ones left in attributes and buffers, by their names in the module: a
    description of a tensor, which is a state then, or plain data."""

    def __init__(self, archive: Archive, left: Mapping[str, Any]) -> None:
        root = unpickle(archive, "data.pkl", "data")
        constants = unpickle(archive, "constants.pkl", "constants") if archive.has("constants.pkl") else ()
        if not isinstance(root, ScriptObject) or not isinstance(constants, (list, tuple)):
            raise FormatError(f"{archive.name} holds no TorchScript module")
        self.graph = Graph(name="main")
        self.ctx = TorchBuilder(ModelState(), self.graph)
        self._root = root
        self._states = States(self.ctx)
        self._left = left
        self._kept: dict[str, Callable[[], Any]] = {}
        self._objects = Objects(self.ctx, self._begin)
        self.code = Code(archive)
        self._interpreter = Interpreter(self.ctx, self.code, self._objects, constants)
        self._interpreter.attributes = self._attribute

    def _begin(self, name: str, array: np.ndarray) -> Value | None:
        """The value of a stored tensor that is a state."""
        if name not in self._left or name in self._kept:
            return None
        value = self._states.begin(name, array)
        self._kept[name] = lambda: None
        return value

    def _attribute(self, owner: ScriptObject, name: str, key: str) -> None:
        """Before an attribute is read for the first time: what an earlier run left in it."""
        if key not in self._left or key in self._kept or not isinstance(owner.state, dict):
            return
        found, stored = self._left[key], owner.state.get(name)
        if not isinstance(found, Given):
            owner.state[name] = found
            self._kept[key] = lambda: None
            return
        start = np.zeros([n for n in found.shape or () if isinstance(n, int)], (found.dtype or DType.F32).numpy)
        if isinstance(stored, StoredTensor) and stored.sizes == start.shape:
            start = stored.array()
        owner.state[name] = Variable(self._states.begin(key, start), stored=True)
        self._kept[key] = lambda: owner.state[name]

    def run(self, name: str, known: Mapping[str | int, Any], traced: Mapping[int, Any]) -> None:
        """Converts a method; its arguments become inputs, its result outputs."""
        self.ctx.journal = Journal()
        method = self._interpreter.method(self._root, name)
        result = self._interpreter.call(method, self._arguments(method, known, traced), {})
        self._outputs(result, "output")
        if not self.graph.outputs:
            raise UnsupportedError("the program gives no tensor")
        for variable, (path, _) in self._objects.buffers.items():
            if path in self._kept:
                self._states.end(path, variable.read(self.ctx))
        for path, after in self._kept.items():
            value = after()
            if isinstance(value, Variable):
                self._states.end(path, value.read(self.ctx))

    def left(self) -> dict[str, Any]:
        """What the program left otherwise than it was before."""
        found: dict[str, Any] = {}
        for variable, (path, start) in self._objects.buffers.items():
            if variable.read(self.ctx) is not start:
                found[path] = Given(start.shape, start.dtype or DType.F32)
        journal = self.ctx.journal
        assert isinstance(journal, Journal)
        for (_, name), (owner, _) in journal.attributes.items():
            if owner.made:
                continue
            value = owner.state.get(name)
            key = self._interpreter.path_of(owner, name)
            if isinstance(value, Variable):
                after = value.read(self.ctx)
                if after.shape is None or not all(isinstance(n, int) for n in after.shape):
                    raise UnsupportedError(f"'{key}', a tensor of open sizes that the program keeps, is not supported")
                found[key] = Given(after.shape, after.dtype or DType.F32)
            elif value is None or isinstance(value, (bool, int, float, str)):
                found[key] = value
        return found

    # -- inputs -----------------------------------------------------------------------------------------------------

    def _arguments(self, method: Method, known: Mapping[str | int, Any], traced: Mapping[int, Any]) -> list[Any]:
        tree = method.tree.args
        names = tree.args[1:]
        optional = len(names) - len(tree.defaults)
        args: list[Any] = []
        for i, argument in enumerate(names):
            before = traced.get(i)
            given = known.get(argument.arg, known.get(i, before))
            if isinstance(given, Given) and given.dtype is None and isinstance(before, Given):
                given = Given(given.shape, before.dtype)
            kind = "Tensor" if argument.annotation is None else ast.unparse(argument.annotation)
            if given is None and i >= optional:
                break  # defaults stand for the rest
            args.append(self._argument(argument.arg, kind, given))
        return args

    def _argument(self, name: str, kind: str, given: Any) -> Any:
        if isinstance(given, (bool, int, float, str)):
            return given
        if isinstance(given, tuple):
            return tuple(self._argument(f"{name}.{i}", "Tensor", v) for i, v in enumerate(given))
        if kind in ("int", "float", "bool"):
            dtype = {"int": DType.I64, "float": DType.F64, "bool": DType.BOOL}[kind]
            return Number(self._input(name, dtype, ()))
        if kind in ("Tensor", "Optional[Tensor]") or (kind.startswith("Union[") and isinstance(given, Given)):
            tensor = given if isinstance(given, Given) else Given(None)
            return Variable(self._input(name, tensor.dtype or DType.F32, tensor.shape))
        if kind.startswith("Tuple[") and set(kind[6:-1].split(", ")) == {"Tensor"}:
            return tuple(self._argument(f"{name}.{i}", "Tensor", None) for i in range(kind.count("Tensor")))
        raise UnsupportedError(f"the input '{name}' of the type {kind} is not supported without an example of it")

    def _input(self, name: str, dtype: DType, shape: tuple[Dim, ...] | None) -> Value:
        value = Value(self.ctx.unique(name), dtype, shape)
        self.ctx.graph.inputs.append(value)
        return value

    # -- outputs ----------------------------------------------------------------------------------------------------

    def _outputs(self, result: Any, name: str, depth: int = 0) -> None:
        """Tensors and numbers in a result, named after where they are in it."""
        if depth > 16:
            raise UnsupportedError("a result that is nested so deeply is not supported")
        check_merged([result])
        if isinstance(result, dict):
            for key, item in result.items():
                self._outputs(item, str(key) if name == "output" else f"{name}.{key}", depth + 1)
        elif isinstance(result, Maybe):
            raise UnsupportedError(
                f"'{name}', a result that is None as the data say, is not supported; give a tensor, such as an empty "
                "one, for None"
            )
        elif is_open(result):
            self._outputs(gathered(self.ctx, result, "a result that is a list")[0], name, depth + 1)
        elif isinstance(result, (list, tuple)):
            names: Sequence[str] = getattr(result, "names", ()) or [str(i) for i in range(len(result))]
            for key, item in zip(names, result, strict=True):
                self._outputs(item, f"{name}.{key}", depth + 1)
        else:
            self.ctx.where = f"output '{name}'"
            quantized = isinstance(result, QuantizedTensor)
            value = result.real(self.ctx) if quantized else as_output(self.ctx, result)
            if value is not None:
                made = self.ctx.op("Identity", value)
                made.name = self.ctx.unique(name)
                self.ctx.graph.outputs.append(made)


__all__ = ["Given", "Inputs", "load"]
