"""onnx's own operator cases, written here and run by the official engine.

Its faults are listed in ``official_faults.json`` with the reason: a case that fails and is not listed is a fault of the
writer, a listed one that passes should be struck off.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.frontends.mnn import net_of
from MNN.frontends.onnx import load
from MNN.ir.graph import Graph
from MNN.schema import write_net
from MNN.schema.versions import all_ops
from tests.harness import run_reference
from tests.interop import official
from tests.onnx.cases import _plain, node_cases

FAULTS = Path(__file__).with_name("official_faults.json")
TOLERANCE = 2e-2
LEAST = 1300
"""Cases that are compared at least: fewer mean that some were lost."""


@dataclass(frozen=True)
class Summary:
    """What came of all cases."""

    text: str
    total: int
    unexpected: int


def run(only: str = "") -> Summary:
    """Runs every case that the official engine has all operators and types for."""
    faults: dict[str, str] = json.loads(FAULTS.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        jobs, expected = _prepare(Path(folder), only)
        results = official.run_many(jobs)
        outcome = {name: _compare(expected[name], results[name]) for name in jobs}
    failing = {name: why for name, why in outcome.items() if why}
    unexpected = {n: w for n, w in failing.items() if n not in faults}
    passing = [n for n in outcome if n in faults and n not in failing]
    lines = [f"FAIL case {name}: {why}" for name, why in unexpected.items()]
    lines += [f"FAIL case {name} is listed as a fault of the official engine and passes" for name in passing]
    if not only and len(outcome) < LEAST:
        lines.append(f"FAIL only {len(outcome)} operator cases are compared, of {LEAST} at least")
    lines.append(f"{len(outcome) - len(failing)} of {len(outcome)} operator cases agree, {len(failing)} faults known")
    return Summary("\n".join(lines), len(outcome), sum(line.startswith("FAIL") for line in lines))


def _prepare(folder: Path, only: str) -> tuple[dict[str, official.Job], dict[str, list[np.ndarray]]]:
    jobs: dict[str, official.Job] = {}
    expected: dict[str, list[np.ndarray]] = {}
    for name, case in node_cases().items():
        if only not in name:
            continue
        feeds = {v.name: _plain(a) for v, a in zip(case.model.graph.input, case.data_sets[0][0], strict=True)}
        made = _write(case, folder / f"{name}.mnn", feeds)
        if made is not None:
            graph, expected[name] = made
            jobs[name] = official.Job(folder / f"{name}.mnn", feeds, [v.name for v in graph.outputs])
    return jobs, expected


def _write(case: object, path: Path, feeds: dict[str, object]) -> tuple[Graph, list[np.ndarray]] | None:
    """Writes a case's model; None when it needs what only this engine has, or numbers that are not comparable."""
    plain = [a for a in feeds.values() if isinstance(a, np.ndarray) and _is_number(a.dtype) and a.dtype.itemsize < 9]
    if not feeds or len(plain) != len(feeds) or "bernoulli" in path.stem:
        return None
    try:
        graph = load(case.model.SerializeToString())  # type: ignore[attr-defined]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answers = run_reference(graph, feeds)
    except MNNError:
        return None
    net = net_of(graph)
    arrays = [a for a in answers if isinstance(a, np.ndarray) and _is_number(a.dtype)]
    if any(op.type == "Extra" for op in all_ops(net)) or len(arrays) != len(answers):
        return None
    write_net(net, path)
    return graph, arrays


def _is_number(dtype: np.dtype) -> bool:
    """Whether it is a real number of numpy's own; not by ``isbuiltin``, which types of unpickled arrays lose."""
    return dtype.kind in "fiub" and dtype.type.__module__ == "numpy"


def _compare(expected: list[np.ndarray], found: list[np.ndarray] | str) -> str:
    if isinstance(found, str):
        return found
    for k, (want, got) in enumerate(zip(expected, found, strict=True)):
        if want.size != got.size or (want.shape != got.shape and want.shape != ()):
            return f"output {k} has the shape {list(got.shape)}, expected {list(want.shape)}"
        a, b = want.astype(np.float64).reshape(-1), got.astype(np.float64).reshape(-1)
        finite = np.isfinite(a)
        scale = float(np.abs(a[finite]).max()) if finite.any() else 1.0
        if not np.allclose(b[finite], a[finite], rtol=TOLERANCE, atol=TOLERANCE * scale):
            return f"output {k} is {b[:4].tolist()}, expected {a[:4].tolist()}"
    return ""
