"""Recorded answers of Keras, and how this engine's are judged by them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from MNN.frontends.keras import load
from MNN.passes.manager import optimize
from MNN.runtime.config import Config
from MNN.runtime.session import Session

TOLERANCE = 2e-5
"""Of the largest number wanted; a hundred times as much in half precision."""
FILES = ("model.keras", "model.h5")


@dataclass(frozen=True)
class Recorded:
    """A file with the arrays that go in, by name, and those that come out, in order."""

    name: str
    file: str
    data: bytes
    given: dict[str, np.ndarray]
    wanted: list[np.ndarray]


def cases(archive: Path) -> Iterator[Recorded]:
    """All cases of an archive that ``record.py`` wrote."""
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
        for folder in sorted({n.rpartition("/")[0] for n in names}):
            arrays = np.load(io.BytesIO(opened.read(f"{folder}/answers.npz")))
            given = {key[3:]: arrays[key] for key in arrays.files if key.startswith("in:")}
            wanted = [arrays[key] for key in sorted(arrays.files) if key.startswith("out:")]
            for file in FILES:
                if f"{folder}/{file}" in names:
                    yield Recorded(folder, file, opened.read(f"{folder}/{file}"), given, wanted)


def difference(case: Recorded) -> str:
    """What is wrong with this engine's answer; empty when nothing is."""
    graph = load(case.data)
    optimize(graph)
    names = [v.name for v in graph.inputs]
    given = case.given if set(names) <= set(case.given) else dict(zip(names, case.given.values(), strict=True))
    found = list(Session(graph, Config(precision="high")).run({n: given[n] for n in names}).values())
    if len(found) != len(case.wanted):
        return f"{len(found)} results, wanted {len(case.wanted)}"
    for i, (mine, wanted) in enumerate(zip(map(np.asarray, found), case.wanted, strict=True)):
        if mine.shape != wanted.shape or mine.dtype.kind != wanted.dtype.kind:
            return f"result {i}: {mine.dtype}{list(mine.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
        a, b = mine.astype(np.float64), wanted.astype(np.float64)
        most = TOLERANCE * (100 if "Mixed" in case.name else 1) * max(np.abs(b).max(initial=0), 1e-3)
        if not np.allclose(a, b, rtol=0, atol=most, equal_nan=True):
            return f"result {i}: {a.reshape(-1)[:6]}, wanted {b.reshape(-1)[:6]}, off by {np.abs(a - b).max():.2g}"
    return ""
