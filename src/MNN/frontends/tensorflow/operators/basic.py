"""Constants, inputs, variables, and operators that pass on what they are given."""

from __future__ import annotations

import numpy as np

from MNN.frontends.common.complex_parts import Parts
from MNN.frontends.common.expressions import binary
from MNN.frontends.tensorflow import complex_tensors
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.handles import Handle, TableHandle, VariableHandle
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import tf_op
from MNN.frontends.tensorflow.types import known_dtype
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_AS_STATE = "give the model the state as an input and an output (MNN.load(..., states=...))"


@tf_op("Const", "HostConst")
def const(ctx: Context, node: TfNode) -> Value:
    parts = node.complex_attr("value")
    if parts is not None:
        return complex_tensors.made(ctx, Parts(*(ctx.const(v) for v in parts)))
    return ctx.const(node.tensor_attr("value"))


@tf_op("Placeholder", "PlaceholderV2")
def placeholder(ctx: Context, node: TfNode) -> Value:
    node.ignore("shape")
    raise node.unsupported("a placeholder that the signature does not name", "add it to the signature's inputs")


@tf_op("PlaceholderWithDefault")
def placeholder_with_default(ctx: Context, node: TfNode) -> Value:
    """The default is taken."""
    node.ignore("shape")
    return node.input(0)


@tf_op(
    "Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "CheckNumericsV2", "GuaranteeConst",
    "EnsureShape", "Print", "Copy", "Dropout", "LoopCond", "DebugIdentity", "RefIdentity", "OptimizationBarrier",
)  # fmt: skip
def identity(ctx: Context, node: TfNode) -> Value:
    """What checks or prints does neither here."""
    node.ignore("message", "first_n", "summarize", "shape", "keep_prob", "rate", "Tout")
    return node.any_input(0)


@tf_op("IdentityN")
def identity_n(ctx: Context, node: TfNode) -> list[Value]:
    return node.inputs


@tf_op("NoOp", "Assert")
def nothing(ctx: Context, node: TfNode) -> list[Value]:
    node.ignore("summarize")
    return []


# -- variables --------------------------------------------------------------------------------------------------------


@tf_op("VarHandleOp")
def var_handle(ctx: Context, node: TfNode) -> Handle:
    node.ignore("shape", "debug_name", "allowed_devices")
    key = node.str_attr("shared_name", "") or node.name
    content, changes = _stored(ctx, node), key in ctx.model.changing
    if changes and content is not None:
        ctx.model.memory.variable(key).initial = content.array()
    return VariableHandle(node.name, node.known_dtype("dtype"), content=content, key=key, changes=changes)


@tf_op("VariableV2", "Variable")
def variable(ctx: Context, node: TfNode) -> Value:
    """Variables of TensorFlow 1 are read by naming them."""
    node.ignore("shape")
    content = _stored(ctx, node)
    return _there(content, node)


def _stored(ctx: Context, node: TfNode) -> Value | None:
    shared = node.str_attr("shared_name", "")
    array = ctx.model.restored(node.name, shared)
    return None if array is None else ctx.const(array)


def _there(content: Value | None, node: TfNode) -> Value:
    if content is None:
        what = "a variable whose numbers are not in the file"
        raise node.unsupported(what, "freeze the graph, or keep the folder 'variables' (the checkpoint) beside it")
    return content


@tf_op("ReadVariableOp")
def read_variable(ctx: Context, node: TfNode) -> Value:
    return content_of(ctx, node)


def content_of(ctx: Context, node: TfNode) -> Value:
    """The numbers of the variable that is a node's first operand."""
    handle = node.any_input(0)
    if not isinstance(handle, VariableHandle) or not handle.changes:
        return _there(handle.content if isinstance(handle, VariableHandle) else None, node)
    variable = ctx.model.memory.variable(handle.key)
    if variable.current is not None:
        return variable.current
    content = _there(handle.content, node)
    return ctx.model.memory.read(handle.key, content.dtype, content.array().shape)


@tf_op("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
def assign(ctx: Context, node: TfNode) -> list[Value]:
    """Variables that change are states of the model; which do is known when it is converted a second time."""
    handle, value = node.any_input(0), node.input(1)
    if not isinstance(handle, VariableHandle):
        raise node.unsupported("a variable that is no resource", _AS_STATE)
    if not ctx.once:
        raise node.unsupported("a variable that changes in a branch or a loop", _AS_STATE)
    ctx.model.changed.add(handle.key)
    if not handle.changes:
        return []
    if node.op != "AssignVariableOp":
        kind = "ADD" if "Add" in node.op else "SUB"
        value = binary(ctx, kind, content_of(ctx, node), value)
    elif (
        handle.content is not None and value.shape is not None and len(value.shape) == len(handle.content.array().shape)
    ):
        value.shape = handle.content.array().shape  # a variable keeps its shape
    ctx.model.memory.assign(handle.key, value)
    return []


@tf_op(
    "Assign", "AssignAdd", "AssignSub", "ResourceScatterUpdate", "ResourceScatterAdd", "ScatterUpdate",
    "ResourceStridedSliceAssign",
)  # fmt: skip
def assign_otherwise(ctx: Context, node: TfNode) -> list[Value]:
    raise node.unsupported("a variable that changes in this way", _AS_STATE)


@tf_op("VariableShape")
def variable_shape(ctx: Context, node: TfNode) -> Value:
    dtype = DType.I64 if node.has("out_type") and node.dtype_attr("out_type", DType.I32) is DType.I64 else DType.I32
    return ctx.const(np.asarray(content_of(ctx, node).shape, dtype.numpy))


@tf_op("HashTable", "HashTableV2", "MutableHashTableV2")
def hash_table(ctx: Context, node: TfNode) -> Handle:
    """Known, so that what reads it is what is reported."""
    node.ignore("use_node_name_sharing", "value_shape")
    return TableHandle(node.name, known_dtype(node.proto.attr["value_dtype"].type))
