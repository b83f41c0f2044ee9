"""``mnn demo``: the whole way of a small model in seconds."""

from __future__ import annotations

import tempfile
import time
from importlib import resources
from pathlib import Path

import numpy as np
from rich.table import Table

from MNN.cli.models import open_model
from MNN.cli.output import console
from MNN.comparison import error_of
from MNN.converter import convert
from MNN.runtime.config import Config
from MNN.runtime.session import Session

NAME = "demo"
SHORT = "Convert, run, check and time a small digit classifier."
"""What the list of commands says."""
SHADES = " .:-=+*#%@"
LEVELS = 16
"""Grey levels of the pictures; the network takes them from 0 to 1."""
SHOWN = 4
RUNS = 200


def command() -> None:
    """Convert, run, check and time a small digit classifier that comes with the package."""
    screen = console()
    data = resources.files("MNN") / "data"
    samples = np.load(str(data / "digits_samples.npz"), allow_pickle=False)
    pictures, labels = samples["images"][:, None].astype(np.float32) / LEVELS, samples["labels"]
    with tempfile.TemporaryDirectory() as folder, screen.status("converting digits.onnx") as status:
        target = Path(folder) / "digits.mnn"
        report = convert(Path(str(data / "digits.onnx")), target)
        size = report.size
        status.update("compiling kernels for this processor")
        start = time.perf_counter()
        session = open_model(target).session
        name = next(iter(session.inputs))
        results = session.run({name: pictures})
        first = time.perf_counter() - start
        status.update("computing the numpy reference")
        wanted = Session(session.graph, Config(reference=True)).run({name: pictures})
        status.update("timing")
        times = [_timed(session, name, pictures[:1]) for _ in range(RUNS)]
    output = next(iter(results))
    guesses = results[output].argmax(axis=1)
    error = error_of(results[output], wanted[output])
    screen.print(_pictures(pictures, guesses))
    table = Table(show_header=False)
    right = int((guesses == labels).sum())
    table.add_row("converted", f"{report.nodes_before} operators became {report.nodes_after}, {size / 1e3:.1f} kB")
    table.add_row("first result", f"{first * 1e3:.0f} ms after opening the file, kernels included")
    table.add_row("right answers", f"{right} of {len(labels)}")
    table.add_row("against numpy", f"largest difference {error:.1e} of the largest output")
    table.add_row("one picture", f"{min(times) * 1e6:.0f} us (best of {RUNS})")
    screen.print(table)


def _timed(session: Session, name: str, picture: np.ndarray) -> float:
    begin = time.perf_counter()
    session.run({name: picture})
    return time.perf_counter() - begin


def _pictures(pictures: np.ndarray, guesses: np.ndarray) -> Table:
    """The first pictures as text above what the network says they are."""
    table = Table(show_header=False, show_lines=False, box=None, padding=(0, 3))
    shown = pictures[:SHOWN].reshape(-1, *pictures.shape[-2:])
    top = float(shown.max()) or 1.0
    cells = []
    for picture in shown:
        rows = (np.clip(picture / top, 0, 1) * (len(SHADES) - 1)).round().astype(int)
        cells.append("\n".join("".join(SHADES[v] * 2 for v in row) for row in rows))
    table.add_row(*cells)
    table.add_row(*(f"-> [bold]{g}[/]" for g in guesses[:SHOWN]))
    return table
