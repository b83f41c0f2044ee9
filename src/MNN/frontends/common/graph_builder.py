"""What a handler of any front end works with: emits nodes, makes constants, answers what is known about values."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from MNN.errors import MISFITS, FormatError, UnsupportedError
from MNN.frontends.common.problems import Report
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.ir.shape import Shape, static

if TYPE_CHECKING:
    from MNN.ops.inference.infer import ShapeInference


def _shape_inference() -> ShapeInference:
    """Imported where a graph is built: families of language models are known before that, often without it."""
    from MNN.ops.inference.infer import ShapeInference

    return ShapeInference()


@dataclass
class ModelState:
    """What all (sub)graphs of a model share: names in use, the problems found."""

    taken: set[str] = field(default_factory=set)
    report: Report = field(default_factory=Report)
    shape_inference: ShapeInference = field(default_factory=_shape_inference)
    lists: set[Value] = field(default_factory=set)
    """Values that are sequences."""
    _counts: dict[str, int] = field(default_factory=dict)

    def unique(self, stem: str) -> str:
        """A name that nothing in the model has, beginning with ``stem``."""
        name, count = stem, self._counts.get(stem, 1)
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self._counts[stem] = count
        self.taken.add(name)
        return name


class GraphBuilder:
    """The graph being built, and names visible in it: those of the graph around it (``parent``) too."""

    def __init__(self, model: ModelState, graph: Graph, parent: GraphBuilder | None = None) -> None:
        self.model = model
        self.graph = graph
        self.parent = parent
        self.scope: dict[str, Value] = {}
        self._fresh: dict[Value, None] = {}
        self._bound: set[str] = set()
        self._declared: dict[str, tuple[DType | None, Shape | None]] = {}
        self._base = ""

    def follow(self, other: GraphBuilder) -> None:
        """Takes part in what ``other`` converts just now: names begin alike, what one makes the other has made."""
        self._base, self._fresh = other._base, other._fresh

    # -- making -----------------------------------------------------------------------------------------------------

    def op(self, op: str, *inputs: Value | None, **attrs: object) -> Value:
        """Appends a node with one output and returns that."""
        return self.emit(op, inputs, 1, **attrs)[0]

    def emit(self, op: str, inputs: Iterable[Value | None], outputs: int = 1, **attrs: object) -> list[Value]:
        """Appends a node and returns its outputs. Attributes that are None are left out."""
        made = [Value(self.unique(f"{self._base}/{op}")) for _ in range(outputs)]
        kept = {key: value for key, value in attrs.items() if value is not None}
        node = Node(op, "", list(inputs), made, kept)
        self.graph.nodes.append(node)
        self.model.shape_inference.annotate(node)
        self._track_lists(node)
        self._fresh.update(dict.fromkeys(made))
        return made

    def const(
        self, array: np.ndarray | float | int | Sequence[int] | Sequence[float], dtype: DType | None = None
    ) -> Value:
        """A constant. Python ints become i64, floats f32, unless ``dtype`` says otherwise. What a type does not hold
        becomes what a cast gives: infinities of floats."""
        data = np.asarray(array)
        with np.errstate(over="ignore", invalid="ignore"):
            if dtype is not None:
                data = data.astype(dtype.numpy)
            elif not isinstance(array, np.ndarray) and data.dtype.kind == "f":
                data = data.astype(np.float32)
        value = Value(self.unique(f"{self._base}/const"), DType.of(data), tuple(data.shape), data)
        self._fresh[value] = None
        return value

    def quantized(self, weight: QuantizedArray) -> Value:
        """A constant whose numbers stay compressed."""
        return Value(self.unique(f"{self._base}/weight"), DType.F32, weight.shape, weight)

    def const_like(self, number: float | int, like: Value) -> Value:
        """A scalar constant in ``like``'s element type, also when that is known only at run time."""
        if like.dtype is not None:
            return self.const(np.asarray(number), like.dtype)
        made = self.op("CastLike", self.const(np.asarray(number, np.float64)), like)
        made.shape = ()
        return made

    def _track_lists(self, node: Node) -> None:
        from MNN.ops.core.base import traits

        passing = node.op == "Identity" and any(v in self.model.lists for v in node.inputs)
        if passing or traits(node).gives_sequence:
            self.model.lists.update(node.outputs)
            item = node.inputs[1] if node.op == "SequenceInsert" and len(node.inputs) > 1 else None
            source = item or next((v for v in node.inputs if v is not None), None)
            for out in node.outputs:
                out.dtype = out.dtype or (source.dtype if source is not None else None)

    def unique(self, stem: str) -> str:
        """A name that no value of the model has."""
        return self.model.unique(stem)

    # -- knowing ----------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value | None:
        """The value of a name, here or in a graph around this one."""
        context: GraphBuilder | None = self
        while context is not None:
            if name in context.scope:
                return context.scope[name]
            context = context.parent
        return None

    def constant(self, value: Value | None) -> np.ndarray | None:
        """The numbers of a constant, or None when they are not known while converting."""
        if value is None or value.data is None:
            return None
        return value.data.dequantize() if isinstance(value.data, QuantizedArray) else value.data

    def constant_ints(self, value: Value | None) -> list[int] | None:
        """A constant as a flat list of ints, or None."""
        data = self.constant(value)
        return None if data is None else [int(v) for v in data.reshape(-1)]

    def dtype(self, value: Value) -> DType | None:
        """The element type when it follows from the inputs or the model tells it."""
        return value.dtype

    def rank(self, value: Value) -> int | None:
        """The number of dimensions when known."""
        return None if value.shape is None else len(value.shape)

    def static_shape(self, value: Value) -> tuple[int, ...] | None:
        """All sizes when known."""
        return static(value.shape)

    def declared(self, name: str) -> tuple[DType | None, Shape | None]:
        """Element type and shape that the model declares for a name; None where unknown."""
        return self._declared.get(name, (None, None))

    def declare(self, name: str, dtype: DType | None, shape: Shape | None) -> None:
        """Notes what the model declares for a name (its ``value_info``)."""
        self._declared[name] = (dtype, shape)

    # -- called by the loader around every handler --------------------------------------------------------------------

    def convert(
        self, base: str, where: str, names: Sequence[str], handler: Callable[[], Value | Sequence[Value]]
    ) -> UnsupportedError | None:
        """Calls a node's handler and gives what it returns the node's output ``names``.

        Helper values and nodes are named after ``base``; ``where`` names the node in errors. Returns the error of a
        node that is not supported, for the report; values without a maker stand in for its outputs then, so that the
        rest of the model is looked at too. Raises :class:`FormatError` when the node makes no sense.
        """
        self._fresh.clear()
        self._base = base
        start = len(self.graph.nodes)
        failed = None
        try:
            made = handler()
            self.bind(names, [made] if isinstance(made, Value) else list(made), where)
        except MISFITS as error:
            raise FormatError(
                f"{where}: its attributes do not fit the operator ({type(error).__name__}: {error}); "
                "is the model damaged?"
            ) from error
        except UnsupportedError as error:
            failed = error
            self.leave_open(names)
        self._finish(start, base)
        return failed

    def leave_open(self, names: Iterable[str]) -> None:
        """Stands in for the outputs of a node that cannot be converted."""
        for name in names:
            if name:
                self.scope[name] = Value(name, *self.declared(name))

    def bind(self, names: Sequence[str], values: Sequence[Value], where: str) -> None:
        """Gives a node's outputs the names that the file has for them; a value with a name of its own is copied.

        Raises :class:`FormatError` for a name that something in the graph has, and for missing outputs.
        """
        for i, name in enumerate(names):
            if not name:
                continue
            if name in self._bound:
                raise FormatError(f"{where}: its output '{name}' is made twice; is the file damaged?")
            self._bound.add(name)
            if i >= len(values):
                raise FormatError(f"{where}: it has no output {i} ('{name}')")
            value = values[i]
            if value not in self._fresh:
                value = self.op("Identity", value)
            self._fresh.pop(value, None)
            self.model.taken.discard(value.name)
            old, value.name = value.name, name
            dtype, shape = self.declared(name)
            value.dtype = value.dtype or dtype
            if value.shape is not None:  # sizes named after a helper are named after the tensor now
                value.shape = tuple(f"{name}.{i}" if d == f"{old}.{i}" else d for i, d in enumerate(value.shape))
            value.shape = value.shape if value.is_const else merge(value.shape, shape, name, self._axes())
            self.scope[name] = value

    def _axes(self) -> set[str]:
        """The names that sizes of the model's inputs have."""
        context: GraphBuilder = self
        while context.parent is not None:
            context = context.parent
        return {d for v in context.graph.inputs for d in v.shape or () if isinstance(d, str)}

    def _finish(self, start: int, base: str) -> None:
        """Names the nodes that the handler appended: the last one like the file's node, others after it."""
        made = self.graph.nodes[start:]
        for node in made[:-1]:
            node.name = self.unique(f"{base}/{node.op}")
        if made:
            made[-1].name = base


def merge(found: Shape | None, declared: Shape | None, name: str, axes: Container[str] = ()) -> Shape | None:
    """What the model declares fills in what was not found; ``name`` marks sizes named for want of a better name.

    Names of the inputs' ``axes`` are not taken on trust: who exports a cache's output often calls its length like that
    of the input, though it has grown.
    """
    if declared is not None:
        declared = tuple(f"{name}.{i}" if isinstance(d, str) and d in axes else d for i, d in enumerate(declared))
    if found is None or declared is None or len(found) != len(declared):
        return found if found is not None else declared
    out: list[int | str] = []
    for i, (ours, theirs) in enumerate(zip(found, declared, strict=True)):
        out.append(theirs if isinstance(ours, str) and (isinstance(theirs, int) or ours == f"{name}.{i}") else ours)
    return tuple(out)
