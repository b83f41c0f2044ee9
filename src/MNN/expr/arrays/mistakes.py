"""What users get wrong, in one sentence: errors of Python and numpy that come from inside of a public function, because
an argument was none that it takes, are told as :class:`MNNError` with the function's name and what it was given."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import PIL

import MNN.errors
from MNN.errors import MISFITS, MNNError
from MNN.expr.var import Var

_OURS = (
    *(os.path.join(os.path.dirname(path), "") for path in (MNN.errors.__file__, np.__file__, PIL.__file__)),
    os.path.dirname(os.__file__) + os.sep,
    "<frozen ",
    "numpy" + os.sep,
)
"""How the names of files begin whose code is not the user's, those of compiled ones among them."""
_OTHERS = os.sep + "site-packages" + os.sep
_AT_ONCE = ("MNN.expr.math",)
"""Modules of functions that tell of mistakes themselves, and are called in less time than is worth losing here."""
_LONGEST = 24
"""Letters of an argument that are shown."""


def _shown(value: object) -> str:
    if isinstance(value, (Var, np.ndarray)):
        try:
            return f"{type(value).__name__} {value.dtype}{list(value.shape)}"
        except MNNError:
            return "Var of unknown shape"
    if isinstance(value, (bool, int, float, complex, str, bytes, list, tuple)) or value is None:
        text = repr(value)
        if len(text) <= _LONGEST and "\n" not in text:
            return text
    return type(value).__name__


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _from_inside(error: BaseException) -> bool:
    """Whether an error comes from what a function did: neither from its signature, nor from code of the user's that it
    was given to call."""
    place = error.__traceback__
    if place is None or place.tb_next is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    file = place.tb_frame.f_code.co_filename
    return file.startswith(_OURS[:3]) or (file.startswith(_OURS) and _OTHERS not in file)


def told(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``function`` that raises :class:`MNNError`, of one line, for arguments that it cannot use. Those that do not fit
    its signature are Python's to tell of."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except MNNError as error:
            if "\n" not in str(error):
                raise
            raise type(error)(_sentence(error)) from error
        except MISFITS as error:
            if not _from_inside(error):
                raise
            given = ", ".join([*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in named.items())])
            raise MNNError(f"{name}({given}): {_sentence(error)}; look up which arguments it takes") from error

    return call


def tell(package: dict[str, Any], name: str) -> None:
    """Lets the public functions among the names of a package tell of mistakes."""
    for key in package["__all__"]:
        function = package[key]
        if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
            continue
        if function.__module__ not in _AT_ONCE:
            package[key] = call = told(function, f"{name}.{key}")
            call.__module__, call.__qualname__ = name, key  # where pickle finds it


__all__ = ["tell", "told"]
