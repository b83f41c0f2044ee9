"""Operators of the user's own.

A class states the ONNX type it stands for, its attributes, and its meaning in one of three ways:

- :meth:`CustomOperator.lower` builds the outputs from primitives, like the operators in this package: compiled and
  fused with its neighbours.
- :meth:`CustomOperator.infer` and :meth:`CustomOperator.compute`: a numpy function with a shape rule.
- :meth:`CustomOperator.compute` alone: a numpy function whose outputs' shapes depend on the data.

See docs/custom-operators.md for an example of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from MNN.errors import MNNError, RunError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import EagerOperator, Operator, operators, register, unregister
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand

REQUIRED: Any = ...
"""Default of an attribute that every node must have."""
Arrays = np.ndarray | Sequence[np.ndarray]


@dataclass(frozen=True)
class TensorType:
    """Element type and sizes of a tensor."""

    dtype: DType
    shape: tuple[int, ...]


class CustomOperator(Operator):
    """Base of operators that users define. One instance serves every node: keep no state in it."""

    onnx_type: ClassVar[str] = ""
    """The operator's name in ONNX models; the class's name when left empty."""
    domain: ClassVar[str] = ""
    """Its ONNX domain, such as ``"com.example"``."""
    since: ClassVar[int] = 1
    """The first version of the domain's operator set that it fits."""
    attributes: ClassVar[dict[str, object]] = {}
    """Attributes with their defaults: int, float, str, list of those, numpy array; REQUIRED for those without one."""
    in_mnn = False

    def attributes_of(self, node: Node) -> dict[str, Any]:
        """The node's attributes, defaults filled in."""
        return {key: self.attr(node, key) for key in self.attributes}

    if TYPE_CHECKING:  # subclasses name the inputs that their operator has
        infer: Callable[..., TensorType | Sequence[TensorType]]
        compute: Callable[..., Arrays]
    else:

        def infer(self, attributes: Mapping[str, Any], *inputs: TensorType) -> TensorType | Sequence[TensorType]:
            """The outputs' types for inputs of these types. Raise :class:`~MNN.errors.ShapeError` for misfits."""
            raise NotImplementedError

        def compute(self, attributes: Mapping[str, Any], *inputs: np.ndarray) -> Arrays:
            """The outputs' numbers; do not change the inputs. Called from several threads when sessions run in
            several."""
            raise NotImplementedError

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """The outputs built from primitives. By default one call of :meth:`compute`."""
        attributes, where = self.attributes_of(node), b.where
        tensors = [operand(b, inputs, i) for i in range(len(inputs))]
        found = self.infer(attributes, *[TensorType(t.dtype, t.shape) for t in tensors])
        types = [found] if isinstance(found, TensorType) else list(found)

        def fn(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            outputs = _call(self, attributes, arrays, where)
            for i, (array, kind) in enumerate(zip(outputs, types, strict=False)):
                if array.shape != kind.shape or array.dtype != kind.dtype.numpy:
                    raise RunError(
                        f"{where}: compute gave output {i} as {array.dtype}{list(array.shape)}, infer promised "
                        f"{kind.dtype.value}{list(kind.shape)}"
                    )
            if len(outputs) != len(types):
                raise RunError(f"{where}: compute gave {len(outputs)} outputs, infer promised {len(types)}")
            return outputs

        return b.host(f"custom {self.name} {where}", fn, tensors, *[(t.dtype, t.shape) for t in types], pure=False)


def _call(
    op: CustomOperator, attributes: Mapping[str, Any], arrays: Sequence[np.ndarray | None], where: str
) -> list[np.ndarray]:
    try:
        found = op.compute(attributes, *[a for a in arrays if a is not None])
    except MNNError:
        raise
    except Exception as error:
        raise RunError(f"{where}: the custom operator's compute raised {type(error).__name__}: {error}") from error
    return [np.asarray(a) for a in ([found] if isinstance(found, np.ndarray | np.generic) else found)]


class _Eager(EagerOperator):
    """Stands for a custom operator whose outputs' shapes depend on data."""

    in_mnn = False
    inner: ClassVar[CustomOperator]

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        return _call(self.inner, self.inner.attributes_of(node), inputs, f"{node.op} '{node.name}'")


@dataclass(frozen=True)
class Registration:
    """What the front end needs: the node's operator name here, the opset from which on it holds, its attributes."""

    op: str
    since: int
    attributes: Mapping[str, object]


_registered: dict[tuple[str, str], Registration] = {}
C = TypeVar("C", bound=type[CustomOperator])


@overload
def register_operator(cls: C) -> C: ...
@overload
def register_operator(cls: None = None, *, override: bool = False) -> Any: ...
def register_operator(cls: C | None = None, *, override: bool = False) -> Any:
    """Makes a :class:`CustomOperator` class known; use it as a decorator or call it.

    ``override`` allows to replace an operator of the ONNX standard or one registered before. Raises
    :class:`~MNN.errors.MNNError` when the class is not usable or the name is taken.
    """
    if cls is None:
        return lambda c: _add(c, override)
    return _add(cls, override)


def _add(cls: C, override: bool) -> C:
    if not (isinstance(cls, type) and issubclass(cls, CustomOperator)):
        raise MNNError(f"{cls!r} is no custom operator: derive a class from MNN.ops.custom.CustomOperator")
    kind = cls.onnx_type or cls.__name__
    domain = "" if cls.domain == "ai.onnx" else cls.domain
    lowers, infers, computes = (
        getattr(cls, name) is not getattr(CustomOperator, name) for name in ("lower", "infer", "compute")
    )
    if not lowers and not computes:
        raise MNNError(f"custom operator {kind} has no meaning: define lower, or compute (with infer where possible)")
    key = (domain, kind)
    name = f"{domain or 'custom'}::{kind}"
    if key in _registered and not override:
        raise MNNError(f"operator {kind} of domain '{domain}' is registered already; pass override=True to replace it")
    if not domain and not override and kind in operators():
        raise MNNError(f"operator {kind} is built in; give yours a domain, or pass override=True to replace it")
    if key in _registered:
        unregister_operator(kind, domain)
    if lowers or infers:
        register(name)(cls)
    else:
        register(name)(type(f"{cls.__name__}Eager", (_Eager,), {"inner": cls(), "attributes": cls.attributes}))
    _registered[key] = Registration(name, cls.since, dict(cls.attributes))
    return cls


def unregister_operator(onnx_type: str, domain: str = "") -> None:
    """Forgets a custom operator. Raises :class:`~MNN.errors.MNNError` when there is none of this name."""
    domain = "" if domain == "ai.onnx" else domain
    if (domain, onnx_type) not in _registered:
        raise MNNError(f"no custom operator {onnx_type} of domain '{domain}' is registered")
    unregister(_registered.pop((domain, onnx_type)).op)


def registered_operator(onnx_type: str, domain: str, opset: int) -> Registration | None:
    """The custom operator for an ONNX node, or None."""
    found = _registered.get(("" if domain == "ai.onnx" else domain, onnx_type))
    return found if found is not None and found.since <= max(opset, 1) else None
