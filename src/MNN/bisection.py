"""Who is wrong? Finds the first step between a model file and its converted form after which the numbers differ.

A model goes through several hands: the front end and the operators' meanings, the generated kernels, every pass, the
writer and the reader of .mnn. Each is tried in turn against one reference; the first that gives wrong numbers is named,
with the first node where they are wrong.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.comparison import NUMPY, Arrays, Difference, error_of, onnxruntime_tensors, where_it_begins
from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn.write import write_mnn
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Verdict:
    """``culprit`` is ``operator``, ``kernel``, ``pass``, ``file``, ``model`` or empty; ``text`` says it in a sentence.

    ``difference`` is the tensor that is wrong first, where one could be named.
    """

    culprit: str
    text: str
    reference: str
    difference: Difference | None = None
    name: str = ""
    """The pass, or the node."""


class _Found(Exception):  # noqa: N818 - it carries an answer
    def __init__(self, name: str, difference: Difference) -> None:
        super().__init__(name)
        self.name, self.difference = name, difference


def bisect(
    source: Path,
    feeds: Arrays,
    tolerance: float = 5e-4,
    level: int = 1,
    model: Path | None = None,
    use_onnxruntime: bool = True,
    progress: Progress | None = None,
) -> Verdict:
    """Follows ``source`` through loading, ``level``'s passes and its .mnn form, and last ``model``, if one is given.

    The reference is onnxruntime where it can run the source, else the operators' numpy meaning before any pass.
    """
    tell = progress or (lambda text: None)
    tell("the reference")
    plain = load_graph(source)
    makers = {v.name: n for n in plain.nodes for v in n.outputs}
    outputs = [v.name for v in plain.outputs]
    names = list(dict.fromkeys([*makers, *outputs]))
    wanted, who = None, NUMPY
    if use_onnxruntime and source.suffix.lower() == ".onnx":
        wanted, _ = onnxruntime_tensors(source, feeds, names)
        who = NUMPY if wanted is None else "onnxruntime"
    meant = Session(plain, Config(reference=True)).run(feeds, names)
    if wanted is not None:
        tell("the operators' meaning")
        wrong = _first_wrong(plain, meant, wanted, tolerance)
        if wrong is not None:
            text = f"node '{wrong.node}' ({wrong.op}) was read or understood wrongly: its tensor '{wrong.tensor}'"
            return Verdict(
                "operator", f"{text} is off by {wrong.error:.2e} before any kernel or pass", who, wrong, wrong.node
            )
    reference = meant if wanted is None else wanted
    tell("the kernels")
    wrong = _first_wrong(plain, Session(plain, Config(precision="high")).run(feeds, names), reference, tolerance)
    if wrong is not None:
        text = f"the kernel for node '{wrong.node}' ({wrong.op}) is wrong: its tensor '{wrong.tensor}' is off by"
        return Verdict("kernel", f"{text} {wrong.error:.2e}, though its meaning is right", who, wrong, wrong.node)
    final = {n: reference[n] for n in outputs if n in reference}
    return _after_passes(source, feeds, tolerance, level, model, final, reference, who, tell)


def _after_passes(
    source: Path,
    feeds: Arrays,
    tolerance: float,
    level: int,
    model: Path | None,
    final: Arrays,
    reference: Arrays,
    who: str,
    tell: Progress,
) -> Verdict:
    graph = load_graph(source)

    def check(name: str, changes: int) -> None:
        if changes:
            tell(f"pass {name}")
            found = _outputs_wrong(graph, feeds, final, tolerance)
            if found is not None:
                raise _Found(name, _narrowed(graph, feeds, reference, tolerance) or found)

    try:
        optimize(graph, level, (), check)
    except _Found as found:
        d = found.difference
        text = (
            f"pass {found.name} made it wrong: tensor '{d.tensor}' of node '{d.node}' ({d.op}) is off by {d.error:.2e}"
        )
        return Verdict("pass", f"{text} after it; leave it out with --disable-pass {found.name}", who, d, found.name)
    tell("the written file")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "again.mnn"
        write_mnn(graph, path)
        again = load_graph(path)
        wrong = _outputs_wrong(again, feeds, final, tolerance)
        if wrong is not None:
            wrong = _narrowed(again, feeds, reference, tolerance) or wrong
            text = (
                f"writing the file or reading it back changed node '{wrong.node}' ({wrong.op}): tensor '{wrong.tensor}'"
            )
            return Verdict("file", f"{text} is off by {wrong.error:.2e}", who, wrong, wrong.node)
    if model is not None:
        tell(str(model))
        given = load_graph(model)
        wrong = _outputs_wrong(given, feeds, final, tolerance)
        if wrong is not None:
            wrong = _narrowed(given, feeds, reference, tolerance) or wrong
            text = f"converted again, {source} is right; {model} is wrong from node '{wrong.node}' ({wrong.op}) on"
            return Verdict(
                "model", f"{text}: tensor '{wrong.tensor}' is off by {wrong.error:.2e}", who, wrong, wrong.node
            )
    return Verdict("", f"every step agrees with {who} within {tolerance:g}", who)


def _first_wrong(graph: Graph, found: Arrays, wanted: Arrays, tolerance: float) -> Difference | None:
    """Where the error begins, of the tensors that both sides have."""
    makers = {v.name: n for n in graph.nodes for v in n.outputs}
    differences = [
        Difference(n, makers[n].name, makers[n].op, error_of(found[n], wanted[n]), tuple(np.shape(found[n])))
        for n in found
        if n in wanted and n in makers
    ]
    return where_it_begins(graph, differences, tolerance)


def _outputs_wrong(graph: Graph, feeds: Arrays, final: Arrays, tolerance: float) -> Difference | None:
    """The worst output that is wrong."""
    found = Session(graph, Config(precision="high")).run(feeds, list(final))
    errors = {n: error_of(found[n], final[n]) for n in final}
    if not errors:
        raise MNNError("the reference gives none of the model's outputs, so that nothing can be compared")
    worst = max(errors, key=lambda n: errors[n])
    if errors[worst] <= tolerance:
        return None
    maker = next((n for n in graph.nodes for v in n.outputs if v.name == worst), None)
    where = ("", "") if maker is None else (maker.name, maker.op)
    return Difference(worst, *where, errors[worst], tuple(np.shape(found[worst])))


def _narrowed(graph: Graph, feeds: Arrays, reference: Arrays, tolerance: float) -> Difference | None:
    """The first wrong tensor of those that kept their names."""
    names = [v.name for n in graph.nodes for v in n.outputs if v.name in reference]
    return _first_wrong(graph, Session(graph, Config(precision="high")).run(feeds, names), reference, tolerance)
