"""``python -m tests.interop.table``: writes docs/official-engine.md, how onnx's operator cases are written to files."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.frontends.mnn import net_of
from MNN.frontends.mnn.support import COMPOSED, NATIVE, REFUSED, Support, support
from MNN.frontends.onnx import load
from tests.onnx.cases import node_cases

TARGET = Path(__file__).parents[2] / "docs" / "official-engine.md"
_HEAD = """# What the official engine runs

<!-- written by python -m tests.interop.table; do not edit -->

Files written here are for both engines. An operator goes into a file in one of three ways:

- **native**: MNN 3.6 has it, and reads it as it is written;
- **composed**: MNN 3.6 has operators that mean the same together; this engine puts them together again when it reads
  the file, so that nothing is lost or slower here;
- **needs this engine**: it is stored as an `Extra` operator of the engine `MNN-py`, which the official engine refuses
  when it loads the file. `mnn convert` says so, with the nodes; `--report` adds what could be exported instead.

`python -m tests.interop` runs the official engine on what is written: all of onnx's operator cases and the networks of
the benchmark.

"""


def main() -> None:
    TARGET.write_text(_HEAD + _tables(), encoding="utf-8")
    print(TARGET)


def _tables() -> str:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    parts: dict[str, Counter[str]] = defaultdict(Counter)
    advice: dict[str, str] = {}
    total = clean = 0
    for found in _written():
        total += 1
        clean += all(s.official != REFUSED for s in found)
        for s in found:
            counts[s.operator][s.official] += 1
            parts[s.operator].update(s.parts)
            if s.official == REFUSED:
                advice[s.operator] = s.advice
    names = sorted(counts, key=str.lower)
    native = ", ".join(f"`{n}`" for n in names if set(counts[n]) == {NATIVE})
    composed = [f"| `{n}` | {_some(parts[n])} | {_cases(counts[n])} |" for n in names if counts[n][COMPOSED]]
    own = [f"| `{n}` | {_cases(counts[n])} | {advice[n]} |" for n in names if counts[n][REFUSED]]
    lines = [
        f"Of the {total} operator cases of the onnx package that convert, **{clean}** give a file for both engines.",
        f"\n## Native\n\n{native}\n\n## Composed\n\n| operator | of | cases |\n| --- | --- | --- |",
        *composed,
        "\n## Needs this engine, at least in some forms\n\n| operator | cases | what else to do |\n| --- | --- | --- |",
        *own,
    ]
    return "\n".join(lines) + "\n"


def _written() -> list[list[Support]]:
    found = []
    for case in node_cases().values():
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found.append(support(net_of(load(case.model.SerializeToString()))))
        except MNNError:
            continue
    return found


def _some(parts: Counter[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(parts))


def _cases(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in (NATIVE, COMPOSED, REFUSED) if counts[kind])


if __name__ == "__main__":
    main()
