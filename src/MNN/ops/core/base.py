"""What an operator is, and the registry that files of this room fill.

An operator is one class: its name (an OpType of MNN, or its own name when MNN has none), its attributes with defaults,
and :meth:`Operator.lower`, which states its meaning in primitives. The shape rule follows from the primitives.
Operators whose output shape depends on data, or that have no tensor form at all, are :class:`EagerOperator` instead.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from MNN.discovery import import_modules
from MNN.errors import MISFITS, ShapeError, UnsupportedError
from MNN.ir.graph import Node

if TYPE_CHECKING:
    from MNN.ir.prims import Tensor
    from MNN.ops.core.builder import Builder


class OwnState(NamedTuple):
    """A tensor that a node keeps from run to run by itself, empty before the first one."""

    name: str
    input: int
    """Which operand it is where it is handed in, and which result where it is handed out."""
    output: int
    sizes: tuple[str, ...]
    """Names of its sizes; those of one node's states with the same name agree."""
    axis: int
    """Along which it grows."""


class Operator:
    """Base of all operators. Subclasses are stateless; one instance serves every node."""

    name: ClassVar[str] = ""
    attributes: ClassVar[dict[str, object]] = {}
    """Attribute names with their defaults, in the spelling of the .mnn schema."""
    in_mnn: ClassVar[bool] = True
    """False for operators that the official engine lacks; they are written to files as ``Extra``."""
    keeps_shape: ClassVar[bool] = False
    """Whether the first output has the element type and sizes of the first input, whatever they are."""
    elementwise: ClassVar[bool] = False
    """Whether it is a function of single numbers: each element of the result comes from the one of its only operand in
    the same place."""
    broadcasts: ClassVar[bool] = False
    """The same of several operands, which broadcast by numpy's rule."""
    reshapes: ClassVar[bool] = False
    """Whether it gives the elements of its first operand in their order, in other sizes."""
    moves: ClassVar[bool] = False
    """Whether all that it gives are elements of its first operand."""
    zero_points: ClassVar[dict[int, int]] = {}
    """Quantised operands that it takes as integers, by number, with the operand that is their zero point, which may be
    left out for 0."""
    result_zero_point: ClassVar[int | None] = None
    """The operand that is the zero point of its quantised result, and says the result's type."""
    sizes_from: ClassVar[int | None] = None
    """The first of the operands that say sizes of the result, where there are such."""
    gives_sequence: ClassVar[bool] = False
    """Whether its result is a sequence of tensors."""
    runs_graphs: ClassVar[bool] = False
    """Whether its attributes hold graphs that it runs."""
    draws: ClassVar[bool] = False
    """Whether it draws random numbers, so that every run gives others."""
    updates: ClassVar[dict[int, int]] = {}
    """Operands that are kept from step to step of training, by number, with the results that they become."""
    initial_states: ClassVar[tuple[int, ...]] = ()
    """Operands, by number, that are states before the first step of a sequence."""
    differentiates: ClassVar[bool] = False
    """Whether it looks at how its operands were computed, which has to be of one program with it."""
    repeats: ClassVar[bool] = False
    """Whether :meth:`lower` looks at numbers of its operands through the builder only, so that nodes which are alike
    need to be lowered once (see :mod:`MNN.ops.core.recipes`)."""

    @property
    def family(self) -> str:
        """The room of the engine's own operators that it is from: ``linear``, ``elementwise``; empty for others."""
        rooms = type(self).__module__.split(".")
        return rooms[2] if rooms[:2] == ["MNN", "ops"] and len(rooms) > 3 else ""

    def own_states(self, node: Node) -> Sequence[OwnState]:
        """What a node keeps from run to run (see :mod:`MNN.own_states`)."""
        del node
        return ()

    def bounds(self, node: Node) -> tuple[float, float] | None:
        """The least and the largest result of an operator that only clamps its operand; None for all others."""
        return None

    def moved_operands(self, node: Node) -> Sequence[int]:
        """Operands, by number, where all that a node gives are elements of these, the largest of some perhaps. The
        first is a tensor; one that is not given stands for zero."""
        del node
        return (0,) if self.moves else ()

    def attr(self, node: Node, key: str) -> object:
        """The node's attribute or its default."""
        if key not in self.attributes:
            raise KeyError(f"operator {self.name} declares no attribute '{key}'")
        value = node.attrs.get(key)
        return self.attributes[key] if value is None else value

    def int_attr(self, node: Node, key: str) -> int:
        value = node.attrs.get(key)
        if type(value) is int:  # as files have them
            return value
        return int(self.attr(node, key))  # type: ignore[call-overload, no-any-return]

    def float_attr(self, node: Node, key: str) -> float:
        return float(self.attr(node, key))  # type: ignore[arg-type]

    def bool_attr(self, node: Node, key: str) -> bool:
        value = node.attrs.get(key)
        return value if type(value) is bool else bool(self.attr(node, key))

    def str_attr(self, node: Node, key: str) -> str:
        return str(self.attr(node, key))

    def ints_attr(self, node: Node, key: str) -> tuple[int, ...]:
        """A list attribute as a tuple of ints; empty when absent."""
        value = self.attr(node, key)
        return () if value is None else tuple(int(v) for v in value)  # type: ignore[attr-defined]

    def floats_attr(self, node: Node, key: str) -> tuple[float, ...]:
        """A list attribute as a tuple of floats; empty when absent."""
        value = self.attr(node, key)
        return () if value is None else tuple(float(v) for v in value)  # type: ignore[attr-defined]

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """The node's outputs built from primitives with ``b``. Raises :class:`MNNError` for misfits."""
        raise NotImplementedError


class EagerOperator(Operator):
    """An operator computed with numpy between native calls, because its output's shape depends on the data."""

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        """The node's outputs from the numbers of its inputs."""
        raise NotImplementedError


_OPERATORS: dict[str, Operator] = {}
T = TypeVar("T", bound=type[Operator])


def register(*names: str) -> Callable[[T], T]:
    """Class decorator: makes an operator known under one or more names."""

    def add(cls: T) -> T:
        for name in names:
            if name in _OPERATORS:
                raise ValueError(f"operator '{name}' is registered twice")
            instance = cls()
            instance.name = name  # type: ignore[misc]
            _OPERATORS[name] = instance
        return cls

    return add


def unregister(name: str) -> None:
    """Forgets an operator; unknown names are a ``KeyError``."""
    del _OPERATORS[name]


def _load_all() -> None:
    for _ in import_modules("MNN.ops"):
        pass
    importlib.import_module("MNN.autodiff.operator")  # which is made of this room's primitives


_loading = threading.RLock()
_begun = _loaded = False


def operators() -> dict[str, Operator]:
    """All known operators by name; the files of this room are imported on first use, for which other threads wait."""
    global _begun, _loaded
    if not _loaded:
        with _loading:
            if not _begun:  # the files themselves may ask
                _begun = True
                _load_all()
                _loaded = True
    return _OPERATORS


def operator(node: Node) -> Operator:
    """The operator of a node. Raises :class:`UnsupportedError` naming the node when there is none."""
    found = operators().get(node.op)
    if found is None:
        raise UnsupportedError(
            f"node '{node.name}': operator {node.op} is not known; register it with MNN.ops.custom, or convert the "
            "model with a newer version"
        )
    return found


_UNKNOWN = Operator()


def traits(node: Node | None) -> Operator:
    """A node's operator for those who only ask what is said of it: of one that is not known, nothing is."""
    return _UNKNOWN if node is None else operators().get(node.op, _UNKNOWN)


def lower_node(b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor]:
    """The outputs of a node built from primitives.

    A malformed node must not end in an exception that only a programmer understands: whatever it causes is a
    :class:`ShapeError` that names it.
    """
    try:
        outputs = list(operator(node).lower(b, node, inputs))
    except MISFITS as error:
        raise misfit(node, inputs, error) from error
    if len(outputs) < len(node.outputs):
        raise ShapeError(f"{node.op} '{node.name}': it has {len(outputs)} outputs, the model uses {len(node.outputs)}")
    return outputs


def evaluate_node(node: Node, inputs: Sequence[Any], *runner: object) -> list[Any]:
    """The outputs of an eager operator's node; errors as in :func:`lower_node`.

    They are arrays; those of an operator that runs subgraphs may also be nested, as in :mod:`MNN.ops.core.nested`."""
    op = operator(node)
    assert isinstance(op, EagerOperator)
    try:
        found = op.evaluate(node, inputs, *runner)
        outputs = [a if runner and (a is None or isinstance(a, (list, dict))) else np.asarray(a) for a in found]
    except MISFITS as error:
        raise misfit(node, inputs, error) from error
    if len(outputs) < len(node.outputs):
        raise ShapeError(f"{node.op} '{node.name}': it has {len(outputs)} outputs, the model uses {len(node.outputs)}")
    return outputs


def misfit(node: Node, inputs: Sequence[object], error: Exception) -> ShapeError:
    """What is said of a node that an operator cannot work on."""
    shapes = ["-" if t is None else str(list(getattr(t, "shape", ()))) for t in inputs]
    return ShapeError(
        f"{node.op} '{node.name}': its attributes do not fit inputs of shapes {', '.join(shapes)} "
        f"({type(error).__name__}: {error}); is the model damaged?"
    )
