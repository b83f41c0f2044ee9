"""How each operator of a .mnn file runs: in this engine, and in the official one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from MNN.frontends.mnn import extras
from MNN.frontends.mnn.official.composites import put_together
from MNN.frontends.mnn.official.registry import official as form_of
from MNN.ops.core.base import EagerOperator, operators
from MNN.schema.record import Record

KERNEL, HOST, GRAPH = "kernel", "host call", "control flow"
NATIVE, COMPOSED, REFUSED = "native", "composed", "needs this engine"
_NO_OPERATORS = frozenset({"Const", "TrainableParam", "Input", "ConvertTensor"})


@dataclass
class Support:
    """One kind of operator of a file, as it was before it was written.

    ``here``: a generated ``kernel``, ``host call`` (numpy between two native calls) or ``control flow``. ``official``:
    ``native``, ``composed`` (of ``parts``, operators that the official engine has) or ``needs this engine``.
    ``nodes``: names of all of this kind. ``advice``: what to do about it, where there is something.
    """

    operator: str
    here: str
    official: str
    nodes: list[str] = field(default_factory=list)
    parts: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return len(self.nodes)

    @property
    def advice(self) -> str:
        return form_of(self.operator).advice if self.official == REFUSED else ""


def support(net: Record) -> list[Support]:
    """All kinds of operators of a file, first those that only this engine runs, then by how often they occur."""
    found: dict[tuple[str, str], Support] = {}
    for operator, official, name, parts in _operators(net):
        entry = found.setdefault((operator, official), Support(operator, _here(operator), official))
        entry.nodes.append(name)
        entry.parts.update(parts)
    order = (REFUSED, COMPOSED, NATIVE)
    return sorted(found.values(), key=lambda s: (order.index(s.official), -s.count, s.operator))


def _operators(net: Record) -> Iterator[tuple[str, str, str, list[str]]]:
    """Operator, how the official engine runs it, name of the node, and the operators that it was made of."""
    notes, _ = extras.load(net)
    lists = [("", net.oplists or [], net.tensorName or [])]
    lists += [(s.name or "", s.nodes or [], s.tensors or []) for s in reversed(net.get("subgraphs", ()) or ())]
    inner: set[str] = set()  # bodies of loops that an operator was written as are counted with it
    for name, ops, names in lists:  # whoever has a subgraph comes before it
        if name in inner:
            continue
        composite_ops = notes.graph(name).composite_ops if notes is not None else []
        given = {id(op) for op in ops}
        written_for = {n["outputs"][0]: n for n in composite_ops if n["outputs"]}
        together = put_together(ops, names, composite_ops)
        kept = {id(op) for op in together}
        inner |= {str(op.main.body_graph) for op in ops if op.type == "While" and id(op) not in kept}
        for op in together:
            if op.type in _NO_OPERATORS:
                continue
            if id(op) not in given:
                parts = [kind for _, kind in written_for[names[int(op.outputIndexes[0])]]["parts"]]
                yield str(op.main.type), COMPOSED, op.name or "", parts
            elif op.type == "Extra":
                yield str(op.main.type if op.main is not None else "Extra"), REFUSED, op.name or "", []
            else:
                yield str(op.type), NATIVE, op.name or "", []


def _here(name: str) -> str:
    known = operators().get("Loop" if name == "While" else name)
    if known is None:
        return "unknown"
    if known.runs_graphs:
        return GRAPH
    if isinstance(known, EagerOperator):
        return HOST
    # what calls the builder's ``host`` is no kernel; operators that MNN has too call it for texts only
    return HOST if not known.in_mnn and "host" in type(known).lower.__code__.co_names else KERNEL


def needs_this_engine(found: list[Support]) -> str:
    """A sentence that names what the official engine cannot run, and where; empty when it runs everything."""
    own = [s for s in found if s.official == REFUSED]
    if not own:
        return ""
    listed = []
    for s in own:
        named = [n for n in s.nodes if n][:3]
        more = f", and {s.count - len(named)} more" if s.count > len(named) and named else ""
        listed.append(f"{s.operator} ({s.count}{': ' + ', '.join(named) + more if named else ''})")
    return f"this file needs this engine; the official one does not have {', '.join(listed)}"
