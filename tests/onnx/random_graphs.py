"""Random small ONNX graphs over many operators and element types, drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

FLOATS = (np.float32, np.float64)
INTS = (np.int32, np.int64)
OPSET = 17


@dataclass
class Tensor:
    name: str
    dtype: Any
    shape: tuple[int, ...]


@dataclass
class Maker:
    """Draws nodes one after another; every tensor's dtype and shape are known, so that every graph is legal."""

    draw: Callable[[Any], Any]
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)

    # -- parts ------------------------------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def choice(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def shape(self, rank: int | None = None, most: int = 6) -> tuple[int, ...]:
        rank = self.integer(1, 4) if rank is None else rank
        return tuple(self.integer(1, most) for _ in range(rank))

    def pick(self, dtypes: Any = None, least_rank: int = 1, most_rank: int = 5) -> Tensor:
        """A tensor that is there, or a new input."""
        fitting = [
            t for t in self.tensors
            if (dtypes is None or t.dtype in dtypes) and least_rank <= len(t.shape) <= most_rank
        ]  # fmt: skip
        if fitting and self.integer(0, 3):
            return self.choice(fitting[-6:])
        return self.input(
            self.choice(dtypes or FLOATS), self.shape(self.integer(max(least_rank, 1), min(most_rank, 4)))
        )

    def input(self, dtype: Any, shape: tuple[int, ...]) -> Tensor:
        made = Tensor(f"x{len(self.inputs)}", dtype, shape)
        self.inputs.append(made)
        self.tensors.append(made)
        return made

    def constant(self, array: Any) -> Tensor:
        data = np.asarray(array)
        made = Tensor(f"c{len(self.constants)}", data.dtype.type, data.shape)
        self.constants.append(numpy_helper.from_array(data, made.name))
        return made

    def numbers(self, dtype: Any, shape: tuple[int, ...], low: float = -2, high: float = 2) -> Tensor:
        """A constant of seeded numbers."""
        rng = np.random.default_rng(self.integer(0, 99))
        return self.constant(rng.uniform(low, high, shape).astype(dtype))

    def node(self, op: str, inputs: list[Tensor], dtype: Any, *shapes: tuple[int, ...], **attrs: Any) -> list[Tensor]:
        made = [Tensor(f"t{len(self.nodes)}_{i}", dtype, s) for i, s in enumerate(shapes)]
        self.nodes.append(helper.make_node(op, [t.name for t in inputs], [t.name for t in made], **attrs))
        self.tensors += made
        return made

    def model(self) -> onnx.ModelProto:
        """Outputs are all tensors that nothing takes."""
        used = {name for node in self.nodes for name in node.input}
        made = {name for node in self.nodes for name in node.output}
        ends = [t for t in self.tensors if t.name in made and t.name not in used]
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(t.name, kind(np.dtype(t.dtype)), t.shape) for t in self.inputs],
            [helper.make_tensor_value_info(t.name, kind(np.dtype(t.dtype)), t.shape) for t in ends],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    def feeds(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        found = {}
        for t in self.inputs:
            if np.dtype(t.dtype).kind == "f":
                found[t.name] = rng.normal(size=t.shape).astype(t.dtype)
            elif t.dtype is np.bool_:
                found[t.name] = rng.integers(0, 2, t.shape).astype(bool)
            else:
                found[t.name] = rng.integers(-4, 5, t.shape).astype(t.dtype)
        return found


# -- steps: each adds nodes to a maker --------------------------------------------------------------------------------


def _unary(m: Maker) -> None:
    x = m.pick(FLOATS, 0)
    op = m.choice("Abs Neg Exp Sigmoid Tanh Relu Sqrt Erf Floor Ceil Round Sign Softplus Sin Cos Identity".split())
    if op == "Sqrt":
        x = m.node("Abs", [x], x.dtype, x.shape)[0]
    if op == "Exp":  # kept in range, so that errors stay comparable
        x = m.node("Tanh", [x], x.dtype, x.shape)[0]
    m.node(op, [x], x.dtype, x.shape)


def _other(m: Maker, x: Tensor) -> Tensor:
    """A second operand that broadcasts."""
    shape = tuple(1 if m.integer(0, 2) == 0 else d for d in x.shape)[m.integer(0, len(x.shape)) :]
    return m.numbers(x.dtype, shape) if m.integer(0, 1) else m.input(x.dtype, shape)


def _binary(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS), 0)
    m.node(m.choice("Add Sub Mul Max Min".split()), [x, _other(m, x)], x.dtype, x.shape)


def _division(m: Maker) -> None:
    x = m.pick(FLOATS)
    m.node("Div", [x, m.numbers(x.dtype, x.shape[-1:], 0.5, 2)], x.dtype, x.shape)


def _integer_division(m: Maker) -> None:
    x = m.pick(INTS)
    divisor = m.constant(np.array(m.choice([-3, -1, 2, 5]), x.dtype))
    m.node(m.choice(["Div", "Mod"]), [x, divisor], x.dtype, x.shape)


def _compare(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS))
    condition = m.node(m.choice("Less Greater Equal LessOrEqual".split()), [x, _other(m, x)], np.bool_, x.shape)[0]
    if m.integer(0, 1):
        condition = m.node("Not", [condition], np.bool_, x.shape)[0]
    m.node("Where", [condition, x, _other(m, x)], x.dtype, x.shape)


def _cast(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS, np.bool_))
    target = m.choice((*FLOATS, *INTS, np.bool_, np.uint8, np.int8))
    if np.dtype(x.dtype).kind in "fi" and np.dtype(target).kind == "u":
        x = m.node("Abs", [x], x.dtype, x.shape)[0]
    y = m.node("Cast", [x], target, x.shape, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))[0]
    if target in (np.uint8, np.int8):  # few operators of the other engine take these
        m.node("Cast", [y], np.float32, x.shape, to=onnx.TensorProto.FLOAT)


def _reduce(m: Maker) -> None:
    x = m.pick(FLOATS)
    axes = sorted({m.integer(0, len(x.shape) - 1) for _ in range(m.integer(1, len(x.shape)))})
    keep = m.integer(0, 1)
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes)
    op = m.choice("ReduceMean ReduceMax ReduceMin ReduceL2 ReduceSum ReduceLogSumExp".split())
    if op == "ReduceSum":
        m.node(op, [x, m.constant(np.array(axes, np.int64))], x.dtype, shape, keepdims=keep)
    else:
        m.node(op, [x], x.dtype, shape, axes=axes, keepdims=keep)


def _softmax(m: Maker) -> None:
    x = m.pick(FLOATS)
    op = m.choice(["Softmax", "LogSoftmax"])
    m.node(op, [x], x.dtype, x.shape, axis=m.integer(-len(x.shape), len(x.shape) - 1))


def _layer_norm(m: Maker) -> None:
    x = m.pick((np.float32,), 2)
    size = x.shape[-1:]
    m.node("LayerNormalization", [x, m.numbers(x.dtype, size), m.numbers(x.dtype, size)], x.dtype, x.shape, epsilon=0.1)


def _transpose(m: Maker) -> None:
    x = m.pick(None)
    order = m.draw(st.permutations(range(len(x.shape))))
    m.node("Transpose", [x], x.dtype, tuple(x.shape[i] for i in order), perm=order)


def _reshape(m: Maker) -> None:
    x = m.pick(None)
    total = int(np.prod(x.shape, dtype=int))
    cuts = [d for d in range(1, total + 1) if total % d == 0]
    first = m.choice(cuts)
    shape = (first, total // first) if m.integer(0, 1) else (total,)
    m.node("Reshape", [x, m.constant(np.array(shape, np.int64))], x.dtype, shape)


def _concat(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS))
    axis = m.integer(0, len(x.shape) - 1)
    other = m.input(x.dtype, tuple(m.integer(1, 4) if i == axis else d for i, d in enumerate(x.shape)))
    parts = [x, other] if m.integer(0, 1) else [other, x, x]
    size = sum(p.shape[axis] for p in parts)
    m.node("Concat", parts, x.dtype, tuple(size if i == axis else d for i, d in enumerate(x.shape)), axis=axis)


def _slice(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS))
    axis = m.integer(0, len(x.shape) - 1)
    step = m.choice([-2, -1, 1, 2, 3])
    low, high = sorted((m.integer(0, x.shape[axis] - 1), m.integer(0, x.shape[axis] - 1)))
    start, end = (low, high + 1) if step > 0 else (high, low - 1 - x.shape[axis])
    taken = len(range(x.shape[axis])[slice(start, None if end < -x.shape[axis] else end, step)])
    if not taken:
        return
    operands = [m.constant(np.array([n], np.int64)) for n in (start, end, axis, step)]
    m.node("Slice", [x, *operands], x.dtype, tuple(taken if i == axis else d for i, d in enumerate(x.shape)))


def _gather(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS))
    axis, shape = m.integer(0, len(x.shape) - 1), m.shape(m.integer(0, 2), 3)
    rng = np.random.default_rng(m.integer(0, 9))
    index = m.constant(rng.integers(-x.shape[axis], x.shape[axis], shape).astype(np.int64))
    m.node("Gather", [x, index], x.dtype, (*x.shape[:axis], *shape, *x.shape[axis + 1 :]), axis=axis)


def _pad(m: Maker) -> None:
    x = m.pick(FLOATS)
    low = [m.integer(0, 2) for _ in x.shape]
    high = [m.integer(0, 2) for _ in x.shape]
    mode = m.choice(["constant", "edge"])
    shape = tuple(a + d + b for a, d, b in zip(low, x.shape, high, strict=True))
    m.node("Pad", [x, m.constant(np.array(low + high, np.int64))], x.dtype, shape, mode=mode)


def _expand(m: Maker) -> None:
    x = m.pick((*FLOATS, *INTS), most_rank=3)
    shape = (m.integer(1, 3), *x.shape)
    m.node("Expand", [x, m.constant(np.array(shape, np.int64))], x.dtype, shape)


def _tile(m: Maker) -> None:
    x = m.pick(FLOATS, most_rank=3)
    times = [m.integer(1, 2) for _ in x.shape]
    shape = tuple(d * t for d, t in zip(x.shape, times, strict=True))
    m.node("Tile", [x, m.constant(np.array(times, np.int64))], x.dtype, shape)


def _split(m: Maker) -> None:
    x = m.pick(FLOATS)
    axis = m.integer(0, len(x.shape) - 1)
    if x.shape[axis] < 2:
        return
    first = m.integer(1, x.shape[axis] - 1)
    sizes = [first, x.shape[axis] - first]
    shapes = [tuple(s if i == axis else d for i, d in enumerate(x.shape)) for s in sizes]
    m.node("Split", [x, m.constant(np.array(sizes, np.int64))], x.dtype, *shapes, axis=axis)


def _matmul(m: Maker) -> None:
    x = m.pick(FLOATS, 2)
    n = m.integer(1, 20)
    y = m.numbers(x.dtype, (x.shape[-1], n)) if m.integer(0, 1) else m.input(x.dtype, (*x.shape[:-2], x.shape[-1], n))
    m.node("MatMul", [x, y], x.dtype, (*x.shape[:-1], n))


def _gemm(m: Maker) -> None:
    x = m.pick((np.float32,), 2, 2)
    n, turned = m.integer(1, 20), m.integer(0, 1)
    y = m.numbers(x.dtype, (n, x.shape[1]) if turned else (x.shape[1], n))
    m.node("Gemm", [x, y, m.numbers(x.dtype, (n,))], x.dtype, (x.shape[0], n), transB=turned, alpha=0.5)


def _picture(m: Maker) -> Tensor:
    return m.input(np.float32, (m.integer(1, 2), m.integer(1, 9), m.integer(5, 12), m.integer(5, 12)))


def _conv(m: Maker) -> None:
    x = m.pick((np.float32,), 4, 4) if m.integer(0, 1) else _picture(m)
    groups = m.choice([1, 1, x.shape[1]])
    kernel = [m.integer(1, min(3, d)) for d in x.shape[2:]]
    strides, pads = [m.integer(1, 2) for _ in kernel], [m.integer(0, 1) for _ in range(4)]
    out = x.shape[1] * m.integer(1, 2) if groups > 1 else m.integer(1, 20)
    sizes = [
        (d + pads[i] + pads[i + 2] - k) // s + 1
        for i, (d, k, s) in enumerate(zip(x.shape[2:], kernel, strides, strict=True))
    ]
    w = m.numbers(np.float32, (out, x.shape[1] // groups, *kernel), -1, 1)
    operands = [x, w, m.numbers(np.float32, (out,))] if m.integer(0, 1) else [x, w]
    shape = (x.shape[0], out, *sizes)
    y = m.node("Conv", operands, np.float32, shape, strides=strides, pads=pads, group=groups)[0]
    if m.integer(0, 1):
        m.node(m.choice(["Relu", "Sigmoid"]), [y], np.float32, shape)


def _pool(m: Maker) -> None:
    x = m.pick((np.float32,), 4, 4) if m.integer(0, 1) else _picture(m)
    if m.integer(0, 2) == 0:
        m.node(m.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x], np.float32, (*x.shape[:2], 1, 1))
        return
    kernel = [m.integer(1, min(3, d)) for d in x.shape[2:]]
    strides = [m.integer(1, 2) for _ in kernel]
    sizes = [(d - k) // s + 1 for d, k, s in zip(x.shape[2:], kernel, strides, strict=True)]
    attrs = {"kernel_shape": kernel, "strides": strides}
    m.node(m.choice(["MaxPool", "AveragePool"]), [x], np.float32, (*x.shape[:2], *sizes), **attrs)


def _batch_norm(m: Maker) -> None:
    x = m.pick((np.float32,), 4, 4) if m.integer(0, 1) else _picture(m)
    size = x.shape[1:2]
    means = [m.numbers(np.float32, size) for _ in range(3)]
    m.node("BatchNormalization", [x, *means, m.numbers(np.float32, size, 0.5, 2)], np.float32, x.shape)


def _arg(m: Maker) -> None:
    x = m.pick(FLOATS)
    axis = m.integer(0, len(x.shape) - 1)
    shape = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
    m.node(m.choice(["ArgMax", "ArgMin"]), [x], np.int64, shape, axis=axis)


def _cumsum(m: Maker) -> None:
    x = m.pick(FLOATS)
    axis = m.constant(np.array(m.integer(0, len(x.shape) - 1), np.int64))
    m.node("CumSum", [x, axis], x.dtype, x.shape, exclusive=m.integer(0, 1), reverse=m.integer(0, 1))


def _topk(m: Maker) -> None:
    x = m.pick((np.float32,))
    axis = m.integer(0, len(x.shape) - 1)
    k = m.integer(1, x.shape[axis])
    shape = tuple(k if i == axis else d for i, d in enumerate(x.shape))
    made = m.node("TopK", [x, m.constant(np.array([k], np.int64))], x.dtype, shape, shape, axis=axis)
    made[1].dtype = np.int64
    m.tensors.remove(made[1])  # equal numbers may come in another order


def _clip(m: Maker) -> None:
    x = m.pick(FLOATS)
    m.node("Clip", [x, m.constant(np.array(-0.5, x.dtype)), m.constant(np.array(1, x.dtype))], x.dtype, x.shape)


def _axes(m: Maker) -> None:
    x = m.pick(None, most_rank=4)
    axis = m.integer(0, len(x.shape))
    at = m.constant(np.array([axis], np.int64))
    wider = m.node("Unsqueeze", [x, at], x.dtype, (*x.shape[:axis], 1, *x.shape[axis:]))[0]
    if m.integer(0, 1):
        m.node("Squeeze", [wider, at], x.dtype, x.shape)


STEPS = (
    _unary, _binary, _binary, _division, _integer_division, _compare, _cast, _reduce, _softmax, _layer_norm, _transpose,
    _reshape, _concat, _slice, _gather, _pad, _expand, _tile, _split, _matmul, _gemm, _conv, _conv, _pool, _batch_norm,
    _arg, _cumsum, _topk, _clip, _axes,
)  # fmt: skip


@st.composite
def graphs(draw: Any, most: int = 9) -> Maker:
    """A maker that holds a random graph of up to ``most`` steps."""
    maker = Maker(draw)
    for _ in range(maker.integer(1, most)):
        maker.choice(STEPS)(maker)
        if sum(int(np.prod(t.shape, dtype=int)) for t in maker.tensors) > 200_000:
            break
    if not maker.nodes:
        _unary(maker)
    return maker
