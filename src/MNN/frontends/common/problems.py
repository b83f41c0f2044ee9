"""What a model uses that this engine cannot do, gathered so that it is reported all at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.errors import UnsupportedError
from MNN.formatting import plural

REGISTER = "register it with MNN.ops.custom.register_operator"


@dataclass(frozen=True)
class Problem:
    """One unsupported place of a model: the node's name, its operator, where that is defined ("domain ai.onnx, opset
    17"; empty where the format says no more than a name), why it cannot be converted and what to do."""

    node: str
    op: str
    defined: str
    reason: str
    advice: str


class UnsupportedModelError(UnsupportedError):
    """A model uses unsupported things; ``problems`` lists every one of them."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__(describe(problems))


@dataclass
class Report:
    """Collects problems while a model is read."""

    problems: list[Problem] = field(default_factory=list)

    def unknown_operator(self, node: str, op: str, defined: str = "", advice: str = "") -> None:
        """An operator that no handler is there for."""
        advice = advice or f"export the model with other operators, or {REGISTER}"
        self.problems.append(Problem(node, op, defined, "no such operator here", advice))

    def form(self, node: str, op: str, error: UnsupportedError, defined: str = "") -> None:
        """An operator is known, but not in this form; the error names the node."""
        self.problems.append(Problem(node, op, defined, str(error), ""))

    def raise_if_any(self) -> None:
        if self.problems:
            raise UnsupportedModelError(self.problems)


def describe(problems: list[Problem]) -> str:
    """The listing as text: one paragraph per operator and reason, every node named."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for p in problems:
        reason = p.reason if p.advice else ""
        groups.setdefault((p.defined, p.op, reason, p.advice), []).append(p.node if p.advice else p.reason)
    lines = [f"the model uses {plural(len(problems), 'unsupported node')}:"]
    for (defined, op, reason, advice), nodes in sorted(groups.items()):
        title = f"  {op} ({defined})" if defined else f"  {op}"
        if advice:
            lines += [f"{title}: {reason}", f"    nodes: {', '.join(nodes)}", f"    what to do: {advice}"]
        else:
            lines += [f"{title}:", *(f"    {text}" for text in nodes)]
    return "\n".join(lines)
