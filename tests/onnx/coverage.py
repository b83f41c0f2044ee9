"""The table of onnx's operator and model cases: which do not pass, and why.

``python -m tests.onnx.coverage`` runs all cases and rewrites the list of expected failures and the page in the docs.
The tests compare both with what they find.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from MNN.errors import MNNError
from MNN.frontends.onnx.registry import known_operators
from tests.harness import RUNNERS, Runner, default_runner
from tests.onnx.cases import node_cases, run_case
from tests.onnx.model_cases import KINDS, model_cases

LIST = Path(__file__).with_name("expected_failures.json")
PAGE = Path(__file__).parents[2] / "docs" / "onnx-coverage.md"
REASONS = (
    (r"COMPLEX", "complex numbers are not element types of this engine"),
    (r"domain ai\.onnx\.preview\.training", "gradients are not derived: that is training"),
    (r"training mode", "a model is loaded for inference, not for training"),
)
_ATTENTION = [
    "Attention in bfloat16 passes within onnx's own tolerance, two units in the last place, and differs there in a",
    "seventh to two fifths of the numbers: onnx's reference rounds to 16 bits after every step, this engine computes",
    "in float32 and rounds once, at the end. Against the same cases in float64 its mean error is 0.5 to 0.85 of the",
    "reference's, in each of the five; so it stays as it is.",
]


def expected() -> dict[str, str]:
    """Cases that are known to fail, with the reason."""
    return dict(json.loads(LIST.read_text()))


def reason_of(error: BaseException) -> str:
    """A failure in a few words, the same on every machine."""
    text = str(error)
    for pattern, reason in REASONS:
        if re.search(pattern, text):
            return reason
    found = re.search(r"^  (\S+) \(domain ([^,]+), opset \d+\): no such operator here", text, re.M)
    if found:
        return f"operator {found[1]} is missing"
    if re.search(r"Not equal to tolerance", text):
        return "numbers differ by more than the case allows"
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return f"{type(error).__name__}: {line[:160]}"


def run_all(runner: Runner) -> dict[str, str]:
    """Runs every case; the reasons of those that fail."""
    known, failed = expected() if LIST.exists() else {}, {}
    runs = {name: partial(run_case, case, runner) for name, case in node_cases().items()}
    runs |= {name: partial(case.run, runner) for name, case in model_cases().items()}
    for name, run in sorted(runs.items()):
        try:
            run()
        except (MNNError, AssertionError) as error:
            found = reason_of(error)
            kept = known.get(name, "")
            failed[name] = kept if kept.startswith("note: ") else found
    return failed


def operator_of(name: str) -> str:
    """The operator a case is about."""
    cases = node_cases()
    base = re.sub(r"_expanded.*$", "", name)
    for candidate in (name, base):
        if candidate in cases and len(cases[candidate].model.graph.node) == 1:
            node = cases[candidate].model.graph.node[0]
            return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)
    return "several operators"


def page(failed: Mapping[str, str]) -> str:
    """The page in the docs."""
    names, models = sorted(node_cases()), sorted(model_cases())
    operators: dict[str, list[str]] = {}
    for name in names:
        operators.setdefault(operator_of(name), []).append(name)
    passed = len(names) - sum(n in failed for n in names)
    lines = [
        "# ONNX operator coverage",
        "",
        "<!-- written by python -m tests.onnx.coverage; do not edit -->",
        "",
        f"Of the {len(names)} operator cases that the onnx package generates, **{passed} pass**. Cases that ONNX",
        "expands from function bodies (`_expanded`) are counted with their operator. Of its "
        f"{len(models)} model cases on",
        f"disk that need no download ({', '.join(KINDS)}), **{len(models) - sum(n in failed for n in models)} pass**.",
        "All go the whole way: converted to a `.mnn` file in memory, read again, compiled, compared within onnx's own",
        "tolerances.",
        "",
        "## What does not pass, and why",
        "",
        "| reason | cases |",
        "| --- | --- |",
    ]
    reasons: dict[str, list[str]] = {}
    for name, reason in sorted(failed.items()):
        reasons.setdefault(reason.removeprefix("note: "), []).append(name)
    for reason, found in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"| {_cell(reason)} ({len(found)}) | {', '.join(f'`{n}`' for n in found)} |")
    lines += ["", *_ATTENTION]
    classical = sorted(op for domain, op in known_operators() if domain == "ai.onnx.ml")
    own = sorted(op for domain, op in known_operators() if domain == "com.microsoft")
    lines += [
        "",
        "## ONNX Runtime's own operators",
        "",
        "These of the domain `com.microsoft` are understood (`tests/onnx/test_contrib.py` compares them):",
        f"{', '.join(own)}.",
    ]
    lines += [
        "",
        "## Classical models",
        "",
        "These of the domain `ai.onnx.ml` are understood (`tests/onnx/test_classical.py` compares them):",
        f"{', '.join(classical)}.",
        "",
        "Sequences come in and go out as lists of arrays, maps as dicts, an empty optional as `None`.",
    ]
    lines += ["", "## By operator", "", "| operator | pass | of |", "| --- | --- | --- |"]
    for operator, members in sorted(operators.items(), key=lambda item: item[0].lower()):
        lines.append(f"| {operator} | {sum(n not in failed for n in members)} | {len(members)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    runner = RUNNERS[sys.argv[1] if len(sys.argv) > 1 else default_runner()]
    failed = run_all(runner)
    LIST.write_text(json.dumps(failed, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(failed))
    total = len(node_cases()) + len(model_cases())
    print(f"{total - len(failed)} of {total} pass")


if __name__ == "__main__":
    main()
