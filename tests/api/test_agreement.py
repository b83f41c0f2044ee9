"""Expressions give what PyMNN gives: element types, sizes, layouts, numbers.

``pymnn.json`` holds what PyMNN 3.6.1 answers; the test marked ``peer`` asks it again. ``within`` of a group is how far
numbers may be from each other: pictures are rounded here and cut there.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.api.evaluate import encode, names

HERE = Path(__file__).parent
GROUPS = json.loads((HERE / "pymnn.json").read_text())
CASES = [(n, expression) for n, group in enumerate(GROUPS) for expression in group["results"]]


def same(ours: Any, theirs: Any, within: float = 0) -> bool:
    """Equal, floats to six digits, and numbers ``within`` of each other."""
    if isinstance(ours, float) or isinstance(theirs, float):
        if isinstance(ours, (str, list)) or isinstance(theirs, (str, list)):
            return False
        close = math.isclose(ours, theirs, rel_tol=2e-5, abs_tol=max(within, 1e-6))
        return close or (ours != ours and theirs != theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(a, b, within) for a, b in zip(ours, theirs, strict=True))
    return bool(ours == theirs)


@pytest.mark.parametrize(("group", "expression"), CASES, ids=[e for _, e in CASES])
def test_agrees(group: int, expression: str) -> None:
    ours = json.loads(json.dumps(encode(eval(expression, names(GROUPS[group]["setup"])))))
    assert same(ours, GROUPS[group]["results"][expression], GROUPS[group].get("within", 0))


@pytest.mark.peer
def test_the_record_is_right(tmp_path: Path) -> None:
    from tests.interop.official import interpreter

    result = tmp_path / "results.json"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    command = [str(interpreter()), str(HERE / "evaluate.py"), str(HERE / "pymnn.json"), str(result)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    found = json.loads(result.read_text())
    wrong = [
        e
        for a, b in zip(GROUPS, found, strict=True)
        for e in a["results"]
        if not same(a["results"][e], b["results"][e])
    ]
    assert not wrong
