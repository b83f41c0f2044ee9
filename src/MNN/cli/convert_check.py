"""``mnn convert --check``: the written file against its source, and what to do when they differ."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.cli.inputs import load_inputs, random_feeds, with_small_integers
from MNN.cli.models import read
from MNN.comparison import EXACT, Comparison, compare
from MNN.converter import Options
from MNN.errors import MNNError, ShapeError, UnsupportedError
from MNN.formatting import dims
from MNN.progress import ReportProgress
from MNN.runtime.session import Session

USUAL = 5e-4
"""Errors above this are marked in reports."""
ROUNDING = 1e-5
"""Differences below this are what two orders of summing in fp32 make."""
ROUNDED = (
    "so small a difference is rounding of fp32, which depends on the order of summing: check with more, for example"
)


@dataclass(frozen=True)
class Checker:
    """Compares a written file with its source; without a ``tolerance`` it only tells, and open sizes end it in a
    note. ``inputs`` are texts NAME=FILE."""

    source: Path
    options: Options
    tolerance: float | None
    inputs: list[str]
    shapes: dict[str, tuple[int, ...]]

    def run(self, written: Path, report_progress: ReportProgress) -> Comparison:
        """Raises :class:`MNNError` when an output differs by more than the tolerance."""
        limit = USUAL if self.tolerance is None else self.tolerance
        try:
            session = Session(read(written))
            loaded = load_inputs(session, self.inputs, self.shapes)
            feeds = {**random_feeds(session, self.shapes, loaded), **loaded}
        except (ShapeError, UnsupportedError) as error:  # open sizes, or inputs that cannot be made up
            if self.tolerance is not None or self.inputs or self.shapes:
                raise
            return Comparison("nothing", [], limit, None, f"not checked: {error}")

        def said(text: str, done: int = 0, total: int = 0) -> None:
            report_progress(f"checking: {text}", done, total)

        found = with_small_integers(
            feeds, loaded, lambda: compare(self.source, written, feeds, limit, True, EXACT, said, self.options.hints)
        )
        outputs = {d.tensor: d.error for d in found.differences if d.tensor in session.outputs}
        wrong = {name: error for name, error in outputs.items() if not error <= limit}
        if self.tolerance is not None and wrong:
            listed = ", ".join(f"'{name}' is off by {error:.2e}" for name, error in wrong.items())
            begins = f"; it begins at '{found.first.tensor}' of node '{found.first.node}'" if found.first else ""
            raise MNNError(
                f"{self.source}: the converted model differs from {found.reference} by more than {limit:g}: {listed}"
                f"{begins}. Nothing was written; {self._advice(max(wrong.values()), feeds, loaded)}"
            )
        return found

    def _advice(self, worst: float, feeds: dict[str, np.ndarray], loaded: dict[str, np.ndarray]) -> str:
        if worst < ROUNDING:
            return f"{ROUNDED} --check 1e-4"
        return f"{self._bisect(feeds, loaded)} finds the cause"

    def _bisect(self, feeds: dict[str, np.ndarray], loaded: dict[str, np.ndarray]) -> str:
        """The command that goes the same way in steps."""
        words = ["mnn", "compare", "--bisect", str(self.source), "--tolerance", f"{self.tolerance:g}"]
        if self.options.level != Options.level:
            words += ["--optimizeLevel", str(self.options.level)]
        words += ["--fp16"] if self.options.fp16 else []
        for name in self.options.disabled:
            words += ["--disable-pass", name]
        for text in self.inputs:
            words += ["--input", text]
        sizes = dict(self.shapes)
        if self.options.batch is not None:  # the source leaves it open
            sizes |= {n: a.shape for n, a in feeds.items() if n not in loaded}
        for name, shape in sizes.items():
            words += ["--shape", f"{name}={dims(shape)}"]
        return shlex.join(words)
