"""Nodes as they are when the axes of all their tensors come in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.ir.graph import Node, Value
from MNN.ops.core.base import traits
from MNN.passes.patterns import attribute, ints, plain
from MNN.passes.rewrite import Rewriter

Order = tuple[int, ...]
_Form = Callable[[Rewriter, Node, Order], Node | None]


def reordered(rw: Rewriter, node: Node, order: Order, constants: bool) -> Node | None:
    """``node`` for operands ``x`` in place of ``permute(x, order)``: what it gives is then permuted too. None where
    there is no such form. Operands that are no constants are left to be replaced; with ``constants`` those that are
    get their new form, else only whether there is one is found out."""
    if len(node.outputs) > 1 and node.op != "Slice":
        return None
    if traits(node).elementwise and len(node.inputs) == 1:
        return _copy(node)
    if node.op in ("BinaryOp", "Select"):
        return _broadcast(rw, node, order, constants)
    form = _FORMS.get(node.op)
    return None if form is None else form(rw, node, order)


def variables(node: Node) -> list[Value]:
    """The operands that are to be permuted: those that have the axes of the result."""
    wide = node.inputs if node.op in ("BinaryOp", "Select", "Concat") else node.inputs[:1]
    return [v for v in wide if v is not None and not v.is_const]


def _copy(node: Node, inputs: Sequence[Value | None] | None = None, **attrs: object) -> Node:
    return Node(node.op, node.name, list(node.inputs if inputs is None else inputs), [], {**node.attrs, **attrs})


def _broadcast(rw: Rewriter, node: Node, order: Order, constants: bool) -> Node | None:
    """Constants of as many axes are permuted back; those of fewer get axes of size 1 in front first."""
    inputs: list[Value | None] = []
    for value in node.inputs:
        data = plain(value)
        if value is None or (value.is_const and (data is None or data.ndim > len(order))):
            return None
        if data is None or not constants or data.ndim == 0:
            inputs.append(value)
            continue
        whole = data.reshape((1,) * (len(order) - data.ndim) + data.shape)
        inputs.append(rw.constant(f"{value.name}/reordered", np.ascontiguousarray(whole.transpose(np.argsort(order)))))
    return _copy(node, inputs)


def _axis(rw: Rewriter, node: Node, order: Order) -> Node | None:
    axis = int(attribute(node, "axis"))
    return _copy(node, axis=order[axis]) if -len(order) <= axis < len(order) else None


def _softmax(rw: Rewriter, node: Node, order: Order) -> Node | None:
    return _axis(rw, node, order) if len(node.inputs) == 1 else None


def _slice(rw: Rewriter, node: Node, order: Order) -> Node | None:
    return _axis(rw, node, order) if all(v is None or v.is_const for v in node.inputs[1:]) else None


def _concat(rw: Rewriter, node: Node, order: Order) -> Node | None:
    return None if any(v is None or v.is_const for v in node.inputs) else _axis(rw, node, order)


def _quantization(rw: Rewriter, node: Node, order: Order) -> Node | None:
    """One scale for all, or one for each index of an axis."""
    scale = plain(node.inputs[1])
    if scale is None or scale.ndim > 1 or attribute(node, "block_size"):
        return None
    return _copy(node) if scale.size == 1 else _axis(rw, node, order)


def _listed(rw: Rewriter, node: Node, order: Order, at: Sequence[int], per: int) -> Node | None:
    """Operands that list ``per`` numbers an axis, in the new order."""
    inputs = list(node.inputs)
    for i in at:
        value = node.inputs[i] if i < len(node.inputs) else None
        numbers = ints(value)
        if value is None or numbers is None or len(numbers) != per * len(order):
            return None
        rows = np.empty((len(order), per), np.int64)
        rows[list(order)] = np.asarray(numbers).reshape(len(order), per)
        inputs[i] = rw.constant(f"{value.name}/reordered", rows.reshape(-1).astype(plain(value).dtype))  # type: ignore[union-attr]
    return _copy(node, inputs)


def _padding(rw: Rewriter, node: Node, order: Order) -> Node | None:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    return _listed(rw, node, order, [1], 2) if value is None or value.is_const else None


def _reduction(rw: Rewriter, node: Node, order: Order) -> Node | None:
    """Of those that keep their axes, which are named."""
    dims = node.attrs.get("dim")
    if len(node.inputs) != 1 or not isinstance(dims, list) or not dims or not attribute(node, "keepDims"):
        return None
    return _copy(node, dim=[order[int(d)] for d in dims]) if all(-len(order) <= d < len(order) for d in dims) else None


_FORMS: dict[str, _Form] = {
    "Concat": _concat,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Slice": _slice,
    "QuantizeLinear": _quantization,
    "DequantizeLinear": _quantization,
    "Padding": _padding,
    "SliceTf": lambda rw, node, order: _listed(rw, node, order, [1, 2], 1),
    "Reduction": _reduction,
}

__all__ = ["Order", "reordered", "variables"]
