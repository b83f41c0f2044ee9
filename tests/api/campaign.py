"""Random arguments for every function of PyMNN's API that is here: ``python -m tests.api.campaign SEED COUNT``.

Each call runs in PyMNN, here and, where numpy has the function, in numpy. What differs is listed with numpy's answer;
what agrees can be kept in ``pymnn.json`` (``--keep N`` writes N calls of every function there).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.api.calls import KINDS, SHAPES, Maker, calls, setup
from tests.api.evaluate import encode, names
from tests.api.record import FILE, official, text
from tests.api.test_agreement import same


def in_numpy(expression: str, known: dict[str, Any]) -> Any:
    """numpy's answer, where the call means something to it."""
    if "F." in expression or "nhwc" in expression:
        return None
    with np.errstate(all="ignore"):
        try:
            return eval(expression, {"np": np, "onp": np, **known})
        except Exception:  # noqa: BLE001 - whatever happens is no answer
            return None


def as_numpy(ours: Any, answer: Any) -> bool:
    """Whether a result has numpy's sizes and numbers."""
    if answer is None or ours[0] not in ("Var", "int", "float", "bool"):
        return False
    numbers, shape = (ours[4], ours[2]) if ours[0] == "Var" else ([ours[1]], [])
    wanted = np.asarray(answer)
    return list(wanted.shape) == shape and np.allclose(
        wanted.reshape(-1).astype(np.float64), numbers, rtol=1e-3, atol=1e-5, equal_nan=True
    )


def expressions(seed: int, count: int, only: str) -> Iterator[tuple[str, str]]:
    """Functions and ``count`` different calls of each, as far as there are so many."""
    for name, make in calls().items():
        if only and only not in name:
            continue
        maker = Maker(seed * 1000003 + sum(map(ord, name)))
        for call in dict.fromkeys(make(maker) for _ in range(count)):
            yield name, call


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=int, default=0)
    given = parser.parse_args()
    known = dict(expressions(0, 0, ""))
    lines = setup(given.seed)
    listed = list(expressions(given.seed, given.count, given.only))
    theirs = official([{"setup": lines, "results": {call: None for _, call in listed}}])[0]["results"]
    known = names(lines)
    arrays = {k: np.asarray(v) for k, v in known.items() if k[0] in KINDS and k[1:2] in SHAPES}
    kept: dict[str, Any] = {}
    counts: dict[str, int] = {}
    differing = 0
    for name, call in listed:
        try:
            ours = json.loads(json.dumps(encode(eval(call, known))))
        except Exception as error:  # noqa: BLE001 - whatever happens is the answer
            ours = ["error", f"{type(error).__name__}: {error}"[:100]]
        if theirs[call][0] in ("error", "crash"):
            continue
        if not same(ours, theirs[call]):
            differing += 1
            answer = in_numpy(call, arrays)
            mark = "numpy is with us" if as_numpy(ours, answer) else f"numpy {str(answer)[:120]!r}"
            print(f"{call}\n  PyMNN {str(theirs[call])[:200]}\n  here  {str(ours)[:200]}\n  {mark}")
        elif counts.setdefault(name, 0) < given.keep:
            counts[name] += 1
            kept[call] = theirs[call]
    print(f"{len(listed)} calls of {len({n for n, _ in listed})} functions, {differing} differ", file=sys.stderr)
    if kept:
        groups = json.loads(FILE.read_text())
        FILE.write_text(text([*groups, {"setup": lines, "results": kept}]))


if __name__ == "__main__":
    main()
