"""What settings and states of optimisers may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from MNN.errors import MNNError
from MNN.nn.settings import not_negative, shown
from MNN.optim.regularization import Regularization_Method
from MNN.optim.scaling import LossScale
from MNN.runtime.config import Config


def pull(name: str, value: object) -> Regularization_Method:
    """A method of regularisation, by itself or by name."""
    return Regularization_Method.of(value)


def scale(name: str, value: object) -> LossScale | None:
    """What losses are multiplied by."""
    return LossScale.of(value)


def precision(name: str, value: object) -> str:
    """A precision of programs."""
    return Config(precision=value).precision  # type: ignore[arg-type] # which it checks


def threads(name: str, value: object) -> int | None:
    """A number of threads, or None."""
    return None if value is None else Config(threads=value).threads  # type: ignore[arg-type] # which it checks


def state(given: object, kinds: Collection[str], stem: str, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The numbers of steps and losses in a state whose arrays are of these kinds, of parameters of these shapes. Raises
    :class:`MNNError` for any other."""
    if not isinstance(given, Mapping):
        raise MNNError(f"the state of an optimizer is a dict, as state() gives it, found {type(given).__name__}")
    if missing := {"steps", "losses"} - set(given):
        raise MNNError(f"that is no state of an optimizer: it has no '{min(missing)}'")
    for name, array in given.items():
        if not isinstance(array, (np.ndarray, np.generic, int, float)) or np.asarray(array).dtype.kind not in "biuf":
            raise MNNError(f"the state '{name}' is an array of numbers, as state() gives it, found {shown(array)}")
        owner, dot, kind = name.partition(".")
        if dot:
            place = int(owner.removeprefix(stem)) if owner.removeprefix(stem).isdigit() else -1
            if kind not in kinds or not 0 <= place < len(shapes) or shapes[place] != np.shape(array):
                raise MNNError(f"the state '{name}' {list(np.shape(array))} is of another optimizer or module")
    return {name: _counted(name, given[name]) for name in ("steps", "losses", "counted") if name in given}


def _counted(name: str, value: object) -> int:
    found = not_negative(f"the state '{name}'", value)
    if found >= 2**63 or found != int(found):
        raise MNNError(f"the state '{name}' is a number of steps or losses, found {shown(value)}")
    return int(found)


__all__ = ["precision", "pull", "scale", "state", "threads"]
