"""Element types and shapes between ONNX's form and the graph's; the model without its weights."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto

from MNN.frontends.onnx.tensors import DTYPES
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Shape

_CODES = {dtype: code for code, dtype in DTYPES.items()}


def skeleton(model: ModelProto) -> ModelProto:
    """A copy of a model without its initializers, which may be changed. Works beyond 2 GB of weights."""
    out = ModelProto(ir_version=model.ir_version)
    out.opset_import.extend(model.opset_import)
    out.functions.extend(model.functions)
    source, graph = model.graph, out.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    return out


def value_infos(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """Everything said about tensors of this graph (not of its subgraphs)."""
    yield from graph.value_info
    yield from graph.output
    yield from graph.input


def describe(name: str, kind: TypeProto) -> tuple[DType | None, Shape | None]:
    """Element type and shape of a tensor type; None where unknown. Sizes without a name get one."""
    if kind.WhichOneof("value") != "tensor_type":
        return None, None
    tensor = kind.tensor_type
    dtype = DTYPES.get(tensor.elem_type) if tensor.elem_type != TensorProto.UNDEFINED else None
    if not tensor.HasField("shape"):
        return dtype, None
    shape: list[int | str] = []
    for i, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(int(dim.dim_value))
        else:
            shape.append(dim.dim_param or f"{name}.{i}")
    return dtype, tuple(shape)


def type_proto(value: Value, sequence: bool) -> TypeProto | None:
    """The ONNX type of a value; None when its element type is not known."""
    if value.dtype is None:
        return None
    kind = TypeProto()
    tensor = kind.sequence_type.elem_type.tensor_type if sequence else kind.tensor_type
    tensor.elem_type = _CODES[value.dtype]
    if value.shape is not None and not sequence:
        tensor.shape.SetInParent()
        for d in value.shape:
            if isinstance(d, int):
                tensor.shape.dim.add().dim_value = d
            else:
                tensor.shape.dim.add().dim_param = d
    return kind
