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

from MNN.comparison import EXACT, NUMPY, Arrays, Difference, error_of, onnxruntime_tensors, tensors, where_it_begins
from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn.write import write_mnn
from MNN.ir.graph import Graph
from MNN.passes.manager import optimize
from MNN.progress import ReportProgress, silent
from MNN.runtime.config import Config
from MNN.runtime.session import Session


@dataclass(frozen=True)
class Steps:
    """How the model is converted and run: the options of ``mnn convert``, and the kernels' configuration."""

    level: int = 1
    disabled: tuple[str, ...] = ()
    fp16: bool = False
    keep_input_format: bool = True
    config: Config = EXACT


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
    steps: Steps | None = None,
    model: Path | None = None,
    use_onnxruntime: bool = True,
    report_progress: ReportProgress = silent,
) -> Verdict:
    """Follows ``source`` through loading, the passes and its .mnn form, and last ``model``, if one is given.

    The reference is onnxruntime where it can run the source, else the reference implementation before any pass.
    """
    steps = steps or Steps()
    total = 4 + steps.fp16 + (model is not None) + (1 if steps.level else 0)

    def tell(text: str, done: int) -> None:
        report_progress(f"trying {text}", done, total)

    tell("the reference", 0)
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
        tell("the operators' meaning", 1)
        wrong = _first_wrong(plain, meant, wanted, tolerance)
        if wrong is not None:
            text = f"node '{wrong.node}' ({wrong.op}) was read or understood wrongly: its tensor '{wrong.tensor}'"
            return Verdict(
                "operator", f"{text} is off by {wrong.error:.2e} before any kernel or pass", who, wrong, wrong.node
            )
    reference = meant if wanted is None else wanted
    tell("the kernels", 2)
    wrong = _first_wrong(plain, tensors(plain, steps.config, feeds, names), reference, tolerance)
    if wrong is not None:
        how = "" if steps.config == EXACT else f" at precision {steps.config.precision}"
        text = f"the kernel for node '{wrong.node}' ({wrong.op}) is wrong{how}: its tensor '{wrong.tensor}' is off by"
        return Verdict("kernel", f"{text} {wrong.error:.2e}, though its meaning is right", who, wrong, wrong.node)
    final = {n: reference[n] for n in outputs if n in reference}
    trial = _Trial(source, feeds, tolerance, steps, final, reference, who, tell)
    return trial.passes() or trial.files(model)


@dataclass
class _Trial:
    """What comes after the kernels: passes, and files."""

    source: Path
    feeds: Arrays
    tolerance: float
    steps: Steps
    final: Arrays
    reference: Arrays
    who: str
    tell: Callable[[str, int], None]

    def __post_init__(self) -> None:
        self.graph = load_graph(self.source)

    def passes(self) -> Verdict | None:
        """Runs the passes; a verdict when one of them is wrong."""
        if not self.steps.level:
            return None
        try:
            optimize(self.graph, self.steps.level, self.steps.disabled, self._check_pass)
        except _Found as found:
            d, name = found.difference, found.name
            text = f"pass {name} made it wrong: tensor '{d.tensor}' of node '{d.node}' ({d.op}) is off by {d.error:.2e}"
            return Verdict("pass", f"{text} after it; leave it out with --disable-pass {name}", self.who, d, name)
        return None

    def _check_pass(self, name: str, changes: int) -> None:
        if changes:
            self.tell(f"pass {name}", 3)
            found = self._wrong(self.graph)
            if found is not None:
                raise _Found(name, found)

    def files(self, model: Path | None) -> Verdict:
        """Writes the model, also with halves where that is asked for, and looks at ``model``; the verdict on all."""
        done = 3 + bool(self.steps.level)
        self.tell("the written file", done)
        wrong = self._written(False)
        if wrong is not None:
            text = f"writing the file or reading it back changed node '{wrong.node}' ({wrong.op}): "
            return self._verdict("file", f"{text}tensor '{wrong.tensor}' is off by {wrong.error:.2e}", wrong)
        if self.steps.fp16:
            self.tell("the file with weights in half precision", done + 1)
            wrong = self._written(True)
            if wrong is not None:
                text = (
                    f"weights in half precision (--fp16) make the difference, from node '{wrong.node}' ({wrong.op}) "
                    f"on: tensor '{wrong.tensor}' is off by {wrong.error:.2e}. With all weights in fp32 the file is "
                    "right: leave --fp16 out, or accept more"
                )
                return self._verdict("file", text, wrong)
        if model is not None:
            self.tell(str(model), done + 1 + self.steps.fp16)
            wrong = self._wrong(load_graph(model))
            if wrong is not None:
                text = (
                    f"converted again, {self.source} is right; {model} is wrong from node '{wrong.node}' ({wrong.op})"
                )
                return self._verdict("model", f"{text} on: tensor '{wrong.tensor}' is off by {wrong.error:.2e}", wrong)
        return Verdict("", f"every step agrees with {self.who} within {self.tolerance:g}", self.who)

    def _verdict(self, culprit: str, text: str, wrong: Difference) -> Verdict:
        return Verdict(culprit, text, self.who, wrong, wrong.node)

    def _written(self, fp16: bool) -> Difference | None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "again.mnn"
            write_mnn(self.graph, path, fp16=fp16, keep_input_format=self.steps.keep_input_format)
            return self._wrong(load_graph(path))

    def _wrong(self, graph: Graph) -> Difference | None:
        """The first wrong tensor of those that kept their names, when an output is wrong; else the worst output."""
        found = self._outputs_wrong(graph)
        if found is None:
            return None
        names = [v.name for n in graph.nodes for v in n.outputs if v.name in self.reference]
        again = Session(graph, self.steps.config).run(self.feeds, names)
        return _first_wrong(graph, again, self.reference, self.tolerance) or found

    def _outputs_wrong(self, graph: Graph) -> Difference | None:
        """The worst output that is wrong."""
        found = Session(graph, self.steps.config).run(self.feeds, list(self.final))
        errors = {n: error_of(found[n], wanted) for n, wanted in self.final.items()}
        if not errors:
            raise MNNError("the reference gives none of the model's outputs, so that nothing can be compared")
        worst = max(errors, key=lambda n: errors[n])
        if errors[worst] <= self.tolerance:
            return None
        maker = next((n for n in graph.nodes for v in n.outputs if v.name == worst), None)
        where = ("", "") if maker is None else (maker.name, maker.op)
        return Difference(worst, *where, errors[worst], tuple(np.shape(found[worst])))


def _first_wrong(graph: Graph, found: Arrays, wanted: Arrays, tolerance: float) -> Difference | None:
    """Where the error begins, of the tensors that both sides have."""
    makers = {v.name: n for n in graph.nodes for v in n.outputs}
    differences = [
        Difference(n, makers[n].name, makers[n].op, error_of(found[n], wanted[n]), tuple(np.shape(found[n])))
        for n in found
        if n in wanted and n in makers
    ]
    return where_it_begins(graph, differences, tolerance)
