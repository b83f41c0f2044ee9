"""DequantizeLinear moves behind what only moves elements, towards the product that takes them.

Weights that are dequantised and then transposed (as training tools for quantised networks write a linear layer), and
tensors that get a border between their dequantisation and a convolution, are moved as integers: the product then finds
its operands dequantised, and is done on the integers (:mod:`.quantized_operators`).
"""

from __future__ import annotations

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.arranging.reshaping import Unsqueeze
from MNN.ops.core.base import traits
from MNN.passes.folding.constant_folding import results_of_constants
from MNN.passes.manager import Pass
from MNN.passes.patterns import plain
from MNN.passes.recognising.quantized_numbers import Numbers, numbers
from MNN.passes.recognising.quantized_operators import changes_height, moves, operands_moved, product_of_floats
from MNN.passes.rewrite import Rewriter

_WIDER = {DType.I4: DType.I8, DType.U4: DType.U8, DType.I2: DType.I8, DType.U2: DType.U8}


def run(graph: Graph) -> int:
    """Operators in a row between a DequantizeLinear and an operand of a product, that are used by nothing else."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if node.op == "DequantizeLinear":
            _in_bytes(rw, node)
    for node in list(rw.nodes()):
        given = numbers(rw, node.inputs[0]) if node.inputs and moves(node) else None
        if given is None or not _to_product(rw, node):
            continue
        if plain(given.integers) is not None:
            _constant(rw, node, given)
        elif given.one:
            _moved(rw, node, given)
    return rw.finish()


def _in_bytes(rw: Rewriter, node: Node) -> None:
    """Constants of 4 and 2 bits, which nothing multiplies, as bytes of the same numbers."""
    for i in (0, 2):
        value = node.inputs[i] if i < len(node.inputs) else None
        data = plain(value)
        wide = None if data is None else _WIDER.get(DType.of(data))
        if value is not None and data is not None and wide is not None and not node.attrs.get("block_size"):
            rw.set_input(node, i, rw.constant(f"{value.name}/bytes", data.astype(wide.numpy)))


def _to_product(rw: Rewriter, node: Node) -> bool:
    """Whether a product takes what a node moves, perhaps moved again; not where that puts in the height of a
    convolution over lines, which the product's integers do without."""
    while rw.used_once(out := node.outputs[0]):
        (user,) = rw.users(out)
        if product_of_floats(user):
            return out in user.inputs[:2] and not changes_height(node, Unsqueeze)
        if not moves(user) or user.inputs[0] is not out:
            return False
        node = user
    return False


def _moved(rw: Rewriter, node: Node, given: Numbers) -> None:
    """Moves integers with one scale; numbers beside them must be steps of it."""
    moved, out = operands_moved(rw, node), node.outputs[0]
    moved[0] = given.integers
    for i in traits(node).moved_operands(node)[1:]:
        steps = _steps(moved[i], given)
        if steps is None:
            return
        moved[i] = rw.constant(f"{node.name}/{i}/integers", steps)
    inner = Value(rw.unique(f"{out.name}/integers"), given.dtype, out.shape)
    rw.insert(Node(node.op, f"{node.name}/integers", moved, [inner], dict(node.attrs)), node)
    rw.swap(node, _dequantised(node, inner, given.scale, given.zero, {}))


def _steps(value: Value | None, given: Numbers) -> np.ndarray | None:
    """Constants as integers with the scale and zero point of others; None where they are not exactly that."""
    data = plain(value)
    if data is None or not np.isfinite(data).all():
        return None
    scale, zero = given.scales.reshape(()), _zero(given)
    found, info = np.round(data / scale) + zero, np.iinfo(given.dtype.numpy.name)
    exact = np.array_equal((found - zero).astype(np.float32) * scale, data)
    inside = ((found >= info.min) & (found <= info.max)).all()
    return found.astype(given.dtype.numpy) if exact and inside else None


def _zero(given: Numbers) -> int:
    zero = plain(given.zero)
    return 0 if zero is None else int(zero.reshape(()))


def _constant(rw: Rewriter, node: Node, given: Numbers) -> None:
    """Moves constants at once, and their scales where each index of an axis has its own."""
    if len(traits(node).moved_operands(node)) > 1:
        return
    data = plain(given.integers)
    assert data is not None
    integers = _result(node, data)
    places = None if given.one else _places(node, data.shape, given.axis % data.ndim)
    if integers is None or (not given.one and places is None):
        return
    attrs: dict[str, object] = {}
    scale, zero = given.scale, given.zero
    if places is not None:
        found = _along(places)
        if found is None:
            return
        attrs["axis"], kept = found
        scale = rw.constant(scale.name, given.scales[kept])
        zeros = plain(zero)
        zero = zero if zero is None or zeros is None else rw.constant(zero.name, zeros[kept])
    inner = rw.constant(f"{node.outputs[0].name}/integers", integers)
    rw.swap(node, _dequantised(node, inner, scale, zero, attrs))


def _places(node: Node, shape: tuple[int, ...], axis: int) -> np.ndarray | None:
    """The index along an axis of what stands at every place of a node's result; None where that goes by size."""
    count = np.arange(shape[axis]).reshape((1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1))
    there, back = (_result(node, np.ascontiguousarray(np.broadcast_to(n, shape))) for n in (count, -count))
    return there if there is not None and back is not None and np.array_equal(there, -back) else None


def _result(node: Node, data: np.ndarray) -> np.ndarray | None:
    """What a node gives of other constants than its own."""
    other = Value("moved", DType.of(data), data.shape, data)
    found = results_of_constants(Node(node.op, node.name, [other, *node.inputs[1:]], node.outputs, node.attrs))
    return None if found is None else found[0]


def _along(places: np.ndarray) -> tuple[int, np.ndarray] | None:
    """The axis along which alone indices change, and the indices in their order; None where there is no such axis."""
    if not places.size:
        return None
    for axis in range(places.ndim):
        first = places[tuple(slice(None) if i == axis else slice(1) for i in range(places.ndim))]
        if np.array_equal(np.broadcast_to(first, places.shape), places):
            return axis, first.reshape(-1)
    return None


def _dequantised(node: Node, integers: Value, scale: Value, zero: Value | None, attrs: dict[str, object]) -> Node:
    operands: list[Value | None] = [integers, scale, *([] if zero is None else [zero])]
    return Node("DequantizeLinear", node.name, operands, node.outputs, attrs)


PASS = Pass("dequantize-sinking", run, rank=3)
