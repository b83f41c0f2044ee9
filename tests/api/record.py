"""Writes what PyMNN answers into ``pymnn.json``: ``python -m tests.api.record`` after expressions were added to it.

New expressions stand in the file with any answer (null will do). Answers that this engine does not give are listed and
left out: either it is wrong, or PyMNN is, which docs/python.md then says.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.api.evaluate import encode, names
from tests.api.test_agreement import HERE, same
from tests.interop.official import interpreter

FILE = HERE / "pymnn.json"


def official(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups with PyMNN's answers."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "given.json", Path(folder) / "result.json"
        given.write_text(json.dumps(groups))
        command = [str(interpreter()), str(HERE / "evaluate.py"), str(given), str(result)]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=1800)
        found: list[dict[str, Any]] = json.loads(result.read_text())
    return found


def text(groups: list[dict[str, Any]]) -> str:
    """The file: an expression a line."""
    parts = []
    for group in groups:
        rest = {k: v for k, v in group.items() if k != "results"}
        lines = [f"{json.dumps(e)}: {json.dumps(a)}" for e, a in group["results"].items()]
        parts.append(json.dumps(rest)[:-1] + ',\n"results": {\n' + ",\n".join(lines) + "\n}}")
    return "[\n" + ",\n".join(parts) + "\n]\n"


def main() -> None:
    groups = official(json.loads(FILE.read_text()))
    for group in groups:
        known = names(group["setup"])
        for expression, theirs in list(group["results"].items()):
            try:
                ours = json.loads(json.dumps(encode(eval(expression, known))))
            except Exception as error:  # noqa: BLE001 - whatever happens is the answer
                ours = ["error", type(error).__name__]
            if theirs[0] in ("crash", "error") or not same(ours, theirs, group.get("within", 0)):
                print(f"{expression}\n  PyMNN {str(theirs)[:150]}\n  here  {str(ours)[:150]}")
                del group["results"][expression]
    FILE.write_text(text(groups))


if __name__ == "__main__":
    main()
