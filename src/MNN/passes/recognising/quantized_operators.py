"""Operators between DequantizeLinear and QuantizeLinear become operators on the integers.

A product of dequantised operands that is quantised again is one quantised product (integers in, i32 sums, integers
out), as in "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference" (Jacob et al.
2018, arXiv:1712.05877); where its result stays a float it is an integer product times the scales, also where the scale
of what is multiplied by constant weights is found while running (dynamic quantisation). What only moves,
joins or compares elements is done on the integers, behind the quantisation. Elementwise operators need nothing: they
become one kernel with the conversions around them.

Convolutions over lines are written as those over images of height 1, between operators that put in this axis and take
it out; the quantised ones go without.

Weights are looked at before constants are folded, hence the rank. A bias is rounded to a step of the sums, and numbers
half-way between two steps of the result may fall to the other side: results are the same up to one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ops.arranging.reshaping import Squeeze, Unsqueeze
from MNN.ops.core.base import traits
from MNN.ops.linear.convolution import Convolution, ConvTranspose3D, Deconvolution
from MNN.ops.linear.matmul import MatMul
from MNN.ops.quantized.convolution import over_lines, quantized_attributes
from MNN.passes.folding.affine import attribute_true
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, plain, rank
from MNN.passes.recognising.quantized_numbers import BYTES, Numbers, found_while_running, numbers, parameters, same
from MNN.passes.rewrite import Rewriter

_LARGEST_BIAS = 1 << 30


def run(graph: Graph) -> int:
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if node.op == "QuantizeLinear":
            _quantised(rw, node)
    for node in list(rw.nodes()):
        line = _of_lines(rw, node)
        product = node if line is None else line
        if product_of_floats(product) and not _transposed(product):
            _float_result(rw, product, node)
    return rw.finish()


def _quantised(rw: Rewriter, node: Node) -> None:
    """What comes before a QuantizeLinear."""
    x, result = node.inputs[0], parameters(node, node.outputs[0])
    if result is None or x is None or not result.one:
        return
    given = numbers(rw, x)
    if given is not None:
        if same(given, result):
            rw.bypass(node, given.integers)
        return
    if not rw.used_once(x):
        return
    maker = rw.maker(x)
    if maker is not None and moves(maker) and _of_lines(rw, maker) is None:
        _before(rw, node, maker)
        return
    bounds, removed = (-np.inf, np.inf), []
    while maker is not None and (limits := traits(maker).bounds(maker)) is not None:
        bounds = _in_a_row(limits, bounds)
        removed.append(maker)
        source = maker.inputs[0]
        if source is None or not rw.used_once(source):
            return
        maker = rw.maker(source)
    line = _of_lines(rw, maker)
    if line is not None and maker is not None:
        removed.append(maker)
        maker = line
    if maker is None or not product_of_floats(maker):
        return
    for flag, limits in (("relu", (0.0, np.inf)), ("relu6", (0.0, 6.0))):
        if maker.op != "MatMul" and attribute_true(maker, flag):
            bounds = _in_a_row(limits, bounds)
    made = _product(rw, maker, result, line is not None)
    if made is None:
        return
    *inner, last = _clamped(rw, made, result, bounds, node.outputs[0])
    for part in inner:
        rw.insert(part, node)
    rw.swap(node, last)
    for old in (*removed, maker):
        rw.remove(old)


def _in_a_row(first: tuple[float, float], then: tuple[float, float]) -> tuple[float, float]:
    """The bounds of what is bounded twice: those of the first, bounded by the second, where they have nothing in common
    too."""
    low, high = (min(max(v, then[0]), then[1]) for v in first)
    return low, high


def product_of_floats(node: Node) -> bool:
    """Whether there is a quantised form of the node: of products of matrices, and of convolutions, transposed ones
    too."""
    return isinstance(traits(node), MatMul | Convolution | Deconvolution)


def changes_height(node: Node | None, kind: type[Squeeze | Unsqueeze]) -> bool:
    """Whether a node puts in, or takes out, an axis behind samples and channels."""
    if node is None or not isinstance(traits(node), kind) or len(node.inputs) != 1:
        return False
    return list(attribute(node, "squeezeDims") or ()) == [2]


def _of_lines(rw: Rewriter, node: Node | None) -> Node | None:
    """The convolution whose result a node takes the height out of that was put into its operands."""
    if node is None or not changes_height(node, Squeeze):
        return None
    whole = node.inputs[0]
    maker = rw.maker(whole)
    if whole is None or maker is None or not rw.used_once(whole):
        return None
    kind = traits(maker)
    if not isinstance(kind, Convolution | Deconvolution) or kind.spatial != 2:
        return None
    return maker if all(changes_height(rw.maker(v), Unsqueeze) for v in maker.inputs[:2]) else None


def _transposed(node: Node) -> bool:
    return isinstance(traits(node), Deconvolution)


def moves(node: Node) -> bool:
    """Whether a node gives elements of its (first, or every) operand, or the largest of some."""
    return len(node.outputs) == 1 and bool(traits(node).moved_operands(node))


def _before(rw: Rewriter, node: Node, maker: Node) -> None:
    """Quantises what a node moves rather than what it gives."""
    out, moved, wanted = node.outputs[0], operands_moved(rw, maker), parameters(node, node.outputs[0])
    places, before = traits(maker).moved_operands(maker), None
    product = len(places) == 1 and _of_product(rw, moved[places[0]])
    if not product and not any(numbers(rw, moved[i]) for i in places):
        return
    if not product and any(numbers(rw, v) is None and plain(v) is None for v in (moved[i] for i in places)):
        return
    for i in places:
        x = moved[i]
        assert x is not None
        found = numbers(rw, x)
        if found is not None and wanted is not None and same(found, wanted):
            moved[i] = found.integers
            continue
        inner = Value(rw.unique(f"{x.name}/quantised"), out.dtype, x.shape)
        before = Node("QuantizeLinear", f"{node.name}/{i}", [x, *node.inputs[1:]], [inner], dict(node.attrs))
        rw.insert(before, maker)
        moved[i] = inner
    rw.remove(node)
    rw.swap(maker, Node(maker.op, maker.name, moved, [out], dict(maker.attrs)))
    if product and before is not None:
        _quantised(rw, before)


def _of_product(rw: Rewriter, value: Value | None) -> bool:
    """Whether a value that is used once is a product, bounded perhaps."""
    while value is not None and rw.used_once(value) and (maker := rw.maker(value)) is not None:
        if product_of_floats(maker):
            return True
        value = maker.inputs[0] if traits(maker).bounds(maker) is not None else None
    return False


def operands_moved(rw: Rewriter, node: Node) -> list[Value | None]:
    """The operands of a node that moves floats, with the zero that one of them is where it is not given."""
    places = traits(node).moved_operands(node)
    given = [*node.inputs, *[None] * (max(places) + 1 - len(node.inputs))]
    zero = next((rw.constant(f"{node.name}/zero", np.zeros((), np.float32)) for i in places if given[i] is None), None)
    return [zero if v is None and i in places else v for i, v in enumerate(given)]


def _clamped(rw: Rewriter, made: Node, result: Numbers, bounds: tuple[float, float], out: Value) -> list[Node]:
    """The product and what bounds its integers: quantising keeps the order of numbers."""
    info = np.iinfo(result.dtype.numpy.name)
    zero = 0 if result.zero is None else int(np.asarray(plain(result.zero)).reshape(-1)[0])
    low, high = (
        int(np.clip(np.round(np.float32(v) / result.scales.reshape(-1)[0]) + zero, info.min, info.max)) for v in bounds
    )
    nodes = [made]
    for kind, bound, end in (("MAXIMUM", low, info.min), ("MINIMUM", high, info.max)):
        if bound != end:
            limit = rw.constant(f"{made.name}/{kind.lower()}", np.array(bound, result.dtype.numpy))
            inner = Value(rw.unique(f"{out.name}/{kind.lower()}"), result.dtype, out.shape)
            nodes[-1].outputs = [inner]
            nodes.append(Node("BinaryOp", f"{made.name}/{kind.lower()}", [inner, limit], [out], {"opType": kind}))
    nodes[-1].outputs = [out]
    return nodes


@dataclass(frozen=True)
class _Parts:
    """The operands of a product: integers, the scale of the sums, the bias in its steps; of an ``x`` whose scale is
    found while ``running``, the scale of the weights alone and no bias."""

    x: Numbers
    w: Numbers
    weights: Value
    sums: np.ndarray
    bias: np.ndarray | None
    running: bool = False


def _parts(rw: Rewriter, node: Node, line: bool) -> _Parts | None:
    """Of a product; ``line``: see :func:`_of_lines`."""
    given = node.inputs[:2]
    if line:
        given = [maker.inputs[0] for v in given if (maker := rw.maker(v)) is not None]
    x, w = (numbers(rw, v) for v in given)
    running = found_while_running(rw, given[0]) if x is None else None
    x = x or running
    if x is None or w is None or not (running or x.one) or w.dtype not in BYTES:
        return None
    weights, per_output = w.integers, 0
    if node.op == "MatMul":
        ranks = [rank(v) for v in (x.integers, w.integers)]
        if node.attrs.get("transposeA") or any(r is None or r < 2 for r in ranks):
            return None
        per_output = (ranks[1] or 0) - 1
        if node.attrs.get("transposeB"):
            data = plain(w.integers)
            if data is None:
                return None
            weights = rw.constant(f"{w.integers.name}/transposed", np.ascontiguousarray(np.swapaxes(data, -1, -2)))
            per_output -= 1
    elif plain(w.integers) is None or attribute_true(node, "hasOutputShape"):
        return None
    elif _transposed(node):
        group, data = int(attribute(node, "group")), plain(w.integers)
        depthwise = node.op != "Deconvolution" and not isinstance(traits(node), ConvTranspose3D)
        if data is None or (depthwise and group != data.shape[0]) or not (w.one or group == 1):
            return None
        per_output = 1
    axis = w.axis + (rank(w.integers) or 0) if w.axis < 0 else w.axis
    if not w.one and (axis != per_output or plain(w.integers) is None):
        return None
    sums = w.scales.astype(np.float64).reshape(-1) * (1 if running else x.scales.astype(np.float64).reshape(-1))
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    added = None if bias is None else _constant(rw, bias)
    if bias is not None and (added is None or added.ndim != 1 or (not w.one and added.size != sums.size)):
        return None
    if added is None or running:
        return _Parts(x, w, weights, sums, None, running is not None)
    steps = np.round(added / sums)
    if not np.isfinite(steps).all() or np.abs(steps).max(initial=0) > _LARGEST_BIAS:
        return None
    return _Parts(x, w, weights, sums, steps.astype(np.int32))


def _constant(rw: Rewriter, value: Value) -> np.ndarray | None:
    """A constant's numbers in float64, also of one that is dequantised."""
    data = plain(value)
    if data is not None:
        return data.astype(np.float64)
    node = rw.made_by(value, "DequantizeLinear")
    if node is None or any(v is not None and plain(v) is None for v in node.inputs) or node.attrs.get("block_size"):
        return None
    whole, scale = plain(node.inputs[0]), plain(node.inputs[1])
    zero = plain(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else np.zeros(())
    if whole is None or scale is None or zero is None or whole.ndim != 1:
        return None
    return (whole.astype(np.float64) - zero.astype(np.float64)) * scale.astype(np.float64)


def _attributes(node: Node, line: bool) -> dict[str, object]:
    """A convolution's as the quantised one has them."""
    attrs = quantized_attributes(node.attrs)
    extra = attribute(node, "outPads") if _transposed(node) else None
    attrs |= {"outPads": list(extra)} if extra else {}
    return over_lines(attrs) if line else attrs


def _product(rw: Rewriter, node: Node, result: Numbers, line: bool) -> Node | None:
    """The quantised product for a float one, without its outputs."""
    parts = _parts(rw, node, line)
    if parts is None or parts.running or (result.dtype in BYTES) != (parts.x.dtype in BYTES):
        return None
    zeros = [n.zero_point(rw) for n in (parts.x, parts.w, result)]
    bias = None if parts.bias is None else rw.constant(f"{node.name}/bias", parts.bias)
    operands: list[Value | None] = [
        parts.x.integers, parts.x.scale, zeros[0], parts.weights, parts.w.scale, zeros[1], result.scale, zeros[2],
    ]  # fmt: skip
    operands += [] if bias is None else [bias]
    if node.op == "MatMul":
        return Node("QLinearMatMul", node.name, operands, [], {})
    op = "QLinearConvTranspose" if _transposed(node) else "QLinearConv"
    return Node(op, node.name, operands, [], _attributes(node, line))


def _float_result(rw: Rewriter, node: Node, end: Node) -> None:
    """A product whose result stays a float: the integer product times the scales, plus the bias. ``end`` gives the
    result: the product itself, or what takes out a height (:func:`_of_lines`)."""
    line, out = end is not node, end.outputs[0]
    shape = out.shape
    flags = node.op != "MatMul" and (attribute_true(node, "relu") or attribute_true(node, "relu6"))
    parts = _parts(rw, node, line) if not flags and rank(out) is not None else None
    if parts is None or plain(parts.w.integers) is None or plain(parts.x.integers) is not None:
        return
    if parts.x.dtype not in BYTES:
        return
    zeros = [n.zero_point(rw) for n in (parts.x, parts.w)]
    whole, wide = (Value(rw.unique(f"{out.name}/{s}"), d, shape) for s, d in (("sum", DType.I32), ("wide", DType.F32)))
    op, attrs = ("MatMulInteger", {}) if node.op == "MatMul" else ("ConvInteger", _attributes(node, line))
    across = (-1,) if node.op == "MatMul" else (-1, *(1,) * ((rank(out) or 2) - 2))
    rw.insert(Node(op, node.name, [parts.x.integers, parts.weights, *zeros], [whole], attrs), end)
    rw.insert(Node("Cast", f"{node.name}/wide", [whole], [wide], {"dstT": "DT_FLOAT"}), end)
    sums = parts.sums.astype(np.float32).reshape(across)
    factor = rw.constant(f"{node.name}/scale", sums)
    if parts.running:
        both = Value(rw.unique(f"{out.name}/scale"), DType.F32, sums.shape)
        rw.insert(Node("BinaryOp", f"{node.name}/scales", [parts.x.scale, factor], [both], {"opType": "MUL"}), end)
        factor = both
    last = Node("BinaryOp", f"{node.name}/scaled", [wide, factor], [out], {"opType": "MUL"})
    bias = _constant(rw, node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    if bias is not None:
        scaled = Value(rw.unique(f"{out.name}/scaled"), DType.F32, shape)
        last.outputs = [scaled]
        rw.insert(last, end)
        added = rw.constant(f"{node.name}/bias", bias.astype(np.float32).reshape(across))
        last = Node("BinaryOp", f"{node.name}/biased", [scaled, added], [out], {"opType": "ADD"})
    rw.swap(end, last)
    if line:
        rw.remove(node)


PASS = Pass("quantized-operators", run, rank=4)
