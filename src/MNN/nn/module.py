"""The base of modules: networks with parameters and other modules inside."""

from __future__ import annotations

from typing import Any

from MNN.expr.var import Var


class Module:
    """A network. Subclasses set parameters (Vars) and other modules as attributes and define :meth:`forward`.

    ``parameters`` lists the Vars of this module and of those inside; they become trainable when they are set.
    """

    def __init__(self) -> None:
        self._children: dict[str, Module] = {}
        self._vars: dict[str, Var] = {}
        self._name = ""
        self._training = True

    def __setattr__(self, key: str, value: Any) -> None:
        if "_vars" in self.__dict__ and key not in ("_children", "_vars"):
            if isinstance(value, Module):
                value.set_name(key)
                self._children[key] = value
            else:
                self._children.pop(key, None)
            if isinstance(value, Var):
                if value.op_type != "Trainable":
                    value.fix_as_trainable()
                value.name = key
                self._vars[key] = value
            else:
                self._vars.pop(key, None)
        object.__setattr__(self, key, value)

    def forward(self, x: Any) -> Any:
        """The network's answer; to be defined by subclasses."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def onForward(self, x: list[Var]) -> list[Var]:  # noqa: N802 - PyMNN's name
        """:meth:`forward` with a list in and a list out."""
        found = self.forward(x)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    @property
    def name(self) -> str:
        return self._name

    def set_name(self, name: str) -> None:
        """Names the module."""
        self._name = str(name)

    @property
    def is_training(self) -> bool:
        return self._training

    def train(self, flag: bool = True) -> None:
        """Switches training on or off, here and in the modules inside."""
        self._training = bool(flag)
        for child in self._children.values():
            child.train(flag)

    @property
    def parameters(self) -> list[Var]:
        inside = [p for child in self._children.values() for p in child.parameters]
        return [*self._vars.values(), *inside]

    def load_parameters(self, parameters: list[Var]) -> bool:
        """Takes the numbers of as many Vars, in the order of ``parameters``; False when they do not fit."""
        own = self.parameters
        if len(own) != len(parameters) or any(a.shape != b.shape for a, b in zip(own, parameters, strict=True)):
            return False
        for to, source in zip(own, parameters, strict=True):
            to.write(source.read())
        return True

    def clear_cache(self) -> None:
        """Frees what the module keeps between calls."""
        for child in self._children.values():
            child.clear_cache()
