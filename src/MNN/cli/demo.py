"""``mnn demo``: the whole way of a small model in seconds."""

from __future__ import annotations

import tempfile
import time
from importlib import resources
from pathlib import Path

import numpy as np
from rich.table import Table

from MNN.cli.display.output import console
from MNN.cli.display.progress import progress
from MNN.cli.models import open_model
from MNN.comparison import error_of
from MNN.converter import convert
from MNN.formatting import nbytes, plural
from MNN.runtime.config import Config
from MNN.runtime.session import Session

NAME = "demo"
SHORT = "Convert, run, check and time a small digit classifier."
"""What the list of commands says."""
SHADES = " .:-=+*#%@"
LEVELS = 16
"""Grey levels of the pictures; the network takes them from 0 to 1."""
SHOWN = (2, 3, 5, 7)
"""Digits of which a picture is drawn."""
RUNS = 200


def command() -> None:
    """Convert, run, check and time a small digit classifier that comes with the package."""
    data = resources.files("MNN") / "assets"
    samples = np.load(str(data / "digits_samples.npz"), allow_pickle=False)
    pictures, labels = samples["images"][:, None].astype(np.float32) / LEVELS, samples["labels"]
    with tempfile.TemporaryDirectory() as folder, progress("digits.onnx") as report_progress:
        target = Path(folder) / "digits.mnn"
        report = convert(Path(str(data / "digits.onnx")), target, progress=report_progress)
        size = report.size
        report_progress("compiling kernels for this processor")
        start = time.perf_counter()
        session = open_model(target).session
        name = next(iter(session.inputs))
        results = session.run({name: pictures})
        first = time.perf_counter() - start
        report_progress("computing the numpy reference")
        wanted = Session(session.graph, Config(reference=True)).run({name: pictures})
        times = []
        for run in range(RUNS):
            report_progress("timing", run, RUNS)
            times.append(_timed(session, name, pictures[:1]))
    output = next(iter(results))
    answers = results[output]
    guesses = answers.argmax(axis=1)
    error = error_of(answers, wanted[output])
    screen = console()
    shown = [int(np.flatnonzero(labels == digit)[0]) for digit in SHOWN]
    screen.print(_pictures(pictures[shown], answers[shown]))
    table = Table(show_header=False)
    right = int((guesses == labels).sum())
    became = f"{plural(report.nodes_before, 'operator')} became {report.nodes_after}, {nbytes(size)}"
    table.add_row("converted", became)
    table.add_row("first result", f"{first * 1e3:.0f} ms after opening the file, kernels included")
    table.add_row("right answers", f"{right} of {len(labels)}")
    table.add_row("against numpy", f"largest difference {error:.1e} of the largest output")
    table.add_row("one picture", f"{min(times) * 1e6:.0f} us (best of {RUNS})")
    screen.print(table)


def _timed(session: Session, name: str, picture: np.ndarray) -> float:
    begin = time.perf_counter()
    session.run({name: picture})
    return time.perf_counter() - begin


def _pictures(pictures: np.ndarray, answers: np.ndarray) -> Table:
    """Pictures as text, above what the network says they are and how sure it is."""
    table = Table(show_header=False, show_lines=False, box=None, padding=(0, 1))
    shown = pictures.reshape(-1, *pictures.shape[-2:])
    top = float(shown.max()) or 1.0
    cells = []
    for picture in shown:
        rows = (np.clip(picture / top, 0, 1) * (len(SHADES) - 1)).round().astype(int)
        cells.append("\n".join("".join(SHADES[v] * 2 for v in row) for row in rows))
    table.add_row(*cells)
    table.add_row(*(f"it is a [bold]{row.argmax()}[/] ({row.max():.0%})" for row in answers))
    return table
