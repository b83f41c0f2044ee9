"""Operators of TensorFlow within a file ("Flex" operators, ``SELECT_TF_OPS``): the front end for TensorFlow converts
them, into the same graph. Lists of tensors flow between them, and through loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from google.protobuf.message import DecodeError

from MNN.frontends.common.graph_builder import ModelState
from MNN.frontends.tensorflow import context as tensorflow
from MNN.frontends.tensorflow.handles import Handle
from MNN.frontends.tensorflow.loops import Evaluate, Loop, convert_loop
from MNN.frontends.tensorflow.messages import new
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.registry import table
from MNN.frontends.tflite import flexbuffers
from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.registry import Entry
from MNN.ir.graph import Value

PREFIX = "Flex"
_OF_A_FILE = re.compile("PartitionedCall|While|If$|Case$|Var|Assign|Placeholder|Table|Switch|Merge|Enter|Exit|NextIter")
"""Operators that mean something together with a file of TensorFlow alone: its functions, its variables."""


def entry(op: str) -> Entry | None:
    """What converts a custom operator that is one of TensorFlow's; None where that is not known."""
    name = op.removeprefix(PREFIX)
    known = name != op and not _OF_A_FILE.search(name) and table.find(name) is not None
    return Entry(_convert, stored=True) if known else None


def takes_handles(node: TfliteNode) -> bool:
    """Whether an operation may be given lists of tensors."""
    return node.op == "WHILE" or (node.operation.custom and node.op.startswith(PREFIX))


def _convert(ctx: Context, node: TfliteNode) -> list[Value]:
    """Options are a FlexBuffer's vector of the operator's name and its ``NodeDef``."""
    handler = table.find(node.op.removeprefix(PREFIX))
    found = flexbuffers.read(node.operation.custom_options, node.where)
    if handler is None or not isinstance(found, list) or len(found) != 2:
        raise node.malformed("its options are no node of TensorFlow")
    proto, held = new("NodeDef"), found[1]
    try:
        proto.ParseFromString(held if isinstance(held, bytes) else str(held).encode())
    except (DecodeError, ValueError) as error:
        raise node.malformed(f"its node of TensorFlow cannot be read ({error})") from error
    if proto.op != node.op.removeprefix(PREFIX):
        raise node.malformed(f"its node is of the operator '{proto.op:.60}'")
    if any(t is not None and t.type.startswith("COMPLEX") for t in (*node.tensors_in, *node.tensors_out)):
        raise node.unsupported("a complex tensor of an operator of TensorFlow", "convert the SavedModel itself")
    given = [node.input(i) for i in range(len(node.inputs))]
    inner = TfNode(proto, node.name, given)
    made = handler(_within(ctx), inner)
    unread = inner.unread()
    if unread:
        raise node.unsupported(f"attribute '{unread[0]}'", "convert the SavedModel itself")
    return [made] if isinstance(made, Value) else list(made)


def _within(ctx: Context) -> tensorflow.Context:
    """What handlers of TensorFlow work with, in the same graph: names, problems and what is known are shared."""
    state = {f.name: getattr(ctx.model, f.name) for f in fields(ModelState)}
    inner = tensorflow.Context(tensorflow.ModelInfo(**state), ctx.graph)
    inner.follow(ctx)
    return inner


def loop(ctx: Context, node: TfliteNode, condition: int, body: int) -> list[Value]:
    """A loop that lists of tensors go through, as TensorFlow's loops are converted."""

    def evaluate(subgraph: int) -> Evaluate:
        def run(tf: tensorflow.Context, values: Sequence[Value]) -> list[Value]:
            inner = Context(ctx.model, tf.graph, ctx)
            with ctx.model.memory.inside():
                return inner.inline(subgraph, values)

        return run

    first = [node.input(i) for i in range(len(node.inputs))]
    return convert_loop(_within(ctx), Loop(node.where, first, evaluate(condition), evaluate(body)))


def is_handle(value: Value | None) -> bool:
    return isinstance(value, Handle)
