"""Arguments that functions of the API do not take: one sentence of MNNError, whatever they are."""

from __future__ import annotations

import inspect
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import MNN.audio
import MNN.cv
import MNN.expr
import MNN.numpy
from MNN import MNNError

TOUCHING = (
    "fromfile", "gc", "imread", "imwrite", "lazy_eval", "load", "loadtxt", "save", "save_as_dict", "savetxt",
    "set_global_executor_config", "set_lazy_mode", "set_thread_number", "setNumThreads",
)  # fmt: skip
"""Functions that change files or the process."""
LARGE = ("indices",)
"""Functions that make as many numbers as they are told."""


def _drawn(draw: random.Random) -> Any:
    """Something that most arguments are not."""
    numbers = np.random.default_rng(draw.randrange(1 << 30))

    def var(*sizes: int, kind: Any = np.float32) -> Any:
        return MNN.numpy.array((numbers.random(sizes) * 3).astype(kind))

    choices: list[Callable[[], Any]] = [
        lambda: 0, lambda: 2, lambda: -1, lambda: 5.5, lambda: float("nan"), lambda: None, lambda: "abc", lambda: True,
        lambda: [1, 2], lambda: (-1, 2), list, lambda: (3, 3), lambda: ["a"], dict, lambda: object(),
        lambda: [None], lambda: [[1, 2], [3]], lambda: 10**30, lambda: float("inf"), lambda: 1 + 2j, lambda: b"ab",
        lambda: np.float32, lambda: slice(1, 2), lambda: np.array("x"), lambda: max, lambda: var(), lambda: var(0),
        lambda: var(3), lambda: var(3, 4), lambda: var(1, 1), lambda: var(4, 5, 3, kind=np.uint8),
        lambda: var(2, 2, 3, 2, 2), lambda: var(3, 3, kind=np.int32), lambda: var(0, 3), lambda: [var(3, 2)],
        lambda: MNN.expr.NCHW, lambda: MNN.expr.placeholder([2, 3]),
    ]  # fmt: skip
    return draw.choice(choices)()


def _arguments(function: Callable[..., Any], draw: random.Random) -> tuple[list[Any], dict[str, Any]]:
    given: list[Any] = []
    named: dict[str, Any] = {}
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            given += [_drawn(draw) for _ in range(draw.randrange(3))]
        elif p.kind is p.VAR_KEYWORD:
            continue
        elif p.default is p.empty and p.kind is not p.KEYWORD_ONLY:
            given.append(_drawn(draw))
        elif p.default is p.empty or draw.random() < 0.4:
            named[p.name] = _drawn(draw)
    return given, named


def _functions(module: Any) -> list[Callable[..., Any]]:
    if isinstance(module, type):
        found = (f for n in dir(module) if not n.startswith("_") and inspect.isfunction(f := getattr(module, n)))
        return [f for f in found if f.__name__ not in TOUCHING]
    names = (n for n in module.__all__ if n not in TOUCHING)
    return [f for n in names if inspect.isfunction(f := getattr(module, n))]


@pytest.mark.parametrize("module", [MNN.cv, MNN.numpy, MNN.expr, MNN.audio, MNN.expr.Var], ids=lambda m: m.__name__)
def test_mistakes_are_told_in_a_sentence(module: Any) -> None:
    told = 0
    wrong = []
    for function in _functions(module):
        for seed in range(3):
            given, named = _arguments(function, draw := random.Random(f"{function.__name__} {seed}"))
            if isinstance(module, type):
                given[0] = MNN.numpy.array(np.arange(12 if draw.random() < 0.8 else 0).reshape(-1, 4))
            if any(type(a) is int and a > 1 << 40 for a in (*given, *named.values())) and function.__name__ in LARGE:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*given, **named)
            except MNNError as error:
                told += 1
                if "\n" in str(error) or not str(error):
                    wrong.append(f"{function.__name__}: {error}")
            except Exception as error:  # noqa: BLE001 - which are what is looked for
                wrong.append(f"{function.__name__} {seed}: {type(error).__name__} {error}")
    assert wrong == []
    assert told > len(_functions(module)) * 0.8


def test_errors_of_what_a_user_gives_to_be_called_stay_his() -> None:
    def broken(*places: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        MNN.numpy.fromfunction(broken, (2, 3))
    with pytest.raises(TypeError, match="missing"):
        MNN.numpy.concatenate()  # type: ignore[call-overload]
    with pytest.raises(MNNError, match=r"MNN.numpy.concatenate\(3\): .*; look up"):
        MNN.numpy.concatenate(3)  # type: ignore[arg-type]


def test_functions_can_be_pickled() -> None:
    for module in (MNN.cv, MNN.numpy, MNN.audio):
        for function in _functions(module):
            if function.__module__ == module.__name__:
                assert pickle.loads(pickle.dumps(function)) is function
