"""Element types and shapes of a model's tensors, by onnx's own inference, on a copy without the weights."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from MNN.frontends.onnx.tensors import DTYPES
from MNN.frontends.onnx.verify import subgraphs
from MNN.ir.dtype import DType
from MNN.ir.shape import Shape

_log = logging.getLogger(__name__)
SMALL = 256
"""Initializers up to this many elements stay in the copy: shapes are computed from them."""


def skeleton(model: ModelProto, arrays: Mapping[str, np.ndarray]) -> ModelProto:
    """A copy of a model in which large initializers are inputs without numbers. Works beyond 2 GB of weights."""
    out = ModelProto(ir_version=max(model.ir_version, 4))
    out.opset_import.extend(model.opset_import)
    out.functions.extend(model.functions)
    source, graph = model.graph, out.graph
    graph.name = source.name
    graph.node.extend(source.node)
    graph.output.extend(source.output)
    graph.value_info.extend(source.value_info)
    graph.input.extend(v for v in source.input if v.name not in arrays)
    for tensor in (*source.initializer, *(s.values for s in source.sparse_initializer)):
        array = arrays.get(tensor.name)
        if array is not None and array.size <= SMALL and tensor.data_type in DTYPES:
            graph.initializer.append(numpy_helper.from_array(array, tensor.name))
        else:
            shape = list(tensor.dims) if array is None else list(array.shape)
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    return out


def infer(model: ModelProto) -> ModelProto:
    """The model with inferred ``value_info``. Inference is a convenience: when it fails, the model stays as it is."""
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, MemoryError) as error:
        _log.info("shape inference gave up: %s", error)
        return model


def value_infos(graph: GraphProto) -> Iterator[ValueInfoProto]:
    """Everything said about tensors of this graph (not of its subgraphs)."""
    yield from graph.value_info
    yield from graph.output
    yield from graph.input


def all_types(graph: GraphProto) -> dict[str, TypeProto]:
    """Types by tensor name, subgraphs included (inner names do not hide outer ones)."""
    types: dict[str, TypeProto] = {}
    for node in graph.node:
        for attribute in node.attribute:
            for sub in subgraphs(attribute):
                types.update(all_types(sub))
    types.update({v.name: v.type for v in value_infos(graph) if v.type.WhichOneof("value")})
    for tensor in graph.initializer:
        kind = TypeProto()
        kind.tensor_type.elem_type = tensor.data_type
        for d in tensor.dims:
            kind.tensor_type.shape.dim.add().dim_value = d
        types[tensor.name] = kind
    return types


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
