"""What must hold between the parts of a Net, beyond a well-formed flatbuffer: indices that point at something."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.schema.record import Record

#: Index that stands for an optional input which is not given.
ABSENT = -1
#: Most tensors that a loop's body may declare without listing them.
MAX_LOOP_TENSORS = 1 << 20


def check_net(net: Record, name: str = "model") -> None:
    """Raises FormatError unless every tensor index of ``net`` and its subgraphs refers to a tensor."""
    if not net.oplists:
        raise FormatError(f"{name}: the model has no operators")
    names = len(net.tensorName or [])
    # Statically planned models may leave the names out and only say how many tensors there are.
    _check_ops(net.oplists, names or min(max(net.tensorNumber, 0), 1 << 24), f"{name}: oplists")
    _check_tensors(net.extraTensorDescribe, names or net.tensorNumber, f"{name}: extraTensorDescribe")
    for g, graph in enumerate(net.subgraphs or []):
        where = f"{name}: subgraphs[{g}] {graph.name or ''}"
        count = len(graph.tensors or [])
        _check_ops(graph.nodes or [], count, f"{where} nodes")
        _in_range(graph.inputs, count, f"{where}.inputs")
        _in_range(graph.outputs, count, f"{where}.outputs")


def _check_ops(ops: list[Record], tensors: int, where: str) -> None:
    for i, op in enumerate(ops):
        place = f"{where}[{i}] {op.name or ''}"
        _in_range(op.inputIndexes, tensors, f"{place}.inputIndexes", ABSENT)
        _in_range(op.outputIndexes, tensors, f"{place}.outputIndexes")
        if op.main is not None and op.main.table_name == "LoopParam":
            _check_loop(op.main, place)


def _check_loop(loop: Record, where: str) -> None:
    count = loop.tensorNumber
    if not 0 <= count <= MAX_LOOP_TENSORS:
        raise FormatError(f"{where}: a loop of {count} tensors; expected 0..{MAX_LOOP_TENSORS}")
    _in_range(loop.inputIndexes, count, f"{where}.main.inputIndexes")
    _in_range(loop.outputIndexes, count, f"{where}.main.outputIndexes")
    for i, command in enumerate([*(loop.initCommand or []), *(loop.commands or [])]):
        _in_range(command.indexes, count, f"{where}.main.commands[{i}].indexes")


def _check_tensors(described: list[Record] | None, count: int, where: str) -> None:
    for i, item in enumerate(described or []):
        if not ABSENT <= item.index < max(count, 1):
            raise FormatError(f"{where}[{i}]: tensor {item.index} of {count} does not exist")


def _in_range(indexes: np.ndarray[Any, np.dtype[Any]] | None, count: int, where: str, lowest: int = 0) -> None:
    if indexes is None or indexes.size == 0:
        return
    low, high = int(indexes.min()), int(indexes.max())
    if low < lowest or high >= count:
        raise FormatError(f"{where}: tensor index {low if low < lowest else high} of {count} tensors does not exist")
