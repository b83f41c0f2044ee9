"""Recorded answers of TensorFlow, and how this engine's are judged by them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.frontends.tensorflow import load
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session

TOLERANCE = 2e-5
"""Of the largest number wanted."""


@dataclass(frozen=True)
class Recorded:
    """A graph with the arrays that go in and come out, by name."""

    name: str
    graph: bytes
    given: dict[str, np.ndarray]
    wanted: dict[str, np.ndarray]


def cases(archive: Path) -> Iterator[Recorded]:
    """All cases of an archive that ``record.py`` wrote."""
    with zipfile.ZipFile(archive) as file:
        for name in sorted(n for n in file.namelist() if n.endswith(".pb")):
            arrays = np.load(io.BytesIO(file.read(name.replace(".pb", ".npz"))))
            parts: dict[str, dict[str, np.ndarray]] = {"in": {}, "out": {}}
            for key in arrays.files:
                side, _, tensor = key.partition(":")
                parts[side][tensor] = arrays[key]
            yield Recorded(name.removesuffix(".pb"), file.read(name), parts["in"], parts["out"])


def difference(case: Recorded) -> str:
    """What is wrong with this engine's answer; empty when nothing is."""
    graph = load(case.graph)
    optimize(graph)
    names = {v.name for v in graph.inputs}
    found = Session(graph, Config(precision="high")).run({k: v for k, v in case.given.items() if k in names})
    for name, wanted in case.wanted.items():
        if name not in found:
            return f"no output '{name}' among {list(found)}"
        mine = np.asarray(found[name])
        if mine.shape != wanted.shape or mine.dtype != wanted.dtype:
            return f"'{name}': {mine.dtype}{list(mine.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
        if wanted.dtype.kind != "f":
            if not np.array_equal(mine, wanted):
                return f"'{name}': {mine.reshape(-1)[:8]}, wanted {wanted.reshape(-1)[:8]}"
        elif wanted.size:
            a, b = mine.astype(np.float64), wanted.astype(np.float64)
            finite = np.isfinite(b)
            scale = max(np.abs(b[finite]).max(initial=0), 1e-3)
            same = np.where(finite, np.abs(a - b) <= TOLERANCE * scale, (a == b) | (np.isnan(a) & np.isnan(b)))
            if not same.all():
                return f"'{name}': {a[~same][:5]}, wanted {b[~same][:5]}"
    return ""
