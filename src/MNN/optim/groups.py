"""Parameters whose steps are larger or smaller than others', or that are pulled to zero less or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from MNN.errors import MNNError
from MNN.expr.var import Var
from MNN.nn.module import Module, numbered
from MNN.nn.settings import not_negative, shown
from MNN.optim.step_graph import Special


@dataclass(frozen=True)
class Group:
    """``parameters``: modules, whose parameters are all meant, and parameters. ``rate_factor``: how many times the
    learning rate of the optimizer their steps have. ``weight_decay``: theirs, None: the optimizer's.

    torch's group with ``lr`` is one with ``rate_factor = lr / learning_rate``; schedules change both alike."""

    parameters: Sequence[Module | Var]
    rate_factor: float = 1.0
    weight_decay: float | None = None


class Groups:
    """The groups of an optimizer of ``module``. Raises :class:`MNNError` where a group has no parameter, one that the
    module lacks, or one that another group has."""

    def __init__(self, module: Module | None, groups: Sequence[Group]) -> None:
        self._of: dict[int, int] = {}
        if isinstance(groups, Group) or not isinstance(groups, Sequence):
            raise MNNError(f"groups= takes a list of MNN.optim.Group objects, found {type(groups).__name__}")
        self._groups = tuple(groups)
        paths = {} if module is None else {id(v._expr): path for path, v in module.named_parameters().items()}
        for number, group in enumerate(self._groups):
            if not isinstance(group, Group):
                raise MNNError(f"groups= takes MNN.optim.Group objects, found {type(group).__name__}")
            not_negative(f"rate_factor of group {number}", group.rate_factor)
            if group.weight_decay is not None:
                not_negative(f"weight_decay of group {number}", group.weight_decay)
            for var in _parameters(number, group):
                if id(var._expr) not in paths:
                    raise MNNError(
                        f"group {number} of the optimizer has a parameter {list(var.shape)} that the module does not "
                        "have; pass parameters of the module that is trained, or modules in it"
                    )
                other = self._of.setdefault(id(var._expr), number)
                if other != number:
                    raise MNNError(f"the parameter '{paths[id(var._expr)]}' is in groups {other} and {number} at once")

    def specials(self, module: Module | None) -> tuple[Special, ...]:
        """What differs from the optimizer's settings, for the parameters as steps number them."""
        names: dict[int, list[int]] = {}
        for i, var in enumerate(() if module is None else numbered(module)):
            if (group := self._of.get(id(var._expr))) is not None:
                names.setdefault(group, []).append(i)
        return tuple(Special(tuple(names[g]), _attributes(self._groups[g])) for g in sorted(names))

    def __bool__(self) -> bool:
        return bool(self._of)


def _parameters(number: int, group: Group) -> list[Var]:
    given = group.parameters
    if not isinstance(given, (Module, Var, list, tuple)):
        raise MNNError(f"group {number} of the optimizer takes a list of modules and parameters, found {shown(given)}")
    listed = [given] if isinstance(given, (Module, Var)) else given
    found: list[Var] = []
    for one in listed:
        if not isinstance(one, (Module, Var)):
            raise MNNError(f"group {number} of the optimizer holds modules and parameters, found {type(one).__name__}")
        found += one.named_parameters().values() if isinstance(one, Module) else [one]
    if not found:
        raise MNNError(f"group {number} of the optimizer has no parameters")
    return found


def _attributes(group: Group) -> tuple[tuple[str, object], ...]:
    decay: Mapping[str, object] = {} if group.weight_decay is None else {"weightDecay": float(group.weight_decay)}
    return (("rateFactor", float(group.rate_factor)), *decay.items())


__all__ = ["Group", "Groups"]
