"""Rules of the house that no other tool checks. Numbers below are ratchets: they may fall, never rise."""

from __future__ import annotations

import re
import statistics
from collections import Counter

from MNN.ops.core.base import operators
from tests.structure.sources import ROOT, cycles, modules

MODULES_A_FOLDER = 20
LINES = 400
FILES_AN_OPERATOR = (3.0, 4.32)
"""In how many files an operator's name stands: the median, and the mean. Of the front ends, ONNX and .mnn are counted:
every further format has a line of its own for an operator, and adding one must not hide what happens elsewhere. So it
is with what language models are made of. (A pass that recognises operators in compositions names them.)"""
FEATURES = r"avx|amx-|sse\d|f16c|fullfp16|dotprod|i8mm|neon|llvm\.(x86|aarch64)|\bvf?n?madd|\bvmov|has\(\"(fma|bf16)"
"""What names a processor's features or instructions: it stands in ``targets`` alone."""
SPLIT_FOR_SIZE = {"more", "pieces", "wholes", "misc", "part2", "rest"}
"""Names that say nothing of what a file holds."""


def test_folders_are_small() -> None:
    counts = Counter(name.rpartition(".")[0] for name, path in modules().items() if path.name != "__init__.py")
    crowded = {room: n for room, n in counts.items() if n > MODULES_A_FOLDER}
    assert not crowded, f"more than {MODULES_A_FOLDER} modules in a folder: {crowded}"


def test_files_are_small() -> None:
    long = {p.name: n for p in ROOT.rglob("*.py") if (n := len(p.read_text(encoding="utf-8").splitlines())) > LINES}
    assert not long, f"files of more than {LINES} lines: {long}"


def test_files_are_named_by_what_they_hold() -> None:
    named = [name for name in modules() if SPLIT_FOR_SIZE & set(name.rpartition(".")[2].split("_"))]
    assert not named, f"names that say nothing: {named}"


def test_no_modules_import_each_other() -> None:
    """Imports within functions and those for type checkers count."""
    found = cycles()
    assert not found, "\n".join(" ".join(sorted(c)) for c in found)


def test_operators_stand_in_few_files() -> None:
    formats = [n for n in modules() if not n.startswith("MNN.frontends.") or n.split(".")[2] in ("onnx", "mnn")]
    counted = [n for n in formats if not n.startswith("MNN.llm.models.")]
    quoted = re.compile(r"[\"'](\w+)(?=[\"'])")
    files = Counter(word for name in counted for word in set(quoted.findall(modules()[name].read_text("utf-8"))))
    counts = [files[name] for name in operators()]
    found = statistics.median(counts), statistics.mean(counts)
    assert found[0] <= FILES_AN_OPERATOR[0], found
    assert found[1] <= FILES_AN_OPERATOR[1], found


def test_features_stand_with_targets() -> None:
    named = re.compile(FEATURES)
    elsewhere = [n for n, path in modules().items() if ".targets" not in n and named.search(path.read_text("utf-8"))]
    assert not elsewhere, elsewhere


def test_only_targets_ask_for_features() -> None:
    """Kernels ask what a processor can do (``target.can``, ``b.can``)."""
    asks = re.compile(r"\btarget\.(has\(|features\b(?!,))|module\.features")
    kernels = [n for n in modules() if n.startswith("MNN.backends.cpu.") and ".targets" not in n]
    asking = [n for n in kernels if asks.search(modules()[n].read_text("utf-8"))]
    assert not asking, asking
