"""The graph of the official engine's language models, made ready for texts of any length."""

from __future__ import annotations

import numpy as np

from MNN.errors import FormatError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.loaded import with_rounding
from MNN.own_states import expose


def prepared(graph: Graph, row_bits: int, where: str) -> Graph:
    """``graph`` with open sizes, its attention's caches as states, and ``rows`` i64 ``[count]`` of which logits are
    wanted, where it has the place that they begin at. FormatError for graphs of other kinds."""
    inputs = {value.name: value for value in graph.inputs}
    logits = [value for value in graph.outputs if value.name == "logits"]
    lacking = [name for name in ("input_ids", "attention_mask", "position_ids", "logits_index") if name not in inputs]
    if lacking or not logits:
        raise FormatError(f"{where} is no language model: it lacks {', '.join(lacking) or 'logits'}")
    graph.outputs[:] = logits
    tokens = inputs["input_ids"]
    tokens.dtype, tokens.shape = DType.F32, ("sequence", 1, *(tokens.shape or ())[2:])
    inputs["position_ids"].shape = (1, "sequence")
    mask = inputs["attention_mask"]
    mask.shape = (*(mask.shape or ())[:-2], "sequence", "seen")
    _pick_rows(graph, inputs["logits_index"], where)
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and isinstance(value.data, QuantizedArray):
                value.data = with_rounding(value.data, value.name, row_bits)
    expose(graph)
    return graph


def _pick_rows(graph: Graph, index: Value, where: str) -> None:
    """Rows by their numbers in place of all from one on."""
    users = [node for node in graph.nodes if index in node.inputs]
    if len(users) != 1 or users[0].op != "StridedSlice" or users[0].inputs[1] is not index:
        raise FormatError(f"{where}: its logits_index does not say where a slice begins")
    old = users[0]
    axes = old.inputs[3].data if len(old.inputs) > 3 and old.inputs[3] is not None else None
    if not isinstance(axes, np.ndarray) or axes.size != 1:
        raise FormatError(f"{where}: '{old.name}' does not slice one axis")
    rows = Value("rows", DType.I64, ("count",))
    place = graph.nodes.index(old)
    axis = Value(f"{old.name}.axis", DType.I32, (), axes.reshape(()).astype(np.int32))
    graph.nodes[place] = Node("GatherV2", old.name, [old.inputs[0], rows, axis], old.outputs, {})
    graph.inputs[graph.inputs.index(index)] = rows


__all__ = ["prepared"]
