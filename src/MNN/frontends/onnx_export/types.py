"""Element types that an ONNX operator lacks: its operands are cast to a wider one, and its results back.

ONNX has no ``Round`` of bf16, no ``ReduceMax`` of i16, no ``Neg`` of u8. What each operator takes is read from onnx's
own schemas, of the opset that the model asks for; the types of values follow from those of inputs and constants.
ONNX Runtime has no kernels for some types that operators may have; such are cast, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx.defs import OpSchema

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)
_WIDER: dict[int, tuple[int, ...]] = {
    TensorProto.BOOL: (TensorProto.UINT8,),
    TensorProto.BFLOAT16: _FLOATS,
    TensorProto.FLOAT16: _FLOATS,
    TensorProto.FLOAT: (TensorProto.DOUBLE,),
    TensorProto.INT8: (TensorProto.INT32, TensorProto.INT64, *_FLOATS),
    TensorProto.INT16: (TensorProto.INT32, TensorProto.INT64, *_FLOATS),
    TensorProto.INT32: (TensorProto.INT64, TensorProto.DOUBLE),
    TensorProto.UINT8: (TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, *_FLOATS),
    TensorProto.UINT16: (TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, *_FLOATS),
    TensorProto.UINT32: (TensorProto.INT64, TensorProto.UINT64, TensorProto.DOUBLE),
}
"""Types that hold every number of a type, the nearest first. A result that is too large wraps when it is cast back."""
_WORDS = {TensorProto.INT16, TensorProto.UINT16}
_ABSENT: dict[str, set[int]] = {
    "Where": {*_WORDS, TensorProto.BOOL, TensorProto.BFLOAT16},
    "Max": {*_WORDS, TensorProto.BFLOAT16},
    "Min": {*_WORDS, TensorProto.BFLOAT16},
    "Pad": _WORDS,
}
"""What ONNX Runtime (1.32) has no kernel for."""
_NAMED = {"to", "dtype"}
"""Attributes that say what type a result has."""
Types = dict[str, int]
Parameter = Any
"""``OpSchema.FormalParameter``."""


def fit_types(model: ModelProto, opset: int, unique: Callable[[str], str]) -> None:
    """Changes ``model`` so that no operator gets a type that it does not take, where a wider one helps. ``unique``
    makes names for what is new."""
    constants = {t.name: t.data_type for t in model.graph.initializer}
    _fit(model.graph, constants, opset, unique)


def _fit(graph: GraphProto, known: Mapping[str, int], opset: int, unique: Callable[[str], str]) -> None:
    types: Types = dict(known)
    types |= {t.name: t.data_type for t in graph.initializer}
    types |= {v.name: v.type.tensor_type.elem_type for v in graph.input if v.type.HasField("tensor_type")}
    fitted: list[NodeProto] = []
    for node in graph.node:
        for body in _bodies(node):
            _fit(body, types, opset, unique)
        if not onnx.defs.has(node.op_type):
            fitted.append(node)
            continue
        schema = onnx.defs.get_schema(node.op_type, opset)
        types |= _results(node, schema, types)
        fitted += _cast(node, schema, types, unique)
    del graph.node[:]
    graph.node.extend(fitted)


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g


def _parameters(names: Sequence[str], formal: Sequence[Parameter]) -> Iterator[tuple[int, str, Parameter]]:
    """Operands, or results, with their places and what the schema says of them; the last one may stand for several."""
    for i, name in enumerate(names):
        if name and formal:
            yield i, name, formal[min(i, len(formal) - 1)]


def _results(node: NodeProto, schema: OpSchema, types: Types) -> Types:
    """The types of a node's results, those that are known."""
    bodies = list(_bodies(node))
    if bodies:
        made = [v.type.tensor_type.elem_type for v in bodies[0].output]
        made = made[1:] if node.op_type == "Loop" else made  # the first says whether it goes on
        return {name: kind for name, kind in zip(node.output, made, strict=False) if kind}
    bound = {p.type_str: types[name] for _, name, p in _parameters(node.input, schema.inputs) if name in types}
    told = next((a.i for a in node.attribute if a.name in _NAMED), 0)
    tensor = next((a.t.data_type for a in node.attribute if a.type == AttributeProto.TENSOR), 0)
    found: Types = {}
    for _, name, parameter in _parameters(node.output, schema.outputs):
        able = _codes(parameter)
        kind = bound.get(parameter.type_str) or told or tensor or (able.pop() if len(able) == 1 else 0)
        if kind:
            found[name] = kind
    return found


def _codes(parameter: Parameter) -> set[int]:
    """The tensors' element types that a parameter may have."""
    return {_CODES[name] for name in parameter.types if name in _CODES}


def _cast(node: NodeProto, schema: OpSchema, types: Types, unique: Callable[[str], str]) -> list[NodeProto]:
    """The node, with casts in front of it and behind it where it needs them."""
    wider: dict[str, int] = {}
    operands = list(_parameters(node.input, schema.inputs))
    for _, name, parameter in operands:
        kind, able = types.get(name, 0), _codes(parameter)
        if len(able) > 1:  # not a condition
            able -= _ABSENT.get(node.op_type, set())
        if kind and able and kind not in able:
            wider[parameter.type_str] = next((w for w in _WIDER.get(kind, ()) if w in able), 0)
    for _, name, parameter in operands:
        if name not in types:  # all that have one type are cast, or none
            wider.pop(parameter.type_str, None)
    before, behind = [], []
    for i, name, parameter in operands:
        to = wider.get(parameter.type_str, 0)
        if to:
            node.input[i] = unique(f"{name}/wide")
            before.append(helper.make_node("Cast", [name], [node.input[i]], name=unique(f"{name}/node"), to=to))
    for i, name, parameter in _parameters(node.output, schema.outputs):
        if wider.get(parameter.type_str, 0):
            node.output[i] = unique(f"{name}/wide")
            back = helper.make_node("Cast", [node.output[i]], [name], name=unique(f"{name}/node"), to=types[name])
            behind.append(back)
    return [*before, node, *behind]


_CODES = {f"tensor({name.lower()})": code for name, code in TensorProto.DataType.items()}

__all__ = ["fit_types"]
