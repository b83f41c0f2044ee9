"""``mnnconvert --testdir``: a converted file against results that lie in a folder, as the official scripts write them.

``input.json`` names inputs with their shapes and outputs; ``NAME.txt`` holds the numbers of each.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.cli.models import read
from MNN.comparison import EXACT, Comparison
from MNN.errors import FormatError, MNNError
from MNN.ir.dtype import DType
from MNN.progress import ReportProgress
from MNN.runtime.session import Session

MOST = 64 << 20
"""Bytes of a file of numbers."""


@dataclass(frozen=True)
class FolderTest:
    """Raises when an output is off by more than ``limit`` times its largest number."""

    folder: Path
    limit: float

    def run(self, written: Path, report_progress: ReportProgress) -> Comparison:
        report_progress(f"comparing with {self.folder}", 0, 0)
        told = self._told()
        session = Session(read(written), EXACT)
        feeds = {}
        for entry in told["inputs"]:
            name, shape = _described(entry, self.folder)
            if name not in session.inputs:
                raise MNNError(f"{self.folder}: the model has no input '{name}', but {', '.join(session.inputs)}")
            value = entry.get("value")
            numbers = np.full(shape, value, np.float64) if isinstance(value, (int, float)) else self._numbers(name)
            if numbers.size != int(np.prod(shape)):
                raise FormatError(f"{self.folder}: {numbers.size} numbers for '{name}' of shape {shape}")
            dtype = session.inputs[name].dtype or DType.F32
            feeds[name] = numbers.reshape(shape).astype(dtype.numpy)
        found = session.run(feeds)
        wrong = []
        for name in map(str, told["outputs"]):
            if name not in found:
                raise MNNError(f"{self.folder}: the model has no output '{name}', but {', '.join(found)}")
            expected, mine = self._numbers(name), np.asarray(found[name], np.float64).reshape(-1)
            if expected.size != mine.size:
                wrong.append(f"'{name}' has {mine.size} numbers, expected {expected.size}")
                continue
            error = float(np.abs(mine - expected).max(initial=0)) / max(float(np.abs(expected).max(initial=0)), 1e-12)
            if not error <= self.limit:
                wrong.append(f"'{name}' is off by {error:.2e}")
        if wrong:
            raise MNNError(
                f"{self.folder}: the converted model differs by more than {self.limit:g}: {', '.join(wrong)}. Nothing "
                "was written; mnn compare finds where it begins"
            )
        return Comparison(str(self.folder), [], self.limit, None, f"the outputs are those in {self.folder}")

    def _told(self) -> dict[str, list[Any]]:
        path = self.folder / "input.json"
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            assert isinstance(told["inputs"], list)
            assert isinstance(told["outputs"], list)
        except (ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
            raise FormatError(f"{path} does not list inputs (with name and shape) and outputs") from error
        return dict(told)

    def _numbers(self, name: str) -> np.ndarray:
        path = self.folder / f"{name}.txt"
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise MNNError(f"{self.folder}: '{name}' leads outside of this folder")
        if path.is_file() and path.stat().st_size > MOST:
            raise FormatError(f"{path} is larger than {MOST >> 20} MiB")
        try:
            return np.asarray(path.read_text(encoding="utf-8").split(), np.float64)
        except ValueError as error:
            raise FormatError(f"{path} holds something that is no number") from error


def _described(entry: object, folder: Path) -> tuple[str, list[int]]:
    """Name and shape of an input."""
    try:
        assert isinstance(entry, dict)
        return str(entry["name"]), [int(n) for n in entry["shape"]]
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise FormatError(f"{folder / 'input.json'}: an input is a name with a shape, not {str(entry)[:80]}") from error
