"""Evaluates expressions of PyMNN's API and writes the results as JSON; runs under either engine.

    evaluate.py GROUPS.json RESULTS.json

Groups are ``[{"setup": [statement, ...], "results": {expression: anything}}, ...]``; the results come out in the same
form. Every expression is evaluated in a process of its own, because PyMNN may crash on it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as onp

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as np


def encode(value: Any) -> Any:
    """A result as JSON: Vars as type, sizes, layout and numbers; Python's numbers with their type."""
    if isinstance(value, F.Var):
        numbers = onp.asarray(value.read(), onp.float64).reshape(-1)
        return ["Var", str(value.dtype), list(value.shape), str(value.data_format), numbers.tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [encode(v) for v in value]]
    if value is None or isinstance(value, (bool, int, float, str)):
        return [type(value).__name__, value]
    if isinstance(value, onp.ndarray):
        return ["ndarray", str(value.dtype), value.tolist()]
    return ["str", str(value)]


def names(setup: list[str]) -> dict[str, Any]:
    """The names that a group's expressions see."""
    found: dict[str, Any] = {"F": F, "np": np, "onp": onp}
    for statement in setup:
        exec(statement, found)
    return found


def _apart(expression: str, known: dict[str, Any]) -> Any:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = json.dumps(encode(eval(expression, known)))
        except BaseException as error:  # noqa: BLE001 - whatever happens is the answer
            text = json.dumps(["error", type(error).__name__])
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text or '["crash"]')


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        groups = json.load(file)
    for group in groups:
        known = names(group["setup"])
        group["results"] = {expression: _apart(expression, known) for expression in group["results"]}
    with open(sys.argv[2], "w") as file:
        json.dump(groups, file)
