"""Objects of a TorchScript program while it is converted: modules, their attributes, tensors among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.tensor import Complex
from MNN.frontends.torch.script.quantized import QuantizedTensor
from MNN.frontends.torch.unpickle import ScriptObject, StoredTensor, Unknown
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

MAX_NESTING = 64


class Objects:
    """Turns what the archive stores into what the interpreter works with; each stored thing becomes one object."""

    def __init__(self, ctx: TorchBuilder, state: Callable[[str, np.ndarray], Value | None]) -> None:
        """``state`` gives the value of a stored tensor that is a state, by its name."""
        self._ctx = ctx
        self._state = state
        self._made: dict[int, tuple[Any, Any]] = {}
        self.buffers: dict[Variable, tuple[str, Value]] = {}
        """Variables of stored tensors: the name and the constant that each began as."""

    def attribute(self, owner: ScriptObject, name: str, path: str) -> Any:
        """An attribute of a module. Raises :class:`FormatError` for one that it does not have."""
        if not isinstance(owner.state, dict) or name not in owner.state:
            raise FormatError(f"the object '{path or owner.kind}' has no attribute '{name}'; is the file damaged?")
        stored = owner.state[name]
        made = self.of(stored, f"{path}.{name}" if path else name)
        if made is not stored:
            owner.state[name] = made
        return made

    def of(self, stored: Any, path: str, depth: int = 0) -> Any:
        """The object of something stored; tensors become variables named after where they are."""
        if depth > MAX_NESTING:
            raise FormatError(f"'{path}' is nested too deeply")
        if not isinstance(stored, (StoredTensor, list, tuple, dict, Unknown)):
            return stored
        known = self._made.get(id(stored))
        if known is None:  # once each, so that what is shared is shared, and what is nested often costs nothing
            self._made[id(stored)] = (stored, stored)
            known = self._made[id(stored)] = (stored, self._new(stored, path, depth))
        return known[1]

    def _new(self, stored: Any, path: str, depth: int) -> Any:
        if isinstance(stored, StoredTensor):
            return self._tensor(stored, path)
        if isinstance(stored, Unknown):
            raise FormatError(f"'{path}' is an object of the class '{stored.name}', which TorchScript does not have")
        if isinstance(stored, list):
            for i, item in enumerate(stored):
                stored[i] = self.of(item, f"{path}.{i}", depth + 1)
            return stored
        if isinstance(stored, tuple):
            made = tuple(self.of(item, f"{path}.{i}", depth + 1) for i, item in enumerate(stored))
            return stored if all(a is b for a, b in zip(made, stored, strict=True)) else made
        if isinstance(stored, dict):
            for key, item in stored.items():
                stored[key] = self.of(item, f"{path}.{key}", depth + 1)
        return stored

    def _tensor(self, stored: StoredTensor, path: str) -> Any:
        array = stored.array()
        value = self._state(path, array) if stored.scale is None else None
        if value is None:
            value = Value(self._ctx.unique(path or "tensor"), DType.of(array), tuple(array.shape), array)
        if stored.scale is None:
            variable = Variable(value, stored=True)
            self.buffers[variable] = (path, value)
            return Complex(variable) if stored.storage.is_complex else variable
        scale = self.of(stored.scale, f"{path}.scale")
        zero = self.of(stored.zero, f"{path}.zero")
        scale, zero = (_constant(self._ctx, v, kind) for v, kind in ((scale, np.float32), (zero, array.dtype)))
        return QuantizedTensor(value, scale, zero, stored.axis)


def _constant(ctx: TorchBuilder, given: Any, kind: Any) -> Value:
    array = given.read(ctx).array() if isinstance(given, Variable) else np.asarray(given)
    return ctx.const(array.astype(kind))
