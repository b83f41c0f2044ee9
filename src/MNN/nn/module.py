"""The base of modules: networks with parameters and other modules inside."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from MNN.errors import MNNError, ShapeError, UndefinedError
from MNN.expr import build
from MNN.expr.var import Var
from MNN.nn.settings import shown, truth
from MNN.schema.arrays import read_arrays, write_arrays

if TYPE_CHECKING:
    from typing_extensions import Self  # Python's own has it from 3.11 on


class Module:
    """A network. Subclasses set parameters (Vars) and other modules as attributes and define :meth:`forward`.

    ``parameters`` lists the Vars of this module and of those inside; they become trainable when they are set.
    """

    def __init__(self) -> None:
        self._children: dict[str, Module] = {}
        self._vars: dict[str, Var] = {}
        self._statistics: dict[str, Var] = {}
        self._name = ""
        self._training = True
        self._frozen = False

    def __setattr__(self, key: str, value: Any) -> None:
        if "_vars" in self.__dict__ and not key.startswith("_"):
            if isinstance(value, Module):
                value.set_name(key)
                self._children[key] = value
            else:
                self._children.pop(key, None)
            self._statistics = {n: v for n, v in self._statistics.items() if n != key or v is value}
            if isinstance(value, Var) and any(value is v for v in self._statistics.values()):
                self._rename_statistic(key, value)
            elif isinstance(value, Var):
                if value.op_type != "Trainable":
                    value.fix_as_trainable()
                value.name = key
                self._vars[key] = value
            else:
                self._vars.pop(key, None)
        elif "_vars" not in self.__dict__ and isinstance(value, (Module, Var)):
            raise MNNError(
                f"{type(self).__name__}.{key} is set before the module can hold it: call super().__init__() first in "
                f"{type(self).__name__}.__init__()"
            )
        object.__setattr__(self, key, value)

    def __delattr__(self, key: str) -> None:
        object.__delattr__(self, key)
        if not key.startswith("_"):
            for held in (self._children, self._vars, self._statistics):
                held.pop(key, None)

    def forward(self, x: Any) -> Any:
        """The network's answer; to be defined by subclasses."""
        raise UndefinedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """:meth:`forward`, in which errors name the layer. PyMNN's takes one argument; masks may go beside it here."""
        if not self._name:
            return self.forward(*inputs, **named)
        outer = build.LAYER.get()
        path = f"{outer}.{self._name}" if outer else self._name
        token = build.LAYER.set(path)
        try:
            return self.forward(*inputs, **named)
        except MNNError as error:
            if not error.layer:
                error.layer = path  # the innermost one
                error.args = (f"layer '{path}': {error}",)
            raise
        finally:
            build.LAYER.reset(token)

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
        self._training = truth("flag", flag)
        for child in self._children.values():
            child.train(flag)

    def register_statistic(self, value: np.ndarray | Var) -> Var:
        """A Var that training keeps and no gradient moves, such as a running mean. It is one of :attr:`parameters`."""
        if not isinstance(value, (Var, np.ndarray)):
            raise MNNError(f"a statistic of a module is an array or a Var, found {shown(value)}")
        var = value if isinstance(value, Var) else build.leaf(value, op="Trainable")
        self._statistics[f"statistic{len(self._statistics)}"] = var
        return var

    def _add_parameter(self, parameter: Var) -> int:
        """PyMNN's way to give the module a parameter without an attribute: its place among :attr:`parameters`."""
        if not isinstance(parameter, Var):
            raise MNNError(f"a parameter of a module is a Var, found {shown(parameter)}")
        if parameter.op_type != "Trainable":
            parameter.fix_as_trainable()
        self._vars[parameter.name or f"parameter{len(self._vars)}"] = parameter
        return next(i for i, v in enumerate(self.parameters) if v._expr is parameter._expr)

    def _register_submodules(self, children: Sequence[Module]) -> None:
        """PyMNN's way to give the module modules without attributes."""
        if not isinstance(children, (list, tuple)) or not all(isinstance(m, Module) for m in children):
            raise MNNError(f"_register_submodules() takes a list of modules, found {shown(children)}")
        for child in children:
            self._children[child.name or f"module{len(self._children)}"] = child

    def _rename_statistic(self, key: str, value: Var) -> None:
        self._statistics = {n: v for n, v in self._statistics.items() if v is not value}
        self._statistics[key] = value
        value.name = key

    def named_parameters(self, prefix: str = "") -> dict[str, Var]:
        """All parameters and statistics by their path (``fc.weight``). What two modules share is listed once."""
        found = {f"{prefix}{name}": v for name, v in (*self._vars.items(), *self._statistics.items())}
        for name, child in self._children.items():
            found |= child.named_parameters(f"{prefix}{name}.")
        seen: set[int] = set()
        return {n: v for n, v in found.items() if id(v._expr) not in seen and not seen.add(id(v._expr))}  # type: ignore[func-returns-value]

    @property
    def parameters(self) -> list[Var]:
        return list(self.named_parameters().values())

    @property
    def statistics(self) -> list[Var]:
        """Those of the parameters that no gradient moves."""
        inside = [v for child in self._children.values() for v in child.statistics]
        return [*self._statistics.values(), *inside]

    def freeze(self, flag: bool = True) -> None:
        """Leaves the parameters of this module and those inside as they are when an optimizer makes steps; or not."""
        self._frozen = truth("flag", flag)
        for child in self._children.values():
            child.freeze(flag)

    def frozen_parameters(self) -> list[Var]:
        """The parameters of what is frozen."""
        own = list(self._vars.values()) if self._frozen else []
        return [*own, *[v for child in self._children.values() for v in child.frozen_parameters()]]

    def unlisted(self) -> list[str]:
        """Paths of attributes that are sequences or dicts of modules or of trainable Vars which are nowhere among
        :attr:`parameters`: optimizers do not see them."""
        known = {id(v._expr) for v in self.parameters}
        return self._unlisted("", known)

    def _unlisted(self, prefix: str, known: Collection[int]) -> list[str]:
        found = []
        for key, value in vars(self).items():
            if not key.startswith("_") and isinstance(value, (list, tuple, dict)):
                held = list(value.values()) if isinstance(value, dict) else value
                inside = [v for m in held if isinstance(m, Module) for v in m.parameters]
                inside += [v for v in held if isinstance(v, Var) and v.op_type == "Trainable"]
                if any(id(v._expr) not in known for v in inside):
                    found.append(prefix + key)
        return found + [p for name, m in self._children.items() for p in m._unlisted(f"{prefix}{name}.", known)]

    def load_parameters(self, parameters: list[Var]) -> bool:
        """Takes the numbers of as many Vars, in the order of ``parameters``; False when they do not fit."""
        if not isinstance(parameters, (list, tuple)) or not all(isinstance(v, Var) for v in parameters):
            raise MNNError(f"load_parameters() takes a list of Vars, found {shown(parameters)}")
        own = self.parameters
        if len(own) != len(parameters) or any(a.shape != b.shape for a, b in zip(own, parameters, strict=True)):
            return False
        for to, source in zip(own, parameters, strict=True):
            to.write(source.read())
        return True

    def clone(self, share: bool = False) -> Self:
        """Another module of the same form: with parameters of its own that hold the same numbers, or with ``share`` on
        the same parameters."""
        made: Self = _Clones(share).of(self)
        return made

    def get_info(self) -> dict[str, object]:
        """What the file of a module that was loaded from one says of it. Raises :class:`MNNError` for others."""
        raise MNNError(
            f"{type(self).__name__} was not loaded from a file (load_module_from_file), which get_info() tells of"
        )

    def clear_cache(self) -> None:
        """Frees what the module keeps between calls."""
        for child in self._children.values():
            child.clear_cache()


class _Clones:
    """Copies of modules, each one made once however often it is found."""

    def __init__(self, share: bool) -> None:
        self._share = share
        self._made: dict[int, Any] = {}

    def of(self, module: Any) -> Any:
        """The copy of a module: what its attributes hold is shared but for modules, parameters, and lists,
        tuples and dicts of them."""
        if id(module) in self._made:
            return self._made[id(module)]
        made = self._made[id(module)] = object.__new__(type(module))
        own = {id(v._expr) for v in (*module._vars.values(), *module._statistics.values())}
        made.__dict__.update({name: self._value(value, own) for name, value in module.__dict__.items()})
        return made

    def _value(self, value: Any, own: set[int]) -> Any:
        if isinstance(value, Module):
            return value.clone(self._share) if type(value).clone is not Module.clone else self.of(value)
        if isinstance(value, Var) and id(value._expr) in own and not self._share:
            return self._parameter(value)
        if type(value) in (list, tuple):
            return type(value)(self._value(v, own) for v in value)
        if type(value) is dict:
            return {k: self._value(v, own) for k, v in value.items()}
        return value

    def _parameter(self, var: Var) -> Var:
        made = self._made.get(id(var._expr))
        if made is None:
            made = self._made[id(var._expr)] = build.leaf(var.read(), var.data_format, var.op_type)
            made.name = var.name
        found: Var = made
        return found


def inside(module: Module) -> list[Module]:
    """A module and those inside, each once."""
    found: dict[int, Module] = {}
    stack = [module]
    while stack:
        one = stack.pop()
        if id(one) not in found:
            found[id(one)] = one
            stack += one._children.values()
    return list(found.values())


@contextlib.contextmanager
def in_mode(module: Module, training: bool) -> Iterator[None]:
    """Within, a module and those inside are in training mode, or in inference mode. Afterwards each is in the mode that
    it was in, also where these differ."""
    before = [(one, one._training) for one in inside(module)]
    outer = module.is_training
    module.train(training)
    try:
        yield
    finally:
        module.train(outer)
        for one, flag in before:
            one._training = flag


def trainable(module: Module) -> list[Var]:
    """The parameters that an optimizer moves: floats that are not frozen, no constants and no statistics."""
    kept = {id(v._expr) for v in (*module.statistics, *module.frozen_parameters())}
    return [v for v in module.parameters if id(v._expr) not in kept and v.op_type == "Trainable" and v._kind.is_float]


def numbered(module: Module) -> list[Var]:
    """The parameters that are no statistics, frozen or not: their places stay when layers are frozen or set free."""
    kept = {id(v._expr) for v in module.statistics}
    return [v for v in module.parameters if id(v._expr) not in kept]


def save(module: Module, path: str | os.PathLike[str]) -> None:
    """Writes all parameters by name (numpy's .npz), whole or not at all; :func:`load` reads them."""
    _check_module("save", module)
    write_arrays(path, {name: v.read() for name, v in module.named_parameters().items()})


def load(module: Module, path: str | os.PathLike[str]) -> None:
    """Reads what :func:`save` wrote into a module of the same form. Raises :class:`MNNError` for another one's."""
    _check_module("load", module)
    set_parameters(module, read_arrays(path), os.fspath(path))


def _check_module(what: str, module: object) -> None:
    if not isinstance(module, Module):
        raise MNNError(f"{what}() takes a module and a path, in this order; the first is {type(module).__name__}")


def set_parameters(module: Module, arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Gives parameters their numbers by name, all or none."""
    for name, var in check_parameters(module, arrays, where).items():
        var.write(arrays[name])


def check_parameters(module: Module, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, Var]:
    """The parameters, if :func:`set_parameters` can give them these numbers. Raises :class:`MNNError` otherwise."""
    named = module.named_parameters()
    if missing := sorted(set(named) ^ set(arrays)):
        raise MNNError(f"{where} is of another module: '{missing[0]}' is only in one of them")
    for name, var in named.items():
        if arrays[name].dtype.kind not in "biuf":
            raise MNNError(f"{where}: '{name}' holds no numbers but {arrays[name].dtype}")
        if tuple(var.shape) != arrays[name].shape:
            raise ShapeError(f"{where}: '{name}' has the shape {list(arrays[name].shape)}, the module's is {var.shape}")
    return named


class EmptyModule(Module):
    """A module that computes nothing."""

    def forward(self, x: Any = None) -> Any:
        """None."""
        return None
