"""An average over windows and a pointwise convolution change places where that is less work.

Both are linear, one within channels, the other within pixels: ``W avg(x) = avg(W x)``. Windows at every pixel are
cheaper behind a convolution that leaves fewer channels (Inception's branches); a convolution is cheaper behind windows
that leave fewer pixels (DenseNet's transitions).
"""

from __future__ import annotations

from typing import TypeGuard

from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import Dim, Shape
from MNN.passes.folding.affine import BIAS, attribute_true
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, floats, own_padding
from MNN.passes.rewrite import Rewriter

_ACTIVATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "relu": ("ReLU", {}),
    "relu6": ("ReLU6", {"minValue": 0.0, "maxValue": 6.0}),
}


def run(graph: Graph) -> int:
    """Where nothing else uses what lies between the two. An activation stays last, and so does a bias where zeros of
    the padding count."""
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if node.op != "Pooling" or attribute(node, "type") != "AVEPOOL":
            continue
        x, out = node.inputs[0], node.outputs[0]
        user = rw.only_user(out) if rw.used_once(out) else None
        maker = rw.maker(x) if x is not None and rw.used_once(x) else None
        if _apart(node) and _pointwise(maker):
            _convolve_later(rw, node, maker)
        elif not _apart(node) and _pointwise(user) and user.inputs[0] is out:
            _convolve_first(rw, node, user)
    return rw.finish()


def _apart(node: Node) -> bool:
    """Whether there are fewer windows than pixels."""
    return attribute_true(node, "isGlobal") or max(int(attribute(node, f"stride{axis}")) for axis in "XY") > 1


def _pointwise(node: Node | None) -> TypeGuard[Node]:
    """Whether a node multiplies every pixel by the same constant matrix."""
    if node is None or node.op != "Convolution" or node.inputs[0] is None or _matrix(node) is None:
        return False
    steps = [int(attribute(node, f"stride{axis}")) for axis in "XY"]
    pads = own_padding(node, "padMode", 2)
    return steps == [1, 1] and (attribute(node, "padMode") == "SAME" or pads == [0] * 4)


def _matrix(node: Node) -> tuple[int, int] | None:
    """Channels out and in of a convolution's constant weights, when these are a matrix."""
    data = node.inputs[1].data if len(node.inputs) > 1 and node.inputs[1] is not None else None
    if data is None or len(data.shape) != 4 or tuple(data.shape[2:]) != (1, 1) or int(attribute(node, "group")) != 1:
        return None
    return int(data.shape[0]), int(data.shape[1])


def _bias(node: Node) -> Value | None:
    return node.inputs[BIAS] if len(node.inputs) > BIAS else None


def _keeps_constants(pool: Node) -> bool:
    """Whether the average of equal numbers is that number, at the borders too."""
    if attribute_true(pool, "isGlobal"):
        return True
    pads = own_padding(pool, "padType", 2)
    kernel = [int(attribute(pool, f"kernel{axis}")) for axis in "YX"] * 2
    inside = pads is not None and all(p < k for p, k in zip(pads, kernel, strict=True))  # no window beside the picture
    return pads == [0] * 4 or (inside and attribute(pool, "countType") == "EXCLUDE_PADDING")


def _convolve_later(rw: Rewriter, pool: Node, conv: Node) -> None:
    """``conv, pool`` becomes ``pool, conv``."""
    if any(attribute_true(conv, flag) for flag in _ACTIVATIONS) or (_bias(conv) and not _keeps_constants(pool)):
        return
    x, between, out = conv.inputs[0], pool.inputs[0], pool.outputs[0]
    assert x is not None
    assert between is not None
    channels = None if x.shape is None else x.shape[1]
    first = Value(rw.unique(f"{between.name}/average"), x.dtype, _with_channels(out, channels))
    rw.swap(conv, Node("Pooling", pool.name, [x], [first], dict(pool.attrs)))
    rw.swap(pool, Node("Convolution", conv.name, [first, *conv.inputs[1:]], [out], dict(conv.attrs)))


def _convolve_first(rw: Rewriter, pool: Node, conv: Node) -> None:
    """``pool, conv`` becomes ``conv, pool``, and what the convolution did after its products behind it."""
    x, out, bias = pool.inputs[0], conv.outputs[0], _bias(conv)
    numbers = floats(bias)
    channels = _matrix(conv)
    if x is None or channels is None or channels[0] >= channels[1] or (bias is not None and numbers is None):
        return
    attrs = dict(conv.attrs)
    flags = [flag for flag in ("relu6", "relu") if attrs.pop(flag, False)][:1]
    late = numbers is not None and not _keeps_constants(pool)
    value = Value(rw.unique(f"{out.name}/pixels"), out.dtype, _with_channels(x, channels[0]))
    inputs = [x, *conv.inputs[1:]]
    rw.swap(pool, Node("Convolution", conv.name, inputs[:BIAS] if late else inputs, [value], attrs))
    steps: list[tuple[str, str, list[Value], dict[str, object]]] = [("Pooling", pool.name, [], dict(pool.attrs))]
    if late:
        assert numbers is not None
        added = rw.constant(f"{out.name}/bias", numbers.reshape(1, -1, 1, 1))
        steps.append(("BinaryOp", f"{conv.name}/bias", [added], {"opType": "ADD"}))
    steps += [(_ACTIVATIONS[flag][0], f"{conv.name}/{flag}", [], dict(_ACTIVATIONS[flag][1])) for flag in flags]
    for op, name, more, own in steps[:-1]:
        result = Value(rw.unique(f"{out.name}/{op.lower()}"), out.dtype, out.shape)
        rw.insert(Node(op, name, [value, *more], [result], own), conv)
        value = result
    op, name, more, own = steps[-1]
    rw.swap(conv, Node(op, name, [value, *more], [out], own))


def _with_channels(value: Value, channels: Dim | None) -> Shape | None:
    """The shape of ``value`` with so many channels; None when anything of it is not known."""
    return None if value.shape is None or channels is None else (value.shape[0], channels, *value.shape[2:])


PASS = Pass("average-pooling", run, rank=36)
