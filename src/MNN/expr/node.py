"""Nodes of an expression graph: leaves that hold numbers, and operators that are evaluated when asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from MNN.errors import MNNError
from MNN.expr import compute
from MNN.expr.fused import Deferred, copies
from MNN.expr.fused.settings import SETTINGS
from MNN.expr.types import storable
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.prims import Tensor

if TYPE_CHECKING:
    from MNN.runtime.executor import Executor

LEAVES = ("Const", "Input", "Trainable")
_COMPILE_AFTER = 2e8
"""Multiplications after which an expression that is evaluated again and again is compiled."""
_ELEMENT = 20.0
"""How many multiplications of a matrix product last as long as an element that numpy reads and writes."""

Type = tuple[DType, tuple[int, ...]]


_rewired = [0]
"""How often operators have been given other operands or sources: what was known before may be so no more."""


_NONE: dict[str, object] = {}
"""The attributes of leaves."""


class UnwrittenError(MNNError):
    """Something needs the numbers of a placeholder that has none yet."""


class Expr:
    """One operator of the graph, or a leaf (Const, Input, Trainable).

    Results are kept as long as no Input or Trainable that they depend on (``sources``) has changed.
    """

    op = "Const"
    inputs: Sequence[Ref | None] = ()
    attrs: dict[str, object] = _NONE
    outputs = 1
    name = ""
    layer = ""
    """The path of the module that it was made in; empty outside of all."""
    borrowed = False
    """Whether its numbers lie in memory of the user's, who may change them."""
    used = False
    """Whether operators are computed from it."""
    fixed = False
    """Whether a model's file says that it is no parameter, such as a buffer of PyTorch's."""
    leaf_type: Type = (DType.F32, ())
    shapes_at, numbers_at = 0, 0
    """How often a leaf's shape, and its numbers, have changed."""
    _held: np.ndarray | None = None
    _deferred: Deferred | None = None
    _sources: tuple[Expr, ...] = ()
    _sources_at = 0
    _types: list[Type] | None = None
    _types_at: tuple[object, ...] = ()
    _results: list[np.ndarray] | None = None
    _results_at: tuple[object, ...] = ()
    _values_matter = False
    _known: Sequence[np.ndarray | None] = ()
    """Results that follow from shapes and constants alone, as far as they do."""
    _spent = 0.0
    _executor: tuple[Executor, list[tuple[Expr, int]], list[Value], list[Value]] | None = None

    def __init__(self, op: str, inputs: Sequence[Ref | None] = (), attrs: dict[str, object] | None = None) -> None:
        self.op, self.inputs, self.attrs = op, list(inputs), attrs or {}
        if op not in LEAVES:
            self._find_sources()
            _own(inputs)

    @property
    def sources(self) -> tuple[Expr, ...]:
        """The Inputs and Trainables that its numbers depend on."""
        if self.op in LEAVES:
            return () if self.op == "Const" else (self,)
        if self._sources_at != _rewired[0]:
            for expr in _pending(self, lambda e: e._sources_at == _rewired[0]):
                expr._find_sources()
        return self._sources

    def _find_sources(self) -> None:
        found = (s for r in self.inputs if r is not None for s in r[0].sources)
        self._sources, self._sources_at = tuple(dict.fromkeys(found)), _rewired[0]
        self._executor = None  # compiled for the operands that it had

    def rewire(self, inputs: Sequence[Ref]) -> None:
        """Other operands for an operator. Raises :class:`MNNError` for those that depend on itself."""
        if any(e is self for given, _ in inputs for e in (given, *_pending(given, lambda e: False))):
            raise MNNError(f"{self.op} '{self.name}' cannot be an operand of itself")
        self.inputs = list(inputs)
        _own(inputs)
        _rewired[0] += 1

    # -- leaves -----------------------------------------------------------------------------------------------------

    @staticmethod
    def leaf(op: str, kind: DType, shape: tuple[int, ...], array: np.ndarray | None) -> Expr:
        """A leaf; Input may be without numbers."""
        expr = Expr.__new__(Expr)
        expr.leaf_type, expr._held = (kind, shape), array
        if op != "Const":
            expr.op = op
        return expr

    @staticmethod
    def later(numbers: Deferred) -> Expr:
        """A constant whose numbers are computed when somebody asks for them."""
        expr = Expr.__new__(Expr)
        expr.leaf_type, expr._deferred = (numbers.function.kind, numbers.shape), numbers
        return expr

    @property
    def is_leaf(self) -> bool:
        return self.op in LEAVES

    @property
    def array(self) -> np.ndarray | None:
        """The numbers of a leaf that has some."""
        deferred = self._deferred
        if deferred is not None:
            self._held, self._deferred = deferred.numbers(), None
        return self._held

    @array.setter
    def array(self, array: np.ndarray | None) -> None:
        self._held, self._deferred = array, None

    def own(self) -> None:
        """Copies numbers that lie in memory of the user's: from now on they stay as they are."""
        if self.borrowed:
            self.borrowed = False
            if self._held is not None:
                self._held = copies.fresh(self._held)

    def given_away(self) -> np.ndarray:
        """The numbers of the first output in an array that is the caller's, in row-major order."""
        deferred = self._deferred
        return copies.owned(self.results()[0]) if deferred is None else deferred.given_away()

    def in_row_major_order(self, index: int) -> np.ndarray:
        """The numbers of an output, which lie in row-major order from now on."""
        array = copies.contiguous(self.results()[index])
        if self.is_leaf:
            self._held = array
        elif self._results is not None:
            self._results[index] = array
        return array

    def set_array(self, array: np.ndarray) -> None:
        """New numbers for a leaf; their shape becomes its shape."""
        if array.shape != self.leaf_type[1] or DType.of(array) is not self.leaf_type[0]:
            self.shapes_at += 1
        self.numbers_at += 1
        if self.used and self.op == "Const":  # which is none of the sources that operators look at
            _rewired[0] += 1
        self.leaf_type, self.array = (DType.of(array), array.shape), array

    def resize(self, shape: tuple[int, ...]) -> None:
        """Another shape for a leaf; its numbers are gone."""
        if shape != self.leaf_type[1]:
            self.shapes_at += 1
            self.numbers_at += 1
            self.leaf_type, self.array = (self.leaf_type[0], shape), None

    def become(self, op: str, array: np.ndarray | None) -> None:
        """Turns into a leaf of another kind in place, so that whoever uses it sees the change."""
        kind, shape = self.types()[0] if array is None else (DType.of(array), array.shape)
        if self.used and op != "Const" and self not in self.sources:
            _rewired[0] += 1  # a new source of what is computed from it
        self.op, self.inputs, self.attrs, self.outputs = op, [], {}, 1
        self._executor = self._results = None
        self.leaf_type, self.array = (kind, shape), array
        self._sources = ()
        self.shapes_at, self.numbers_at = self.shapes_at + 1, self.numbers_at + 1

    # -- types ------------------------------------------------------------------------------------------------------

    def types(self) -> list[Type]:
        """Element type and shape of every output. Raises :class:`MNNError` when operands do not fit."""
        if self.is_leaf:
            return [self.leaf_type]
        for expr in _pending(self, lambda e: e._typed()):
            expr._infer()
        assert self._types is not None
        return self._types

    @property
    def follows_from_shapes(self) -> bool:
        """Whether its numbers are the same whatever its sources hold, as long as these keep their shapes."""
        self.types()
        return bool(self._known) and all(a is not None for a in self._known)

    def _stamp(self, values: bool) -> tuple[object, ...]:
        return (_rewired[0], *((s.shapes_at, s.numbers_at if values else 0) for s in self.sources))

    def _typed(self) -> bool:
        return self._types is not None and self._types_at == self._stamp(self._values_matter)

    def _infer(self) -> None:
        operands: list[Tensor | None] = []
        for ref in self.inputs:
            if ref is None:
                operands.append(None)
                continue
            expr, index = ref
            kind, shape = expr.types()[index]
            known = expr._known[index] if expr._known else None
            operands.append(Tensor(kind, shape, const=known if expr.sources else expr.results()[index]))
        found = compute.infer(self.op, self.attrs, operands, self.outputs, self.name)
        self._values_matter = found is None
        self._known = []
        if found is None:
            self._types = [(DType.of(a), a.shape) for a in self.results()]
        else:
            self._types = [(storable(t.dtype), t.shape) for t in found]
            self._known = [t.const for t in found]
        self._types_at = self._stamp(self._values_matter)

    # -- numbers ----------------------------------------------------------------------------------------------------

    def results(self) -> list[np.ndarray]:
        """The numbers of every output, computed where they are not known. They must not be written to."""
        if self.is_leaf:
            return [self._leaf_array()]
        if self._evaluated():
            assert self._results is not None
            return self._results
        todo = _pending(self, lambda e: e._evaluated())
        known = [e for e in todo if not e._values_matter]
        work = sum(e._work() for e in known)
        compiles = self._spent + work > _COMPILE_AFTER and len(todo) > 1
        self._spent += work + _ELEMENT * sum(e._elements() for e in known)  # which a chain, compiled, touches once
        if compiles:
            self._run_compiled(todo)
        else:
            for expr in todo:
                expr._run()
        assert self._results is not None
        return self._results

    def _leaf_array(self) -> np.ndarray:
        array = self.array
        if array is None:
            raise UnwrittenError(f"placeholder '{self.name}' holds no numbers yet: write() to it first")
        return array

    def _evaluated(self) -> bool:
        if self._results is not None and self._results_at == self._stamp(True):
            return True
        if not self._typed() or not self.follows_from_shapes:
            return False
        self._keep([a for a in self._known if a is not None])
        return True

    def _work(self) -> float:
        shapes = [None if r is None else r[0].types()[r[1]][1] for r in self.inputs]
        return compute.work(self.op, shapes)

    def _elements(self) -> int:
        return sum(math.prod(shape) for _, shape in self.types())

    def _run(self) -> None:
        arrays = [None if r is None else r[0].results()[r[1]] for r in self.inputs]
        self._keep(compute.run_operator(self.op, self.attrs, arrays, self.outputs, self.name))

    def _keep(self, arrays: Sequence[np.ndarray]) -> None:
        self._results = [a.astype(storable(DType.of(a)).numpy, copy=False) for a in arrays]
        self._results_at = self._stamp(True)

    def _run_compiled(self, todo: list[Expr]) -> None:
        if self._executor is None:
            self._executor = _compile(self, todo)
        executor, feeds, inputs, outputs = self._executor
        arrays = [expr.results()[index] for expr, index in feeds]
        results = executor.run(dict(zip(inputs, arrays, strict=True)), outputs)
        self._keep([np.asarray(r) for r in results])  # no expression is a sequence or a map


Ref = tuple[Expr, int]


def _own(operands: Iterable[Ref | None]) -> None:
    """Operators are evaluated later, and more than once: on numbers as they are now."""
    for ref in operands:
        if ref is not None:
            ref[0].used = True
            ref[0].own()


class Slopes(Expr):
    """Gradients: operands are a number, and the tensors with regard to which they are taken. They follow from how the
    number is computed, so that all of this is one graph."""

    OPERATOR = "Gradient"

    def __init__(self, number: Ref, tensors: Sequence[Ref]) -> None:
        super().__init__(self.OPERATOR, [number, *tensors])
        self.outputs = len(tensors)

    @property
    def tensors(self) -> list[Ref]:
        """What the gradients are taken with regard to."""
        return [r for r in self.inputs[1:] if r is not None]

    def _infer(self) -> None:
        self._types, self._types_at = [e.types()[i] for e, i in self.tensors], self._stamp(False)

    def results(self) -> list[np.ndarray]:
        """The gradients, each in the shape of its tensor."""
        if self._results is None or self._results_at != self._stamp(True):
            self._run_compiled([e for e in in_order([self]) if not e.is_leaf])
        assert self._results is not None
        return self._results

    def _evaluated(self) -> bool:
        self.results()  # before what takes them is put together
        return True


def in_order(roots: Iterable[Expr], ends: Callable[[Expr], bool] = lambda expr: False) -> list[Expr]:
    """Everything that the roots depend on, each behind its operands; what ``ends`` is not looked into."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack = [(expr, False) for expr in reversed(list(roots))]
    while stack:
        expr, ready = stack.pop()
        if ready:
            order.append(expr)
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            if not ends(expr):
                stack += [(r[0], False) for r in reversed(expr.inputs) if r is not None]
    return order


def _pending(root: Expr, done: Callable[[Expr], bool]) -> list[Expr]:
    """Operators under ``root`` (itself included) for which ``done`` does not hold, each after those it uses."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            order.append(expr)
        elif id(expr) not in seen and not expr.is_leaf and not done(expr):
            seen.add(id(expr))
            stack.append((expr, True))
            stack += [(r[0], False) for r in expr.inputs if r is not None]
    return order


def _compile(root: Expr, todo: list[Expr]) -> tuple[Executor, list[Ref], list[Value], list[Value]]:
    """A graph of all operators under ``root`` that are to be computed; everything else is fed."""
    from MNN.runtime.executor import Executor  # brings the compiler, which most expressions do not need

    made: dict[tuple[int, int], Value] = {}
    fed: dict[tuple[int, int], Ref] = {}
    open_ends = {(id(e), i) for e, i in root.tensors} if isinstance(root, Slopes) else set()
    nodes: list[Node] = []
    for number, expr in enumerate(todo):
        inputs: list[Value | None] = []
        for ref in expr.inputs:
            if ref is None:
                inputs.append(None)
                continue
            key = (id(ref[0]), ref[1])
            if key not in made:
                constant = not ref[0].sources and key not in open_ends
                array = ref[0].results()[ref[1]] if constant else None
                made[key] = Value(f"v{len(made)}", None, None, array)
                if array is None:
                    fed[key] = ref
            inputs.append(made[key])
        outputs = [Value(f"{expr.name or expr.op}_{number}_{i}") for i in range(expr.outputs)]
        made.update({(id(expr), i): v for i, v in enumerate(outputs)})
        nodes.append(Node(expr.op, f"{expr.name or expr.op}_{number}", inputs, outputs, expr.attrs))
    inputs_fed = [made[key] for key in fed]
    outputs = [made[(id(root), i)] for i in range(root.outputs)]
    graph = Graph("expression", inputs_fed, outputs, nodes)
    return Executor(graph, SETTINGS.config()), list(fed.values()), inputs_fed, outputs
