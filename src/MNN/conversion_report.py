"""What a conversion did, as data: the model before and after, the passes, the files, and how exact the result is."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from MNN.comparison import Comparison
from MNN.formatting import dims
from MNN.frontends.mnn.support import REFUSED, Support
from MNN.ir.graph import Graph


@dataclass(frozen=True)
class Step:
    """One operator of an outline, with the names of its tensors (constants left out)."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kind: str = ""
    """Which of the many an operator such as ``BinaryOp`` is."""

    @property
    def label(self) -> str:
        return f"{self.op} {self.kind}" if self.kind else self.op


@dataclass(frozen=True)
class Outline:
    """A graph without its numbers. ``operators`` also counts those inside of branches and loops."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    steps: tuple[Step, ...]
    operators: dict[str, int]
    constants: int
    parameters: int


def outline(graph: Graph) -> Outline:
    """The outline of a graph as it is now."""
    counts: Counter[str] = Counter()
    held = _count(graph, counts)
    steps = tuple(
        Step(
            n.op,
            n.name,
            tuple(v.name for v in n.inputs if v is not None and not v.is_const),
            tuple(v.name for v in n.outputs),
            str(n.attrs.get("opType") or ""),
        )
        for n in graph.nodes
    )
    inputs = {v.name: _kind(v) for v in graph.inputs if not v.is_const}
    outputs = {v.name: _kind(v) for v in graph.outputs}
    return Outline(inputs, outputs, steps, dict(counts.most_common()), len(held), sum(held))


def _count(graph: Graph, counts: Counter[str]) -> list[int]:
    """Counts operators; gives the number of elements of every constant."""
    held = []
    for value in graph.values():
        if value.data is not None:
            held.append(math.prod(value.data.shape))
    for node in graph.nodes:
        counts[node.op] += 1
        for _, sub in node.subgraphs():
            held += _count(sub, counts)
    return held


def _kind(value: Any) -> str:
    shape = "?" if value.shape is None else dims(value.shape)
    return f"{value.dtype.value if value.dtype else 'any'} {shape}"


def fusions(before: Outline, after: Outline) -> dict[str, int]:
    """What became one operator: ``"Convolution + ReLU6 → Convolution"`` and how often.

    An operator stands for all that lies, in the graph before, between what it takes and what it makes; names of tensors
    tell. Operators that are there under their own names still, and constants, are not counted.
    """
    makers = {name: step for step in before.steps for name in step.outputs}
    order = {name: i for i, step in enumerate(before.steps) for name in step.outputs}
    kept = {name for step in after.steps for name in step.outputs} | set(after.inputs)
    found: Counter[str] = Counter()
    for step in after.steps:
        ends = [name for name in step.outputs if name in makers]
        joined: dict[int, str] = {}
        while ends:
            name = ends.pop()
            if order[name] in joined:
                continue
            joined[order[name]] = makers[name].label
            ends += [n for n in makers[name].inputs if n in makers and n not in kept]
        if len(joined) > 1:
            found[f"{' + '.join(op for _, op in sorted(joined.items()))} → {step.label}"] += 1
    return dict(found.most_common())


@dataclass(frozen=True)
class Report:
    """``changes``: how much each pass did. ``files``: those written, and their bytes. ``support``: how each kind of
    operator runs in this engine and in the official one. ``check``: the comparison with the source, where one was asked
    for."""

    source: str
    source_bytes: int
    before: Outline
    after: Outline
    changes: dict[str, int]
    files: dict[Path, int]
    support: list[Support] = field(default_factory=list)
    check: Comparison | None = None

    @property
    def nodes_before(self) -> int:
        return len(self.before.steps)

    @property
    def nodes_after(self) -> int:
        return len(self.after.steps)

    @property
    def own(self) -> dict[str, int]:
        """Operators that the official engine does not have, and how often each occurs."""
        return {s.operator: s.count for s in self.support if s.official == REFUSED}

    @property
    def size(self) -> int:
        """Bytes of all files written."""
        return sum(self.files.values())

    def data(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {
            "source": {"file": self.source, "bytes": self.source_bytes},
            "files": {str(path): count for path, count in self.files.items()},
            "before": _plain(self.before),
            "after": _plain(self.after),
            "passes": self.changes,
            "fused": fusions(self.before, self.after),
            "operators": [_support_data(s) for s in self.support],
            "needs_this_engine": self.own,
            "check": None if self.check is None else check_data(self.check),
        }


def _support_data(s: Support) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operator": s.operator,
        "count": s.count,
        "this_engine": s.here,
        "official_engine": s.official,
    }
    if s.parts:
        found["composed_of"] = dict(s.parts.most_common())
    if s.official == REFUSED:
        found |= {"advice": s.advice, "nodes": s.nodes}
    return found


def _plain(part: Outline) -> dict[str, Any]:
    return {
        "inputs": part.inputs,
        "outputs": part.outputs,
        "operators": part.operators,
        "constants": part.constants,
        "parameters": part.parameters,
    }


def check_data(check: Comparison) -> dict[str, Any]:
    """A comparison as plain data; errors that are no numbers are texts."""

    def number(error: float) -> float | str:
        return error if math.isfinite(error) else str(error)

    return {
        "reference": check.reference,
        "tolerance": check.tolerance,
        "note": check.note,
        "first_wrong": None if check.first is None else check.first.tensor,
        "largest_error": number(max((d.error for d in check.differences), default=0.0)),
        "tensors": [
            {"tensor": d.tensor, "node": d.node, "operator": d.op, "shape": list(d.shape), "error": number(d.error)}
            for d in check.differences
        ],
    }
