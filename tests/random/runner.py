"""Runs a case in every way that this engine has, and compares with the judges."""

from __future__ import annotations

import importlib
import pkgutil
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from MNN.frontends.mnn import load as load_mnn
from MNN.frontends.mnn import net_of
from MNN.frontends.onnx import load
from MNN.ir.graph import Graph
from MNN.passes.arranging import shape_propagation
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.schema import write_net
from tests.harness import run_reference
from tests.random import families
from tests.random.case import Case, Draw
from tests.random.judges import Verdict, expected

#: Largest errors, relative to what a case's ``scale`` says. ``normal`` has two parts of 8 bits of every number on
#: matrix units (2^-15), ``low`` one (2^-8 for each of two numbers, and for what is stored).
BOUNDS = {"reference": 2e-6, "high": 4e-6, "normal": 2**-15, "low": 2**-6}

#: Of what is stored, a sum before its bias too; of bfloat16 also exponents of the size of a few.
ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-6}


def family_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(families.__path__))


def case(family: str, seed: int) -> Case:
    """The case of a family that a seed stands for."""
    draw: Callable[[Draw], Case] = importlib.import_module(f"tests.random.families.{family}").case
    return draw(Draw(family, seed))


@dataclass
class Tally:
    """What was compared, and what failed."""

    cases: int = 0
    compared: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    excuses: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.failures += other.failures
        for mine, theirs in (
            (self.compared, other.compared), (self.asked, other.asked), (self.excuses, other.excuses)
        ):  # fmt: skip
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count

    def count(self, table: str, key: str) -> None:
        counts: dict[str, int] = getattr(self, table)
        counts[key] = counts.get(key, 0) + 1


def ways(made: Case) -> dict[str, tuple[str, Callable[[], list[np.ndarray]]]]:
    """Ways of running a case: the precision whose bound holds, and a function to the outputs in order."""
    data, feeds = made.model(), made.feeds()

    def compiled(graph: Graph, precision: str) -> list[np.ndarray]:
        found = Session(graph, Config(precision=precision)).run(feeds)
        return [found[name] for name in made.output_names]

    def filed() -> Graph:
        graph = load(data)
        optimize(graph)
        return load_mnn(write_net(net_of(graph)))

    found: dict[str, tuple[str, Callable[[], list[np.ndarray]]]] = {
        "reference": ("reference", lambda: run_reference(load(data), feeds)),  # type: ignore[dict-item,return-value]
        "high": ("high", lambda: compiled(load(data), "high")),
        "file": ("high", lambda: compiled(filed(), "high")),
        "normal": ("normal", lambda: compiled(load(data), "normal")),
    }
    if made.low:
        found["low"] = ("low", lambda: compiled(load(data), "low"))
    return found


def check(family: str, seed: int) -> Tally:
    """Runs one case in all ways. Failures are sentences with what reproduces them."""
    where = f"python -m tests.random --family {family} --seed {seed}"
    try:
        made = case(family, seed)
    except Exception as error:  # noqa: BLE001 - one that cannot be drawn is a failure to report, not the end of all
        return Tally(1, failures=[f"{where}\n    not drawn: {_said(error)}"])
    return check_case(made, where)


def check_case(made: Case, where: str) -> Tally:
    """Runs a case in all ways; ``where`` begins the failures."""
    tally = Tally(1)
    try:
        verdict = expected(made)
    except Exception as error:  # noqa: BLE001 - as above: nobody judged
        tally.failures.append(f"{where}\n    {made}\n    no verdict: {_said(error)}")
        return tally
    for judge in verdict.judges:
        tally.count("asked", judge)
    if made.excuse:
        tally.count("excuses", f"{made.op}: {made.excuse}")
    if verdict.dispute:
        tally.failures.append(f"{where}\n    {made}\n    judges disagree: {verdict.dispute}")
    problem = predicted(made, verdict)
    if problem:
        tally.failures.append(f"{where}\n    {made}\n    shape inference: {problem}")
    for way, (bound, run) in ways(made).items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a user sees none either
                found = run()
            problem = compare(made, verdict, found, BOUNDS[bound])
        except Exception as error:  # noqa: BLE001 - an error is how this engine fails here
            problem = _said(error)
        tally.count("compared", way)
        if problem:
            tally.failures.append(f"{where}\n    {made}\n    {way}: {problem}")
    return tally


def _said(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:300]} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def predicted(made: Case, verdict: Verdict) -> str:
    """Sizes that shape inference says without running anything, where they are not what comes out."""
    try:
        graph = load(made.model())
        shape_propagation.run(graph)
    except Exception as error:  # noqa: BLE001
        return _said(error)
    for value, want in zip(graph.outputs, verdict.outputs, strict=True):
        said = value.shape
        if said is not None and (
            len(said) != want.ndim or any(isinstance(a, int) and a != b for a, b in zip(said, want.shape, strict=True))
        ):
            return f"{list(said)}, but it is {list(want.shape)}"
    return ""


def compare(made: Case, verdict: Verdict, found: list[np.ndarray], bound: float) -> str:
    """What is wrong with the outputs, or nothing."""
    for k, (got, want, scale) in enumerate(zip(found, verdict.outputs, verdict.scales, strict=True)):
        got = np.asarray(got)
        if got.shape != want.shape or got.dtype != verdict.dtypes[k]:
            return f"output {k} is {got.dtype}{list(got.shape)}, expected {verdict.dtypes[k]}{list(want.shape)}"
        problem = difference(made.settled(k, got, want), want, scale, bound * made.slack, made.scale)
        if problem:
            return f"output {k} {problem}"
    return ""


def difference(got: np.ndarray, want: np.ndarray, scale: np.ndarray, bound: float, kind: str) -> str:
    """Where two arrays of one shape differ by more than ``bound * scale``, or nothing."""
    if want.dtype.kind not in "fiu" or kind == "exact":
        wrong = ~((got == want) | ((got != got) & (want != want)))
        return _report(got, want, wrong) if wrong.any() else ""
    a, b = got.astype(np.float64), want.astype(np.float64)
    if want.dtype.kind in "iu":
        apart = np.abs(a - b)
        wrong = apart > (1 if kind == "step" else 0)
        if not wrong.any() and (apart > 0).sum() > max(2, 0.05 * apart.size):
            wrong = apart > 0
        return _report(got, want, wrong) if wrong.any() else ""
    with np.errstate(invalid="ignore"):
        rounding = ROUNDING.get(str(got.dtype), 0.0)
        wrong = ~((a == b) | ((a != a) & (b != b)) | (np.abs(a - b) <= (bound + rounding) * scale + 1e-30))
    return _report(got, want, wrong) if wrong.any() else ""


def _report(got: np.ndarray, want: np.ndarray, wrong: np.ndarray) -> str:
    first = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    a, b = got[first], want[first]
    return (
        f"differs in {int(wrong.sum())} of {wrong.size} numbers, first at {list(first)}: {a!r:.40}, expected {b!r:.40}"
    )
